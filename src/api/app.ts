/** `durable-integrations/api`: the routes as a Hono app, to be mounted in a host's own or served by bin/api. */
import { Hono } from 'hono'
import type { Integrations } from '../integrations.ts'
import { webhookRoutes } from './webhook-routes.ts'

/** `app.route('/', createApi(integrations))` */
export function createApi(integrations: Integrations): Hono {
  const api = new Hono()
  api.route('/', webhookRoutes(integrations))
  /** The process lives. Says nothing about Postgres or Temporal, so that a restart is not asked for in vain. */
  api.get(`/${integrations.config.operator.prefix}/api/v1/healthz`, (context) => context.json({ status: 'ok' }))
  api.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return api
}
