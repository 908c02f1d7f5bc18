/** Tokens, the callback of an authorization, and the errors of a token endpoint, as rules. Rule: docs/behaviour/oauth.md. */

import { createHash } from 'node:crypto'
import { errorChain, statusOf } from '../calls/failure-class-rules.ts'
import type { JsonObject } from '../framework/json.ts'
import { field } from '../framework/thrown.ts'

/** The tokens inside an integration's credentials. */
export interface Tokens {
  readonly accessToken: string | null
  readonly refreshToken: string | null
  /** Null: unknown, or no valid time. */
  readonly expiresAt: Date | null
}

/** The keys of the credentials that hold them. A refresh replaces these, and the account stays the same. */
export const TOKEN_KEYS: readonly string[] = ['access_token', 'refresh_token', 'token_expires_at']

/** Only a text of at least one character is a token. */
export function tokensOf(credentials: Readonly<Record<string, unknown>> | JsonObject): Tokens {
  const { access_token: access, refresh_token: refresh, token_expires_at: expires } = credentials
  const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
  const at = typeof expires === 'string' ? isoTimeMs(expires) : Number.NaN
  return {
    accessToken: text(access),
    refreshToken: text(refresh),
    expiresAt: Number.isNaN(at) ? null : new Date(at),
  }
}

const ISO_8601 = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$/

/**
 * NaN for any other text: `Date.parse()` alone takes "3600" for a year. Without an offset it is UTC, on whatever machine. Put together
 * again, since `Date.parse()` wants an offset with minutes, which ISO 8601 may leave out.
 */
export function isoTimeMs(text: string): number {
  const match = ISO_8601.exec(text)
  if (match === null) return Number.NaN
  const [, date, time = '00:00', offsetHours = '+00', offsetMinutes = '00'] = match
  return Date.parse(`${date}T${time}${offsetHours}:${offsetMinutes}`)
}

/** Whether a token expires within `thresholdSeconds`, that very second included. No known expiry: never. */
export function expiresSoon({ expiresAt }: Tokens, thresholdSeconds: number, now: Date): boolean {
  return expiresAt !== null && expiresAt.getTime() - now.getTime() <= thresholdSeconds * 1_000
}

/** Whether the pair is the same: a late refresh sees by it that another was quicker. */
export function isSamePair(a: Tokens, b: Tokens): boolean {
  return a.accessToken === b.accessToken && a.refreshToken === b.refreshToken
}

/** Names the token that a refresh uses up without showing it. */
export function tokenDigest({ refreshToken, accessToken }: Tokens): string {
  return createHash('sha256')
    .update(refreshToken ?? accessToken ?? '')
    .digest('hex')
}

export interface RefreshedTokens {
  /** To be merged into the stored credentials. */
  readonly patch: Readonly<Record<string, unknown>>
  /** The given expiry can't be read: the tokens are stored without one. */
  readonly isExpiryUnreadable: boolean
}

/**
 * The answer of `refreshToken()` as it is merged; null when it has no access token.
 *
 * The provider may refuse the old refresh token by now, so the new one is kept wherever possible: an expiry that can't be read
 * is left out. An expiry that is not given stays as it was, as any key. It goes if the new token would have to be refreshed at
 * once: then it was the old token's.
 *
 * @param isOldExpirySoon whether the stored expiry counts as soon
 */
export function refreshedTokens(given: unknown, isOldExpirySoon: boolean): RefreshedTokens | null {
  if (typeof given !== 'object' || given === null) return null
  const { token_expires_at: expires, ...others } = given as Record<string, unknown>
  // So does a server that gives no new one.
  if (others.refresh_token === '') delete others.refresh_token
  if (tokensOf(others).accessToken === null) return null
  if (expires === undefined)
    return { patch: isOldExpirySoon ? { ...others, token_expires_at: null } : others, isExpiryUnreadable: false }
  const time = expires instanceof Date && !Number.isNaN(expires.getTime()) ? expires.toISOString() : expires
  const isReadable = time === null || tokensOf({ token_expires_at: time }).expiresAt !== null
  return { patch: { ...others, token_expires_at: isReadable ? time : null }, isExpiryUnreadable: !isReadable }
}

/** The parameters that are read of a callback's query (RFC 6749, 4.1.2); `iss` is of RFC 9207. */
const PARAMETERS = ['state', 'code', 'error', 'error_description', 'iss'] as const
const MAX_PARAMETER_LENGTH = 4_096

export interface CallbackParameters {
  readonly state: string | null
  readonly code: string | null
  /** As it came: only {@link providerErrorCode} of it may be shown. */
  readonly error: string | null
  readonly iss: string | null
}

export type CallbackQuery =
  | { readonly kind: 'read'; readonly parameters: CallbackParameters }
  | { readonly kind: 'malformed'; readonly parameter: string }

/** Each parameter at most once and at most 4,096 characters long; an empty one counts as left out (RFC 6749, 3.1). */
export function readCallback(query: URLSearchParams): CallbackQuery {
  const malformed = PARAMETERS.find((name) => {
    const given = query.getAll(name)
    return given.length > 1 || given.some((value) => value.length > MAX_PARAMETER_LENGTH)
  })
  if (malformed !== undefined) return { kind: 'malformed', parameter: malformed }
  const read = (name: (typeof PARAMETERS)[number]): string | null => query.get(name) || null
  return {
    kind: 'read',
    parameters: { state: read('state'), code: read('code'), error: read('error'), iss: read('iss') },
  }
}

/** What the authorization request says of the verifier that the exchange will show (RFC 7636, 4.2, S256). */
export function codeChallengeOf(codeVerifier: string): string {
  return createHash('sha256').update(codeVerifier).digest('base64url')
}

/** A provider's error code (RFC 6749, 4.1.2.1 and 5.2). Null for any other text: a page of ours would show it. */
export function providerErrorCode(text: unknown): string | null {
  return typeof text === 'string' && /^[\w.-]{1,64}$/.test(text) ? text : null
}

/** The error code that a token endpoint answered with: in an error's own `error`, in the body of an answer, or in a cause. */
export function providerErrorOf(thrown: unknown): string | null {
  let error = thrown
  // A cause can lead back to its error.
  for (let depth = 0; depth < 5 && isRecord(error); depth += 1) {
    const code = providerErrorCode(field(error, 'error')) ?? providerErrorCode(errorIn(field(error, 'body')))
    if (code !== null) return code
    error = field(error, 'cause')
  }
  return null
}

/**
 * Whether a token endpoint refuses a refresh token for good (RFC 6749, 5.2): an answer of 400 or 401 (some servers use it for all
 * errors of the client) that names `invalid_grant`, in its body or in the `error` that OAuth clients and SDKs put on theirs.
 */
export function isInvalidGrant(error: unknown): boolean {
  const status = statusOf(error)
  if (status !== null && status !== 400 && status !== 401) return false
  return errorChain(error).some((link) => {
    const response = field(link, 'response')
    const answers = [field(link, 'body'), field(response, 'data'), field(response, 'body')]
    return (
      field(link, 'error') === 'invalid_grant' ||
      (status !== null && answers.some((answer) => errorIn(answer) === 'invalid_grant'))
    )
  })
}

/** The `error` of a token endpoint's answer: JSON (RFC 6749, 5.2), or a form of some servers. */
function errorIn(body: unknown): unknown {
  if (isRecord(body)) return body.error
  if (typeof body !== 'string') return null
  try {
    const json: unknown = JSON.parse(body)
    return isRecord(json) ? json.error : null
  } catch {
    return new URLSearchParams(body).get('error')
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
