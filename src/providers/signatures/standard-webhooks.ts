/**
 * Signatures of Standard Webhooks, symmetric and asymmetric, of deliveries that come in and of those that we send.
 *
 * Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import type { KeyObject } from 'node:crypto'
import { createHmac, createPublicKey, createSecretKey, timingSafeEqual, verify } from 'node:crypto'
import { InvalidArgumentException } from '../../framework/errors.ts'
import type { DeliveryToCheck, WebhookRequest } from '../webhook-request.ts'
import { asReceived } from '../webhook-request.ts'
import type { SignedTimeOptions } from './delivery-values.ts'
import { decodeDigest, isTimely, soleHeader, UNIX_TIME } from './delivery-values.ts'
import type { SignatureVerdict, StandardWebhooksScheme } from './scheme-rules.ts'
import { refused, verifiedBy } from './scheme-rules.ts'

/** Of a symmetric key, in bytes: "between 24 bytes (192 bits) and 64 bytes (512 bits)". */
const STANDARD_KEY_BYTES = { least: 24, most: 64 } as const
const ID = /^[^.\s]{1,255}$/
const DIGEST_BYTES = 32
const PUBLIC_KEY = 'whpk_'
const ED25519_BYTES = { key: 32, signature: 64 } as const
/** A public key's check costs a hundred times an HMAC's comparison. */
const MAX_ASYMMETRIC = 10

/**
 * Whether one of the secrets signed a delivery by Standard Webhooks, symmetric scheme, in constant time: for a
 * `verifyWebhookSignature()` of a provider's own.
 *
 * False, never an error, for a header that is missing, repeated or malformed. A secret that is no key is passed over, and so is a public
 * key: the scheme `standard-webhooks` takes those.
 *
 * @param secrets base64 of 24 to 64 bytes each, with or without `whsec_` before it
 */
export function verifyStandardWebhook(
  delivery: DeliveryToCheck,
  secrets: readonly string[],
  { tolerance, now }: SignedTimeOptions = {},
): boolean {
  const received = asReceived(delivery)
  const { toleranceSeconds, receivedAt } = received
  const request = { ...received, toleranceSeconds: tolerance ?? toleranceSeconds, receivedAt: now ?? receivedAt }
  const symmetric = secrets.filter((secret) => !secret.startsWith(PUBLIC_KEY))
  return verifyStandard({ scheme: 'standard-webhooks' }, request, symmetric).kind === 'verified'
}

/** Of the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, or those that begin with `svix`. */
export function verifyStandard(
  { names = 'webhook', tolerance }: StandardWebhooksScheme,
  request: WebhookRequest,
  secrets: readonly string[],
): SignatureVerdict {
  const keys = secrets.map(standardKey)
  if (keys.every((key) => key === null)) return refused('no_secret')
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map((part) =>
    soleHeader(request, `${names}-${part}`),
  )
  if (signature == null) return refused(reasonWithout(request, `${names}-signature`, 'signature_missing'))
  if (timestamp == null) return refused(reasonWithout(request, `${names}-timestamp`, 'time_missing'))
  if (id == null || !ID.test(id)) return refused(reasonWithout(request, `${names}-id`, 'signed_part_missing'))
  if (!UNIX_TIME.test(timestamp)) return refused('time_malformed')
  if (!isTimely(request, Number(timestamp), tolerance === undefined ? {} : { tolerance })) return refused('time_off')
  const given = signature.split(' ')
  const digests = given.flatMap((each) => versioned(each, 'v1,', DIGEST_BYTES) ?? [])
  const asymmetric = given.flatMap((each) => versioned(each, 'v1a,', ED25519_BYTES.signature) ?? [])
  if (digests.length + asymmetric.length === 0 || asymmetric.length > MAX_ASYMMETRIC)
    return refused('signature_malformed')
  // A header's characters are its bytes, one each (RFC 9110, section 5.5): those were signed.
  const head = Buffer.from(`${id}.${timestamp}.`, 'latin1')
  let verifiedWith: number | null = null
  for (const [at, key] of keys.entries()) {
    if (key === null) continue
    if (key.type === 'public') {
      const message = Buffer.concat([head, request.rawBody])
      for (const each of asymmetric) if (verify(null, message, key, each)) verifiedWith ??= at
    } else {
      const expected = createHmac('sha256', key).update(head).update(request.rawBody).digest()
      for (const digest of digests) if (timingSafeEqual(digest, expected)) verifiedWith ??= at
    }
  }
  return verifiedWith === null ? refused('mismatch') : verifiedBy(verifiedWith)
}

/**
 * The headers of a webhook that is sent: its id, when it is sent, and the signature of both and the body.
 *
 * @param id without dots and spaces; the same for every try of one event
 * @param secret base64 of 24 to 64 bytes, with or without `whsec_` before it
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
  const key = standardKey(secret)
  if (key === null || key.type !== 'secret')
    throw new InvalidArgumentException(
      'secret',
      `the base64 of ${STANDARD_KEY_BYTES.least} to ${STANDARD_KEY_BYTES.most} bytes, "whsec_" before it or not, is allowed; it is not shown here`,
    )
  const timestamp = String(Math.floor(sentAt.getTime() / 1_000))
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${digest}`,
  }
}

function reasonWithout<R extends string>(request: WebhookRequest, name: string, reason: R): R | 'header_repeated' {
  return (request.headers.get(name) ?? '').includes(', ') ? 'header_repeated' : reason
}

/** Null for another version's signature, and for one of another length. */
function versioned(signature: string, prefix: string, bytes: number): Buffer | null {
  return signature.startsWith(prefix) ? decodeDigest(signature.slice(prefix.length), 'base64', bytes) : null
}

/** `whsec_` (or nothing) and the base64 of 24 to 64 bytes, or `whpk_` and that of an Ed25519 public key; null for any other text. */
function standardKey(secret: string): KeyObject | null {
  if (secret.startsWith(PUBLIC_KEY)) {
    const x = decodeDigest(secret.slice(PUBLIC_KEY.length), 'base64', ED25519_BYTES.key)
    return x === null ? null : ed25519Key(x)
  }
  const key = decodeDigest(secret.replace(/^whsec_/, ''), 'base64', null)
  const { least, most } = STANDARD_KEY_BYTES
  return key !== null && key.length >= least && key.length <= most ? createSecretKey(key) : null
}

/** @param x the 32 bytes of the public key: RFC 8037, section 2 */
export function ed25519Key(x: Buffer): KeyObject {
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url') }, format: 'jwk' })
}
