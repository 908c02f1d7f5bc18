/**
 * The middleware that configuration names: `webhook.middleware`, `oauth.middleware`, `oauth.callback_middleware`; and what the
 * operator's routes need besides. Rule: docs/behaviour/access.md, "Middleware by name".
 */
import type { Context, MiddlewareHandler } from 'hono'
import type { Principal, Scope } from '../access/rules.ts'
import { basePathOf, hasScope, isLimited, isSafeMethod, isSameSecret, routePathOf } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import { formField } from './body.ts'
import type { AccessEnvironment, Caller } from './caller.ts'
import { callerOf, isFromOwnPage } from './caller.ts'
import type { Problem } from './problem.ts'
import { problemResponse } from './problem.ts'

/** The handlers in the order of `names`. A host's own handler replaces the built-in one of the same name. */
export function middlewareOf(integrations: Integrations, names: readonly string[]): MiddlewareHandler[] {
  const registry = new Map<string, MiddlewareHandler>([
    ...Object.entries(builtIn(integrations)),
    ...Object.entries(integrations.admin.access.middleware),
  ])
  return names.map((name) => {
    const handler = registry.get(name)
    // The configuration was checked against the same names: the host has changed its middleware since.
    if (handler === undefined)
      throw new TypeError(`There is no middleware "${name}". There are: ${[...registry.keys()].join(', ')}.`)
    return handler
  })
}

function builtIn(integrations: Integrations): Record<'web' | 'operator' | 'signed' | 'same-origin', MiddlewareHandler> {
  return {
    web: web(integrations),
    operator: operator(integrations),
    signed: signed(integrations),
    'same-origin': sameOrigin(integrations),
  }
}

/**
 * A signed link, or a session or token with `operate`. A change by session must come from one of our own pages. A link needs no
 * such check: no browser adds it by itself.
 */
function web(integrations: Integrations): MiddlewareHandler<AccessEnvironment> {
  return async function web(context, next) {
    if (opensByLink(integrations, context)) return next()
    const refusal = await admit(integrations, context, 'operate')
    return refusal ?? refuseForeignPage(integrations, context) ?? next()
  }
}

/**
 * A session or token: `read` to look, `operate` for everything else.
 *
 * @param options `honoursLimits`: the routes behind it ask whether the caller may see each record; otherwise a limited caller is refused
 */
export function operator(
  integrations: Integrations,
  options: { readonly honoursLimits?: boolean } = {},
): MiddlewareHandler<AccessEnvironment> {
  return async function operator(context, next) {
    const scope = isSafeMethod(context.req.method) ? 'read' : 'operate'
    const refusal = await admit(integrations, context, scope, options)
    return refusal ?? refuseForeignPage(integrations, context) ?? next()
  }
}

const INVALID_LINK: Problem = { code: 'invalid_link', detail: 'This link is not valid, or not valid any more.' }

function signed(integrations: Integrations): MiddlewareHandler {
  return async function signed(context, next) {
    if (opensByLink(integrations, context)) return next()
    return problemResponse(context, INVALID_LINK)
  }
}

export function sameOrigin(integrations: Integrations): MiddlewareHandler {
  return async function sameOrigin(context, next) {
    return refuseForeignPage(integrations, context) ?? next()
  }
}

export const CSRF_FIELD = 'csrf_token'
const CSRF_HEADER = 'x-csrf-token'

/**
 * A change by a session carries the session's CSRF token, in a header or in a field of the form. A bearer token has no session
 * to misuse. Rule: docs/behaviour/access.md, "Sessions".
 */
export function requireCsrfToken(): MiddlewareHandler<AccessEnvironment> {
  return async function requireCsrfToken(context, next) {
    const { session } = context.var.caller
    if (session === null || isSafeMethod(context.req.method)) return next()
    const given = context.req.header(CSRF_HEADER) ?? (await formField(context, CSRF_FIELD))
    if (given !== undefined && isSameSecret(given, session.csrfToken)) return next()
    const detail = `The form's token is missing or belongs to another session: send ${CSRF_FIELD}, or the header X-CSRF-Token.`
    return problemResponse(context, { code: 'invalid_csrf_token', detail })
  }
}

/** Keeps the caller for the handlers behind it, or answers with the refusal. */
async function admit(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  scope: Scope,
  { honoursLimits = false }: { readonly honoursLimits?: boolean } = {},
): Promise<Response | null> {
  const caller: Caller | null = await callerOf(integrations, context)
  if (caller === null) return notSignedIn(integrations, context)
  context.set('caller', caller)
  if (isLimited(caller.principal) && !honoursLimits) return refuseLimited(context, caller.principal)
  if (hasScope(caller.principal.scopes, scope)) return null
  const detail = `This needs the scope "${scope}"; "${caller.principal.name}" has ${caller.principal.scopes.join(', ')}.`
  return problemResponse(context, { code: 'insufficient_scope', detail })
}

/** For routes that are about all integrations. */
export function refuseLimited(context: Context, { name }: Principal): Response {
  const detail = `This is about all integrations; "${name}" is limited to some.`
  return problemResponse(context, { code: 'insufficient_scope', detail })
}

function notSignedIn(integrations: Integrations, context: Context): Response {
  const { req } = context
  // A person with a link has no token to sign in with, and needs a new link.
  if (new URL(req.url).searchParams.has('signature')) return problemResponse(context, { ...INVALID_LINK, status: 401 })
  // A refused token gets a 401. Only a browser without any credentials is sent to the login page.
  const wantsPage = req.method === 'GET' && (req.header('accept') ?? '').includes('text/html')
  if (wantsPage && req.header('authorization') === undefined && hasLoginPage(integrations)) {
    const { pathname, search } = new URL(req.url)
    const next = new URLSearchParams({ next: externalPath(integrations, pathname) + search })
    return context.body(null, 302, {
      Location: `${operatorRoot(integrations)}/login?${next}`,
      'Cache-Control': 'no-store',
      'Referrer-Policy': 'no-referrer',
    })
  }
  const detail = 'Sign in, or send a configured token as "Authorization: Bearer …".'
  return problemResponse(context, { code: 'unauthenticated', detail })
}

function refuseForeignPage(integrations: Integrations, context: Context): Response | null {
  if (isSafeMethod(context.req.method) || isFromOwnPage(integrations, context)) return null
  const detail = 'The request did not come from a page of this service, or does not say so.'
  return problemResponse(context, { code: 'cross_origin', detail })
}

/** Whether a signed link allows the request. A link to a change also opens the page that asks for it. */
export function opensByLink({ admin: { access } }: Integrations, context: Context): boolean {
  const { pathname, searchParams } = new URL(context.req.url)
  const { method } = context.req
  const methods = isSafeMethod(method) ? [method, 'POST'] : [method]
  // A proxy may have removed the base URL's path already, and the rest may begin with the same path again.
  const paths = new Set([routePathOf(pathname, access.baseUrl), pathname])
  return [...paths].some((path) => methods.some((each) => access.isLinkValid({ method: each, path }, searchParams)))
}

/** Operator routes beyond health exist only where a caller can be identified. `dev` has a token of its own. */
export function hasLoginPage({ config, admin: { access } }: Integrations): boolean {
  return config.operator.tokens.length > 0 || config.operator.oidc !== null || access.dev
}

/** In `dev`: the path that signs a browser in. Null elsewhere. */
export function devLogin(integrations: Integrations): string | null {
  const { devToken } = integrations.admin.access
  return devToken === null ? null : `${operatorRoot(integrations)}/login?token=${devToken}`
}

/** Path of the operator's pages, as a browser sees it. */
export function operatorRoot({ config, admin: { access } }: Integrations): string {
  return `${basePathOf(access.baseUrl)}/${config.operator.prefix}`
}

/** One of our paths, as a browser sees it. */
export function externalPath({ admin: { access } }: Integrations, path: string): string {
  return basePathOf(access.baseUrl) + routePathOf(path, access.baseUrl)
}
