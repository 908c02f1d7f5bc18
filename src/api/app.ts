/** `durable-integrations/api`: the routes as a Hono app, for a host's own app or for bin/api. */

import { SpanKind } from '@opentelemetry/api'
import type { Context, MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { routePath } from 'hono/route'
import type { Integrations } from '../create-integrations.ts'
import { inSpan, markFailed } from '../observability/spans.ts'
import { metricsRoutes } from './metrics-routes.ts'
import { devLogin } from './middleware.ts'
import { oauthRoutes } from './oauth-routes.ts'
import type { ApiOptions } from './operator-routes.ts'
import { operatorRoutes } from './operator-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

export { type NamedRoute, namedRoutes, type RouteName } from './named-routes.ts'
export type { ApiOptions } from './operator-routes.ts'

/**
 * The routes of webhooks, OAuth, operators and metrics, for a host's own Hono app.
 *
 * @example
 * app.route('/', createApi(integrations))
 *
 * @throws InvalidConfiguration when the configuration names a provider that is not registered by now
 */
export function createApi(integrations: Integrations, options: ApiOptions = {}): Hono {
  integrations.admin.checkNames()
  const api = new Hono()
  const webhooks = webhookRoutes(integrations)
  const oauth = oauthRoutes(integrations)
  const metrics = metricsRoutes(integrations)
  const paths = new Set([...webhooks.routes, ...oauth.routes, ...metrics.routes].map(({ path }) => path))
  for (const path of [...paths, `/${integrations.config.operator.prefix}/*`]) api.use(path, traced(integrations))
  api.route('/', webhooks)
  api.route('/', oauth)
  api.route(
    '/',
    operatorRoutes(integrations, (request, env) => webhooks.fetch(request, env as object), options),
  )
  api.route('/', metrics)
  const login = devLogin(integrations)
  if (login !== null)
    integrations.admin.logger.info({ event: 'access.dev', login }, 'dev: this address signs a browser in')
  api.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return api
}

const METHODS: ReadonlySet<string> = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

/**
 * A request as a span and, at level debug, as a line. Rule: docs/behaviour/tracing.md, "Requests to us".
 *
 * Links to the caller's trace and never joins it. Otherwise any caller could write into our traces, and choose which are
 * recorded. In a host that has a span of its own around these routes, they are part of the host's trace.
 *
 * Mounted on our own paths only: in a host's app it would also cover the host's routes. A request that matches several of the
 * paths is one span.
 */
function traced({ admin: { logger } }: Integrations): MiddlewareHandler {
  return function traced(context, next) {
    if (context.get('isTraced') === true) return next()
    context.set('isTraced', true)
    const { req } = context
    const startedAt = performance.now()
    const start = () => {
      const method = methodOf(context)
      return {
        name: method === '_OTHER' ? 'HTTP' : method,
        kind: SpanKind.SERVER,
        attributes: { 'http.request.method': method },
        linkTo: req.raw.headers.get('traceparent'),
      }
    }
    return inSpan(start, async (span) => {
      await next()
      const isLogged = logger.isLevelEnabled?.('debug') ?? true
      if (!isLogged && !span.isRecording()) return
      const { status } = context.res
      const method = methodOf(context)
      const route = routeOf(context)
      if (span.isRecording()) {
        span.setAttribute('http.response.status_code', status)
        if (route !== null) span.updateName(`${method} ${route}`).setAttribute('http.route', route)
        if (status >= 500) markFailed(span, String(status))
      }
      const duration_ms = Math.round(performance.now() - startedAt)
      if (isLogged) logger.debug({ event: 'api.request', method, route, status, duration_ms }, 'request answered')
    })
  }
}

function methodOf({ req }: Context): string {
  return METHODS.has(req.method) ? req.method : '_OTHER'
}

/** The pattern of the route, not the path, which may hold anything. Null: no route answered, or a middleware did. */
function routeOf(context: Context): string | null {
  // Several patterns may match, also a host's catch-all. This is the one that was reached last.
  const pattern = routePath(context)
  return pattern === '' || pattern.endsWith('*') ? null : pattern
}
