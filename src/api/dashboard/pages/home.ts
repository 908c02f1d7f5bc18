/** The first page: what is wrong now, and how each integration stands. Rule: docs/dashboard.md, "Home". */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { z } from 'zod'
import { columns } from '../../../commands/command.ts'
import type { IncidentRow } from '../../../commands/shapes.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { buttons } from '../acts/acts.ts'
import { ask } from '../acts/operation-door.ts'
import type { Reader } from '../frame/frame.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { pre, tableOf, time } from '../frame/markup.ts'
import { givenFilter } from '../lists/listing-page.ts'
import type { Standing } from '../records/integration-standing.ts'
import { connectPath, standingColumns } from '../records/integration-standing.ts'
import { rowLink } from '../records/record-links.ts'
import { isOld, lookedAt, oldLook, runDoctor, sharedLook } from './system-pages.ts'
import type { Trouble, TroubleGroup } from './troubles.ts'
import { troubleGroups, troubleSummary } from './troubles.ts'

const INTEGRATIONS = '50'
/** Incidents that are named here; the list has all. */
const INCIDENTS = 20

type Incidents = { readonly data: readonly z.infer<typeof IncidentRow>[]; readonly next: number | null }

export async function homePage(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response> {
  const reader = readerOf(integrations, context)
  const { root } = reader
  const given = givenFilter(context)
  const [diagnosis, incidents, listed] = await Promise.all([
    sharedLook(integrations),
    ask<Incidents>(integrations, context, 'get /incidents', { status: 'open', limit: String(INCIDENTS) }),
    ask<{ data: readonly Standing[]; next: number | null }>(integrations, context, 'get /integrations', {
      ...given,
      limit: INTEGRATIONS,
      traffic: 'false',
    }),
  ])
  const isOfBefore = isOld(diagnosis)
  const groups = troubleGroups((diagnosis?.findings ?? []).map(columns), incidents.data)
  return dashboardPage(integrations, context, {
    title: 'Home',
    section: '',
    isLive: true,
    main: html`<section aria-labelledby="wrong"><h2 id="wrong">${isOfBefore ? 'What was wrong' : 'What is wrong now'}</h2>
${oldLook(diagnosis)}${isOfBefore || (diagnosis === null && groups.length === 0) ? '' : troubleSummary(groups)}
<p class="quiet">${lookedAt(diagnosis)}${diagnosis === null ? '' : html` <a href="${root}/doctor">All that it looks at</a>`}</p>
${runDoctor(root)}
${groups.map((group) => groupOf(integrations, reader, group))}
${incidents.next === null ? '' : html`<p><a href="${root}/incidents?status=open">All open incidents</a></p>`}</section>
<section aria-labelledby="integrations"><h2 id="integrations">Integrations</h2>
${tableOf({
  caption: 'Newest first. Times are UTC.',
  columns: await standingColumns(integrations, reader, listed.data),
  rows: listed.data,
  none: 'There is no integration yet.',
})}
<p>${given.after === undefined ? '' : html`<a href="${root}">Newest</a> `}${listed.next === null ? '' : html`<a rel="next" href="${root}?after=${listed.next}">Older</a>`}</p></section>`,
  })
}

function groupOf(integrations: Integrations, reader: Reader, { title, severity, troubles }: TroubleGroup): Markup {
  return html`<div class="panel ${severity === 'fault' ? 'trouble' : 'caution'}"><h3>${title} <span class="badge ${severity === 'fault' ? 'bad' : 'warn'}">${severity}</span></h3>
<ul class="troubles">${troubles.map((trouble) => html`<li>${troubleLine(integrations, reader, trouble)}</li>\n`)}</ul></div>`
}

function troubleLine(integrations: Integrations, reader: Reader, trouble: Trouble): Markup {
  const { why, since, integrationId: of, acts, at, remedy, needsPerson } = trouble
  const connects = needsPerson && of !== null && reader.mayOperate ? connectPath(integrations, of) : null
  return html`<p>${/[.!?]$/.test(why) ? why : `${why}.`}${since === null ? '' : html` <span class="quiet">Since ${time(since)}.</span>`}${of === null ? '' : html` ${rowLink(reader.root, 'integrations', of, `Integration ${of}`)}`}${at === null ? '' : html` · <a href="${reader.root}/${at}">Look</a>`}${connects === null ? '' : html` · <a href="${connects}">Authorize again</a>`}</p>
${buttons(reader, acts)}${remedy === null || (acts.length > 0 && reader.mayOperate) ? '' : pre(remedy, 'What mends it')}`
}
