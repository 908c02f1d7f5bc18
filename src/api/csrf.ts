/** The token that a session's own forms carry. Rule: docs/behaviour/access.md, "Sessions". */
import type { Context, MiddlewareHandler } from 'hono'
import { isSafeMethod, isSameSecret } from '../access/rules.ts'
import type { AccessEnvironment } from './caller.ts'
import { problemResponse } from './problem.ts'

export const CSRF_FIELD = 'csrf_token'
const CSRF_HEADER = 'x-csrf-token'

/**
 * A session's changes name its token, in a header or in a form's field. A token has no session to misuse, and the same-origin
 * rule has been asked before.
 */
export function requireCsrfToken(): MiddlewareHandler<AccessEnvironment> {
  return async function requireCsrfToken(context, next) {
    const { session } = context.var.caller
    if (session === null || isSafeMethod(context.req.method)) return next()
    const given = context.req.header(CSRF_HEADER) ?? (await formField(context, CSRF_FIELD))
    if (given !== undefined && isSameSecret(given, session.csrfToken)) return next()
    const detail = `The form's token is missing or belongs to another session: send ${CSRF_FIELD}, or the header X-CSRF-Token.`
    return problemResponse(context, { status: 403, code: 'invalid_csrf_token', detail })
  }
}

/** A field of a plain form; undefined for any other body. */
export async function formField(context: Context, name: string): Promise<string | undefined> {
  if (mediaType(context) !== 'application/x-www-form-urlencoded') return undefined
  const value = (await context.req.parseBody())[name]
  return typeof value === 'string' ? value : undefined
}

export function mediaType(context: Context): string {
  return (context.req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}
