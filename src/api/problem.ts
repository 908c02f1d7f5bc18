/** Refusals and failures as `application/problem+json` (RFC 9457). Rule: docs/behaviour/operator-api.md, "Errors". */
import { STATUS_CODES } from 'node:http'
import type { Context, ErrorHandler } from 'hono'
import { Refused } from '../commands/refused.ts'
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
  readonly status: number
  /** Stable, in snake_case, for programs. */
  readonly code: string
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
  { status, code, detail, fields, retryAfterSeconds }: Problem,
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

/** By code. Any other error is our own fault: 500, with its reason in the log only. */
export const STATUSES: Readonly<Record<string, number>> = {
  integration_not_found: 404,
  webhook_not_found: 404,
  incident_not_found: 404,
  incident_not_open: 409,
  token_not_found: 404,
  record_not_found: 404,
  request_not_found: 404,
  log_not_found: 404,
  stored_event_not_found: 404,
  mapping_not_found: 404,
  mapped_row_not_found: 422,
  mapping_already_claimed: 409,
  idempotency_key_not_found: 404,
  idempotency_key_in_use: 409,
  webhook_not_replayable: 409,
  webhook_not_failed: 409,
  sync_item_not_found: 404,
  sync_run_not_found: 404,
  sync_item_not_failed: 409,
  sync_item_outdated: 409,
  checkpoints_not_reduced: 409,
  integration_busy: 409,
  integration_inactive: 409,
  credentials_unreadable: 409,
  invalid_argument: 422,
  invalid_credentials: 422,
  unknown_provider: 422,
  unsupported_by_provider: 422,
  oauth_unsupported: 422,
  reauth_required: 409,
  revoke_failed: 502,
  revoke_superseded: 409,
  // A fault of the deployment, which an operator can mend.
  base_url_missing: 500,
  lock_timeout: 503,
  backend_unreachable: 503,
  circuit_open: 503,
  rate_limit_exceeded: 503,
}

/** `Retry-After` when Postgres or Temporal is away, as on the webhook routes. */
export const AWAY_RETRY_SECONDS = 30
export const DATABASE_AWAY = awayText('Postgres')
const TEMPORAL_AWAY = awayText('Temporal')

/** A change may have been half done, so the text does not claim that nothing happened. It names no address. */
function awayText(backend: string): string {
  return `${backend} was not reached, or was lost meanwhile. What was done until then may stand; please try again.`
}

/** Of a command that will not do what it was asked. */
const REFUSAL_STATUSES: Partial<Record<Refused['code'], number>> = {
  usage: 422,
  insufficient_scope: 403,
  already_running: 409,
  not_running: 409,
  listing_failed: 502,
}

/** Whether the error has a status of its own. */
export function isKnownProblem(error: unknown): boolean {
  if (error instanceof ProblemError) return true
  return isIntegrationsError(error) && 'code' in error && String(error.code) in STATUSES
}

export function problemHandler({ admin: { logger } }: Integrations): ErrorHandler {
  return (error, context) => {
    if (error instanceof ProblemError) return problemResponse(context, error.problem)
    const refusal = error instanceof Refused ? REFUSAL_STATUSES[error.code] : undefined
    if (error instanceof Refused && refusal !== undefined) {
      const { field, message } = error
      const code = error.code === 'usage' ? 'invalid_fields' : error.code
      const fields = field === undefined ? {} : { fields: [{ path: snakeCase(field), message }] }
      return problemResponse(context, { status: refusal, code, detail: message, ...fields })
    }
    if (isIntegrationsError(error) && 'code' in error) {
      const code = String(error.code)
      const status = STATUSES[code]
      // The message of `backend_unreachable` holds the address of the backend, which only the log may show.
      if (status !== undefined && code !== 'backend_unreachable') {
        const fields = fieldsOf(error)
        return problemResponse(context, { status, code, detail: error.message, ...(fields && { fields }) })
      }
    }
    logger.error({ event: 'api.failed', ...failedRequest(context, error) }, 'A request failed.')
    const away = awayDetail(error)
    if (away !== null) {
      const problem = { status: 503, code: 'backend_unreachable', detail: away, retryAfterSeconds: AWAY_RETRY_SECONDS }
      return problemResponse(context, problem)
    }
    const detail = 'Something went wrong here; the log says what.'
    return problemResponse(context, { status: 500, code: 'internal', detail })
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

/** `syncIntervalMinutes` → `sync_interval_minutes`. */
export function snakeCase(property: string): string {
  return property.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
