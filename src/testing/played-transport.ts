/**
 * A `fetch` that a function answers: everything of ours between a provider and the wire is real, the wire is not.
 *
 * Rule: docs/testing.md, "Scripted transport".
 */
import type { SentRequest, Transport } from './transport.ts'
import { connectionReset, endedBySignal } from './transport.ts'

/** Plays the provider's API: what goes over the wire. A thrown error is a connection that breaks. */
export type PlayedApi = (request: Request) => Response | Promise<Response>

export function playedTransport(api: PlayedApi): Transport {
  const requests: SentRequest[] = []
  return {
    requests,
    useClock() {},
    async fetch(input, init) {
      const request = new Request(input, init)
      request.signal.throwIfAborted()
      const { method, headers } = request
      requests.push({ method, url: new URL(request.url), headers, body: await request.clone().text() })
      return endedBySignal(answered(api, request), request.signal)
    },
  }
}

/** What the API throws stays the cause: a mistake in it is to be seen. */
async function answered(api: PlayedApi, request: Request): Promise<Response> {
  try {
    return await api(request)
  } catch (cause) {
    throw connectionReset(cause)
  }
}
