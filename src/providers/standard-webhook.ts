/**
 * Signatures of Standard Webhooks, symmetric scheme.
 *
 * Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { WebhookRequest } from './webhook-request.ts'

/** Of a key, in bytes: "between 24 bytes (192 bits) and 64 bytes (512 bits)". */
const MIN_KEY_BYTES = 24
const MAX_KEY_BYTES = 64
const SECRET_PREFIX = 'whsec_'
/** Of the symmetric scheme; `v1a,` is a public key's. */
const SIGNATURE_PREFIX = 'v1,'
const DIGEST_BYTES = 32
const ID = /^[^.\s]{1,255}$/
const TIMESTAMP = /^\d+$/

/**
 * Whether one of the signatures in `webhook-signature` is that of `webhook-id`, `webhook-timestamp` and the raw body under
 * one of the secrets, in constant time, and the time lies within the tolerance of when the delivery came in.
 *
 * False, never an error, for a missing, repeated or malformed header. A secret that is no key is passed over.
 *
 * @param secrets base64 of 24 to 64 bytes each, with or without `whsec_` before it
 */
export function verifyStandardWebhook(
  request: WebhookRequest,
  secrets: readonly string[],
  options: SignedTimeOptions = {},
): boolean {
  const id = soleHeader(request, 'webhook-id')
  const timestamp = soleHeader(request, 'webhook-timestamp')
  const signature = soleHeader(request, 'webhook-signature')
  if (id === null || timestamp === null || signature === null) return false
  if (!ID.test(id) || !TIMESTAMP.test(timestamp) || !isTimely(request, Number(timestamp), options)) return false
  const given = signature.split(' ').flatMap(digestOf)
  // Every secret is tried with every signature, so that the time says nothing about which one matched.
  let verified = false
  for (const key of secrets.flatMap(keyOf)) {
    // A header's characters are its bytes, one each (RFC 9110, section 5.5): those were signed.
    const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`, 'latin1').update(request.rawBody).digest()
    for (const digest of given) if (timingSafeEqual(digest, expected)) verified = true
  }
  return verified
}

/**
 * The headers of a webhook that is sent: its id, when it is sent, and the signature of both and the body.
 *
 * @param id without dots and spaces; the same for every try of one event
 * @param secret as {@link verifyStandardWebhook} takes them
 * @throws InvalidArgumentException, which holds no secret
 */
export function signStandardWebhook(
  { id, sentAt, body }: { readonly id: string; readonly sentAt: Date; readonly body: string },
  secret: string,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  if (!ID.test(id))
    throw new InvalidArgumentException(
      'id',
      `1 to 255 characters without "." and spaces are allowed, "${id}" was given`,
    )
  const [key] = keyOf(secret)
  if (key === undefined)
    throw new InvalidArgumentException(
      'secret',
      `the base64 of ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} bytes, "whsec_" before it or not, is allowed; it is not shown here`,
    )
  const timestamp = String(Math.floor(sentAt.getTime() / 1_000))
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': SIGNATURE_PREFIX + digest,
  }
}

/** None for another version's signature, and for one that is no digest. */
function digestOf(signature: string): Buffer[] {
  if (!signature.startsWith(SIGNATURE_PREFIX)) return []
  const digest = bytesOf(signature.slice(SIGNATURE_PREFIX.length))
  return digest !== null && digest.length === DIGEST_BYTES ? [digest] : []
}

function keyOf(secret: string): Buffer[] {
  const key = bytesOf(secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret)
  return key !== null && key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES ? [key] : []
}

/** Null for what is no base64, or another spelling of it: Node reads whatever it is given. */
function bytesOf(base64: string): Buffer | null {
  const bytes = Buffer.from(base64, 'base64')
  return bytes.toString('base64') === base64 ? bytes : null
}

/**
 * The value of a header that was sent once; null when it is missing, empty or repeated.
 *
 * For headers that sign: none of them has a comma with a space after it of its own, which is what stands between repeats
 * (https://fetch.spec.whatwg.org/#concept-header-list-get).
 */
export function soleHeader({ headers }: WebhookRequest, name: string): string | null {
  const value = headers.get(name)
  return value === null || value === '' || value.includes(', ') ? null : value
}

export interface SignedTimeOptions {
  /** Seconds. Default: config `webhook.timestamp_tolerance`. */
  readonly tolerance?: number
  /** Default: when the delivery came in. */
  readonly now?: Date
}

/**
 * Whether a signed time lies within the tolerance of now, past or future; a time exactly that far off passes.
 *
 * @param signedAt seconds since 1970, as they were signed
 */
export function isTimely(
  request: WebhookRequest,
  signedAt: number,
  { tolerance = request.toleranceSeconds, now = request.receivedAt }: SignedTimeOptions = {},
): boolean {
  // A signed time is in whole seconds, so now is counted in whole seconds too: NaN is within no tolerance.
  return Math.abs(Math.floor(now.getTime() / 1_000) - signedAt) <= tolerance
}
