/**
 * How a provider signs its deliveries, as data.
 *
 * Rule: docs/behaviour/webhook-signatures.md, "Schemes".
 */

/** Where one value of a delivery stands. */
export type DeliveryPlace =
  | { readonly header: string }
  | { readonly query: string }
  /** A dot path in a JSON body; a number picks an entry of a list. */
  | { readonly json: string }
  /** A field of a form in the body. */
  | { readonly form: string }
  /** A field of the signature's own header, such as `t` of `t=1767225600,v1=5257a8`. */
  | { readonly field: string }

export type HashName = 'sha1' | 'sha256' | 'sha512'
export type DigestEncoding = 'hex' | 'base64' | 'base64url'

/** One piece of what is signed. A text stands for itself. */
export type SignedPart =
  | string
  | { readonly part: 'body' | 'timestamp' | 'method' | 'crc32' }
  /** The address as the provider was given it, with the query as it was sent. `decoded`: percent-encoded characters that are signed plain. */
  | { readonly part: 'url'; readonly decoded?: string }
  /** The parameters of a form in the body, sorted by name: each name and its value, with nothing between. Empty for any other body. */
  | { readonly part: 'sortedForm' }
  | { readonly part: 'bodyDigest'; readonly hash: HashName; readonly encoding: DigestEncoding }
  /** A value of the delivery. `optional`: an absent one counts as an empty text; else it refuses the delivery. */
  | { readonly part: 'value'; readonly of: DeliveryPlace; readonly optional?: boolean }
  /** A value that the integration's metadata holds, such as the id of a webhook at its provider. */
  | { readonly part: 'metadata'; readonly key: string }
  /** Members of a JSON body, each a line with its name and a line with its value; which ones, says the member `by`. */
  | {
      readonly part: 'lines'
      readonly by: string
      readonly names: Readonly<Record<string, readonly string[]>>
    }

/** The pieces by name: `signed: ['v0:', signedPart.timestamp, ':', signedPart.body]`. */
export const signedPart = {
  body: { part: 'body' },
  timestamp: { part: 'timestamp' },
  method: { part: 'method' },
  url: { part: 'url' },
  sortedForm: { part: 'sortedForm' },
  /** CRC-32 of the body as a decimal number. */
  crc32: { part: 'crc32' },
  header: (header: string): SignedPart => ({ part: 'value', of: { header } }),
  json: (json: string): SignedPart => ({ part: 'value', of: { json } }),
  metadata: (key: string): SignedPart => ({ part: 'metadata', key }),
} as const satisfies Record<string, SignedPart | ((name: string) => SignedPart)>

/** When it was signed. */
export type SignedTime = DeliveryPlace & { readonly unit?: 'seconds' | 'milliseconds' | 'iso' }

interface Signed {
  /** Default: the raw body alone. */
  readonly signed?: readonly SignedPart[]
  readonly timestamp?: SignedTime
  /** Seconds that the signed time may be off. Default: `webhook.timestamp_tolerance`; null: any time will do. */
  readonly tolerance?: number | null
  /** Values that must be these, though they are not signed, such as the name of an algorithm. */
  readonly expects?: readonly { readonly of: DeliveryPlace; readonly is: string }[]
  /**
   * A digest of the body, which is signed itself, as in a signed URL. Where it is given, it must match, and a form's parameters are not
   * signed. Where it is not, those must be the body's content.
   */
  readonly bodyDigest?: DeliveryPlace & { readonly hash: HashName; readonly encoding: DigestEncoding }
}

interface Signature {
  /** Dot path of a list in a JSON body that must have exactly one entry: only the first one is signed. */
  readonly single?: string
  /** Where the signature stands: a header, any one of several headers, or elsewhere. */
  readonly header?: string | readonly string[]
  readonly query?: string
  readonly json?: string
  readonly form?: string
  readonly encoding: DigestEncoding
  /** Stands before each signature, such as `sha256=`. */
  readonly prefix?: string
  /** The header is a list of `name=value`, such as `t=1,v1=ab,v1=cd`: what separates them, and the name of those that are signatures. */
  readonly fields?: { readonly separator: ',' | ';' | ' '; readonly signature: string }
}

export interface HmacScheme extends Signature, Signed {
  readonly scheme: 'hmac'
  readonly hash: HashName
  /** How the secret spells the key. Default: the secret's text is the key. */
  readonly key?: 'text' | 'hex' | 'base64'
}

/** A key's text: raw bytes as hex or base64 (Ed25519), PEM, or the base64 of DER (SPKI). */
export type KeyFormat = 'hex' | 'base64' | 'pem' | 'spki'

/** Where public keys come from; without one of these, from the integration's webhook secrets. */
interface PublicKeys {
  readonly key?: KeyFormat
  /** Keys that are the same for all integrations. */
  readonly publicKeys?: readonly string[]
  /** A set of keys that the provider publishes, and where the delivery names the one it was signed by. */
  readonly jwks?: { readonly url: string; readonly keyId?: DeliveryPlace }
}

export interface Ed25519Scheme extends Signature, Signed, PublicKeys {
  readonly scheme: 'ed25519'
}

/** On the curve P-256 with SHA-256. */
export interface EcdsaScheme extends Signature, Signed, PublicKeys {
  readonly scheme: 'ecdsa'
  /** Default: `der`; `raw`: r and s, 32 bytes each. */
  readonly signatureFormat?: 'der' | 'raw'
}

export interface RsaScheme extends Signature, Signed, PublicKeys {
  readonly scheme: 'rsa'
  readonly hash: HashName
  /** Default: `pkcs1`. */
  readonly padding?: 'pkcs1' | 'pss'
  /** A certificate at an address that the delivery names. */
  readonly certificate?: CertificateSource
}

export interface CertificateSource {
  readonly url: DeliveryPlace
  /** Hosts that it may be fetched from; `*` stands for one label, as in `sns.*.amazonaws.com`. */
  readonly hosts: readonly string[]
  /** How the address's path ends, such as `.pem`. */
  readonly pathSuffix?: string
  /** The host name that the certificate must be made out to. Default: not looked at, since TLS has proven the host. */
  readonly subject?: string
  /** SHA-256 fingerprints, in hex, of certificates that are taken; default: any from these hosts. */
  readonly fingerprints?: readonly string[]
}

export interface JwtScheme {
  readonly scheme: 'jwt'
  readonly header?: string
  readonly query?: string
  readonly json?: string
  /** True: the body is the token. */
  readonly body?: true
  /** Such as `Bearer `. */
  readonly prefix?: string
  /** Allowed ones, all symmetric (HS256) or none. */
  readonly algorithms: readonly string[]
  /** Keys of the issuer. Default: the integration's webhook secrets, or `publicKeys` in PEM. */
  readonly jwks?: { readonly url: string }
  readonly publicKeys?: readonly string[]
  readonly issuer?: string | readonly string[]
  /** A text, or the key of the integration's metadata that holds it. */
  readonly audience?: string | { readonly metadata: string }
  /** Claims that must have exactly these values; a text may be that of the integration's metadata. */
  readonly claims?: Readonly<Record<string, string | boolean | { readonly metadata: string }>>
  readonly bodyHash?: { readonly claim: string; readonly hash: HashName; readonly encoding: DigestEncoding }
  /** Seconds that `exp`, `nbf` and `iat` may be off. Default: `webhook.timestamp_tolerance`. */
  readonly tolerance?: number
  /** Seconds since `iat` at most, for tokens without `exp`. */
  readonly maxAgeSeconds?: number
  /** True: the token has no time at all. Only with `bodyHash`, which ties it to its body. */
  readonly withoutExpiry?: true
}

/** A secret that is sent along as it is. One in the body would be stored with it: such a provider has a check of its own. */
export interface TokenScheme {
  readonly scheme: 'token'
  readonly header?: string
  readonly query?: string
  /** True: HTTP Basic; the secret is `user:password`. */
  readonly basic?: true
  /** Such as `Bearer `. */
  readonly prefix?: string
}

/** https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md; `v1` by HMAC, `v1a` by Ed25519. */
export interface StandardWebhooksScheme {
  readonly scheme: 'standard-webhooks'
  /** What its three headers begin with. Default: `webhook`. */
  readonly names?: 'webhook' | 'svix'
  readonly tolerance?: number
}

export type SignatureScheme =
  | HmacScheme
  | Ed25519Scheme
  | EcdsaScheme
  | RsaScheme
  | JwtScheme
  | TokenScheme
  | StandardWebhooksScheme

/** Schemes that sign a message made of parts. */
export type MessageScheme = HmacScheme | Ed25519Scheme | EcdsaScheme | RsaScheme

/** Why a delivery is refused. Only the log says it; the sender is told nothing but that it is. */
export const REFUSAL_REASONS = [
  /** The integration has no secret, or none that is a key of this scheme. */
  'no_secret',
  'signature_missing',
  /** A header that signs was sent more than once. */
  'header_repeated',
  'signature_malformed',
  /** Something that is signed is absent, or there more than once. */
  'signed_part_missing',
  'time_missing',
  'time_malformed',
  /** Signed too long ago, or in the future. */
  'time_off',
  'body_digest_mismatch',
  /** A value that the scheme expects is another one, such as an algorithm. */
  'value_unexpected',
  /** The address that is signed is not known: there is no base URL, nor metadata `webhook_url`. */
  'url_unknown',
  /** The delivery names a key or certificate at an address that is not declared. */
  'key_not_allowed',
  /** The fetched key or certificate is not what the scheme asks for, or has run out. */
  'key_invalid',
  /** A token's issuer, audience, time or other claim. */
  'claims_refused',
  'mismatch',
  /** The provider's own `verifyWebhookSignature()` gave anything but true. */
  'refused_by_provider',
] as const

export type RefusalReason = (typeof REFUSAL_REASONS)[number]

export type SignatureVerdict =
  /** `secret`: which of the integration's secrets it was, by its place among them; null: none of them, but a key of the provider's. */
  | { readonly kind: 'verified'; readonly secret: number | null }
  | { readonly kind: 'refused'; readonly reason: RefusalReason }
  /** A key could not be fetched: the sender should try again. */
  | { readonly kind: 'unavailable' }

export function verifiedBy(secret: number | null): SignatureVerdict {
  return { kind: 'verified', secret }
}

export function refused(reason: RefusalReason): SignatureVerdict {
  return { kind: 'refused', reason }
}
