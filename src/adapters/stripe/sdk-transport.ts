/**
 * The SDK's HTTP client: one exchange by `context.fetch`, with the body read whole.
 *
 * The SDK's own client on `fetch` retries a broken connection even with retries off, and hides the cause in an error of its own
 * (https://github.com/stripe/stripe-node/issues/1040).
 */
import Stripe from 'stripe'
import type { RequestContext } from '../../provider.ts'
import { HttpError, SchemaDrift } from '../../provider.ts'

type Headers = Record<string, string>

/** One attempt's transport. */
export class SdkTransport implements Stripe.HttpClient {
  readonly #context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>
  readonly #baseUrl: string
  readonly #endpoint: string
  #failure: { readonly error: unknown } | null = null
  /** The body of Stripe's error answer. */
  #refusal: unknown

  constructor(context: Pick<RequestContext, 'fetch' | 'idempotencyKey' | 'report'>, baseUrl: string, endpoint: string) {
    this.#context = context
    this.#baseUrl = baseUrl
    this.#endpoint = endpoint
  }

  getClientName(): string {
    return 'fetch'
  }

  /** The fault below the SDK, before the SDK wrapped it; else the SDK's error, fit for the request's row. */
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
      // An error without a code: the SDK would repeat the request after ECONNRESET and EPIPE.
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
      // A 2xx would mark the key as answered. It is answered only once the body is read: until then Stripe repeats the answer.
      statusCode: response.ok && this.#context.idempotencyKey !== null ? undefined : response.status,
    })
    const text = await response.text().catch((cause: unknown) => {
      // Its status is the verdict. The text of a 2xx is the answer itself.
      throw response.ok ? cause : new HttpError(response.status, response.headers, null, { cause })
    })
    const json = parsedObject(text)
    if (!response.ok && !isStripeError(json?.error))
      throw new HttpError(response.status, response.headers, json ?? text)
    if (json === null || (response.ok && Boolean(json.error)))
      throw new SchemaDrift(this.#endpoint, [
        json === null
          ? { path: '(root)', message: 'a JSON object is allowed, as Stripe answers' }
          : { path: 'error', message: 'none is allowed beside a status of 2xx' },
      ])
    // Parsed a second time: the SDK writes the answer's headers into the object that it gets.
    if (!response.ok) this.#refusal = parsedObject(text)
    return answer(response.status, Object.fromEntries(response.headers), json)
  }

  /** Removes the key that the SDK makes up for each POST, and adds ours, if there is one. */
  #sent(given: object): Headers {
    const headers = Object.entries(given).map(([name, value]) => [name.toLowerCase(), String(value)] as const)
    const left = headers.filter(([name]) => name !== 'content-length' && name !== 'idempotency-key')
    const key = this.#context.idempotencyKey
    return Object.fromEntries(key === null ? left : [...left, ['idempotency-key', key]])
  }
}

/** The answer as the SDK takes it. It fills `lastResponse` from the raw one: headers and status. */
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
 * Gives the SDK's error its type as its name, and the answer as `body` for the request's row. The SDK names all its errors
 * `Error`. The properties are not enumerable, as of any error.
 */
function described(error: Stripe.errors.StripeError, body: unknown): Stripe.errors.StripeError {
  return Object.defineProperties(error, {
    name: { value: error.type, configurable: true, writable: true },
    ...(body === undefined ? {} : { body: { value: body, configurable: true, writable: true } }),
  })
}

/** Whether the SDK would turn it into an error. It would return any other body as if it were the answer. */
function isStripeError(error: unknown): boolean {
  return typeof error === 'string' ? error !== '' : typeof error === 'object' && error !== null
}

/** Null: not JSON, or not an object. */
function parsedObject(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as Record<string, unknown>) : null
  } catch {
    return null
  }
}
