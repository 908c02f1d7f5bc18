import type { Integration } from '../../provider.ts'
import { InvalidArgumentException } from '../../provider.ts'

const STRIPE_API = 'https://api.stripe.com'

/** Whose Stripe account, and where its API is. */
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
