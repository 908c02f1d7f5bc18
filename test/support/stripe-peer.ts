/** A stand-in for Stripe that runs as a process beside the tests, on a port of its own choice. */
import { setTimeout as sleep } from 'node:timers/promises'
import { endWithParent } from '../../dev/local-process.ts'
import { startProcess } from '../../dev/processes.ts'

/** Python alone takes some of it on a machine that is busy. */
const START_SECONDS = 30

export interface StripePeer {
  readonly url: string
  close(): Promise<void>
}

/**
 * Rejects, with what it has said, when it ends or is not heard of in time; then it is stopped.
 *
 * @param listening what its line says once it answers; the first group: host and port
 */
export async function startStripePeer({
  listening,
  startSeconds = START_SECONDS,
  ...options
}: {
  name: string
  command: string
  args: readonly string[]
  env?: Readonly<Record<string, string>>
  listening: RegExp
  startSeconds?: number
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
  const waiting = new AbortController()
  const late = sleep(startSeconds * 1000, undefined, { signal: waiting.signal }).then((): never => {
    throw new Error(`${options.name} does not listen after ${startSeconds} s: ${lines.slice(-20).join('\n')}`)
  })
  // One of the three comes; what the others say then is of no interest.
  for (const other of [ended, late]) other.catch(() => {})
  try {
    const url = `http://${await Promise.race([address, ended, late])}`
    return { url, close: () => peer.stop() }
  } catch (error) {
    await peer.stop()
    throw error
  } finally {
    waiting.abort()
  }
}
