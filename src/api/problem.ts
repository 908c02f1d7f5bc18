/** Refusals and failures as `application/problem+json` (RFC 9457). Rule: docs/behaviour/operator-api.md, "Errors". */
import { STATUS_CODES } from 'node:http'
import type { Context, ErrorHandler } from 'hono'
import { snakeCase } from '../commands/command.ts'
import { Refused } from '../commands/refused.ts'
import type { ProblemCode } from '../commands/statuses.ts'
import { isProblemCode, PROBLEMS } from '../commands/statuses.ts'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { stackFrames, thrownTexts } from '../framework/thrown.ts'

/** The fault of one field of a body or a query. */
export interface FieldProblem {
  readonly path: string
  readonly message: string
}

export interface Problem {
  /** Stable, in snake_case, for programs. */
  readonly code: ProblemCode
  /** Default: that of the code. */
  readonly status?: number
  /** One sentence for a person. */
  readonly detail: string
  readonly fields?: readonly FieldProblem[]
  readonly retryAfterSeconds?: number
}

/** Thrown by a handler; `problemHandler` turns it into the answer. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail)
  }
}

/** The stable `type` of a problem (RFC 9457, 3.1.1); `code` is its last part. */
export const problemType = (code: string): string => `urn:durable-integrations:problem:${code}`

/** The title is the status's own phrase. */
export function problemResponse(
  context: Context,
  { code, status = PROBLEMS[code], detail, fields, retryAfterSeconds }: Problem,
): Response {
  const title = STATUS_CODES[status] ?? 'Error'
  const body = { type: problemType(code), title, status, code, detail, ...(fields === undefined ? {} : { fields }) }
  return context.body(JSON.stringify(body), status as 400, {
    'Content-Type': 'application/problem+json',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
  })
}

/** `Retry-After` when Postgres or Temporal is away, as on the webhook routes. */
export const AWAY_RETRY_SECONDS = 30
export const DATABASE_AWAY = awayText('Postgres')
const TEMPORAL_AWAY = awayText('Temporal')

/** A change may have been half done, so the text does not claim that nothing happened. It names no address. */
function awayText(backend: string): string {
  return `${backend} was not reached, or was lost meanwhile. What was done until then may stand; please try again.`
}

export function problemHandler({ admin: { logger } }: Integrations): ErrorHandler {
  return (error, context) => {
    if (error instanceof ProblemError) return problemResponse(context, error.problem)
    if (error instanceof Refused) {
      const { field, message } = error
      const code = error.code === 'usage' ? 'invalid_fields' : error.code
      const fields = field === undefined ? {} : { fields: [{ path: snakeCase(field), message }] }
      if (isProblemCode(code)) return problemResponse(context, { code, detail: message, ...fields })
    }
    if (isIntegrationsError(error) && 'code' in error) {
      const code = String(error.code)
      // The message of `backend_unreachable` holds the address of the backend, which only the log may show.
      if (isProblemCode(code) && code !== 'backend_unreachable') {
        const fields = fieldsOf(error)
        return problemResponse(context, { code, detail: error.message, ...(fields && { fields }) })
      }
    }
    logger.error({ event: 'api.failed', ...failedRequest(context, error) }, 'A request failed.')
    const away = awayDetail(error)
    if (away !== null) {
      const retryAfterSeconds = AWAY_RETRY_SECONDS
      return problemResponse(context, { code: 'backend_unreachable', detail: away, retryAfterSeconds })
    }
    const detail = 'Something went wrong here; the log says what.'
    return problemResponse(context, { code: 'internal', detail })
  }
}

/**
 * Fields of the line `api.failed`. The line has the message of our own errors, which quote no secret. Any other error may quote a
 * secret, so the line has only its kind and its stack.
 */
export function failedRequest(context: Context, error: unknown): Record<string, unknown> {
  const { name, code } = thrownTexts(error)
  const said = isIntegrationsError(error) ? { message: error.message } : {}
  return {
    method: context.req.method,
    path: context.req.path,
    error: name ?? 'unknown',
    ...(code === null ? {} : { code: String(code) }),
    ...said,
    stack: stackFrames(error).join('\n'),
  }
}

/** Null: both backends were there. */
function awayDetail(error: unknown): string | null {
  if (isIntegrationsError(error, 'backend_unreachable'))
    return 'backend' in error && error.backend === 'Postgres' ? DATABASE_AWAY : TEMPORAL_AWAY
  return lostDatabase(error) === null ? null : DATABASE_AWAY
}

/** The fields that a refusal names. Paths and reasons only: our errors hold no values. */
function fieldsOf(error: Error): FieldProblem[] | undefined {
  if ('issues' in error && 'field' in error)
    return (error.issues as FieldProblem[]).map(({ path, message }) => ({
      path: path === error.field ? path : `${String(error.field)}.${path}`,
      message,
    }))
  if ('argument' in error && 'reason' in error)
    return [{ path: snakeCase(String(error.argument)), message: String(error.reason) }]
  const isAboutProvider =
    isIntegrationsError(error, 'unknown_provider') || isIntegrationsError(error, 'unsupported_by_provider')
  return isAboutProvider ? [{ path: 'provider', message: error.message }] : undefined
}
