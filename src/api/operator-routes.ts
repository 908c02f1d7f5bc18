/** Everything under `operator.prefix`. Rule: docs/behaviour/operator-api.md. */
import type { MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { z } from 'zod'
import { isLimited, isSafeMethod } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import { apiDocs } from './api-docs.ts'
import { boundBody, queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { commandRoutes } from './command-routes.ts'
import { dashboardRoutes } from './dashboard/dashboard-routes.ts'
import { assetRoutes } from './dashboard/frame/assets.ts'
import { refusedPage, wantsPage } from './dashboard/frame/problem-page.ts'
import { loginRoutes } from './dashboard/login.ts'
import type { Deliver } from './dashboard/pages/console-page.ts'
import { externalPath, hasLoginPage, operator, operatorRoot, refuseLimited, requireCsrfToken } from './middleware.ts'
import { problemHandler } from './problem.ts'

export interface ApiOptions {
  /** Aborted when the process stops: what streams to a browser ends, so that a server that closes need not wait for it. */
  readonly signal?: AbortSignal
}

const NEVER = new AbortController().signal

export function operatorRoutes(
  integrations: Integrations,
  deliver: Deliver,
  { signal: stopping = NEVER }: ApiOptions = {},
): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>().basePath(`/${integrations.config.operator.prefix}`)
  routes.onError(problemHandler(integrations))
  routes.route('/api/v1', healthRoutes(integrations))
  // Without a token no caller could be admitted, so no other route exists.
  if (!hasLoginPage(integrations)) return routes

  routes.route('/', assetRoutes())
  routes.use('*', noStore, withoutTrailingSlash(integrations))
  routes.route('/', loginRoutes(integrations))
  routes.use('*', operator(integrations, { honoursLimits: true }), boundBody(), requireCsrfToken())
  routes.route('/api/v1', commandRoutes(integrations))
  routes.route('/api/v1', apiDocs(integrations))
  // The pages know no limits.
  routes.use('*', unlimitedOnly(integrations))
  const render = (request: Request, env: unknown) => routes.fetch(request, env as object)
  routes.route('/', dashboardRoutes(integrations, { render, stopping, deliver }))
  return routes
}

/** Redirects `/` to the operator's pages, in our own API process. A host that mounts the routes has its own `/`. */
export function redirectRoot(app: Hono, integrations: Integrations): Hono {
  if (!hasLoginPage(integrations)) return app
  return app.get('/', (context) =>
    context.body(null, 302, { Location: operatorRoot(integrations), 'Cache-Control': 'no-store' }),
  )
}

function unlimitedOnly(integrations: Integrations): MiddlewareHandler<AccessEnvironment> {
  return async function unlimitedOnly(context, next) {
    const { principal } = context.var.caller
    if (!isLimited(principal)) return next()
    const refusal = refuseLimited(context, principal)
    return wantsPage(context) ? refusedPage(integrations, context, refusal) : refusal
  }
}

const noStore: MiddlewareHandler = async function noStore(context, next) {
  await next()
  context.header('Cache-Control', 'no-store')
  context.header('X-Content-Type-Options', 'nosniff')
}

/** Redirects to a path, with the base URL's own path: scheme and host stay those that the caller used. */
function withoutTrailingSlash(integrations: Integrations): MiddlewareHandler {
  return async function withoutTrailingSlash(context, next) {
    await next()
    const { pathname, search } = new URL(context.req.url)
    if (context.res.status !== 404 || !isSafeMethod(context.req.method) || !pathname.endsWith('/')) return
    const location = externalPath(integrations, pathname.replace(/\/+$/, '')) + search
    context.res = context.body(null, 301, { Location: location })
  }
}

const ReadinessQuery = z.object({ exclude: z.literal('temporal').optional() })

/** Open to any caller: liveness and readiness. Rule: docs/behaviour/operator-api.md, "Health". */
function healthRoutes(integrations: Integrations): Hono {
  const routes = new Hono()
  // Says nothing about Postgres or Temporal: a restart would not bring them back.
  routes.get('/healthz', (context) => context.json({ status: 'ok' }, 200, NO_STORE))
  routes.get('/readyz', async (context) => {
    const { isReady, parts } = await integrations.admin.readiness(queryOf(context, ReadinessQuery))
    return context.json({ status: isReady ? 'ok' : 'unavailable', parts }, isReady ? 200 : 503, NO_STORE)
  })
  return routes
}

const NO_STORE = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }
