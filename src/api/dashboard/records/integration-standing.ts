/** How an integration stands, in words: on its own page, in the list of all, and at home. */
import { html } from 'hono/html'
import type { z } from 'zod'
import { basePathOf } from '../../../access/rules.ts'
import type { StandingShape } from '../../../commands/shapes.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { activeText, percentOf, switchedOffBy } from '../../../integrations/rules.ts'
import type { SchedulePause, SyncPause } from '../../../syncs/pause-rules.ts'
import { schedulePauseText } from '../../../syncs/pause-rules.ts'
import { runUnderWay } from '../../../syncs/run-rules.ts'
import { sparkline } from '../charts/charts.ts'
import type { Reader } from '../frame/frame.ts'
import type { Column, Markup } from '../frame/markup.ts'
import { badge, time } from '../frame/markup.ts'
import { rowLink } from './record-links.ts'

/** What a list has of an integration. */
export interface Standing extends z.infer<typeof StandingShape> {
  readonly next_sync_at: Date | null
  readonly consecutive_sync_failures: number
}

type Switch = Pick<Standing, 'is_active' | 'health_status' | 'switched_off_at'>
const onOff = ({ is_active: isActive, health_status: healthStatus, switched_off_at: switchedOffAt }: Switch) => ({
  isActive,
  healthStatus,
  switchedOffAt,
})

/** The page on which a person begins an authorization: a session needs no signed link. Null: it is not served here. */
export function connectPath({ admin: { access }, config }: Integrations, id: number): string | null {
  if (access.isAlone) return null
  return `${basePathOf(access.baseUrl)}/${config.oauth.route_prefix}/${id}/oauth/connect`
}

/** With `operate` a link to where it is authorized again, if that is served here. */
export function reauthorize(
  integrations: Integrations,
  reader: Reader,
  { id, name }: Pick<Standing, 'id' | 'name'>,
): Markup {
  const connects = connectPath(integrations, id)
  if (!reader.mayOperate || connects === null) return html`<span class="bad">authorization is needed again</span>`
  return html`<a class="bad" href="${connects}" aria-label="Reconnect ${name}">Reconnect</a>`
}

/** When the next sync begins, and what it waits for. */
export function nextSync(
  row: Switch & Pick<Standing, 'reauth_required' | 'circuit' | 'next_sync_at' | 'consecutive_sync_failures' | 'pause'>,
  schedulePause: SchedulePause | null,
): Markup {
  const off = switchedOffBy(onOff(row))
  if (off !== null) return html`none: switched off by ${off}`
  if (row.reauth_required) return html`none works until a person authorizes it again`
  if (row.pause !== null) return pausedText(row.pause)
  const { next_sync_at: at, consecutive_sync_failures: failures } = row
  const held = row.circuit === 'open' || row.circuit === 'forced_open' ? ', its circuit is open' : ''
  const backsOff = failures === 0 ? '' : `, ${failures} in a row had failures`
  if (at === null) return html`<span class="quiet">not planned${held}</span>`
  if (schedulePause !== null) return notStarted(schedulePause)
  return html`${at.getTime() <= Date.now() ? 'due since ' : ''}${time(at)}${held}${backsOff}`
}

export const pausedText = ({ by, since }: SyncPause): Markup =>
  html`<span class="bad">paused by ${by} since ${time(since)}</span>`

/** A sync by hand begins all the same. */
export const notStarted = (pause: SchedulePause): Markup =>
  html`<span class="bad">none begins by itself: ${schedulePauseText(pause)} since ${time(pause.since)}</span>`

function lastRun(root: string, { last_run: run, open_run: open, waiting_items: waiting }: Standing): Markup {
  const ended =
    run === null
      ? html`<span class="quiet">none</span>`
      : html`${rowLink(root, 'sync-runs', run.id, badge(run.status))} ${run.succeeded} succeeded, ${run.failed} failed`
  if (open === null) return ended
  return html`${ended}; ${rowLink(root, 'sync-runs', open.id, runUnderWay(open, waiting, new Date()))}`
}

const inItems = (root: string, id: number, filter: string, count: number): Markup =>
  html`<a href="${root}/sync-items?integration=${id}&amp;${filter}"${count === 0 ? '' : html` class="bad"`}>${count}</a>`

const sum = (hours: readonly number[]): number => hours.reduce((all, each) => all + each, 0)

/** Of these integrations. */
export async function standingColumns(
  integrations: Integrations,
  reader: Reader,
  rows: readonly Pick<Standing, 'id'>[],
): Promise<readonly Column<Standing>[]> {
  const { root } = reader
  // From the sums behind the charts: the rows of a busy integration's day take longer to count than the rest of the page.
  const ids = rows.map(({ id }) => id)
  const [lines, schedulePause] = await Promise.all([
    integrations.admin.charts.sparklines(ids),
    integrations.admin.operator.schedulePause(),
  ])
  const day = (id: number) => lines.get(id) ?? { calls: [], failures: [] }
  return [
    { head: 'Name', cell: ({ id, name }) => rowLink(root, 'integrations', id, name) },
    {
      head: 'Provider',
      cell: ({ provider, registered }) =>
        html`${provider}${registered ? '' : html` <span class="bad">(not registered)</span>`}`,
    },
    {
      head: 'Health',
      cell: (row) =>
        html`${badge(row.health_status)}${row.stale ? html` ${badge('stale')}` : ''}${row.circuit === 'closed' ? '' : html` circuit ${badge(row.circuit)}`}${row.reauth_required ? html` ${reauthorize(integrations, reader, row)}` : ''}`,
    },
    { head: 'On', cell: (row) => activeText(onOff(row)) },
    {
      head: 'Calls, 24 h',
      cell: ({ id }) => {
        const { calls, failures } = day(id)
        const rate = percentOf(sum(failures), sum(calls))
        return sum(calls) === 0
          ? html`<span class="quiet">none</span>`
          : html`${sparkline(day(id))} <a href="${root}/requests?integration=${id}">${sum(calls)}</a>${rate ? html`, <span class="bad">${rate} % failed</span>` : ''}`
      },
    },
    { head: 'Next sync', cell: (row) => nextSync(row, schedulePause) },
    { head: 'Last clean sync', cell: (row) => time(row.last_synced_at) },
    { head: 'Last run', cell: (row) => lastRun(root, row) },
    {
      head: 'Failed items',
      isNumber: true,
      cell: ({ id, failed_items: n }) => inItems(root, id, 'status=failed&made_up_for=false', n),
    },
    {
      head: 'Waiting',
      isNumber: true,
      cell: ({ id, waiting_items: n }) =>
        n === 0 ? '0' : html`<a href="${root}/sync-items?integration=${id}&amp;waiting=true">${n}</a>`,
    },
  ]
}
