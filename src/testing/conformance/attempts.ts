/** What each attempt of a request sends: one row stands for one attempt. Rule: docs/behaviour/requests.md. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { methodNamed } from '../../calls/call.ts'
import type { OutboundCall } from '../../framework/context.ts'

export interface Attempt {
  /** Method and endpoint, as the provider names them. */
  readonly what: string
  readonly integrationId: number
  readonly idempotencyKey: string | null
  /** How often it called out. */
  calls: number
  /** What the provider's code threw in it. Not an answer that it gave back, whatever its status. */
  thrown?: { readonly error: unknown }
}

type Fetch = typeof globalThis.fetch

export class Attempts {
  readonly all: Attempt[] = []
  /** What went out in no attempt. */
  readonly strays: string[] = []
  readonly #current = new AsyncLocalStorage<Attempt>()

  /** The one that is being made: the played API asks it of a request. */
  get current(): Attempt | undefined {
    return this.#current.getStore()
  }

  counted<T>(outbound: OutboundCall<T>): OutboundCall<T> {
    const { method, endpoint, integration, call } = outbound
    return {
      ...outbound,
      call: (context) => {
        const { fetch, fetchUpTo, idempotencyKey } = context
        const what = `${methodNamed(method)} ${endpoint}`
        const attempt: Attempt = { what, integrationId: integration.id, idempotencyKey, calls: 0 }
        this.all.push(attempt)
        const counting =
          (fetch: Fetch): Fetch =>
          (input, init) => {
            attempt.calls += 1
            return fetch(input, init)
          }
        const given = {
          ...context,
          fetch: counting(fetch),
          fetchUpTo: (maxBytes: number) => counting(fetchUpTo(maxBytes)),
        }
        return this.#current.run(attempt, async () => {
          try {
            return await call(given)
          } catch (error) {
            attempt.thrown = { error }
            throw error
          }
        })
      },
    }
  }

  /** The platform's `fetch`, which is not to be used: what it sends is counted all the same. */
  past(fetch: Fetch): Fetch {
    return (input, init) => {
      const attempt = this.#current.getStore()
      if (attempt === undefined) this.strays.push(input instanceof Request ? input.url : String(input))
      else attempt.calls += 1
      return fetch(input, init)
    }
  }
}
