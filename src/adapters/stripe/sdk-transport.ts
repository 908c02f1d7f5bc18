/**
 * What the SDK sends with: `context.fetch`, one exchange, the body read whole.
 *
 * The SDK's own client on `fetch` would follow a broken connection up by a second try of its own, even with retries off, and
 * would hide what broke in an error of its own (https://github.com/stripe/stripe-node/issues/1040).
 */
import Stripe from 'stripe'
import type { RequestContext } from '../../provider.ts'
import { HttpError, SchemaDrift } from '../../provider.ts'

type Headers = Record<string, string>

/** Of one attempt. */
export class SdkTransport implements Stripe.HttpClient {
  readonly #context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>
  readonly #baseUrl: string
  readonly #endpoint: string
  #failure: { readonly error: unknown } | null = null
  /** What Stripe said of an error, as it came. */
  #refusal: unknown

  constructor(context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>, baseUrl: string, endpoint: string) {
    this.#context = context
    this.#baseUrl = baseUrl
    this.#endpoint = endpoint
  }

  getClientName(): string {
    return 'fetch'
  }

  /** What failed below the SDK, as it was before the SDK wrapped it; else what the SDK threw, fit for the row. */
  reasonOf(thrown: unknown): unknown {
    if (this.#failure !== null) return this.#failure.error
    return thrown instanceof Stripe.errors.StripeError ? described(thrown, this.#refusal) : thrown
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
    if (json === null || (response.ok && Boolean(json.error)))
      throw new SchemaDrift(this.#endpoint, [
        json === null
          ? { path: '(root)', message: 'a JSON object is allowed, as Stripe answers' }
          : { path: 'error', message: 'none is allowed beside a status of 2xx' },
      ])
    // A second time: the SDK writes the answer's headers into what it is given.
    if (!response.ok) this.#refusal = parsedObject(text)
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

/**
 * The SDK calls each of its errors `Error` and keeps the answer out of sight of a row. Not enumerable, as of any error: the
 * answer is in `raw` already.
 */
function described(error: Stripe.errors.StripeError, body: unknown): Stripe.errors.StripeError {
  return Object.defineProperties(error, {
    name: { value: error.type, configurable: true, writable: true },
    ...(body === undefined ? {} : { body: { value: body, configurable: true, writable: true } }),
  })
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
