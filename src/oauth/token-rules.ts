/** Rules of OAuth tokens. Rule: docs/behaviour/oauth.md. */
import { createHash } from 'node:crypto'
import type { JsonObject } from '../framework/json-object.ts'

/** The tokens inside an integration's credentials. */
export interface Tokens {
  readonly accessToken: string | null
  readonly refreshToken: string | null
  /** Null: unknown, or no valid time. */
  readonly expiresAt: Date | null
}

/** What is no text of at least one character is no token. */
export function tokensOf(credentials: Readonly<Record<string, unknown>> | JsonObject): Tokens {
  const { access_token: access, refresh_token: refresh, token_expires_at: expires } = credentials
  const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
  const at = typeof expires === 'string' ? Date.parse(expires) : Number.NaN
  return {
    accessToken: text(access),
    refreshToken: text(refresh),
    expiresAt: Number.isNaN(at) ? null : new Date(at),
  }
}

/** Whether a token expires within so many seconds, that very second included. No known expiry: never. */
export function expiresSoon({ expiresAt }: Tokens, thresholdSeconds: number, now: Date): boolean {
  return expiresAt !== null && expiresAt.getTime() - now.getTime() <= thresholdSeconds * 1_000
}

/** Whether the pair is the same: what a refresh replaces, and by which a late one sees that another was quicker. */
export function isSamePair(a: Tokens, b: Tokens): boolean {
  return a.accessToken === b.accessToken && a.refreshToken === b.refreshToken
}

/** Names the token that a refresh uses up without telling it. */
export function tokenDigest({ refreshToken, accessToken }: Tokens): string {
  return createHash('sha256')
    .update(refreshToken ?? accessToken ?? '')
    .digest('hex')
}

export interface RefreshedTokens {
  /** To be merged into the stored credentials. */
  readonly patch: Readonly<Record<string, unknown>>
  /** There was an expiry and it can't be read: the tokens are stored without one. */
  readonly isExpiryUnreadable: boolean
}

/**
 * What `refreshToken()` gave, as it is merged; null when no access token is in it.
 *
 * The provider may take the old refresh token no longer, so nothing that can be spared costs the new one: an expiry that can't
 * be read is left out. One that is not given stays as it was, as any key; but an expiry by which the new token would have to
 * be refreshed at once was the old token's, and goes.
 *
 * @param isOldExpirySoon whether the stored expiry counts as soon
 */
export function refreshedTokens(given: unknown, isOldExpirySoon: boolean): RefreshedTokens | null {
  if (typeof given !== 'object' || given === null) return null
  const { token_expires_at: expires, ...others } = given as Record<string, unknown>
  if (tokensOf(others).accessToken === null) return null
  if (expires === undefined)
    return { patch: isOldExpirySoon ? { ...others, token_expires_at: null } : others, isExpiryUnreadable: false }
  const time = expires instanceof Date && !Number.isNaN(expires.getTime()) ? expires.toISOString() : expires
  const isReadable = time === null || tokensOf({ token_expires_at: time }).expiresAt !== null
  return { patch: { ...others, token_expires_at: isReadable ? time : null }, isExpiryUnreadable: !isReadable }
}
