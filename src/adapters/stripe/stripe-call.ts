/** One call by the SDK, through `integration.request()`. */
import Stripe from 'stripe'
import type { Json, RequestOptions } from '../../provider.ts'
import type { StripeAccount } from './account.ts'
import { SdkTransport } from './sdk-transport.ts'
import { StripeCredentials } from './stripe-credentials.ts'

/** Sent with every call, whichever SDK of this line is installed: answers keep their shape. Its types are of this version. */
export const STRIPE_API_VERSION = '2026-10-28.endive' satisfies Stripe.LatestApiVersion
/** Of one attempt. `request()` keeps it: the transport has no timer. */
const TIMEOUT_MS = 30_000

/** Of a write: it takes effect at most once. Null and undefined: each call is a write of its own. */
export interface Keyed {
  readonly idempotencyKey?: string | null | undefined
}

/** One page of a list, as Stripe sends it. */
export type Page<T> = Stripe.Response<Stripe.ApiList<T>>

export interface StripeCall<T> extends Keyed, Pick<RequestOptions, 'attempts' | 'signal' | 'timeoutMs'> {
  /** Path below `/v1/`, as it is stored. */
  readonly endpoint: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** What is sent, as Stripe names it; for the request's row. Default: nothing. */
  readonly params?: object
  /** The SDK's method. The idempotency key is not its business: it goes out with every keyed call. */
  send(stripe: Stripe): Promise<T>
}

/** @throws what failed below the SDK as it is (EgressRefused, a broken connection, the deadline); else the SDK's own errors. ZodError, before anything is spent, for credentials that do not fit */
export async function callStripe<T>({ integration, baseUrl }: StripeAccount, call: StripeCall<T>): Promise<T> {
  const { endpoint, method, params = {}, idempotencyKey = null, send, ...options } = call
  const { api_key: apiKey } = StripeCredentials.parse(integration.credentialsArray())
  return integration.request(
    endpoint,
    method,
    async (context) => {
      const transport = new SdkTransport(context, baseUrl, endpoint)
      try {
        return await send(sdk(apiKey, transport))
      } catch (error) {
        throw transport.reasonOf(error)
      }
    },
    {
      timeoutMs: TIMEOUT_MS,
      idempotencyKey,
      ...options,
      ...(Object.keys(params).length === 0 ? {} : { data: params as Json }),
    },
  )
}

/** Of one attempt, with its own way out: it takes 0.1 ms to make. */
function sdk(apiKey: string, httpClient: Stripe.HttpClient): Stripe {
  return new Stripe(apiKey, {
    apiVersion: STRIPE_API_VERSION,
    httpClient,
    maxNetworkRetries: 0,
    telemetry: false,
  })
}
