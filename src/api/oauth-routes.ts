/** The OAuth routes: authorize, callback, revoke, the pages around them, and their failures: a page for a person, JSON for a program. Rule: docs/behaviour/oauth.md, "Routes". */
import type { Context, MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { basePathOf, isHttps, parseAuthorization, routePathOf } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import { InvalidArgumentException, isIntegrationsError, OAuthFailure } from '../framework/errors.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import type { Cookie } from './caller.ts'
import { baseUrlOf, clearCookie, readCookie, writeCookie } from './caller.ts'
import { externalPath, middlewareOf, opensByLink } from './middleware.ts'
import { idIn, namedRoutes } from './named-routes.ts'
import type { PageNeeds } from './oauth-pages.ts'
import { connectedPage, connectPage, failurePage, oauthPageHeaders, revokePage } from './oauth-pages.ts'
import { AWAY_RETRY_SECONDS, DATABASE_AWAY, failedRequest } from './problem.ts'

/** Our page, unless the host names a path of its own or the operator's pages are at this path. */
const CONNECTED_PATH = '/integrations'
/** Tells our page what has ended: the redirect goes to the configured address alone. */
const DISCONNECTED: Cookie = { name: 'disconnected', sameSite: 'Strict' }
const DISCONNECTED_FOR_MS = 60_000
/** How long a person may try again after a failed authorization without a new link. */
const RETRY_LINK_SECONDS = 900
/** Browsers keep no cookie for longer (RFC 6265bis, 5.5). */
const MAX_COOKIE_SECONDS = 400 * 86_400

export function oauthRoutes(integrations: Integrations): Hono {
  const {
    config,
    admin: { access },
  } = integrations
  const { route_prefix: prefix, success_redirect: successRedirect } = config.oauth
  const routes = new Hono()
  routes.onError((error, context) => failureAnswer(integrations, context, error))

  const named = namedRoutes(config)
  const { path: authorizePath } = named['integrations.oauth.authorize']
  const { path: callbackPath } = named['integrations.oauth.callback']
  const { path: revokePath } = named['integrations.oauth.revoke']
  const connectPath = `/${prefix}/:id/oauth/connect`
  for (const path of [connectPath, authorizePath, revokePath])
    routes.use(path, forPeople(), ...middlewareOf(integrations, config.oauth.middleware))
  // Hono answers HEAD with the handler of GET. These handlers act: they create a state or use it up.
  const refuseHead = (path: string) =>
    routes.on(['GET'], path, async (context, next) =>
      context.req.raw.method === 'HEAD' ? notAllowed(context, 'GET') : next(),
    )
  refuseHead(authorizePath)
  routes.get(connectPath, (context) => connect(integrations, context))
  routes.get(authorizePath, (context) => authorize(integrations, context))
  routes.get(revokePath, (context) => askToRevoke(integrations, context))
  routes.post(revokePath, (context) => revoke(integrations, context))
  routes.all(connectPath, (context) => notAllowed(context, 'GET, HEAD'))
  routes.all(authorizePath, (context) => notAllowed(context, 'GET'))
  routes.all(revokePath, (context) => notAllowed(context, 'GET, HEAD, POST'))

  // Our own `web` means the browser's cookie, which the callback checks itself. A host's `web` runs like any other middleware.
  const callbackMiddleware = config.oauth.callback_middleware.filter(
    (name) => name !== 'web' || Object.hasOwn(access.middleware, 'web'),
  )
  routes.use(callbackPath, forPeople(), ...middlewareOf(integrations, callbackMiddleware))
  refuseHead(callbackPath)
  routes.get(callbackPath, (context) => callback(integrations, context))
  routes.all(callbackPath, (context) => notAllowed(context, 'GET'))

  if (successRedirect === CONNECTED_PATH && `/${config.operator.prefix}` !== CONNECTED_PATH)
    routes.get(CONNECTED_PATH, (context) => done(integrations, context))
  return routes
}

async function connect(integrations: Integrations, context: Context): Promise<Response> {
  const { id, isAuthorizationOptional, ...subject } = await subjectOf(integrations, context)
  if (isAuthorizationOptional && !(await integrations.oauth.status(id)).needsAuthorization)
    throw new OAuthFailure('oauth_unsupported', `Integration ${id} needs no authorization.`, null, id)
  const path = `/${integrations.config.oauth.route_prefix}/${id}/oauth/authorize`
  const signed = opensByLink(integrations, context) ? `?${signedLike(integrations, context, path)}` : ''
  const authorizeUrl = externalPath(integrations, path) + signed
  return pageAnswer(context, connectPage({ ...subject, authorizeUrl }))
}

/** The integration's name, with its provider's label and whether that provider needs an authorization. */
async function subjectOf(integrations: Integrations, context: Context) {
  const id = idIn(context.req.param('id'))
  const { name, provider: key } = await integrations.get(id)
  const provider = integrations.admin.providers().find((each) => each.key === key)
  if (provider === undefined || !provider.contracts.includes('HasOAuth2'))
    throw new OAuthFailure(
      'oauth_unsupported',
      `The provider "${key}" has no OAuth: no person has to authorize it.`,
      null,
      id,
    )
  return { id, name, provider: provider.label, isAuthorizationOptional: provider.isAuthorizationOptional }
}

/** A signed query that expires together with the link that opened this page. */
function signedLike({ admin: { access } }: Integrations, { req }: Context, path: string): string {
  const { pathname, searchParams } = new URL(req.url)
  const opened = [routePathOf(pathname, access.baseUrl), pathname]
  const queries = opened.map((from) =>
    access.continueLink(searchParams, { method: 'GET', path: from }, { method: 'GET', path }),
  )
  return queries.find((query) => query !== null) ?? ''
}

async function authorize(integrations: Integrations, context: Context): Promise<Response> {
  const baseUrl = baseUrlOf(integrations, context)
  const { url, nonce, cookieName } = await integrations.oauth.begin(idIn(context.req.param('id')), { baseUrl })
  setCookie(context, cookieName, nonce, {
    ...cookieAttributes(integrations, baseUrl),
    maxAge: Math.min(integrations.config.oauth.state_ttl, MAX_COOKIE_SECONDS),
  })
  return context.redirect(url, 302)
}

/** Setting and deleting need the same attributes: path and `Secure` tell cookies apart (RFC 6265bis, 5.7). */
function cookieAttributes(integrations: Integrations, baseUrl: string | null) {
  return {
    path: basePathOf(baseUrl) + namedRoutes(integrations.config)['integrations.oauth.callback'].path,
    httpOnly: true,
    sameSite: 'Lax', // The provider's page leads back by a navigation from another site.
    secure: isHttps(baseUrl),
  } as const
}

async function callback(integrations: Integrations, context: Context): Promise<Response> {
  const query = new URL(context.req.url).searchParams
  const attributes = cookieAttributes(integrations, baseUrlOf(integrations, context))
  // Called once the state is used up. From then on the cookie is useless, whatever the outcome.
  const cookie = (name: string): string | undefined => {
    const nonce = getCookie(context, name)
    if (nonce !== undefined) deleteCookie(context, name, attributes)
    return nonce
  }
  try {
    await integrations.oauth.complete({ query, cookie })
    return context.redirect(successLocation(integrations), 302)
  } catch (error) {
    return failureAnswer(integrations, context, error, await retryUrlOf(integrations, context, error))
  }
}

/** The link to try again, after a valid state. Null: without a state the integration is unknown. */
async function retryUrlOf(integrations: Integrations, context: Context, error: unknown): Promise<string | null> {
  const id = isIntegrationsError(error) && 'integrationId' in error ? error.integrationId : null
  const baseUrl = baseUrlOf(integrations, context)
  if (typeof id !== 'number' || baseUrl === null) return null
  try {
    return await integrations.oauth.link(id, { action: 'connect', expiresIn: RETRY_LINK_SECONDS, baseUrl })
  } catch (fault) {
    // It was deleted meanwhile, or needs no authorization any more. Any other fault is ours, such as a lost database.
    if (isIntegrationsError(fault, 'integration_not_found') || isIntegrationsError(fault, 'oauth_unsupported'))
      return null
    throw fault
  }
}

/** The page behind a signed link or an operator's button. Nothing happens before the person presses its button. */
async function askToRevoke(integrations: Integrations, context: Context): Promise<Response> {
  const { id, ...subject } = await subjectOf(integrations, context)
  const { success_redirect: location, route_prefix: prefix } = integrations.config.oauth
  const opened = opensByLink(integrations, context)
  const query = opened ? new URL(context.req.url).search : isForced(context) ? '?force=true' : ''
  const revokeUrl = externalPath(integrations, `/${prefix}/${id}/oauth/revoke`) + query
  return pageAnswer(context, revokePage({ ...subject, revokeUrl }), 200, {
    // Chromium also checks where the answer to a form redirects.
    formAction: URL.canParse(location) ? `'self' ${new URL(location).origin}` : "'self'",
    // Without a link the form must send its origin. With one, the signature must not reach any other site.
    referrerPolicy: opened ? 'no-referrer' : 'same-origin',
  })
}

async function revoke(integrations: Integrations, context: Context): Promise<Response> {
  const id = idIn(context.req.param('id'))
  const outcome = await integrations.oauth.revoke(id, { force: isForced(context) })
  if (outcome === 'newer tokens kept')
    throw new OAuthFailure(
      'revoke_superseded',
      'The integration was authorized again meanwhile: its tokens stay.',
      null,
      id,
    )
  if (wantsJson(context)) return context.json({ status: 'revoked' })
  if (integrations.config.oauth.success_redirect === CONNECTED_PATH)
    writeCookie(integrations, context, DISCONNECTED, {
      value: '1',
      expiresAt: new Date(Date.now() + DISCONNECTED_FOR_MS),
    })
  return context.redirect(successLocation(integrations), 302)
}

/** A program that says so, or that has a token. A browser, and any other client, is redirected. */
function wantsJson(context: Context): boolean {
  if (isReadByPerson(context)) return false
  const { req } = context
  const isBearer = parseAuthorization(req.header('authorization')).kind === 'bearer'
  return isBearer || (req.header('accept') ?? '').includes('application/json')
}

/** Our page at the end of an authorization or a revocation. */
function done(integrations: Integrations, context: Context): Response {
  if (readCookie(integrations, context, DISCONNECTED) === undefined) return pageAnswer(context, connectedPage())
  clearCookie(integrations, context, DISCONNECTED)
  return pageAnswer(context, connectedPage('disconnected'))
}

function isForced({ req }: Context): boolean {
  const force = req.queries('force') ?? []
  if (force.length === 0) return false
  const [text] = force
  if (force.length > 1 || (text !== 'true' && text !== 'false'))
    throw new InvalidArgumentException('force', 'true or false is allowed, once')
  return text === 'true'
}

/** A host's path or URL unchanged; our own page with the base URL's path before it. */
function successLocation({ config, admin: { access } }: Integrations): string {
  const { success_redirect: location } = config.oauth
  return location === CONNECTED_PATH ? basePathOf(access.baseUrl) + location : asHeader(location)
}

/** A header holds ASCII only: other characters of a URL are percent-encoded, and what is encoded stays. */
function asHeader(location: string): string {
  if (/^[ -~]*$/.test(location)) return location
  if (URL.canParse(location)) return new URL(location).href
  const { pathname, search, hash } = new URL(location, 'http://relative.invalid')
  return pathname + search + hash
}

function notAllowed(context: Context, allowed: string): Response {
  const message = `${context.req.raw.method} is not allowed here; use ${allowed}.`
  return context.json({ error: 'method_not_allowed', message }, 405, { Allow: allowed })
}

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
function failureAnswer(
  { admin: { logger } }: Integrations,
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
function isReadByPerson({ req }: Context): boolean {
  return (req.header('accept') ?? '').includes('text/html')
}

function pageAnswer(context: Context, page: string, status = 200, needs: PageNeeds = {}): Response {
  return context.body(page, status as 200, oauthPageHeaders(needs))
}

/**
 * Stands before all other middleware. No answer is cached or leaks its address. A refusal of the middleware is a page for a person,
 * and says `error` and `message`, as all failures of these routes do, to a program.
 */
function forPeople(): MiddlewareHandler {
  return async function forPeople(context, next) {
    await next()
    if (context.res.headers.get('content-type') === 'application/problem+json') context.res = await refusalOf(context)
    const { 'Referrer-Policy': referrerPolicy, ...rest } = PRIVATE_HEADERS
    for (const [name, value] of Object.entries(rest)) context.header(name, value)
    // A page whose form must send its origin sets its own policy.
    if (context.res.headers.get('Referrer-Policy') !== 'same-origin') context.header('Referrer-Policy', referrerPolicy)
  }
}

async function refusalOf(context: Context): Promise<Response> {
  const { res } = context
  const problem = (await res.json()) as { code: string; detail: string }
  const { code, detail: message } = problem
  if (isReadByPerson(context)) return answer(context, { status: res.status, code, message, providerError: null }, null)
  return new Response(JSON.stringify({ ...problem, error: code, message }), res)
}
