/** `durable-integrations/api`: the routes as a Hono app, for a host's own app or for bin/api. */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { metricsRoutes } from './metrics-routes.ts'
import { devLogin } from './middleware.ts'
import { oauthRoutes } from './oauth-routes.ts'
import { operatorRoutes } from './operator-routes.ts'
import { traced } from './tracing.ts'
import { webhookRoutes } from './webhook-routes.ts'

export { type NamedRoute, namedRoutes, type RouteName } from './named-routes.ts'

/** `app.route('/', createApi(integrations))` */
export function createApi(integrations: Integrations): Hono {
  const api = new Hono()
  const webhooks = webhookRoutes(integrations)
  const oauth = oauthRoutes(integrations)
  const metrics = metricsRoutes(integrations)
  const paths = new Set([...webhooks.routes, ...oauth.routes, ...metrics.routes].map(({ path }) => path))
  for (const path of [...paths, `/${integrations.config.operator.prefix}/*`]) api.use(path, traced(integrations))
  api.route('/', webhooks)
  api.route('/', oauth)
  api.route('/', operatorRoutes(integrations))
  api.route('/', metrics)
  const login = devLogin(integrations)
  if (login !== null) integrations.logger.info({ event: 'access.dev', login }, 'dev: this address signs a browser in')
  api.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return api
}
