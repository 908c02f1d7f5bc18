/** After an act on many: how far its rows are now. The address says which rows, so the page can be kept and sent on. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import { safeNextPath } from '../../../access/rules.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { MAX_SPANS } from '../../../failures/failure-rules.ts'
import { INSTANT, isInstant } from '../../../framework/instant.ts'
import { invalid, queryGiven } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import type { Operation } from '../../command-routes.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import { badge, tableOf } from '../frame/markup.ts'
import { n } from './act-words.ts'

/** The clocks of this process and of the database differ by less, and a reader seldom does two such acts within it. */
const CLOCKS_DIFFER_MS = 2_000

interface Done {
  readonly result: object
  readonly startedAt: Date
  readonly back: string
}

type Spans = readonly (readonly [number, number])[]

/** Null: the act was on one record, or on none. */
export function progressPath(root: string, { path }: Operation, { result, startedAt, back }: Done): string | null {
  const found = path === '/webhooks/replay' ? replayed(result) : path === '/failures/retry' ? retried(result) : null
  if (found === null || found.rows === 0) return null
  const query = new URLSearchParams({
    kind: found.kind,
    rows: String(found.rows),
    ids: found.spans.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(','),
    since: new Date(startedAt.getTime() - CLOCKS_DIFFER_MS).toISOString(),
    back,
  })
  return `${root}/progress?${query.toString()}`
}

interface Found {
  readonly kind: 'webhook' | 'item'
  readonly rows: number
  readonly spans: Spans
}

function replayed(result: object): Found {
  const { replayed: rows, span } = result as { readonly replayed: number; readonly span: Spans[number] | null }
  return { kind: 'webhook', rows, spans: span === null ? [] : [span] }
}

function retried(result: object): Found {
  const { kind, retried: ids } = result as { readonly kind: 'webhook' | 'item'; readonly retried: readonly number[] }
  return { kind, rows: ids.length, spans: spansOf(ids) }
}

/** Ids that follow each other are one span; too many spans are one over all. */
export function spansOf(ids: readonly number[]): Spans {
  const sorted = [...ids].sort((a, b) => a - b)
  const spans: [number, number][] = []
  for (const id of sorted) {
    const last = spans.at(-1)
    if (last !== undefined && id === last[1] + 1) last[1] = id
    else spans.push([id, id])
  }
  const [first] = sorted
  return spans.length <= MAX_SPANS || first === undefined ? spans : [[first, sorted.at(-1) as number]]
}

const STATES = {
  webhook: ['pending', 'processing', 'processed', 'failed'],
  item: ['pending', 'processing', 'success', 'failed', 'skipped'],
} as const
const SETTLED = new Set<string>(['processed', 'success', 'failed', 'skipped'])

export async function actProgressPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
): Promise<Response> {
  const { root } = readerOf(integrations, context)
  const { kind, rows, spans, since, back } = asked(queryGiven(context))
  const states = await integrations.admin.actProgress({ kind, spans, since })
  const settled = [...states].reduce((sum, [state, count]) => sum + (SETTLED.has(state) ? count : 0), 0)
  const list = kind === 'webhook' ? 'webhooks' : 'sync-items'
  return dashboardPage(integrations, context, {
    title: `${settled >= rows ? 'Done' : 'Under way'}: ${n(rows, kind)}`,
    section: null,
    isLive: settled < rows,
    main: html`<p><progress max="${rows}" value="${Math.min(settled, rows)}" aria-label="Settled"></progress> ${Math.min(settled, rows).toLocaleString('en')} of ${rows.toLocaleString('en')} settled.</p>
${tableOf({
  caption: 'How they stand now',
  columns: [
    { head: 'State', cell: (state: string) => badge(state) },
    {
      head: kind === 'webhook' ? 'Webhooks' : 'Items',
      isNumber: true,
      cell: (state) => (states.get(state) ?? 0).toLocaleString('en'),
    },
    { head: 'List', cell: (state) => html`<a href="${root}/${list}?status=${state}">all that are ${state}</a>` },
  ],
  rows: STATES[kind],
  none: '',
})}
<p><a class="button" href="${safeNextPath(back, `${root}/${list}`)}">Back</a></p>`,
  })
}

/** @throws ProblemError 422 */
function asked(given: Readonly<Record<string, string>>) {
  const { kind, rows = '', ids = '', since = '', back = '' } = given
  if (kind !== 'webhook' && kind !== 'item')
    throw invalid('The query does not fit.', [{ path: 'kind', message: 'webhook or item is allowed' }])
  if (!/^[1-9]\d{0,8}$/.test(rows))
    throw invalid('The query does not fit.', [{ path: 'rows', message: 'a whole number of at least 1 is allowed' }])
  if (!/^\d{1,16}(-\d{1,16})?(,\d{1,16}(-\d{1,16})?)*$/.test(ids))
    throw invalid('The query does not fit.', [{ path: 'ids', message: 'ids such as 3-7,12 are allowed' }])
  const at = new Date(since)
  if (!isInstant(at)) throw invalid('The query does not fit.', [{ path: 'since', message: `${INSTANT} is allowed` }])
  const spans = ids.split(',').map((each): [number, number] => {
    const [from = '', to = from] = each.split('-')
    return [Number(from), Number(to)]
  })
  return { kind, rows: Number(rows), spans, since: at, back } as const
}
