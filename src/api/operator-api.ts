/** The operator API's integrations, their authorizations, and their trouble. Rule: docs/behaviour/operator-api.md. */
import type { Context } from 'hono'
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { oauthStatusColumns } from '../oauth/status-rules.ts'
import { jsonBody, optionalJsonBody, queryOf } from './body.ts'
import type { AccessEnvironment } from './caller.ts'
import { externalPath } from './middleware.ts'
import { idIn } from './named-routes.ts'
import {
  changedIntegration,
  forceQuery,
  incidentsQuery,
  integrationsQuery,
  newIntegration,
  newOAuthLink,
  statisticsQuery,
} from './operator-schemas.ts'
import { ProblemError, snakeCase } from './problem.ts'

/** The middleware before these routes has checked the caller. */
export function integrationRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const {
    oauth,
    admin: { operator },
  } = integrations
  const routes = new Hono<AccessEnvironment>()

  routes.get('/integrations', async (context) => {
    const { data, next } = await operator.page(queryOf(context, integrationsQuery))
    return context.json({ data: data.map(asColumns), next })
  })

  routes.post('/integrations', async (context) => {
    const created = await integrations.create(await jsonBody(context, newIntegration))
    await noteAct(integrations, context, created.id, 'create')
    context.header('Location', `${externalPath(integrations, context.req.path.replace(/\/$/, ''))}/${created.id}`)
    return context.json(asColumns(await operator.detail(created.id)), 201)
  })

  routes.get('/integrations/:id', async (context) => context.json(asColumns(await operator.detail(idOf(context)))))

  routes.patch('/integrations/:id', async (context) => {
    const id = idOf(context)
    await integrations.update(id, await jsonBody(context, changedIntegration))
    await noteAct(integrations, context, id, 'update')
    return context.json(asColumns(await operator.detail(id)))
  })

  for (const action of ['enable', 'disable'] as const)
    routes.post(`/integrations/:id/${action}`, async (context) => {
      const id = idOf(context)
      await switchIntegration(integrations, context, id, action)
      return context.json(asColumns(await operator.detail(id)))
    })

  routes.get('/integrations/:id/oauth', async (context) =>
    context.json(oauthStatusColumns(await oauth.status(idOf(context)))),
  )

  routes.post('/integrations/:id/oauth/link', async (context) => {
    const id = idOf(context)
    const link = await optionalJsonBody(context, newOAuthLink)
    // Refuses a provider without OAuth: its link would open nothing.
    await oauth.status(id)
    const url = await oauth.link(id, link)
    await noteAct(integrations, context, id, `oauth-link ${link.action}`)
    return context.json({ integration_id: id, url })
  })

  routes.post('/integrations/:id/oauth/revoke', async (context) => {
    const id = idOf(context)
    const outcome = await oauth.revoke(id, queryOf(context, forceQuery))
    if (outcome === 'revoked') await noteAct(integrations, context, id, 'revoke-oauth')
    return context.json({ integration_id: id, revoked: outcome === 'revoked' })
  })

  routes.post('/integrations/:id/oauth/refresh', async (context) => {
    const id = idOf(context)
    // Refuses here, in the caller's terms. A worker's refusal would be a failed workflow.
    await oauth.status(id)
    const result = await oauth.refresh({ integrationId: id })
    await noteAct(integrations, context, id, 'refresh-tokens')
    return context.json({ integration_id: id, ...asColumns(result) })
  })

  return routes
}

/** Incidents, health and statistics. */
export function troubleRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const { incidents } = integrations.admin
  const routes = new Hono<AccessEnvironment>()

  routes.get('/incidents', async (context) => {
    const { limit, ...filter } = queryOf(context, incidentsQuery)
    return context.json(await pageOf(limit, (more) => incidents.list({ ...filter, limit: more })))
  })

  routes.get('/incidents/:id', async (context) =>
    context.json(asColumns(await incidents.get(idOf(context, 'incident')))),
  )

  routes.get('/stats', async (context) =>
    context.json(asColumns(await integrations.admin.stats(queryOf(context, statisticsQuery)))),
  )

  routes.get('/integrations/:id/health', async (context) =>
    context.json(healthColumns(await integrations.admin.health(idOf(context)))),
  )

  return routes
}

/** Used by the API and by the buttons of the page. */
export async function switchIntegration(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  id: number,
  action: 'enable' | 'disable',
): Promise<void> {
  await integrations[action](id)
  await noteAct(integrations, context, id, action)
}

/** @param target default: the integration itself */
export async function noteAct(
  { admin: { operator } }: Integrations,
  context: Context<AccessEnvironment>,
  id: number,
  action: string,
  target = `integration:${id}`,
): Promise<void> {
  await operator.note(id, { token: context.var.caller.principal.name, action, target })
}

type Named = 'integration' | 'webhook' | 'sync_run' | 'sync_item' | 'incident'

/** @throws ProblemError 404 for a text that is not an id */
export function idOf(context: Context, what: Named = 'integration'): number {
  const id = idIn(context.req.param('id'))
  if (id !== 0) return id
  const detail = `There is no ${what.replace('_', ' ')} of this id.`
  throw new ProblemError({ status: 404, code: `${what}_not_found`, detail })
}

/** The object with its keys in snake_case, as the columns are named. */
export function asColumns(detail: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(detail).map(([property, value]) => [snakeCase(property), value]))
}

/** One row more than asked for shows whether there is another page. */
export async function pageOf<Row extends { readonly id: number }>(
  limit: number,
  list: (limit: number) => AsyncIterable<Row>,
): Promise<{ data: Record<string, unknown>[]; next: number | null }> {
  const rows: Row[] = []
  for await (const row of list(limit + 1)) rows.push(row)
  const data = rows.slice(0, limit)
  return { data: data.map(asColumns), next: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
}

/** The same names as in `integrations health <id> --json`. */
function healthColumns(report: Awaited<ReturnType<Integrations['admin']['health']>>): Record<string, unknown> {
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
