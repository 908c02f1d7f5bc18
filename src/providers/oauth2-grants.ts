/**
 * How tokens are obtained without a person: client credentials (RFC 6749, 4.4), a signed assertion (RFC 7523, 2.1), or a grant of
 * the server's own. Rule: docs/writing-a-provider.md, "Tokens without a person".
 */
import { createPrivateKey, randomUUID } from 'node:crypto'
import type { CryptoKey } from 'jose'
import { importPKCS8, SignJWT } from 'jose'
import { z } from 'zod'
import { InvalidArgumentException } from '../framework/errors.ts'

export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

const Parameters = z.record(z.string(), z.string())

const Grant = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('authorization_code') }),
  z.strictObject({ type: z.literal('client_credentials'), parameters: Parameters.optional() }),
  z.strictObject({ type: z.literal('jwt_bearer'), parameters: Parameters.optional() }),
  z.strictObject({
    type: z.literal('other'),
    /** RFC 6749, 4.5: a URI, or a name of the server's own, such as `account_credentials`. */
    name: z.string().min(1),
    parameters: Parameters.optional(),
  }),
])

/** Data of a provider. `parameters`: more of the token request, such as `{ audience: 'https://api.acme.example' }`. */
export type OAuth2Grant = z.infer<typeof Grant>

/** @throws InvalidArgumentException naming what is wrong */
export function checkedGrant(given: unknown): OAuth2Grant {
  const grant = Grant.safeParse(given)
  if (grant.success) return grant.data
  const [issue] = grant.error.issues
  const where = issue?.path.length ? `grant.${issue.path.join('.')}` : 'grant'
  throw new InvalidArgumentException(
    where,
    `authorization_code, client_credentials, jwt_bearer, or other with a name is allowed: ${issue?.message}`,
  )
}

/** RFC 7518, 3.1 and RFC 8037. */
export type OAuth2SigningAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'EdDSA'

/** The private half of a key that the server knows the public half of. */
export interface OAuth2PrivateKey {
  /** PEM, PKCS #8 or PKCS #1. */
  readonly pem: string
  /** Default: what fits the key; `RS256` for RSA. */
  readonly algorithm?: OAuth2SigningAlgorithm
  /** The id under which the server knows it. */
  readonly kid?: string | undefined
}

/** What an assertion claims (RFC 7523, 3). */
export interface OAuth2Assertion {
  readonly key: OAuth2PrivateKey
  readonly issuer: string
  /** The user that the tokens are for. Default: the issuer. */
  readonly subject?: string
  /** Default: the token endpoint. */
  readonly audience?: string
  /** Seconds that it is good for, 1 to 3,600. Default 300. */
  readonly lifeSeconds?: number
  /** More claims, such as `{ scope: '…' }` for Google. */
  readonly claims?: Readonly<Record<string, unknown>>
}

const FITTING: Readonly<Record<string, readonly OAuth2SigningAlgorithm[]>> = {
  rsa: ['RS256', 'PS256'],
  ec: ['ES256'],
  ed25519: ['EdDSA'],
}
const P256 = 'prime256v1'
const DEFAULT_LIFE_SECONDS = 300
const LONGEST_LIFE_SECONDS = 3_600

export interface SigningKey {
  readonly key: CryptoKey
  readonly algorithm: OAuth2SigningAlgorithm
  readonly kid: string | undefined
}

/** @throws InvalidArgumentException that shows nothing of the key */
export async function signingKey({ pem, algorithm, kid }: OAuth2PrivateKey): Promise<SigningKey> {
  let key: ReturnType<typeof createPrivateKey>
  try {
    key = createPrivateKey(pem)
  } catch {
    throw new InvalidArgumentException('private key', 'a private key in PEM, without a passphrase, is allowed')
  }
  const type = String(key.asymmetricKeyType)
  const curve = key.asymmetricKeyDetails?.namedCurve
  const fitting = type === 'ec' && curve !== P256 ? [] : (FITTING[type] ?? [])
  const chosen = algorithm ?? fitting[0]
  if (chosen === undefined || !fitting.includes(chosen))
    throw new InvalidArgumentException(
      'private key',
      `RSA for RS256 and PS256, P-256 for ES256, Ed25519 for EdDSA are allowed; ${curve ?? type} was given for ${algorithm ?? 'none of them'}`,
    )
  const pkcs8 = key.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { key: await importPKCS8(pkcs8, chosen), algorithm: chosen, kid }
}

/** The assertion as a signed JWT. @param now whole seconds since 1970 */
export async function signedAssertion(
  { key: given, issuer, subject = issuer, audience, lifeSeconds = DEFAULT_LIFE_SECONDS, claims }: OAuth2Assertion,
  { endpoint, now }: { readonly endpoint: string; readonly now: number },
): Promise<string> {
  if (!Number.isInteger(lifeSeconds) || lifeSeconds < 1 || lifeSeconds > LONGEST_LIFE_SECONDS)
    throw new InvalidArgumentException(
      'lifeSeconds',
      `an integer from 1 to ${LONGEST_LIFE_SECONDS} is allowed, ${lifeSeconds} was given`,
    )
  const { key, algorithm, kid } = await signingKey(given)
  return new SignJWT({
    ...claims,
    iss: issuer,
    sub: subject,
    aud: audience ?? endpoint,
    iat: now,
    exp: now + lifeSeconds,
    jti: randomUUID(),
  })
    .setProtectedHeader({ alg: algorithm, typ: 'JWT', ...(kid === undefined ? {} : { kid }) })
    .sign(key)
}
