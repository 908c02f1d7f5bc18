/** Refusals and failures as `application/problem+json` (RFC 9457). Rule: docs/behaviour/operator-api.md, "Errors". */
import { STATUS_CODES } from 'node:http'
import type { Context, ErrorHandler } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { stackFrames, thrownTexts } from '../framework/thrown.ts'

/** What is wrong with one field of a body or a query. */
export interface FieldProblem {
  readonly path: string
  readonly message: string
}

export interface Problem {
  readonly status: number
  /** Stable, in snake_case: what a client tells problems apart by. */
  readonly code: string
  /** One sentence for a person. */
  readonly detail: string
  readonly fields?: readonly FieldProblem[]
  /** When to try again. */
  readonly retryAfterSeconds?: number
}

/** A problem that a handler runs into; `problemHandler` makes it the answer. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail)
  }
}

/** `about:blank` says that the title is the status's own phrase; ours is told by `code` (RFC 9457, 4.2.1). */
export function problemResponse(
  context: Context,
  { status, code, detail, fields, retryAfterSeconds }: Problem,
): Response {
  const title = STATUS_CODES[status] ?? 'Error'
  const body = { type: 'about:blank', title, status, code, detail, ...(fields === undefined ? {} : { fields }) }
  return context.body(JSON.stringify(body), status as 400, {
    'Content-Type': 'application/problem+json',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {}),
    ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
  })
}

/** Our errors by code. Whatever is not here is our own trouble: 500, told to the log and not to the caller. */
const STATUSES: Readonly<Record<string, number>> = {
  integration_not_found: 404,
  webhook_not_found: 404,
  incident_not_found: 404,
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
  // The deployment's fault, and the one who reads it can mend it.
  base_url_missing: 500,
  lock_timeout: 503,
  backend_unreachable: 503,
  circuit_open: 503,
  rate_limit_exceeded: 503,
}

/** When to ask again after Postgres or Temporal was away: as the webhook routes tell a provider. */
export const AWAY_RETRY_SECONDS = 30
export const DATABASE_AWAY = awayText('Postgres')
const TEMPORAL_AWAY = awayText('Temporal')

/** A change may have been half made when it went, so the answer does not say that nothing has happened; nor where it is. */
function awayText(backend: string): string {
  return `${backend} was not reached, or was lost meanwhile. What was done until then may stand; please try again.`
}

/** Whether an error of ours is answered with a status of its own. */
export function isKnownProblem(error: unknown): boolean {
  if (error instanceof ProblemError) return true
  return isIntegrationsError(error) && 'code' in error && String(error.code) in STATUSES
}

export function problemHandler({ logger }: Integrations): ErrorHandler {
  return (error, context) => {
    if (error instanceof ProblemError) return problemResponse(context, error.problem)
    if (isIntegrationsError(error) && 'code' in error) {
      const code = String(error.code)
      const status = STATUSES[code]
      // The words of the latter say where it is, which is for the log.
      if (status !== undefined && code !== 'backend_unreachable') {
        const fields = fieldsOf(error)
        return problemResponse(context, { status, code, detail: error.message, ...(fields && { fields }) })
      }
    }
    logger.error({ event: 'api.failed', ...failedRequest(context, error) }, 'A request failed.')
    const away = awayDetail(error)
    if (away !== null)
      return problemResponse(context, {
        status: 503,
        code: 'backend_unreachable',
        detail: away,
        retryAfterSeconds: AWAY_RETRY_SECONDS,
      })
    return problemResponse(context, {
      status: 500,
      code: 'internal',
      detail: 'Something went wrong here; the log says what.',
    })
  }
}

/**
 * The line `api.failed`. What our own errors say is shown: they quote no secret. Any other may quote one of whichever integration
 * it is about, so its kind is told, and where it was thrown.
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

/** Null: neither Postgres nor Temporal was away. */
function awayDetail(error: unknown): string | null {
  if (isIntegrationsError(error, 'backend_unreachable'))
    return 'backend' in error && error.backend === 'Postgres' ? DATABASE_AWAY : TEMPORAL_AWAY
  return lostDatabase(error) === null ? null : DATABASE_AWAY
}

/** What a refusal of ours names. Paths and reasons only: our errors hold no values. */
function fieldsOf(error: Error): FieldProblem[] | undefined {
  if ('issues' in error && 'field' in error)
    return (error.issues as FieldProblem[]).map(({ path, message }) => ({
      path: path === error.field ? path : `${String(error.field)}.${path}`,
      message,
    }))
  if ('argument' in error && 'reason' in error)
    return [{ path: snakeCase(String(error.argument)), message: String(error.reason) }]
  if (isIntegrationsError(error, 'unknown_provider')) return [{ path: 'provider', message: error.message }]
  if (isIntegrationsError(error, 'unsupported_by_provider')) return [{ path: 'provider', message: error.message }]
  return undefined
}

/** `syncIntervalMinutes` → `sync_interval_minutes`: a property as its column. */
export function snakeCase(property: string): string {
  return property.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
