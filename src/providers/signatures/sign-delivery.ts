/**
 * Signs a delivery as a provider does whose `signature` is data.
 *
 * Rule: docs/testing.md, "Webhooks".
 */
import type { KeyObject } from 'node:crypto'
import { constants, createHash, createHmac, createPrivateKey, createSecretKey, sign } from 'node:crypto'
import { InvalidArgumentException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { webhookRequest } from '../webhook-request.ts'
import { fieldsOf } from './delivery-values.ts'
import { hmacKey } from './hmac.ts'
import type {
  DeliveryPlace,
  JwtScheme,
  MessageScheme,
  SignatureScheme,
  SignedTime,
  StandardWebhooksScheme,
} from './scheme-rules.ts'
import { signedParts } from './signed-delivery.ts'
import { BODY_ALONE, messageOf } from './signed-message.ts'

export interface UnsignedDelivery {
  /** Default: POST. */
  readonly method?: string
  /** Path and query. Default: `/`. */
  readonly url?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

export interface SignWith {
  /** The webhook secret; of a scheme with public keys the private one, in PEM. */
  readonly key: string
  readonly at: Date
  /** Stands wherever the scheme signs a header that the delivery does not have. */
  readonly deliveryId: string
  readonly metadata?: Readonly<Record<string, Json>>
  readonly baseUrl?: string
  /** Of a token's header, and of `jwks.keyId`. */
  readonly keyId?: string
}

export interface SignedDeliveryParts {
  readonly method: string
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** @throws InvalidArgumentException for a text that is not a key, and a scheme that can't be signed for this delivery */
export function signDelivery(scheme: SignatureScheme, given: UnsignedDelivery, by: SignWith): SignedDeliveryParts {
  const draft = new Draft(given)
  switch (scheme.scheme) {
    case 'token':
      if (scheme.basic === true)
        draft.put({ header: 'authorization' }, `Basic ${Buffer.from(by.key).toString('base64')}`)
      else draft.put(placeOf(scheme), `${scheme.prefix ?? ''}${by.key}`)
      break
    case 'jwt':
      signByJwt(scheme, draft, by)
      break
    case 'standard-webhooks':
      signByStandard(scheme, draft, by)
      break
    default:
      signMessage(scheme, draft, by)
  }
  return draft.finished()
}

/** A delivery that signatures and times are put into. */
class Draft {
  readonly method: string
  url: string
  readonly headers: Record<string, string> = {}
  body: Uint8Array

  constructor({ method = 'POST', url = '/', headers = {}, body }: UnsignedDelivery) {
    this.method = method
    this.url = url
    for (const [name, value] of Object.entries(headers)) this.headers[name.toLowerCase()] = value
    this.body = typeof body === 'string' ? Buffer.from(body) : body
  }

  put(place: DeliveryPlace, value: string): void {
    if ('header' in place) this.headers[place.header] = value
    else if ('query' in place) {
      const [path = '', query = ''] = this.url.split(/\?(.*)/s)
      const parameters = new URLSearchParams(query)
      parameters.set(place.query, value)
      this.url = `${path}?${parameters}`
    } else if ('form' in place) {
      const form = new URLSearchParams(Buffer.from(this.body).toString())
      form.set(place.form, value)
      this.body = Buffer.from(form.toString())
    } else if ('json' in place) this.body = Buffer.from(withValue(this.body, place.json, value))
  }

  request(at: Date) {
    const [path = '', query = ''] = this.url.split(/\?(.*)/s)
    const headers = new Headers(this.headers)
    return webhookRequest({ ...this, path, query, headers, rawBody: this.body, receivedAt: at, toleranceSeconds: 300 })
  }

  finished(): SignedDeliveryParts {
    const { method, url, headers, body } = this
    return { method, url, headers, body }
  }
}

function placeOf({
  header,
  query,
  json,
  form,
}: {
  header?: string
  query?: string
  json?: string
  form?: string
}): DeliveryPlace {
  if (header !== undefined) return { header }
  if (query !== undefined) return { query }
  return json !== undefined ? { json } : { form: form ?? '' }
}

function withValue(body: Uint8Array, path: string, value: string): string {
  const root = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>
  const keys = path.split('.')
  let place: Record<string, unknown> = root
  for (const key of keys.slice(0, -1)) {
    place[key] ??= {}
    place = place[key] as Record<string, unknown>
  }
  const last = keys.at(-1) ?? ''
  place[last] = typeof place[last] === 'number' ? Number(value) : value
  return JSON.stringify(root)
}

function signMessage(scheme: MessageScheme, draft: Draft, by: SignWith): void {
  const { timestamp, fields: list, encoding, prefix = '', signed = BODY_ALONE, bodyDigest } = scheme
  const time = timestamp === undefined ? null : timeText(timestamp, by.at)
  const hasDigest = bodyDigest !== undefined && draft.body.length > 0 && !isForm(draft)
  if (hasDigest) draft.put(bodyDigest, createHash(bodyDigest.hash).update(draft.body).digest(bodyDigest.encoding))
  if (timestamp !== undefined && time !== null && !('field' in timestamp)) draft.put(timestamp, time)
  for (const part of signed)
    if (typeof part === 'object' && part.part === 'value' && 'header' in part.of && part.optional !== true)
      draft.headers[part.of.header] ??= by.deliveryId
  if (scheme.scheme !== 'hmac' && scheme.jwks?.keyId !== undefined) draft.put(scheme.jwks.keyId, by.keyId ?? '')
  const stamp =
    list !== undefined && timestamp !== undefined && 'field' in timestamp ? `${timestamp.field}=${time}` : null
  const message = messageOf(
    signedParts(scheme, hasDigest),
    draft.request(by.at),
    { metadata: by.metadata ?? {}, baseUrl: by.baseUrl ?? null },
    {
      timestamp: time,
      fields: stamp === null ? [] : fieldsOf(stamp, list?.separator ?? ','),
    },
  )
  if ('reason' in message) throw new InvalidArgumentException('delivery', `it can't be signed: ${message.reason}`)
  const text = prefix + signatureOf(scheme, Buffer.concat(message.pieces), by.key).toString(encoding)
  const value =
    list === undefined ? text : [...(stamp === null ? [] : [stamp]), `${list.signature}=${text}`].join(list.separator)
  const { header } = scheme
  const [first] = typeof header === 'string' ? [header] : (header ?? [])
  draft.put(placeOf({ ...scheme, ...(first === undefined ? {} : { header: first }) } as { header?: string }), value)
}

function isForm({ headers }: Draft): boolean {
  return (headers['content-type'] ?? '').startsWith('application/x-www-form-urlencoded')
}

function timeText({ unit = 'seconds' }: SignedTime, at: Date): string {
  if (unit === 'iso') return at.toISOString()
  return String(unit === 'seconds' ? Math.floor(at.getTime() / 1_000) : at.getTime())
}

function signatureOf(scheme: MessageScheme, message: Buffer, key: string): Buffer {
  switch (scheme.scheme) {
    case 'hmac': {
      const bytes = hmacKey(key, scheme.key)
      if (bytes === null) throw new InvalidArgumentException('key', `the ${scheme.key ?? 'text'} of a key is allowed`)
      return createHmac(scheme.hash, bytes).update(message).digest()
    }
    case 'ed25519':
      return sign(null, message, createPrivateKey(key))
    case 'ecdsa': {
      const dsaEncoding = scheme.signatureFormat === 'raw' ? 'ieee-p1363' : 'der'
      return sign('sha256', message, { key: createPrivateKey(key), dsaEncoding })
    }
    case 'rsa': {
      const padding = scheme.padding === 'pss' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
      const saltLength = constants.RSA_PSS_SALTLEN_DIGEST
      return sign(scheme.hash, message, {
        key: createPrivateKey(key),
        padding,
        ...(scheme.padding === 'pss' ? { saltLength } : {}),
      })
    }
  }
}

function signByStandard(
  { names = 'webhook' }: StandardWebhooksScheme,
  draft: Draft,
  { key, at, deliveryId }: SignWith,
): void {
  const timestamp = String(Math.floor(at.getTime() / 1_000))
  const message = Buffer.concat([Buffer.from(`${deliveryId}.${timestamp}.`), draft.body])
  const signature = key.includes('PRIVATE KEY')
    ? `v1a,${sign(null, message, createPrivateKey(key)).toString('base64')}`
    : `v1,${createHmac('sha256', Buffer.from(key.replace(/^whsec_/, ''), 'base64'))
        .update(message)
        .digest('base64')}`
  draft.headers[`${names}-id`] = deliveryId
  draft.headers[`${names}-timestamp`] = timestamp
  draft.headers[`${names}-signature`] = signature
}

/** RFC 7515, section 5.1. `jose` signs with promises, and a delivery is signed at once. */
function signByJwt(scheme: JwtScheme, draft: Draft, { key, at, metadata = {}, keyId }: SignWith): void {
  const { algorithms, issuer, audience, claims = {}, bodyHash, prefix = '' } = scheme
  const [alg = 'HS256'] = algorithms
  const now = Math.floor(at.getTime() / 1_000)
  const iss = typeof issuer === 'string' ? issuer : issuer?.[0]
  const aud = typeof audience === 'object' ? metadata[audience.metadata] : audience
  const payload = {
    ...Object.fromEntries(
      Object.entries(claims).map(([name, value]) => [
        name,
        typeof value === 'object' ? metadata[value.metadata] : value,
      ]),
    ),
    ...(scheme.withoutExpiry === true ? {} : { iat: now, exp: now + 300 }),
    ...(iss === undefined ? {} : { iss }),
    ...(aud === undefined ? {} : { aud }),
    ...(bodyHash === undefined
      ? {}
      : { [bodyHash.claim]: createHash(bodyHash.hash).update(draft.body).digest(bodyHash.encoding) }),
    ...(scheme.body === true ? { data: Buffer.from(draft.body).toString() } : {}),
  }
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${part({ alg, typ: 'JWT', ...(keyId === undefined ? {} : { kid: keyId }) })}.${part(payload)}`
  const token = `${input}.${jwsSignature(alg, input, key).toString('base64url')}`
  if (scheme.body === true) draft.body = Buffer.from(token)
  else draft.put(placeOf(scheme), prefix + token)
}

function jwsSignature(alg: string, input: string, key: string): Buffer {
  const hash = `sha${alg.slice(2)}`
  if (alg.startsWith('HS'))
    return createHmac(hash, createSecretKey(Buffer.from(key)))
      .update(input)
      .digest()
  const privateKey: KeyObject = createPrivateKey(key)
  if (alg === 'EdDSA') return sign(null, Buffer.from(input), privateKey)
  if (alg.startsWith('ES')) return sign(hash, Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  const isPss = alg.startsWith('PS')
  return sign(hash, Buffer.from(input), {
    key: privateKey,
    padding: isPss ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING,
    ...(isPss ? { saltLength: constants.RSA_PSS_SALTLEN_DIGEST } : {}),
  })
}
