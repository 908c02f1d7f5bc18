/** `durable-integrations/api`: the routes as a Hono app, to be mounted in a host's own or served by bin/api. */
import { Hono } from 'hono'
import type { Integrations } from '../integrations.ts'
import { oauthRoutes } from './oauth-routes.ts'
import { operatorRoutes } from './operator-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

/** `app.route('/', createApi(integrations))` */
export function createApi(integrations: Integrations): Hono {
  const api = new Hono()
  api.route('/', webhookRoutes(integrations))
  api.route('/', oauthRoutes(integrations))
  api.route('/', operatorRoutes(integrations))
  api.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return api
}
