import { createHmac, timingSafeEqual } from 'node:crypto'
import type { DeliveryToCheck, WebhookRequest } from '../webhook-request.ts'
import { asReceived } from '../webhook-request.ts'
import { decodeDigest } from './delivery-values.ts'
import type { HmacScheme, SignatureVerdict } from './scheme-rules.ts'
import { refused, verifiedBy } from './scheme-rules.ts'
import { signedDelivery } from './signed-delivery.ts'
import type { SignedFrom } from './signed-message.ts'

const DIGEST_BYTES = { sha1: 20, sha256: 32, sha512: 64 } as const

/**
 * Whether one of the secrets signed a delivery by HMAC, in constant time: for a `verifyWebhookSignature()` of a provider's own.
 *
 * False, never an error, for a header that is missing, repeated or malformed, and for an empty secret. What {@link HmacScheme} may say
 * beside the header is allowed, too. Nothing but the delivery is known here: a scheme that signs metadata or the address belongs into
 * `signature`.
 *
 * @param options default: SHA-256 of the raw body in hexadecimal, without a prefix
 */
export function verifyHmacSignature(
  request: DeliveryToCheck,
  secrets: readonly string[],
  { hash = 'sha256', encoding = 'hex', ...options }: Partial<HmacScheme>,
): boolean {
  const scheme: HmacScheme = { ...options, scheme: 'hmac', hash, encoding }
  return verifyHmac(scheme, asReceived(request), secrets, { metadata: {}, baseUrl: null }).kind === 'verified'
}

export function verifyHmac(
  scheme: HmacScheme,
  request: WebhookRequest,
  secrets: readonly string[],
  from: SignedFrom,
): SignatureVerdict {
  const keys = secrets.map((secret) => hmacKey(secret, scheme.key))
  if (keys.every((key) => key === null)) return refused('no_secret')
  const delivery = signedDelivery(scheme, request, from, DIGEST_BYTES[scheme.hash])
  if ('reason' in delivery) return refused(delivery.reason)
  // Every secret is tried with every signature, so that the time says nothing about which one matched.
  let verifiedWith: number | null = null
  for (const [at, key] of keys.entries()) {
    if (key === null) continue
    const hmac = createHmac(scheme.hash, key)
    for (const piece of delivery.pieces) hmac.update(piece)
    const expected = hmac.digest()
    for (const signature of delivery.signatures) if (timingSafeEqual(signature, expected)) verifiedWith ??= at
  }
  return verifiedWith === null ? refused('mismatch') : verifiedBy(verifiedWith)
}

/** Null: the secret is empty, or is not spelt as the scheme says. */
export function hmacKey(secret: string, spelling: HmacScheme['key'] = 'text'): Buffer | null {
  if (secret === '') return null
  return spelling === 'text' ? Buffer.from(secret) : decodeDigest(secret, spelling, null)
}
