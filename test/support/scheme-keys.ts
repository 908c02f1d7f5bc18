/** Keys of a scheme: what the integration holds, and what its provider signs with. */
import type { KeyObject } from 'node:crypto'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { FetchedKeys } from '../../src/providers/signatures/public-keys.ts'
import type { KeyFormat, SignatureScheme } from '../../src/providers/signatures/scheme-rules.ts'
import { makeCertificate, pemOf } from './certificate.ts'

export interface SchemeKey {
  /** As the integration's webhook secret. */
  readonly secret: string
  /** As {@link signDelivery} takes it. */
  readonly signWith: string
}

export interface SchemeKeys {
  readonly own: SchemeKey
  readonly other: SchemeKey
  readonly fetched: FetchedKeys
  readonly keyId: string
}

const KEY_ID = 'key-1'

/** @param certificateUrl where the certificate is; default: anywhere */
export function schemeKeys(scheme: SignatureScheme, certificateUrl?: string): SchemeKeys {
  if (scheme.scheme === 'rsa' && scheme.certificate !== undefined) {
    const [own, other] = [1, 2].map(() => makeCertificate({ host: scheme.certificate?.subject ?? 'certs.example.com' }))
    if (own === undefined || other === undefined) throw new Error('unreachable')
    return {
      own: { secret: '', signWith: own.privateKey },
      other: { secret: '', signWith: other.privateKey },
      fetched: serving((url) => (certificateUrl === undefined || url === certificateUrl ? own.pem : null)),
      keyId: KEY_ID,
    }
  }
  const [own, other] = [keyOf(scheme), keyOf(scheme)]
  const fetched = serving(() =>
    own.jwk === undefined ? null : JSON.stringify({ keys: [{ ...own.jwk, kid: KEY_ID }] }),
  )
  return { own, other, fetched, keyId: KEY_ID }
}

/** Answers every fetch with this text; null: 404. */
export function serving(text: (url: string) => string | null, now?: () => number): FetchedKeys {
  return new FetchedKeys(
    {
      fetch: () => async (url) => {
        const body = text(String(url))
        return new Response(body ?? 'no such key', { status: body === null ? 404 : 200 })
      },
    },
    now,
  )
}

function keyOf(scheme: SignatureScheme): SchemeKey & { jwk?: object } {
  switch (scheme.scheme) {
    case 'hmac': {
      const bytes = randomBytes(32)
      const secret = bytes.toString(scheme.key === 'hex' ? 'hex' : 'base64')
      return { secret, signWith: secret }
    }
    case 'standard-webhooks': {
      const secret = `whsec_${randomBytes(32).toString('base64')}`
      return { secret, signWith: secret }
    }
    case 'token': {
      const secret = scheme.basic === true ? `user:${randomBytes(16).toString('hex')}` : randomBytes(16).toString('hex')
      return { secret, signWith: secret }
    }
    case 'jwt':
      if (scheme.algorithms.every((name) => name.startsWith('HS'))) {
        const secret = randomBytes(32).toString('hex')
        return { secret, signWith: secret }
      }
      return pair('rsa', 'pem')
    default:
      return pair(scheme.scheme, scheme.key ?? 'pem')
  }
}

function pair(kind: 'rsa' | 'ecdsa' | 'ed25519', format: KeyFormat): SchemeKey & { jwk: object } {
  const { privateKey, publicKey } =
    kind === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : kind === 'ecdsa'
        ? generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
        : generateKeyPairSync('ed25519')
  return {
    secret: publicText(publicKey, format),
    signWith: pemOf(privateKey),
    jwk: publicKey.export({ format: 'jwk' }),
  }
}

function publicText(key: KeyObject, format: KeyFormat): string {
  if (format === 'pem') return pemOf(key)
  if (format === 'spki') return key.export({ format: 'der', type: 'spki' }).toString('base64')
  return Buffer.from(String(key.export({ format: 'jwk' }).x), 'base64url').toString(format)
}
