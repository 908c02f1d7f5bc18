/**
 * A GitHub App that is installed on the repository: it signs a JWT with its key and gets a token of its installation.
 *
 * https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
 */
import type { KeyObject } from 'node:crypto'
import { generateKeyPairSync, randomBytes, verify } from 'node:crypto'
import { jwtRefused } from './failures.ts'
import type { Answer } from './recorded.ts'

/** What an integration needs to act as the App. */
export interface AppCredentials {
  app_id: number
  installation_id: number
  /** PEM, PKCS #1, as GitHub hands it out. */
  private_key: string
}

const APP_ID = 900_001
export const INSTALLATION_ID = 50_000_001
const TOKEN_LIFE_MS = 3_600_000
const MAX_JWT_LIFE_SECONDS = 600
/** What GitHub's own advice to date `iat` a minute back is there for. */
const CLOCK_DRIFT_SECONDS = 60

export class InstallationTokens {
  readonly #now: () => Date
  readonly #expiresAtMs = new Map<string, number>()

  constructor(now: () => Date) {
    this.#now = now
  }

  credentials(): AppCredentials {
    const { privateKey } = keyPair()
    const pem = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString()
    return { app_id: APP_ID, installation_id: INSTALLATION_ID, private_key: pem }
  }

  /** Whether the token was given out, has not ended and was not revoked. */
  lives(token: string): boolean {
    const expiresAtMs = this.#expiresAtMs.get(token)
    return expiresAtMs !== undefined && this.#now().getTime() < expiresAtMs
  }

  /** @throws GithubFailure 401 for what is no JWT of this App */
  checkJwt(jwt: string): void {
    const [head = '', body = '', signature = ''] = jwt.split('.')
    const header = decoded(head)
    const claims = decoded(body)
    const isSigned =
      header?.alg === 'RS256' &&
      verify('RSA-SHA256', Buffer.from(`${head}.${body}`), keyPair().publicKey, Buffer.from(signature, 'base64url'))
    if (claims === null || !isSigned) throw jwtRefused('A JSON web token could not be decoded')
    const { iss, iat, exp } = claims
    const nowSeconds = Math.floor(this.#now().getTime() / 1_000)
    if (String(iss) !== String(APP_ID)) throw jwtRefused("'Issuer' claim ('iss') must be an Integer")
    if (typeof iat !== 'number' || iat > nowSeconds + CLOCK_DRIFT_SECONDS) {
      throw jwtRefused(
        "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
      )
    }
    if (typeof exp !== 'number' || exp <= nowSeconds) {
      throw jwtRefused(
        "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
      )
    }
    if (exp > nowSeconds + MAX_JWT_LIFE_SECONDS) {
      throw jwtRefused("'Expiration time' claim ('exp') is too far in the future")
    }
  }

  /** A new token, good for an hour. */
  issue(): Answer {
    const token = `ghs_${randomBytes(18).toString('hex')}`
    const expiresAtMs = this.#now().getTime() + TOKEN_LIFE_MS
    this.#expiresAtMs.set(token, expiresAtMs)
    return {
      token,
      expires_at: `${new Date(expiresAtMs).toISOString().slice(0, 19)}Z`,
      permissions: { issues: 'write', metadata: 'read', repository_hooks: 'write' },
      repository_selection: 'selected',
    }
  }

  /** Ends every token before its time, as `DELETE /installation/token` does for one. */
  revoke(): number {
    const count = this.#expiresAtMs.size
    this.#expiresAtMs.clear()
    return count
  }
}

let keys: { publicKey: KeyObject; privateKey: KeyObject } | undefined

/** One for all sandboxes of the process, made with the first use: it takes a moment, and few callers are an App. */
function keyPair(): { publicKey: KeyObject; privateKey: KeyObject } {
  keys ??= generateKeyPairSync('rsa', { modulusLength: 2048 })
  return keys
}

function decoded(part: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return value !== null && typeof value === 'object' ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}
