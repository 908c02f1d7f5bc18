/** A secret that is sent along, and JSON Web Tokens (RFC 7519). */
import { createHash, createPublicKey, timingSafeEqual } from 'node:crypto'
import type { JWTVerifyOptions } from 'jose'
import { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify } from 'jose'
import type { WebhookRequest } from '../webhook-request.ts'
import { readPlace } from './delivery-values.ts'
import type { FetchedKeys } from './public-keys.ts'
import { keysOfSet } from './public-keys.ts'
import type { DeliveryPlace, JwtScheme, SignatureVerdict, TokenScheme } from './scheme-rules.ts'
import { refused, verifiedBy } from './scheme-rules.ts'
import { digestMatches } from './signed-delivery.ts'
import type { SignedFrom } from './signed-message.ts'

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i

export function verifyToken(
  scheme: TokenScheme,
  request: WebhookRequest,
  secrets: readonly string[],
): SignatureVerdict {
  if (secrets.every((secret) => secret === '')) return refused('no_secret')
  const read = readPlace(request, scheme.basic === true ? { header: 'authorization' } : placeOf(scheme))
  if ('fault' in read) return refused(read.fault === 'missing' ? 'signature_missing' : 'header_repeated')
  const given = scheme.basic === true ? basicOf(read.value) : withoutPrefix(read.value, scheme.prefix)
  if (given === null) return refused('signature_malformed')
  // Digests have one length, so the time says nothing about the secret's either.
  const digest = (text: string | Buffer) => createHash('sha256').update(text).digest()
  const sent = digest(given)
  let verifiedWith: number | null = null
  for (const [at, secret] of secrets.entries())
    if (secret !== '' && timingSafeEqual(digest(secret), sent)) verifiedWith ??= at
  return verifiedWith === null ? refused('mismatch') : verifiedBy(verifiedWith)
}

function placeOf({ header, query }: Pick<TokenScheme, 'header' | 'query'>): DeliveryPlace {
  return header !== undefined ? { header } : { query: query ?? '' }
}

function basicOf(header: string): Buffer | null {
  const encoded = BASIC.exec(header)?.[1]
  return encoded === undefined ? null : Buffer.from(encoded, 'base64')
}

/** A scheme of HTTP authentication, such as `Bearer `, is written in any case: RFC 9110, section 11.1. */
function withoutPrefix(text: string, prefix = ''): string | null {
  const head = text.slice(0, prefix.length)
  const isSame = prefix.endsWith(' ') ? head.toLowerCase() === prefix.toLowerCase() : head === prefix
  return isSame && text.length > prefix.length ? text.slice(prefix.length) : null
}

export async function verifyJwt(
  scheme: JwtScheme,
  request: WebhookRequest,
  {
    secrets,
    from,
    fetched,
  }: { readonly secrets: readonly string[]; readonly from: SignedFrom; readonly fetched: FetchedKeys },
): Promise<SignatureVerdict> {
  const token = tokenOf(scheme, request)
  if (typeof token !== 'string') return token
  const options = optionsOf(scheme, request, from)
  if (options === null) return refused('signed_part_missing')
  let verdict: SignatureVerdict = refused('no_secret')
  for (const { key, secret } of scheme.jwks === undefined ? localKeys(scheme, secrets) : [PUBLISHED]) {
    const found = key ?? (await publishedKeys(token, scheme, fetched))
    if (found === null) return { kind: 'unavailable' }
    if (found === 'malformed') return refused('signature_malformed')
    const each = await judged(token, found, options, scheme, request, from)
    if (each.kind === 'verified') return verifiedBy(secret)
    verdict = each
  }
  return verdict
}

type Key = Parameters<typeof jwtVerify>[1] | ReturnType<typeof createLocalJWKSet>

async function judged(
  token: string,
  key: Key,
  options: JWTVerifyOptions,
  { claims = {}, bodyHash }: JwtScheme,
  request: WebhookRequest,
  from: SignedFrom,
): Promise<SignatureVerdict> {
  try {
    const { payload } = await jwtVerify(token, key as Parameters<typeof jwtVerify>[1], options)
    for (const [name, value] of Object.entries(claims)) {
      const wanted = typeof value === 'object' ? from.metadata[value.metadata] : value
      if (wanted === undefined || payload[name] !== wanted) return refused('claims_refused')
    }
    if (bodyHash === undefined) return verifiedBy(null)
    const given = payload[bodyHash.claim]
    return typeof given === 'string' && digestMatches(given, request.rawBody, bodyHash)
      ? verifiedBy(null)
      : refused('body_digest_mismatch')
  } catch (error) {
    if (error instanceof errors.JWTExpired) return refused('time_off')
    if (error instanceof errors.JWTClaimValidationFailed)
      return refused(['iat', 'nbf', 'exp'].includes(error.claim) ? 'time_off' : 'claims_refused')
    if (error instanceof errors.JWSInvalid || error instanceof errors.JWTInvalid) return refused('signature_malformed')
    return refused('mismatch')
  }
}

function tokenOf(scheme: JwtScheme, request: WebhookRequest): string | SignatureVerdict {
  if (scheme.body === true) {
    const text = request.text().trim()
    return text === '' ? refused('signature_missing') : text
  }
  const { json } = scheme
  const read = readPlace(request, json === undefined ? placeOf(scheme) : { json })
  if ('fault' in read) return refused(read.fault === 'missing' ? 'signature_missing' : 'header_repeated')
  return withoutPrefix(read.value, scheme.prefix) ?? refused('signature_malformed')
}

/** Null: the metadata lacks the audience. */
function optionsOf(scheme: JwtScheme, request: WebhookRequest, from: SignedFrom): JWTVerifyOptions | null {
  const { algorithms, issuer, audience, tolerance = request.toleranceSeconds, maxAgeSeconds, withoutExpiry } = scheme
  const wanted = typeof audience === 'object' ? from.metadata[audience.metadata] : audience
  if (audience !== undefined && (typeof wanted !== 'string' || wanted === '')) return null
  return {
    algorithms: [...algorithms],
    clockTolerance: tolerance,
    currentDate: request.receivedAt,
    ...(issuer === undefined ? {} : { issuer: typeof issuer === 'string' ? issuer : [...issuer] }),
    ...(typeof wanted === 'string' ? { audience: wanted } : {}),
    // A token that never ends could be sent again for ever.
    ...(maxAgeSeconds === undefined
      ? { requiredClaims: withoutExpiry === true ? [] : ['exp'] }
      : { maxTokenAge: maxAgeSeconds }),
  }
}

/** A key that is fetched in its time, and is no secret of the integration. */
const PUBLISHED = { key: null, secret: null }

function localKeys({ publicKeys }: JwtScheme, secrets: readonly string[]): { key: Key; secret: number | null }[] {
  if (publicKeys !== undefined) return publicKeys.map((pem) => ({ key: createPublicKey(pem), secret: null }))
  return secrets.flatMap((text, at) => (text === '' ? [] : [{ key: new TextEncoder().encode(text), secret: at }]))
}

async function publishedKeys(
  token: string,
  { jwks }: JwtScheme,
  fetched: FetchedKeys,
): Promise<Key | 'malformed' | null> {
  let keyId: string | undefined
  try {
    keyId = decodeProtectedHeader(token).kid
  } catch {
    return 'malformed'
  }
  const keys = jwks === undefined ? null : await keysOfSet(fetched, jwks.url, keyId ?? null)
  return keys === null ? null : createLocalJWKSet({ keys: [...keys] })
}
