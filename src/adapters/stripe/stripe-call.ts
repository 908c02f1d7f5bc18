/** One call of the SDK, through `integration.request()`. */
import Stripe from 'stripe'
import type { Integration, Json, RequestOptions } from '../../provider.ts'
import { InvalidArgumentException } from '../../provider.ts'
import { SdkTransport } from './sdk-transport.ts'
import type { Maybe } from './stripe-arguments.ts'
import { checkKey } from './stripe-arguments.ts'
import { StripeCredentials } from './stripe-credentials.ts'

const STRIPE_API = 'https://api.stripe.com'

/** A Stripe account: its integration, and the address of its API. */
export interface StripeAccount {
  readonly integration: Integration
  /** An origin: `https://api.stripe.com`. */
  readonly baseUrl: string
}

/** @throws InvalidArgumentException: the SDK puts its own paths behind an origin */
export function checkedBaseUrl(baseUrl: string = STRIPE_API): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null
  const isOrigin = url !== null && url.href === `${url.origin}/`
  if (isOrigin && (url.protocol === 'https:' || url.protocol === 'http:')) return url.origin
  throw new InvalidArgumentException(
    'baseUrl',
    'an http(s) origin without user info, path and query is allowed, such as http://127.0.0.1:12111; another text was given',
  )
}

/** Sent with every call, so that answers have the shape of the SDK's types, also with a newer SDK. */
const STRIPE_API_VERSION = '2026-10-28.endive' satisfies Stripe.LatestApiVersion
/** Limit of one attempt. `request()` enforces it: the transport has no timer. */
const TIMEOUT_MS = 30_000

/** A write with a key takes effect at most once. Null and undefined: each call is a write of its own. */
export interface Keyed {
  readonly idempotencyKey?: Maybe<string>
}

/** One page of a list, as Stripe sends it. */
export type Page<T> = Stripe.Response<Stripe.ApiList<T>>

interface StripeCall<T> extends Keyed, Pick<RequestOptions, 'attempts' | 'signal' | 'timeoutMs' | 'writes'> {
  /** Path below `/v1/`, as the request's row has it. */
  readonly endpoint: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Parameters by Stripe's names, for the request's row. Default: none. */
  readonly params?: object
  /** Calls the SDK's method. The transport adds the idempotency key. */
  send(stripe: Stripe): Promise<T>
}

/**
 * @throws the fault below the SDK unchanged (EgressRefused, a broken connection, the deadline); else the SDK's own errors.
 *   ZodError for invalid credentials, before an attempt is counted
 */
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

/** A read without options of its own. */
export function readStripe<T>(
  account: StripeAccount,
  endpoint: string,
  send: StripeCall<T>['send'],
  params: object = {},
): Promise<T> {
  return callStripe(account, { endpoint, method: 'GET', params, send })
}

/** A write. @throws InvalidArgumentException for an idempotency key that Stripe would not get as it is */
export function writeStripe<T>(
  account: StripeAccount,
  call: Omit<StripeCall<T>, 'method' | 'send'> & { readonly method?: 'POST' | 'DELETE' },
  send: StripeCall<T>['send'],
): Promise<T> {
  checkKey(call.idempotencyKey)
  // `customers` makes an object, `customers/cus_1` and what stands behind it change one.
  const [, id] = call.endpoint.split('/')
  const writes = { record: id === undefined ? null : decodeURIComponent(id), ifTold: true } as const
  return callStripe(account, { method: 'POST', writes, ...call, send })
}

/** Each attempt has its own SDK, with its own transport: it takes 0.1 ms to make. */
function sdk(apiKey: string, httpClient: Stripe.HttpClient): Stripe {
  return new Stripe(apiKey, {
    apiVersion: STRIPE_API_VERSION,
    httpClient,
    maxNetworkRetries: 0,
    telemetry: false,
  })
}
