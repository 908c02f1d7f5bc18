/** Open to everybody: whether the process lives, and whether it can work. Rule: docs/behaviour/operator-api.md, "Health". */
import { Hono } from 'hono'
import type { Integrations } from '../integrations.ts'

export function healthRoutes(integrations: Integrations): Hono {
  const routes = new Hono()
  /** Says nothing about Postgres or Temporal, so that a restart is not asked for in vain. */
  routes.get('/healthz', (context) => context.json({ status: 'ok' }, 200, NO_STORE))
  routes.get('/readyz', async (context) => {
    const { isReady, parts } = await integrations.readiness()
    return context.json({ status: isReady ? 'ok' : 'unavailable', parts }, isReady ? 200 : 503, NO_STORE)
  })
  return routes
}

const NO_STORE = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }
