/** A process of a test's own that tells it what it does: each message is an object with a `kind`. */
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'

/** What such a process may say; `failed` with a message is known to all of them. */
interface Message {
  readonly kind: string
  readonly message?: string
}

export interface TalkingProcess<Said extends Message> {
  readonly process: ManagedProcess
  /** The next thing of this kind that it says. Fails when it fails or ends first. */
  next<Kind extends Said['kind']>(kind: Kind): Promise<Extract<Said, { kind: Kind }>>
}

/** @param env what the script reads, beside the test's own environment; undefined takes a variable away */
export async function startTalkingProcess<Said extends Message>(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<TalkingProcess<Said>> {
  const lines: string[] = []
  const child = await startProcess({
    name: args.join(' '),
    command: process.execPath,
    args: [script, ...args],
    env: { INTEGRATIONS_ENCRYPTION_KEYS_FILE: undefined, NODE_OPTIONS: undefined, ...env },
    onLine: (line) => lines.push(line),
  })
  return {
    process: child,
    next: (kind) =>
      new Promise((resolve, reject) => {
        child.child.on('message', (message) => {
          const heard = message as Said
          if (heard.kind === 'failed') reject(new Error(`${child.name}: ${heard.message}`))
          if (heard.kind === kind) resolve(heard as never)
        })
        void child.exited.then((exit) =>
          reject(new Error(`${child.name} ended with ${JSON.stringify(exit)} before "${kind}": ${lines.join('\n')}`)),
        )
      }),
  }
}
