/** What the operator API tells of trouble: incidents, an integration's health, figures over all. Rule: docs/behaviour/operator-api.md, "Trouble". */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { asColumns, idOf, pageOf } from './operator-api.ts'
import { incidentsQuery, statisticsQuery } from './operator-schemas.ts'

/** Routes for somebody who has been let in: the middleware before them has asked. */
export function incidentRoutes({ incidents }: Integrations): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()

  routes.get('/', async (context) => {
    const { limit, ...filter } = queryOf(context, incidentsQuery)
    return context.json(await pageOf(limit, (more) => incidents.list({ ...filter, limit: more })))
  })

  routes.get('/:id', async (context) => context.json(asColumns(await incidents.get(idOf(context, 'incident')))))

  return routes
}

export function statisticsRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.get('/', async (context) =>
    context.json(asColumns(await integrations.stats(queryOf(context, statisticsQuery)))),
  )
  return routes
}

export function integrationHealthRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.get('/:id/health', async (context) => context.json(healthColumns(await integrations.health(idOf(context)))))
  return routes
}

/** By the names that `integrations health <id> --json` has, too. */
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
