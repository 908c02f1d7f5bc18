/** Ed25519, ECDSA on P-256, and RSA. */
import type { KeyObject } from 'node:crypto'
import { constants, createPublicKey, verify } from 'node:crypto'
import type { JWK } from 'jose'
import type { Maybe } from '../contracts.ts'
import type { WebhookRequest } from '../webhook-request.ts'
import { readPlace } from './delivery-values.ts'
import type { FetchedKeys } from './public-keys.ts'
import { certifiedKey, keysOfSet, publicKeyIn } from './public-keys.ts'
import type { EcdsaScheme, Ed25519Scheme, RefusalReason, RsaScheme, SignatureVerdict } from './scheme-rules.ts'
import { refused, verifiedBy } from './scheme-rules.ts'
import type { SignedDelivery } from './signed-delivery.ts'
import { signedDelivery } from './signed-delivery.ts'
import type { SignedFrom } from './signed-message.ts'

export type PublicKeyScheme = Ed25519Scheme | EcdsaScheme | RsaScheme

const ED25519_SIGNATURE_BYTES = 64
const P256_RAW_BYTES = 64
const KINDS = { ed25519: 'ed25519', ecdsa: 'ec', rsa: 'rsa' } as const

export function verifyByPublicKey(
  scheme: PublicKeyScheme,
  request: WebhookRequest,
  {
    secrets,
    from,
    fetched,
  }: { readonly secrets: readonly string[]; readonly from: SignedFrom; readonly fetched: FetchedKeys },
): Maybe<SignatureVerdict> {
  const delivery = signedDelivery(scheme, request, from, signatureBytes(scheme))
  if ('reason' in delivery) return refused(delivery.reason)
  if (scheme.jwks === undefined && !('certificate' in scheme && scheme.certificate !== undefined)) {
    const keys = (scheme.publicKeys ?? secrets).map((text) => publicKeyIn(text, scheme.key ?? 'pem'))
    const verdict = judged(scheme, delivery, keys)
    return verdict.kind === 'verified' && scheme.publicKeys !== undefined ? verifiedBy(null) : verdict
  }
  return fetchedKeysOf(scheme, request, fetched).then((keys) => {
    if (keys === null) return { kind: 'unavailable' }
    if (typeof keys === 'string') return refused(keys)
    const verdict = judged(scheme, delivery, keys, 'key_invalid')
    return verdict.kind === 'verified' ? verifiedBy(null) : verdict
  })
}

function judged(
  scheme: PublicKeyScheme,
  { signatures, pieces }: SignedDelivery,
  keys: readonly (KeyObject | null)[],
  withoutKey: RefusalReason = 'no_secret',
): SignatureVerdict {
  const usable = keys.map((key) => (key !== null && isOfScheme(scheme, key) ? key : null))
  if (usable.every((key) => key === null)) return refused(withoutKey)
  const message = Buffer.concat(pieces)
  const verifiedWith = usable.findIndex(
    (key) => key !== null && signatures.some((signature) => isSignedBy(scheme, message, key, signature)),
  )
  return verifiedWith < 0 ? refused('mismatch') : verifiedBy(verifiedWith)
}

/** Whether the scheme can check signatures by this key. */
export function isOfScheme({ scheme }: PublicKeyScheme, key: KeyObject): boolean {
  if (key.asymmetricKeyType !== KINDS[scheme]) return false
  return scheme !== 'ecdsa' || key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
}

function isSignedBy(scheme: PublicKeyScheme, message: Buffer, key: KeyObject, signature: Buffer): boolean {
  switch (scheme.scheme) {
    case 'ed25519':
      return verify(null, message, key, signature)
    case 'ecdsa':
      return verify(
        'sha256',
        message,
        { key, dsaEncoding: scheme.signatureFormat === 'raw' ? 'ieee-p1363' : 'der' },
        signature,
      )
    case 'rsa': {
      const padding = scheme.padding === 'pss' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
      return verify(scheme.hash, message, { key, padding }, signature)
    }
  }
}

function signatureBytes(scheme: PublicKeyScheme): number | null {
  if (scheme.scheme === 'ed25519') return ED25519_SIGNATURE_BYTES
  return scheme.scheme === 'ecdsa' && scheme.signatureFormat === 'raw' ? P256_RAW_BYTES : null
}

/** Null: they can't be fetched now. */
async function fetchedKeysOf(
  scheme: PublicKeyScheme,
  request: WebhookRequest,
  fetched: FetchedKeys,
): Promise<readonly KeyObject[] | RefusalReason | null> {
  if (scheme.jwks !== undefined) {
    const { url, keyId } = scheme.jwks
    const named = keyId === undefined ? null : readPlace(request, keyId)
    if (named !== null && 'fault' in named) return 'signed_part_missing'
    const keys = await keysOfSet(fetched, url, named === null ? null : named.value)
    return keys === null ? null : keys.flatMap((key) => readJwk(key) ?? [])
  }
  if (!('certificate' in scheme) || scheme.certificate === undefined) return 'key_not_allowed'
  const address = readPlace(request, scheme.certificate.url)
  if ('fault' in address) return 'signed_part_missing'
  const key = await certifiedKey(fetched, scheme.certificate, address.value, request.receivedAt)
  return key === null || typeof key === 'string' ? key : [key]
}

function readJwk(key: JWK): KeyObject | null {
  try {
    return createPublicKey({ key, format: 'jwk' })
  } catch {
    return null
  }
}
