/**
 * What the SDK sends with: `context.fetch`, one exchange, the body read whole.
 *
 * The SDK's own client on `fetch` would follow a broken connection up by a second try of its own, even with retries off, and
 * would hide what broke in an error of its own (https://github.com/stripe/stripe-node/issues/1040).
 */
import type Stripe from 'stripe'
import type { RequestContext } from '../../provider.ts'
import { HttpError, SchemaDrift } from '../../provider.ts'

type Headers = Record<string, string>

/** Of one attempt. */
export class SdkTransport implements Stripe.HttpClient {
  readonly #context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>
  readonly #baseUrl: string
  readonly #endpoint: string
  #failure: { readonly error: unknown } | null = null

  constructor(context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>, baseUrl: string, endpoint: string) {
    this.#context = context
    this.#baseUrl = baseUrl
    this.#endpoint = endpoint
  }

  getClientName(): string {
    return 'fetch'
  }

  /** What failed below the SDK, as it was before the SDK wrapped it; else what the SDK threw. */
  reasonOf(thrown: unknown): unknown {
    return this.#failure === null ? thrown : this.#failure.error
  }

  async makeRequest(
    ...[, , path, method, headers, body]: Parameters<Stripe.HttpClient['makeRequest']>
  ): Promise<Stripe.HttpClientResponse> {
    try {
      return await this.#exchange(path, method, headers, body)
    } catch (error) {
      this.#failure = { error }
      // Without a code: by ECONNRESET and EPIPE the SDK would send the same again.
      throw new Error('the exchange failed', { cause: error })
    }
  }

  async #exchange(path: string, method: string, headers: object, body: string): Promise<Stripe.HttpClientResponse> {
    const response = await this.#context.fetch(`${this.#baseUrl}${path}`, {
      method,
      headers: this.#sent(headers),
      ...(method === 'GET' || method === 'DELETE' ? {} : { body }),
    })
    this.#context.report({
      providerRequestId: response.headers.get('request-id') ?? undefined,
      // By a status of 2xx a key counts as answered. An answer that is not read to its end is none: Stripe repeats it.
      statusCode: response.ok && this.#context.idempotencyKey !== null ? undefined : response.status,
    })
    const text = await response.text()
    const json = parsedObject(text)
    if (!response.ok && !isStripeError(json?.error))
      throw new HttpError(response.status, response.headers, json ?? text)
    if (json === null)
      throw new SchemaDrift(this.#endpoint, [
        { path: '(root)', message: 'a JSON object is allowed, as Stripe answers' },
      ])
    return answer(response.status, Object.fromEntries(response.headers), json)
  }

  /** Without a key of ours none is sent: the SDK makes one up for each POST. */
  #sent(given: object): Headers {
    const headers = Object.entries(given).map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    const left = headers.filter(([name]) => name !== 'content-length' && name !== 'idempotency-key')
    const key = this.#context.idempotencyKey
    return Object.fromEntries(key === null ? left : [...left, ['idempotency-key', key]])
  }
}

/** An object with which the SDK fills `lastResponse`, typed by it as plain headers and a status. */
function answer(
  statusCode: number,
  { 'stripe-notice': _, ...headers }: Headers,
  json: object,
): Stripe.HttpClientResponse {
  const raw = { headers, statusCode }
  return {
    getStatusCode: () => statusCode,
    getHeaders: () => headers,
    getRawResponse: () => raw,
    toJSON: async () => json,
    toStream: () => {
      throw new TypeError('no call of this adapter asks for a stream')
    },
  }
}

/** What the SDK makes an error of; anything else it would return as if it were the answer. */
function isStripeError(error: unknown): boolean {
  return typeof error === 'string' ? error !== '' : typeof error === 'object' && error !== null
}

/** Null: no JSON, or no object. */
function parsedObject(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as Record<string, unknown>) : null
  } catch {
    return null
  }
}
