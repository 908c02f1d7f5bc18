/** What stands in the place of the wire. Rule: docs/testing.md, "Scripted transport". */
import type { ManualClock } from './manual-clock.ts'

/** A request as it went over the wire. */
export interface SentRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Headers
  readonly body: string
}

export interface Transport {
  /** One request on the wire: what `context.fetch`, calls by URL and notifications end at. Redirects are followed above it. */
  readonly fetch: typeof globalThis.fetch
  /** What was sent, in order. */
  readonly requests: readonly SentRequest[]
  /** Moves this clock for delays. `createTestIntegrations({ transport })` does it with the kit's. */
  useClock(clock: ManualClock): void
}

/** What `fetch` of Node 20 and newer throws when the connection breaks. */
export function connectionReset(reason?: unknown): TypeError {
  const cause = Object.assign(new Error('read ECONNRESET', { cause: reason }), {
    code: 'ECONNRESET',
    errno: -104,
    syscall: 'read',
  })
  return new TypeError('fetch failed', { cause })
}

/** The answer, unless the caller gives up before. */
export function endedBySignal(answer: Promise<Response>, signal: AbortSignal): Promise<Response> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(signal.reason as Error)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}
