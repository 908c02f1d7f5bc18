/**
 * The end of an API process under load: the load balancer is told first, then nothing new is taken, and what was
 * taken is answered. Rule: docs/behaviour/workers.md, "The end of an API process".
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidConfiguration } from '../framework/errors.ts'

const DEFAULT_DRAIN_SECONDS = 1
const MAX_DRAIN_SECONDS = 3_600
/** Requests that are still open then are cut: the supervisor would kill the process. */
const LAST_ANSWERS_MS = 10_000

/** API_DRAIN_SECONDS. @throws InvalidConfiguration */
export function drainSeconds(environment: NodeJS.ProcessEnv): number {
  const text = environment.API_DRAIN_SECONDS || String(DEFAULT_DRAIN_SECONDS)
  const seconds = Number(text)
  if (!/^\d{1,4}$/.test(text) || seconds > MAX_DRAIN_SECONDS)
    throw new InvalidConfiguration([
      {
        key: 'API_DRAIN_SECONDS',
        expected: `an integer from 0 to ${MAX_DRAIN_SECONDS}`,
        received: JSON.stringify(text),
      },
    ])
  return seconds
}

interface Drain {
  /** From here on `/readyz` has to say no. */
  readonly isDraining: () => boolean
  /**
   * Takes requests for this time, each answer closing its connection (RFC 9112, section 9.6); then none.
   *
   * @returns how many connections were cut, when all have been answered or after 10 s more
   */
  end(seconds: number): Promise<number>
}

/** Watches the server's answers from its start on. */
export function drainOf(server: Server): Drain {
  const open = new Set<ServerResponse>()
  let isDraining = false
  // Before the routes see it: an answer that has begun can be told nothing any more.
  server.prependListener('request', (_: IncomingMessage, answer: ServerResponse) => {
    if (isDraining) answer.setHeader('Connection', 'close')
    open.add(answer)
    answer.once('close', () => open.delete(answer))
  })
  return {
    isDraining: () => isDraining,
    async end(seconds) {
      isDraining = true
      for (const answer of open) if (!answer.headersSent) answer.setHeader('Connection', 'close')
      await sleep(seconds * 1_000)
      // What is idle is closed with it: https://nodejs.org/api/http.html#serverclosecallback
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      const late = new AbortController()
      const cut = sleep(LAST_ANSWERS_MS, 'late', { signal: late.signal }).catch(() => 'answered')
      const outcome = await Promise.race([closed, cut])
      late.abort()
      if (outcome !== 'late') return 0
      const left = open.size
      server.closeAllConnections()
      await closed
      return left
    },
  }
}
