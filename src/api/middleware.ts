/**
 * The middleware that configuration names: `webhook.middleware`, `oauth.middleware`, `oauth.callback_middleware`.
 * Rule: docs/behaviour/access.md, "Middleware by name".
 */
import type { Context, MiddlewareHandler } from 'hono'
import type { Scope } from '../access/rules.ts'
import { basePathOf, hasScope, isSafeMethod, routePathOf } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import type { AccessEnvironment, Caller } from './caller.ts'
import { callerOf, isFromOwnPage } from './caller.ts'
import { problemResponse } from './problem.ts'

/** The handlers of a list, in its order; a host's own replaces the built-in of the same name. */
export function middlewareOf(integrations: Integrations, names: readonly string[]): MiddlewareHandler[] {
  const registry = new Map<string, MiddlewareHandler>([
    ...Object.entries(builtIn(integrations)),
    ...Object.entries(integrations.access.middleware),
  ])
  return names.map((name) => {
    const handler = registry.get(name)
    // The configuration is checked against the same names, so this is a host that changed its mind in between.
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
 * A signed link, or a session or token with `operate`. What changes something by the latter must come from a page of ours; a link
 * is proof enough: no browser adds it by itself.
 */
function web(integrations: Integrations): MiddlewareHandler<AccessEnvironment> {
  return async function web(context, next) {
    if (opensByLink(integrations, context)) return next()
    const refusal = await admit(integrations, context, 'operate')
    return refusal ?? refuseForeignPage(integrations, context) ?? next()
  }
}

/** A session or token: `read` to look, `operate` for everything else. */
export function operator(integrations: Integrations): MiddlewareHandler<AccessEnvironment> {
  return async function operator(context, next) {
    const refusal = await admit(integrations, context, isSafeMethod(context.req.method) ? 'read' : 'operate')
    return refusal ?? refuseForeignPage(integrations, context) ?? next()
  }
}

const INVALID_LINK = { code: 'invalid_link', detail: 'This link is not valid, or not valid any more.' }

function signed(integrations: Integrations): MiddlewareHandler {
  return async function signed(context, next) {
    if (opensByLink(integrations, context)) return next()
    return problemResponse(context, { status: 403, ...INVALID_LINK })
  }
}

export function sameOrigin(integrations: Integrations): MiddlewareHandler {
  return async function sameOrigin(context, next) {
    return refuseForeignPage(integrations, context) ?? next()
  }
}

/** Notes who calls, or answers why not. */
async function admit(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  scope: Scope,
): Promise<Response | null> {
  const caller: Caller | null = await callerOf(integrations, context)
  if (caller === null) return notSignedIn(integrations, context)
  context.set('caller', caller)
  if (hasScope(caller.principal.scopes, scope)) return null
  const detail = `This needs the scope "${scope}"; "${caller.principal.name}" has ${caller.principal.scopes.join(', ')}.`
  return problemResponse(context, { status: 403, code: 'insufficient_scope', detail })
}

function notSignedIn(integrations: Integrations, context: Context): Response {
  const { req } = context
  // Somebody with a link has no token to sign in with: what helps is a new link.
  if (new URL(req.url).searchParams.has('signature')) return problemResponse(context, { status: 401, ...INVALID_LINK })
  // A refused token is told so; only somebody who showed nothing is sent to the page that is made for people.
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
  return problemResponse(context, { status: 401, code: 'unauthenticated', detail })
}

function refuseForeignPage(integrations: Integrations, context: Context): Response | null {
  if (isSafeMethod(context.req.method) || isFromOwnPage(integrations, context)) return null
  const detail = 'The request did not come from a page of this service, or does not say so.'
  return problemResponse(context, { status: 403, code: 'cross_origin', detail })
}

/** A link to a change opens the page that asks for it, too. */
export function opensByLink({ access }: Integrations, context: Context): boolean {
  const { pathname, searchParams } = new URL(context.req.url)
  const { method } = context.req
  const methods = isSafeMethod(method) ? [method, 'POST'] : [method]
  // A proxy before us may have taken the base URL's path off already, and what is left may begin as that path does.
  const paths = new Set([routePathOf(pathname, access.baseUrl), pathname])
  return [...paths].some((path) => methods.some((each) => access.isLinkValid({ method: each, path }, searchParams)))
}

/** Operator routes beyond health exist for somebody who can be told apart; in `dev` there is a token of its own. */
export function hasLoginPage({ config, access }: Integrations): boolean {
  return config.operator.tokens.length > 0 || access.dev
}

/** In `dev`: the path that signs a browser in. Null elsewhere. */
export function devLogin(integrations: Integrations): string | null {
  const { devToken } = integrations.access
  return devToken === null ? null : `${operatorRoot(integrations)}/login?token=${devToken}`
}

/** Where the operator's pages are, as a browser sees them. */
export function operatorRoot({ config, access }: Integrations): string {
  return `${basePathOf(access.baseUrl)}/${config.operator.prefix}`
}

/** A path of ours, as a browser sees it. */
export function externalPath({ access }: Integrations, path: string): string {
  return basePathOf(access.baseUrl) + routePathOf(path, access.baseUrl)
}
