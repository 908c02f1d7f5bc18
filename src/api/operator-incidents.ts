/** The operator API's incidents, health and statistics. Rule: docs/behaviour/operator-api.md, "Trouble". */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { asColumns, idOf, pageOf } from './operator-api.ts'
import { incidentsQuery, statisticsQuery } from './operator-schemas.ts'

/** The middleware before these routes has checked the caller. */
export function troubleRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { incidents } = integrations
  const routes = new Hono<AccessEnvironment>()

  routes.get('/incidents', async (context) => {
    const { limit, ...filter } = queryOf(context, incidentsQuery)
    return context.json(await pageOf(limit, (more) => incidents.list({ ...filter, limit: more })))
  })

  routes.get('/incidents/:id', async (context) =>
    context.json(asColumns(await incidents.get(idOf(context, 'incident')))),
  )

  routes.get('/stats', async (context) =>
    context.json(asColumns(await integrations.stats(queryOf(context, statisticsQuery)))),
  )

  routes.get('/integrations/:id/health', async (context) =>
    context.json(healthColumns(await integrations.health(idOf(context)))),
  )

  return routes
}

/** The same names as in `integrations health <id> --json`. */
function healthColumns(report: Awaited<ReturnType<Integrations['health']>>): Record<string, unknown> {
  const { requests24h, errorRate24h, failures24h, meanMs24h, p95Ms24h, topErrors24h, incident, ...rest } = report
  return {
    ...asColumns(rest),
    incident: incident === null ? null : asColumns(incident),
    requests_24h: requests24h,
    error_rate_24h: errorRate24h,
    failures_24h: failures24h,
    mean_ms_24h: meanMs24h,
    p95_ms_24h: p95Ms24h,
    top_errors_24h: topErrors24h,
  }
}
