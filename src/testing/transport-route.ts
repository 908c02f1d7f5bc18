/** A transport in the place of connections: the guard above it is that of production. Rule: docs/testing.md, "Scripted transport". */
import type { Route } from '../egress/route.ts'
import { schemeOf } from '../egress/route.ts'
import type { EgressRules } from '../egress/rules.ts'
import type { Transport } from './transport.ts'

/** Names are not resolved, so a name is refused only where `egress.deny` has it, or where http: has no rule of `egress.allow`. */
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
