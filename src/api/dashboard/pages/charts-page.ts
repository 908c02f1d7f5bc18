/** Figures over time: of all integrations, of a provider's, of one. Rule: docs/behaviour/charts.md. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import { z } from 'zod'
import { provider } from '../../../commands/fields.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { ChartWindow } from '../../../rollups/rollup-rules.ts'
import { CHART_WINDOWS } from '../../../rollups/rollup-rules.ts'
import { queryOf } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { idIn } from '../../named-routes.ts'
import type { FigureChart } from '../charts/figure-charts.ts'
import { FIGURE_CHARTS, figureChart, figureMarks } from '../charts/figure-charts.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { tableOf } from '../frame/markup.ts'
import { rowLink } from '../records/record-links.ts'

/** Integrations of each list of the busiest. */
const MOST = 10

const empty = z.literal('').transform(() => undefined)
const query = z.strictObject({
  window: z
    .enum(CHART_WINDOWS, { error: `one of ${CHART_WINDOWS.join(', ')} is allowed` })
    .or(empty)
    .optional(),
  provider: empty.or(provider('').schema).optional(),
  integration: empty
    .or(
      z
        .string()
        .transform(idIn)
        .refine((id) => id > 0, 'an id is allowed'),
    )
    .optional(),
})

type Found = Awaited<ReturnType<Integrations['admin']['charts']['busiest']>>
const kept = new WeakMap<Integrations, Map<string, { readonly untilMs: number; readonly found: Promise<Found> }>>()
/** Of a week or more they hardly change in a minute, and are summed from 300,000 buckets: the page is drawn again every 2 s. */
const KEPT_MS: Readonly<Record<ChartWindow, number>> = { '1h': 0, '24h': 0, '7d': 60_000, '30d': 60_000 }

function busiestOf(
  integrations: Integrations,
  asked: { readonly window: ChartWindow; readonly provider: string | undefined },
): Promise<Found> {
  const of = kept.get(integrations) ?? new Map()
  kept.set(integrations, of)
  const key = JSON.stringify([asked.window, asked.provider])
  const nowMs = performance.now()
  for (const [each, { untilMs }] of of) if (untilMs <= nowMs) of.delete(each)
  const known = of.get(key)
  if (known !== undefined) return known.found
  const found = integrations.admin.charts.busiest({ ...asked, by: 'either', limit: MOST })
  if (KEPT_MS[asked.window] > 0) {
    of.set(key, { untilMs: nowMs + KEPT_MS[asked.window], found })
    found.catch(() => of.delete(key))
  }
  return found
}

export async function chartsPage(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response> {
  const { root } = readerOf(integrations, context)
  const { window = '24h', provider, integration: integrationId } = queryOf(context, query)
  const { charts } = integrations.admin
  if (integrationId !== undefined) await integrations.get(integrationId)
  const asked = { window, provider, integrationId }
  const [series, found] = await Promise.all([
    charts.series(asked),
    // Of one integration there is nothing to compare.
    integrationId === undefined ? busiestOf(integrations, { window, provider }) : [],
  ])
  const marks = await charts.marks({ provider, integrationId, from: series.from, to: series.to })
  const byCalls = found.slice(0, MOST)
  const byFailures = found
    .filter(({ failures }) => failures > 0)
    .sort((a, b) => b.failures - a.failures || a.integrationId - b.integrationId)
    .slice(0, MOST)
  const of = { ...(provider && { provider }), ...(integrationId && { integration: String(integrationId) }) }
  const link = (each: ChartWindow): Markup =>
    html`<a href="${root}/charts?${new URLSearchParams({ window: each, ...of }).toString()}"${each === window ? html` aria-current="true"` : ''}>${each}</a> `
  const busiest = (caption: string, rows: typeof byCalls): Markup =>
    tableOf({
      caption,
      columns: [
        { head: 'Integration', cell: ({ integrationId: id, name }) => rowLink(root, 'integrations', id, name) },
        { head: 'Provider', cell: (row) => row.provider },
        { head: 'Calls', isNumber: true, cell: (row) => row.calls },
        { head: 'Failed', isNumber: true, cell: (row) => row.failures },
      ],
      rows,
      none: 'None in this time.',
    })
  return dashboardPage(integrations, context, {
    title: 'Charts',
    section: 'charts',
    isLive: true,
    main: html`<nav aria-label="Time">${CHART_WINDOWS.map(link)}</nav>
<form class="filters" action="${root}/charts"><input type="hidden" name="window" value="${window}"><label>provider<input name="provider" value="${provider ?? ''}" autocomplete="off"></label><label>integration<input name="integration" value="${integrationId ?? ''}" inputmode="numeric" autocomplete="off"></label><button type="submit">Show</button> <a href="${root}/charts?window=${window}">All</a></form>
<div class="charts">${(Object.keys(FIGURE_CHARTS) as FigureChart[]).map((which) => figureChart(which, series, marks))}</div>
${figureMarks(series, marks)}
${integrationId === undefined ? html`<h2>Busiest integrations</h2>${busiest('By calls', byCalls)}<h2>Most failures</h2>${busiest('By failed calls', byFailures)}` : ''}`,
  })
}
