/** What is wrong with a provider's `signature`, found when it is registered. */
import type { KeyObject } from 'node:crypto'
import { createPublicKey } from 'node:crypto'
import { z } from 'zod'
import type { HandlesWebhooks, IntegrationProvider } from '../contracts.ts'
import { signatureOf } from './declared-signature.ts'
import type { PublicKeyScheme } from './public-key-schemes.ts'
import { isOfScheme } from './public-key-schemes.ts'
import { publicKeyIn } from './public-keys.ts'
import type { JwtScheme, SignatureScheme } from './scheme-rules.ts'

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9a-z-]+$/, {
  error: 'a header name in lower case is allowed',
})
const text = z.string().min(1)
const hash = z.enum(['sha1', 'sha256', 'sha512'])
const encoding = z.enum(['hex', 'base64', 'base64url'])
/** Longer than any clock is off, and than any provider retries one signature. */
const seconds = z.number().int().min(0).max(86_400)
const httpsUrl = z.string().refine((url) => URL.canParse(url) && new URL(url).protocol === 'https:', {
  error: 'an https URL is allowed',
})

const place = z.union(
  [
    z.strictObject({ header: headerName }),
    z.strictObject({ query: text }),
    z.strictObject({ json: text }),
    z.strictObject({ form: text }),
    z.strictObject({ field: text }),
  ],
  { error: 'one of { header }, { query }, { json }, { form } and { field } is allowed' },
)
const placed = {
  header: headerName.optional(),
  query: text.optional(),
  json: text.optional(),
  form: text.optional(),
  field: text.optional(),
}
const exactlyOne = (given: object, names: readonly string[]) =>
  names.filter((name) => Reflect.get(given, name) !== undefined).length === 1

const part = z.union(
  [
    z.string(),
    z.strictObject({ part: z.enum(['body', 'timestamp', 'method', 'crc32', 'sortedForm']) }),
    z.strictObject({ part: z.literal('url'), decoded: text.optional() }),
    z.strictObject({ part: z.literal('bodyDigest'), hash, encoding }),
    z.strictObject({ part: z.literal('value'), of: place, optional: z.boolean().optional() }),
    z.strictObject({ part: z.literal('metadata'), key: text }),
    z.strictObject({ part: z.literal('lines'), by: text, names: z.record(text, z.array(text).min(1)) }),
  ],
  { error: 'a text or one of `signedPart` is allowed' },
)

const signed = {
  signed: z.array(part).min(1).optional(),
  timestamp: z
    .strictObject({ ...placed, unit: z.enum(['seconds', 'milliseconds', 'iso']).optional() })
    .refine((given) => exactlyOne(given, Object.keys(placed)), { error: 'exactly one place is needed' })
    .optional(),
  tolerance: seconds.nullable().optional(),
  expects: z
    .array(z.strictObject({ of: place, is: text }))
    .min(1)
    .optional(),
  bodyDigest: z
    .strictObject({ ...placed, hash, encoding })
    .refine((given) => exactlyOne(given, Object.keys(placed)), { error: 'exactly one place is needed' })
    .optional(),
}
const signature = {
  single: text.optional(),
  header: z.union([headerName, z.array(headerName).min(1).max(10)]).optional(),
  query: text.optional(),
  json: text.optional(),
  form: text.optional(),
  encoding,
  prefix: text.optional(),
  fields: z.strictObject({ separator: z.enum([',', ';', ' ']), signature: text }).optional(),
}
const pem = text.refine(isPem, { error: 'a public key in PEM is allowed' })
const publicKeys = {
  key: z.enum(['hex', 'base64', 'pem', 'spki']).optional(),
  publicKeys: z.array(text).min(1).optional(),
  jwks: z.strictObject({ url: httpsUrl, keyId: place.optional() }).optional(),
}
const host = z.string().regex(/^([a-z0-9-]+|\*)([.]([a-z0-9-]+|\*))*[.][a-z0-9-]+[.][a-z]{2,}$/, {
  error: 'a host such as certs.example.com is allowed, with `*` for a whole label before the last two',
})

const SCHEMES = z.discriminatedUnion(
  'scheme',
  [
    z.strictObject({
      scheme: z.literal('hmac'),
      hash,
      key: z.enum(['text', 'hex', 'base64']).optional(),
      ...signature,
      ...signed,
    }),
    z.strictObject({ scheme: z.literal('ed25519'), ...signature, ...signed, ...publicKeys }),
    z.strictObject({
      scheme: z.literal('ecdsa'),
      signatureFormat: z.enum(['der', 'raw']).optional(),
      ...signature,
      ...signed,
      ...publicKeys,
    }),
    z.strictObject({
      scheme: z.literal('rsa'),
      hash,
      padding: z.enum(['pkcs1', 'pss']).optional(),
      certificate: z
        .strictObject({
          url: place,
          hosts: z.array(host).min(1),
          pathSuffix: text.optional(),
          subject: text.optional(),
          fingerprints: z
            .array(z.string().regex(/^([0-9a-f]{2}:?){32}$/i, { error: 'SHA-256 in hex is allowed' }))
            .min(1)
            .optional(),
        })
        .optional(),
      ...signature,
      ...signed,
      ...publicKeys,
    }),
    z
      .strictObject({
        scheme: z.literal('jwt'),
        header: headerName.optional(),
        query: text.optional(),
        json: text.optional(),
        body: z.literal(true).optional(),
        prefix: text.optional(),
        algorithms: z
          .array(z.enum(['HS256', 'HS384', 'HS512', 'RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA']))
          .min(1),
        jwks: z.strictObject({ url: httpsUrl }).optional(),
        publicKeys: z.array(pem).min(1).optional(),
        issuer: z.union([text, z.array(text).min(1)]).optional(),
        audience: z.union([text, z.strictObject({ metadata: text })]).optional(),
        claims: z.record(text, z.union([text, z.boolean(), z.strictObject({ metadata: text })])).optional(),
        bodyHash: z.strictObject({ claim: text, hash, encoding }).optional(),
        tolerance: seconds.optional(),
        maxAgeSeconds: seconds.min(1).optional(),
        withoutExpiry: z.literal(true).optional(),
      })
      .refine(
        ({ algorithms, jwks, publicKeys: keys }) => {
          const symmetric = algorithms.filter((name) => name.startsWith('HS')).length
          // With a public key in place of the secret, anyone could sign.
          return symmetric === 0
            ? jwks !== undefined || keys !== undefined
            : symmetric === algorithms.length && !jwks && !keys
        },
        {
          path: ['algorithms'],
          error: 'HS ones go with the webhook secrets alone; all others with `jwks` or `publicKeys`',
        },
      ),
    z.strictObject({
      scheme: z.literal('token'),
      header: headerName.optional(),
      query: text.optional(),
      basic: z.literal(true).optional(),
      prefix: text.optional(),
    }),
    z.strictObject({
      scheme: z.literal('standard-webhooks'),
      names: z.enum(['webhook', 'svix']).optional(),
      tolerance: seconds.optional(),
    }),
  ],
  { error: 'one of hmac, ed25519, ecdsa, rsa, jwt, token and standard-webhooks is allowed' },
)

/** What is wrong with how a provider says that its deliveries are signed, in words. */
export function signatureFaults(provider: IntegrationProvider): string[] {
  const given = signatureOf(provider as Partial<HandlesWebhooks>)
  if (given === undefined) return []
  const checked = SCHEMES.safeParse(given)
  if (!checked.success)
    return checked.error.issues.map(({ path, message }) => `${['signature', ...path].join('.')}: ${message}`)
  return togetherFaults(given).map((fault) => `signature: ${fault}`)
}

const PLACES: Readonly<Record<string, readonly string[]>> = {
  jwt: ['header', 'query', 'json', 'body'],
  token: ['header', 'query', 'basic'],
}

/** Members that are right alone and wrong together. */
function togetherFaults(scheme: SignatureScheme): string[] {
  if (scheme.scheme === 'standard-webhooks') return []
  const places = PLACES[scheme.scheme] ?? ['header', 'query', 'json', 'form']
  const faults = exactlyOne(scheme, places) ? [] : [`exactly one of ${places.join(', ')} is needed`]
  if (scheme.scheme === 'jwt' && scheme.withoutExpiry && scheme.bodyHash === undefined)
    faults.push('withoutExpiry goes with bodyHash, or one token would let in every body for ever')
  if (scheme.scheme === 'jwt') return [...faults, ...unusableTokenKeys(scheme)]
  if (scheme.scheme === 'token') return faults
  const { timestamp, signed: parts = [], fields, bodyDigest } = scheme
  const isSigned = (name: string) => parts.some((each) => typeof each === 'object' && each.part === name)
  if (isSigned('timestamp') && timestamp === undefined)
    faults.push('signed names the timestamp, so `timestamp` is needed')
  const inFields = [timestamp, bodyDigest].some((where) => where !== undefined && 'field' in where)
  if (inFields && fields === undefined) faults.push('a { field } needs `fields`, which says how the header is made up')
  // Else a forger could move the time of a delivery.
  if (timestamp !== undefined && !isSigned('timestamp') && !isInBody(timestamp))
    faults.push('`timestamp` is outside the body, so `signed` must name it')
  if (scheme.scheme === 'hmac') return faults
  const sources = ['publicKeys', 'jwks', 'certificate'].filter((name) => Reflect.get(scheme, name) !== undefined)
  if (sources.length > 1) faults.push(`one of ${sources.join(', ')} is allowed`)
  return [...faults, ...unusableKeys(scheme)]
}

const KEY_NAMES = { ed25519: 'Ed25519', ecdsa: 'P-256', rsa: 'RSA' } as const

/** With such a key each delivery would be refused, as if the integration had no secret. */
function unusableKeys(scheme: PublicKeyScheme): string[] {
  const { key: format = 'pem', publicKeys: texts = [] } = scheme
  return texts.flatMap((text, at) => {
    const key = publicKeyIn(text, format)
    if (key !== null && isOfScheme(scheme, key)) return []
    return [
      `publicKeys.${at} is no ${KEY_NAMES[scheme.scheme]} key in the format ${format}, which \`key\` names (default pem)`,
    ]
  })
}

/** `jose` does not check tokens by such a key: each delivery would be refused as if it were forged. */
function unusableTokenKeys({ algorithms, publicKeys = [] }: JwtScheme): string[] {
  return publicKeys.flatMap((pem, at) => {
    const key = createPublicKey(pem)
    if (algorithms.some((algorithm) => isOfAlgorithm(algorithm, key))) return []
    return [`publicKeys.${at} is no key of ${algorithms.join(' or ')}; one of RSA needs ${MIN_RSA_BITS} bits`]
  })
}

/** RFC 7518, 3.3 and 3.5. */
const MIN_RSA_BITS = 2_048

function isOfAlgorithm(algorithm: string, { asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  const { namedCurve, modulusLength = 0 } = asymmetricKeyDetails ?? {}
  if (algorithm === 'ES256') return namedCurve === 'prime256v1'
  if (algorithm === 'ES384') return namedCurve === 'secp384r1'
  if (algorithm === 'EdDSA') return asymmetricKeyType === 'ed25519'
  return asymmetricKeyType === 'rsa' && modulusLength >= MIN_RSA_BITS
}

function isInBody(where: object): boolean {
  return 'json' in where || 'form' in where
}

function isPem(key: string): boolean {
  try {
    return createPublicKey(key).type === 'public'
  } catch {
    return false
  }
}
