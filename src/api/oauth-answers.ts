/** Failures of the OAuth routes: a page for a person, JSON for a program. Rule: docs/behaviour/oauth.md, "Routes". */
import type { Context, MiddlewareHandler } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import type { PageNeeds } from './oauth-pages.ts'
import { failurePage, oauthPageHeaders } from './oauth-pages.ts'
import { AWAY_RETRY_SECONDS, DATABASE_AWAY, failedRequest } from './problem.ts'

interface Failure {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly providerError: string | null
}

/** By code. Any other error is our own fault: 500, with its reason in the log only. */
const STATUSES: Readonly<Record<string, number>> = {
  oauth_unsupported: 400,
  unknown_provider: 400,
  invalid_argument: 400,
  invalid_state: 400,
  invalid_callback: 400,
  invalid_issuer: 400,
  authorization_denied: 400,
  authorization_failed: 400,
  missing_code: 400,
  integration_not_found: 404,
  credentials_unreadable: 409,
  base_url_missing: 500,
  authorization_url_failed: 502,
  code_exchange_failed: 502,
  revoke_failed: 502,
  revoke_superseded: 409,
  lock_timeout: 503,
}

/** On every answer: its address, or the address that it leads to, may hold a code, a state or a signature. */
const PRIVATE_HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

/** @param retryUrl of the page's button "Try again" */
export function failureAnswer(
  { logger }: Integrations,
  context: Context,
  error: unknown,
  retryUrl: string | null = null,
): Response {
  const failure = failureOf(error)
  if (failure !== null) return answer(context, failure, retryUrl)
  logger.error({ event: 'api.failed', ...failedRequest(context, error) }, 'A request failed.')
  if (lostDatabase(error) !== null) {
    context.header('Retry-After', String(AWAY_RETRY_SECONDS))
    const away = { status: 503, code: 'backend_unreachable', message: DATABASE_AWAY, providerError: null }
    return answer(context, away, null)
  }
  const message = 'Something went wrong here; the log says what.'
  return answer(context, { status: 500, code: 'internal', message, providerError: null }, null)
}

function failureOf(error: unknown): Failure | null {
  if (!isIntegrationsError(error)) return null
  const { code, message } = error
  const status = STATUSES[code]
  if (status === undefined) return null
  const providerError = 'providerError' in error && typeof error.providerError === 'string' ? error.providerError : null
  return { status, code, message, providerError }
}

function answer(
  context: Context,
  { status, code, message, providerError }: Failure,
  retryUrl: string | null,
): Response {
  if (isReadByPerson(context))
    return pageAnswer(context, failurePage({ code, message, providerError, retryUrl }), status)
  const body = { error: code, message, ...(providerError === null ? {} : { provider_error: providerError }) }
  return context.json(body, status as 400, PRIVATE_HEADERS)
}

/** Also true for a form: a browser shows its answer as a page. */
export function isReadByPerson({ req }: Context): boolean {
  return (req.header('accept') ?? '').includes('text/html')
}

export function pageAnswer(context: Context, page: string, status = 200, needs: PageNeeds = {}): Response {
  return context.body(page, status as 200, oauthPageHeaders(needs))
}

/** Stands before all other middleware. No answer is cached or leaks its address, and a person gets a refusal of the middleware as a page. */
export function forPeople(): MiddlewareHandler {
  return async function forPeople(context, next) {
    await next()
    const refusal = await refusalIn(context)
    if (refusal !== null) context.res = answer(context, refusal, null)
    const { 'Referrer-Policy': referrerPolicy, ...rest } = PRIVATE_HEADERS
    for (const [name, value] of Object.entries(rest)) context.header(name, value)
    // A page whose form must send its origin sets its own policy.
    if (context.res.headers.get('Referrer-Policy') !== 'same-origin') context.header('Referrer-Policy', referrerPolicy)
  }
}

/** The refusal of our middleware, if a browser asked for a page. */
async function refusalIn(context: Context): Promise<Failure | null> {
  const { res } = context
  if (!isReadByPerson(context) || res.headers.get('content-type') !== 'application/problem+json') return null
  const { code, detail } = (await res.clone().json()) as { code: string; detail: string }
  return { status: res.status, code, message: detail, providerError: null }
}
