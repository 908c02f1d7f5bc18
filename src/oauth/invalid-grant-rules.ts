/** Whether a token endpoint has said that it takes a refresh token no longer (RFC 6749, 5.2). */
import { errorChain, statusOf } from '../calls/failure-class-rules.ts'

const INVALID_GRANT = 'invalid_grant'

/**
 * An answer of 400 or 401 (some servers use it for all errors of the client) that names `invalid_grant`: in an `HttpError`'s
 * body, or in the `error` that OAuth clients and SDKs put on theirs.
 */
export function isInvalidGrant(error: unknown): boolean {
  const status = statusOf(error)
  if (status !== null && status !== 400 && status !== 401) return false
  return errorChain(error).some((link) => {
    const {
      error: code,
      body,
      response,
    } = link as {
      error?: unknown
      body?: unknown
      response?: { data?: unknown; body?: unknown } | null
    }
    const answers = [body, response?.data, response?.body]
    return code === INVALID_GRANT || (status !== null && answers.some((answer) => codeIn(answer) === INVALID_GRANT))
  })
}

/** The `error` of an object, or of a text that is JSON or a form: not every server names the type of its answer. */
function codeIn(answer: unknown): unknown {
  if (typeof answer === 'string') return codeIn(parsed(answer)) ?? new URLSearchParams(answer).get('error')
  return typeof answer === 'object' && answer !== null ? (answer as { error?: unknown }).error : undefined
}

function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'string' ? undefined : value
  } catch {
    return undefined
  }
}
