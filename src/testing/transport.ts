/** What stands in the place of the wire. Rule: docs/testing.md, "Scripted transport". */

import type { EgressRules } from '../egress/egress-policy.ts'
import type { Route } from '../egress/route.ts'
import { schemeOf } from '../egress/route.ts'
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

/**
 * A route that ends at a transport instead of a connection; the guard above it is the production one.
 *
 * Names are not resolved: a name is refused only where `egress.deny` has it, or where `http:` has no rule of `egress.allow`.
 * Rule: docs/testing.md, "Scripted transport".
 */
export function transportRoute(rules: EgressRules, transport: Pick<Transport, 'fetch'>): Route {
  let isClosed = false
  return {
    async send({ url, method, headers, body }, signal) {
      if (isClosed) throw new TypeError('fetch failed', { cause: new Error('the kit is closed') })
      rules.checkHost(url.hostname, schemeOf(url))
      return transport.fetch(url, {
        method,
        headers,
        body,
        signal,
        redirect: 'manual',
        ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
      })
    },
    close: async () => {
      isClosed = true
    },
  }
}
