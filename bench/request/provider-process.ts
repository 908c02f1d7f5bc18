/** Starts server.ts and ends it. */
import { fork } from 'node:child_process'
import { once } from 'node:events'

export interface ProviderProcess {
  readonly url: string
  stop(): Promise<void>
}

export async function startProvider(): Promise<ProviderProcess> {
  // A forked process runs with this one's own options, so TypeScript runs there, too. It ends when this one is gone.
  const child = fork(new URL('./server.ts', import.meta.url), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const exited = once(child, 'exit')
  const started = await Promise.race([once(child, 'message'), exited.then(() => null)])
  if (started === null)
    throw new Error(`The bench's HTTP server ended before it listened (exit code ${child.exitCode}).`)
  const [{ port }] = started as [{ port: number }]
  return {
    url: `http://127.0.0.1:${port}/widgets`,
    async stop() {
      child.disconnect()
      await exited
    },
  }
}
