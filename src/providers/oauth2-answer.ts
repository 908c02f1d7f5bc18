/**
 * What an authorization server answers: an error (RFC 6749, 5.2), or tokens (5.1), and what of them is stored.
 * Rule: docs/writing-a-provider.md, "OAuth 2.0".
 */
import type { TokenEndpointResponse } from 'oauth4webapi'
import { HttpError, SchemaDrift } from '../framework/errors.ts'
import { isRecord } from '../framework/json.ts'
import { REDACTED, redactBody, secretsOf } from '../framework/redaction.ts'
import { tokensOf } from '../oauth/rules.ts'
import type { Credentials } from './integration.ts'

/** A token that outlives this is one without an end. The years of ISO 8601 have four digits. */
const LONGEST_LIFE_SECONDS = 100 * 365 * 86_400

const LONGEST_FAILURE = 1_048_576

/** What of an answer a request's row may show; all else may be a token, whatever the provider calls it. */
const SHOWN: ReadonlySet<string> = new Set(['token_type', 'expires_in', 'scope'])

/** The answer as its author puts it right. */
export type Correction = (answer: Record<string, unknown>) => Record<string, unknown>

/**
 * Throws what the server refuses with, as every call's failure is thrown.
 *
 * @param sent secrets of the request: an error page likes to quote what it was sent
 */
export async function refuseFailure(answer: Response, sent: readonly unknown[]): Promise<void> {
  if (answer.status < 400) return
  const { status, headers } = answer
  const text = await answer.text().catch((cause: unknown) => {
    // The server has given its verdict: a body that breaks off, or is too large, takes nothing of it back.
    throw failureOf(status, headers, null, { cause })
  })
  throw failureOf(status, headers, shown(answer, text, sent))
}

/** A token endpoint's answer, for the client to judge. @throws HttpError for one that is an error */
export async function correctedAnswer(
  answer: Response,
  sent: readonly unknown[],
  correct: Correction,
): Promise<Response> {
  await refuseFailure(answer, sent)
  const text = await answer.text()
  const body = decoded(answer, text)
  const { status, headers } = answer
  if (status !== 200 || !isRecord(body)) return new Response(text === '' ? null : text, { status, headers })
  // The status that it should have (RFC 6749, 5.2): GitHub and Slack answer 200 to what they refuse.
  if (typeof body.error === 'string' && tokensOf(body).accessToken === null)
    throw failureOf(400, headers, shown(answer, text, sent))
  const corrected = JSON.stringify(readablePart(correct(body)))
  return new Response(corrected, { status, headers: { 'Content-Type': 'application/json' } })
}

/** Without what the client refuses and the tokens are good without: the refresh token of before may be used up. */
function readablePart(answer: Record<string, unknown>): Record<string, unknown> {
  // The API says whose account it is. The id_token is not read, so it need not be valid.
  const { id_token: _unread, refresh_token: refresh, scope, expires_in: life, ...others } = answer
  const lifeSeconds = Number.parseFloat(String(life))
  return {
    ...others,
    refresh_token: refresh === null || refresh === '' ? undefined : refresh,
    scope: scope ?? undefined,
    expires_in: Number.isFinite(lifeSeconds) && lifeSeconds >= 0 ? life : undefined,
  }
}

/**
 * What the client makes of an answer. Its errors hold the answer, tokens and all, as their cause; only their words go on.
 *
 * @throws SchemaDrift
 */
export async function readable<T>(endpoint: string, process: () => Promise<T>): Promise<T> {
  try {
    return await process()
  } catch (error) {
    const library = await oauth2Library()
    const isOfClient =
      error instanceof library.OperationProcessingError ||
      error instanceof library.UnsupportedOperationError ||
      error instanceof library.ResponseBodyError ||
      error instanceof library.WWWAuthenticateChallengeError
    if (!isOfClient) throw error
    throw new SchemaDrift(endpoint, [{ path: '(root)', message: error.message }])
  }
}

/** The three keys of every OAuth provider. No known end: null, so that an older one does not stay. */
export function credentialsOf(
  { access_token, refresh_token, expires_in }: TokenEndpointResponse,
  answeredAt: Date,
): Credentials {
  const isLasting = expires_in === undefined || expires_in > LONGEST_LIFE_SECONDS
  return {
    access_token,
    // The server sends none while the old one is good (RFC 6749, section 6).
    ...(refresh_token === undefined ? {} : { refresh_token }),
    token_expires_at: isLasting ? null : new Date(answeredAt.getTime() + expires_in * 1_000).toISOString(),
  }
}

/** What is stored of the answer in the request's row. */
export function outlineOf(answer: TokenEndpointResponse): Record<string, unknown> {
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, SHOWN.has(key) ? value : REDACTED]))
}

function failureOf(status: number, headers: Headers, body: unknown, options?: { cause: unknown }): HttpError {
  return new HttpError(status, new Headers([...headers]), body, options)
}

/** What a failure shows of its answer. No error of RFC 6749, 5.2, is as long as what is left out. */
function shown(answer: Response, text: string, sent: readonly unknown[]): unknown {
  if (text.length > LONGEST_FAILURE) return `[not shown, ${Buffer.byteLength(text)} bytes]`
  return decoded(answer, redactBody(text, secretsOf(sent)))
}

function decoded(answer: Response, text: string): unknown {
  if (!/[/+]json\b/i.test(answer.headers.get('content-type') ?? '')) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * The package that speaks OAuth 2.0, loaded when an authorization server is first asked for anything: a host's start, and a
 * provider without OAuth, have no use for it.
 */
export type OAuth2Library = typeof import('oauth4webapi')

export function oauth2Library(): Promise<OAuth2Library> {
  return import('oauth4webapi')
}
