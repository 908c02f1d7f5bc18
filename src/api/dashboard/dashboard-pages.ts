/** The pages: the integrations and the incidents, newest first. Rule: docs/behaviour/operator-api.md, "Pages". */
import { Hono } from 'hono'
import { html } from 'hono/html'
import { z } from 'zod'
import { basePathOf, hasScope } from '../../access/rules.ts'
import type { Integrations } from '../../create-integrations.ts'
import { INCIDENT_STATUSES } from '../../incidents/rules.ts'
import { activeText, switchedOffBy } from '../../integrations/rules.ts'
import { queryOf } from '../body.ts'
import type { AccessEnvironment, Caller } from '../caller.ts'
import { addressOf } from '../caller.ts'
import { operatorRoot } from '../middleware.ts'
import { idIn } from '../named-routes.ts'
import { ProblemError } from '../problem.ts'
import { csrfField, page, time, whoIsHere } from './layout.ts'

type Markup = ReturnType<typeof html>
type Row = Awaited<ReturnType<Integrations['admin']['operator']['page']>>['data'][number]
type Incident = Awaited<ReturnType<Integrations['admin']['incidents']['get']>>

const after = z
  .string()
  .transform(idIn)
  .refine((id) => id > 0, 'an id is allowed')
  .optional()
const overviewQuery = z.strictObject({ after })
const incidentsPage = z.strictObject({ after, status: z.enum(INCIDENT_STATUSES).optional() })
/** The first page counts up to this many. */
const COUNTED = 100
const PAGE = 50

export function dashboardRoutes(integrations: Integrations): Hono<AccessEnvironment> {
  const root = operatorRoot(integrations)
  const routes = new Hono<AccessEnvironment>()

  routes.get('/', async (context) => {
    const { caller } = context.var
    const { data, next } = await integrations.admin.operator.page({ ...queryOf(context, overviewQuery), limit: PAGE })
    return page(context, {
      title: 'Integrations',
      header: whoIsHere(root, caller),
      main: html`${await openIncidents(integrations)}${table(integrations, caller, data)}${next === null ? '' : html`<p><a href="${root}?after=${next}">Older</a></p>`}`,
    })
  })

  for (const action of ['enable', 'disable'] as const)
    routes.post(`/integrations/:id/${action}`, async (context) => {
      const id = idIn(context.req.param('id'))
      if (id === 0)
        throw new ProblemError({ code: 'integration_not_found', detail: 'There is no integration of this id.' })
      await integrations[action](id)
      const { name: token } = context.var.caller.principal
      const target = `integration:${id}`
      await integrations.admin.operator.note(id, { token, action, target, from: addressOf(context) })
      return context.redirect(root, 303)
    })

  routes.get('/incidents', async (context) => {
    const { after, status } = queryOf(context, incidentsPage)
    const rows: Incident[] = []
    // One row more than shown tells whether there is another page.
    for await (const incident of integrations.admin.incidents.list({ after, status, limit: PAGE + 1 }))
      rows.push(incident)
    const shown = rows.slice(0, PAGE)
    const older = new URLSearchParams({ ...(status && { status }), after: String(shown.at(-1)?.id) })
    return page(context, {
      title: status === undefined ? 'Incidents' : `${status === 'open' ? 'Open' : 'Closed'} incidents`,
      header: whoIsHere(root, context.var.caller),
      main: html`<nav aria-label="Pages"><a href="${root}">Integrations</a> <a href="${root}/incidents">All</a> <a href="${root}/incidents?status=open">Open</a> <a href="${root}/incidents?status=closed">Closed</a></nav>
${incidentTable(shown)}${rows.length > PAGE ? html`<p><a href="${root}/incidents?${older.toString()}">Older</a></p>` : ''}`,
    })
  })

  return routes
}

function table(integrations: Integrations, caller: Caller, rows: readonly Row[]): Markup {
  const root = operatorRoot(integrations)
  if (rows.length === 0) return html`<p>There is no integration yet.</p>`
  const mayOperate = hasScope(caller.principal.scopes, 'operate')
  return html`<div class="wide"><table>
<caption>Newest first. Times are UTC.</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Provider</th><th scope="col">Health</th><th scope="col">Active</th><th scope="col">Authorization</th><th scope="col">Last clean sync</th><th scope="col">Last run</th><th scope="col">Failed items</th><th scope="col">Waiting items</th>${mayOperate ? html`<th scope="col">Actions</th>` : ''}</tr></thead>
<tbody>${rows.map(
    (row) => html`
<tr><th scope="row">${row.name}</th><td>${row.provider}</td><td>${row.healthStatus}</td><td>${activeText(row)}</td><td>${row.reauthRequired ? reauthorize(integrations, row, mayOperate) : ''}</td><td>${row.lastSyncedAt === null ? 'never' : time(row.lastSyncedAt)}</td><td>${lastRun(row)}</td><td>${problemIf(row.failedItems)}</td><td>${row.waitingItems}</td>${mayOperate ? html`<td>${switchForms(root, caller, row)}</td>` : ''}</tr>`,
  )}
</tbody>
</table></div>`
}

function lastRun({ lastRun: run }: Row): Markup {
  if (run === null) return html`none`
  const text = `${run.status}: ${run.succeeded} succeeded, ${run.failed} failed`
  return run.status === 'failed' || run.status === 'partial'
    ? html`<span class="problem">${text}</span>`
    : html`${text}`
}

function problemIf(count: number): Markup {
  return count === 0 ? html`0` : html`<span class="problem">${count}</span>`
}

/** With the scope `operate`: a link to the page that begins an authorization. A session needs no signed link. */
function reauthorize({ admin: { access }, config }: Integrations, { id, name }: Row, mayOperate: boolean): Markup {
  if (!mayOperate) return html`<span class="problem">needed again</span>`
  const href = `${basePathOf(access.baseUrl)}/${config.oauth.route_prefix}/${id}/oauth/connect`
  return html`<a class="problem" href="${href}" aria-label="Authorize ${name} again">needed again</a>`
}

/** An integration that its health has disabled can be enabled, and can also be disabled by the operator. */
function switchForms(root: string, caller: Caller, row: Row): Markup {
  const offBy = switchedOffBy(row)
  return html`${offBy === null ? '' : switchForm(root, caller, row, 'enable')}${offBy === 'an operator' ? '' : switchForm(root, caller, row, 'disable')}`
}

function switchForm(root: string, { session }: Caller, { id, name }: Row, action: 'enable' | 'disable'): Markup {
  const label = action === 'enable' ? 'Enable' : 'Disable'
  return html`<form method="post" action="${root}/integrations/${id}/${action}">${session === null ? '' : csrfField(session.csrfToken)}<button type="submit" aria-label="${label} ${name}">${label}</button></form>`
}

/** For the first page: the number of open incidents, with a link to them. */
async function openIncidents(integrations: Integrations): Promise<Markup> {
  let open = 0
  for await (const _ of integrations.admin.incidents.list({ status: 'open', limit: COUNTED + 1 })) open += 1
  const root = operatorRoot(integrations)
  if (open === 0)
    return html`<p>No incident is open. <a href="${root}/incidents">Incidents</a> · <a href="${root}/api/v1/docs">API</a></p>`
  const many = open > COUNTED ? `More than ${COUNTED} incidents` : `${open} incident${open === 1 ? '' : 's'}`
  return html`<p class="problem"><a href="${root}/incidents?status=open">${many}</a> ${open === 1 ? 'is' : 'are'} open. <a href="${root}/api/v1/docs">API</a></p>`
}

function incidentTable(rows: readonly Incident[]): Markup {
  if (rows.length === 0) return html`<p>No incidents.</p>`
  return html`<div class="wide"><table>
<caption>Newest first. Times are UTC.</caption>
<thead><tr><th scope="col">Incident</th><th scope="col">Integration</th><th scope="col">Provider</th><th scope="col">Status</th><th scope="col">Peak</th><th scope="col">Reason</th><th scope="col">Opened</th><th scope="col">Last error</th><th scope="col">Closed</th></tr></thead>
<tbody>${rows.map(
    (row) => html`
<tr><th scope="row">${row.id}</th><td>${row.integrationName} (${row.integrationId})</td><td>${row.provider}</td><td>${row.status}</td><td>${row.peakSeverity}</td><td>${row.reason}</td><td>${time(row.openedAt)}</td><td>${row.lastErrorAt === null ? '' : time(row.lastErrorAt)}</td><td>${row.closedAt === null ? '' : time(row.closedAt)}</td></tr>`,
  )}
</tbody>
</table></div>`
}
