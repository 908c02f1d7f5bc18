/**
 * What a provider sends back with the browser (RFC 6749, 4.1.2), and the challenge that it was sent before (RFC 7636).
 *
 * Rule: docs/behaviour/oauth.md, "Callback".
 */
import { createHash } from 'node:crypto'

/** All that is read of a callback's query; `iss` is of RFC 9207. */
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

/** A provider's error code (RFC 6749, 4.1.2.1 and 5.2); null for what is no such word, since a page of ours would show it. */
export function providerErrorCode(text: unknown): string | null {
  return typeof text === 'string' && /^[\w.-]{1,64}$/.test(text) ? text : null
}

/**
 * The error code that a token endpoint answered with: in an error's own `error`, as OAuth clients put it, in the body of an
 * answer, or in what caused it.
 */
export function providerErrorOf(thrown: unknown): string | null {
  let error = thrown
  // A cause can lead back to its error.
  for (let depth = 0; depth < 5 && isRecord(error); depth += 1) {
    const code = providerErrorCode(error.error) ?? providerErrorCode(errorIn(error.body))
    if (code !== null) return code
    error = error.cause
  }
  return null
}

/** RFC 6749, 5.2, answers in JSON; some providers in a form. */
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

/** What the authorization request says of the verifier that the exchange will show (RFC 7636, 4.2, S256). */
export function codeChallengeOf(codeVerifier: string): string {
  return createHash('sha256').update(codeVerifier).digest('base64url')
}
