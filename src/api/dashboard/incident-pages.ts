/** The incidents, newest first. Rule: docs/behaviour/operator-api.md, "Pages". */
import { Hono } from 'hono'
import { html } from 'hono/html'
import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { INCIDENT_STATUSES } from '../../incidents/rules.ts'
import { queryOf } from '../body.ts'
import type { AccessEnvironment } from '../caller.ts'
import { operatorRoot } from '../middleware.ts'
import { integrationsQuery } from '../operator-schemas.ts'
import { page, time, whoIsHere } from './layout.ts'

type Markup = ReturnType<typeof html>
type Incident = Awaited<ReturnType<Integrations['incidents']['get']>>

const incidentsPage = z.strictObject({
  after: integrationsQuery.shape.after,
  status: z.enum(INCIDENT_STATUSES).optional(),
})
const PAGE = 50
/** The first page counts up to this many. */
const COUNTED = 100

export function incidentPages(integrations: Integrations): Hono<AccessEnvironment> {
  const root = operatorRoot(integrations)
  const routes = new Hono<AccessEnvironment>()

  routes.get('/incidents', async (context) => {
    const { after, status } = queryOf(context, incidentsPage)
    const rows: Incident[] = []
    // One row more than shown tells whether there is another page.
    for await (const incident of integrations.incidents.list({ after, status, limit: PAGE + 1 })) rows.push(incident)
    const shown = rows.slice(0, PAGE)
    const older = new URLSearchParams({ ...(status && { status }), after: String(shown.at(-1)?.id) })
    return page(context, {
      title: status === undefined ? 'Incidents' : `${status === 'open' ? 'Open' : 'Closed'} incidents`,
      header: whoIsHere(root, context.var.caller),
      main: html`<nav aria-label="Pages"><a href="${root}">Integrations</a> <a href="${root}/incidents">All</a> <a href="${root}/incidents?status=open">Open</a> <a href="${root}/incidents?status=closed">Closed</a></nav>
${table(shown)}${rows.length > PAGE ? html`<p><a href="${root}/incidents?${older.toString()}">Older</a></p>` : ''}`,
    })
  })

  return routes
}

/** For the first page: the number of open incidents, with a link to them. */
export async function openIncidents(integrations: Integrations): Promise<Markup> {
  let open = 0
  for await (const _ of integrations.incidents.list({ status: 'open', limit: COUNTED + 1 })) open += 1
  const root = operatorRoot(integrations)
  if (open === 0) return html`<p>No incident is open. <a href="${root}/incidents">Incidents</a></p>`
  const many = open > COUNTED ? `More than ${COUNTED} incidents` : `${open} incident${open === 1 ? '' : 's'}`
  return html`<p class="problem"><a href="${root}/incidents?status=open">${many}</a> ${open === 1 ? 'is' : 'are'} open.</p>`
}

function table(rows: readonly Incident[]): Markup {
  if (rows.length === 0) return html`<p>There is no such incident.</p>`
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
