/** Whether an answer of the request log is the whole answer. Rule: docs/behaviour/rehearsal.md, "Answers". */
import { isJsonText } from '../framework/json.ts'
import { REDACTED } from '../framework/redaction.ts'
import type { AskedCall } from './rehearsal-jobs.ts'

/** An attempt's row, as far as it can answer. */
export interface StoredAttempt {
  readonly statusCode: number | null
  readonly responseData: string | null
  readonly failureClass: string | null
  readonly error: string | null
}

/** Notes that stand for a body: docs/behaviour/requests.md, "The row". */
const NOTES = [
  {
    pattern: /^\[binary, \d+ bytes, sha256 [0-9a-f]{64}\]$/,
    reason: 'its answer is binary, and the log has its hash only',
  },
  { pattern: /^\[not serialisable\]$/, reason: 'its answer is no JSON, and was not stored' },
  { pattern: /^\[not redacted, \d+ bytes\]$/, reason: 'its answer could not be redacted, and was not stored' },
  { pattern: /^\[not logged, \d+ bytes\]$/, reason: 'its answer is not logged (unloggedResponses)' },
] as const

const CUT = / \.\.\.\[cut, \d+ bytes\]$/

/** Why the answer is not whole; null: it is. A status is needed: without one there was no answer, or it was not seen. */
export function incomplete({ statusCode, responseData, failureClass }: StoredAttempt): string | null {
  if (statusCode === null)
    return failureClass === null
      ? 'the log has no status of its answer'
      : 'it got no answer: a fault of the connection, a deadline, or an error of its own'
  if (responseData === null) return null
  const note = NOTES.find(({ pattern }) => pattern.test(responseData))
  if (note !== undefined) return note.reason
  if (CUT.test(responseData)) return 'its answer is cut in the log (logging.max_response_bytes)'
  return responseData.includes(REDACTED) ? 'its answer is redacted in the log' : null
}

/**
 * The answer's body on the wire, with a content type: the log keeps none, so what is JSON counts as JSON. But a text in quotes does not:
 * of a JSON text the log has what is between them.
 */
export function bodyOnWire(text: string | null): { readonly body: string | null; readonly contentType: string } {
  return {
    body: text,
    contentType: text !== null && !text.startsWith('"') && isJsonText(text) ? 'application/json' : 'text/plain',
  }
}

/**
 * What a cached answer, which is kept as the call returned it, may have been on the wire: the text, the body inside an SDK's answer,
 * or the value as JSON.
 */
export function cachedOnWire(returned: unknown): string | null {
  if (returned === null || returned === undefined) return null
  if (typeof returned === 'string') return returned
  const { data, status, headers } = returned as Record<string, unknown>
  const isOctokit = data !== undefined && typeof status === 'number' && typeof headers === 'object'
  return JSON.stringify(isOctokit ? data : returned)
}

/**
 * Whether a call is one for tokens: a grant (RFC 6749, 4), a look-up of the server that gives them (RFC 8414), an installation's. Who
 * makes it is a matter of the hour, and its answer is never stored.
 */
export const isForToken = ({ method, endpoint, data }: AskedCall): boolean =>
  (method === 'POST' && (/"grant_type":/.test(data ?? '') || /\/access_tokens?$/.test(endpoint))) ||
  endpoint.includes('/.well-known/')
