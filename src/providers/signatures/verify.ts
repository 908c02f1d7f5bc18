/**
 * Whether a delivery is signed as its provider says. One door for all schemes.
 *
 * Rule: docs/behaviour/webhook-signatures.md.
 */
import type { Maybe } from '../contracts.ts'
import type { WebhookRequest } from '../webhook-request.ts'
import { fieldsOf, readPlace } from './delivery-values.ts'
import { verifyHmac } from './hmac.ts'
import { verifyByPublicKey } from './public-key-schemes.ts'
import type { FetchedKeys } from './public-keys.ts'
import type { SignatureScheme, SignatureVerdict } from './scheme-rules.ts'
import { signedParts } from './signed-delivery.ts'
import type { SignedFrom } from './signed-message.ts'
import { messageOf } from './signed-message.ts'
import { verifyStandard } from './standard-webhooks.ts'
import { verifyJwt, verifyToken } from './tokens.ts'

export interface VerifyWith {
  /** In force; of a scheme with public keys, those. */
  readonly secrets: readonly string[]
  readonly from: SignedFrom
  readonly fetched: FetchedKeys
}

/** Never throws for what was sent, whatever it is. A promise only where a key may have to be fetched, and for tokens. */
export function verifySignature(
  scheme: SignatureScheme,
  request: WebhookRequest,
  given: VerifyWith,
): Maybe<SignatureVerdict> {
  switch (scheme.scheme) {
    case 'hmac':
      return verifyHmac(scheme, request, given.secrets, given.from)
    case 'standard-webhooks':
      return verifyStandard(scheme, request, given.secrets)
    case 'token':
      return verifyToken(scheme, request, given.secrets)
    case 'jwt':
      return verifyJwt(scheme, request, given)
    default:
      return verifyByPublicKey(scheme, request, given)
  }
}

/** Exactly what the signature of a verified delivery covers; the raw body where it covers nothing. */
export function signedBytesOf(scheme: SignatureScheme, request: WebhookRequest, from: SignedFrom): Uint8Array | string {
  switch (scheme.scheme) {
    case 'token':
      return request.rawBody
    case 'jwt': {
      if (scheme.body === true || scheme.bodyHash !== undefined) return request.rawBody
      const { header, query, json } = scheme
      return (
        (header !== undefined && request.headers.get(header)) ||
        (query !== undefined && request.query.get(query)) ||
        (json !== undefined && valueAt(request, json)) ||
        request.rawBody
      )
    }
    case 'standard-webhooks': {
      const { names = 'webhook' } = scheme
      const head = `${request.headers.get(`${names}-id`)}.${request.headers.get(`${names}-timestamp`)}.`
      return Buffer.concat([Buffer.from(head, 'latin1'), request.rawBody])
    }
    default: {
      const { header, fields: list, timestamp } = scheme
      const [first] = typeof header === 'string' ? [header] : (header ?? [])
      const value = first === undefined ? '' : (request.headers.get(first) ?? '')
      const fields = list === undefined ? [] : fieldsOf(value, list.separator)
      const time = timestamp === undefined ? null : readPlace(request, timestamp, fields)
      const text = time !== null && 'value' in time ? time.value : null
      const digest = scheme.bodyDigest && readPlace(request, scheme.bodyDigest, fields)
      const parts = signedParts(scheme, digest !== undefined && 'value' in digest)
      const message = messageOf(parts, request, from, { timestamp: text, fields })
      return 'pieces' in message ? Buffer.concat(message.pieces) : request.rawBody
    }
  }
}

function valueAt(request: WebhookRequest, json: string): string | null {
  const read = readPlace(request, { json })
  return 'value' in read ? read.value : null
}
