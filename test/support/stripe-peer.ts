/** A stand-in for Stripe that runs as a process beside the tests, on a port of its own choice. */
import { startProcess } from '../../src/bin/dev/processes.ts'
import { endWithParent } from '../../src/temporal/local-process.ts'

export interface StripePeer {
  readonly url: string
  close(): Promise<void>
}

/** @param listening what its line says once it answers; the first group: host and port */
export async function startStripePeer({
  listening,
  ...options
}: {
  name: string
  command: string
  args: readonly string[]
  env?: Readonly<Record<string, string>>
  listening: RegExp
}): Promise<StripePeer> {
  const lines: string[] = []
  let heard: (address: string) => void = () => {}
  const address = new Promise<string>((resolve) => {
    heard = resolve
  })
  const peer = await startProcess({
    ...options,
    onLine(line) {
      lines.push(line)
      const found = listening.exec(line)?.[1]
      if (found !== undefined) heard(found)
    },
  })
  const watcher = endWithParent(peer.pid)
  const ended = peer.exited.then((exit): never => {
    watcher.cancel()
    throw new Error(`${options.name} ended with ${JSON.stringify(exit)}: ${lines.slice(-20).join('\n')}`)
  })
  const url = `http://${await Promise.race([address, ended])}`
  ended.catch(() => {})
  return { url, close: () => peer.stop() }
}
