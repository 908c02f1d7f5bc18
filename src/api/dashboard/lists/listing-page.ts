/** A page that lists rows: filters in the address, newest first, a page at a time. The rows are those of the API's operation. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import { snakeCase } from '../../../commands/command.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { queryGiven } from '../../body.ts'
import type { AccessEnvironment } from '../../caller.ts'
import type { Act } from '../acts/acts.ts'
import { buttons } from '../acts/acts.ts'
import { ask, operationOf } from '../acts/operation-door.ts'
import type { Reader, Section, ServedPage } from '../frame/frame.ts'
import { dashboardPage, readerOf, sectionName } from '../frame/frame.ts'
import type { Column, Markup } from '../frame/markup.ts'
import { NOTHING, tableOf } from '../frame/markup.ts'
import { inputOf } from './form-fields.ts'

/** Rows on a page. */
const PAGE = 50
/** Fields that say how much of a list is given, and are no filters. */
const PAGING = new Set(['after', 'limit', 'traffic'])

export interface ListingPage<Row> {
  /** Its path below the root, too. */
  readonly section: Section
  /** Of the API: `get /webhooks`. */
  readonly operation: string
  /** Given to it whatever the address says, by the fields' names in snake_case. */
  readonly words?: Readonly<Record<string, string>>
  readonly columns: (
    reader: Reader,
    integrations: Integrations,
    rows: readonly Row[],
  ) => readonly Column<Row>[] | Promise<readonly Column<Row>[]>
  /** Acts on everything that the filter finds: operations with some of the same fields. */
  readonly acts?: readonly Omit<Act, 'words'>[]
}

export const listing = <Row>(page: ListingPage<Row>): ServedPage => ({
  section: page.section,
  serve: (integrations, context) => listingPage(integrations, context, page),
})

async function listingPage<Row>(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  { section, operation: key, words = {}, columns, acts = [] }: ListingPage<Row>,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const { root } = reader
  const given = givenFilter(context)
  const { data, next } = await ask<{ data: readonly Row[]; next: number | null }>(integrations, context, key, {
    limit: String(PAGE),
    ...given,
    ...words,
  })
  const { after, ...filter } = given
  const older = new URLSearchParams({ ...filter, after: String(next) })
  return dashboardPage(integrations, context, {
    title: sectionName(section),
    section,
    // What was stored until a moment does not grow.
    isLive: after === undefined && given.until === undefined,
    main: html`${filterForm(root, section, key, given)}
${isOfADay(section, filter) ? html`<p>Of 24 hours alone. A time, or an integration, in the filter shows others.</p>` : NOTHING}
${
  data.length > 0
    ? buttons(
        reader,
        acts.flatMap((act) =>
          fits(act.operation, filter) && !isOfADay(section, filter)
            ? [{ ...act, words: shared(act.operation, filter) }]
            : [],
        ),
      )
    : NOTHING
}
${tableOf({
  caption: `${sectionName(section)}, newest first. Times are UTC.`,
  columns: await columns(reader, integrations, data),
  rows: data,
  none: operationOf(key).command.none ?? 'Nothing.',
})}
<p>${after === undefined ? '' : html`<a href="${root}/${section}?${new URLSearchParams(filter).toString()}">Newest</a> `}${next === null ? '' : html`<a rel="next" href="${root}/${section}?${older.toString()}">Older</a>`}</p>`,
  })
}

/** Words of webhooks and of items that lead to rows of any time. */
const OF_ANY_TIME = ['since', 'integration', 'delivery', 'run', 'made_up_for']
const SETTLED = new Set(['processed', 'success', 'skipped'])

/** Whether the list looks through a day only, as docs/behaviour/webhook-replay.md says: an act on all that fit would take older ones. */
function isOfADay(section: Section, filter: Readonly<Record<string, string>>): boolean {
  const { event, stream, status, waiting, dismissed } = filter
  const isOfAKind = (section === 'webhooks' || section === 'sync-items') && (event ?? stream) !== undefined
  const isSettled = (status === undefined || SETTLED.has(status)) && waiting !== 'true' && dismissed !== 'true'
  return isOfAKind && isSettled && !OF_ANY_TIME.some((word) => filter[word] !== undefined)
}

/** Whether an act means all that the filter finds: one that knows less of it would take more. */
function fits(key: string, filter: Readonly<Record<string, string>>): boolean {
  const { fields } = operationOf(key)
  const known = new Map(Object.entries(fields).map(([name, field]) => [snakeCase(name), field]))
  return Object.entries(filter).every(([name, value]) => {
    const field = known.get(name)
    if (field === undefined) return isMeantAnyway(name, value)
    return field.schema.safeParse(field.read(value)).success
  })
}

/** Acts on what has failed need not be told so. */
const isMeantAnyway = (name: string, value: string): boolean =>
  (name === 'status' && value === 'failed') || (name === 'dismissed' && value === 'false')

/** What the address says; an empty input counts as none. */
export const givenFilter = (context: Context): Record<string, string> =>
  Object.fromEntries(Object.entries(queryGiven(context)).filter(([, value]) => value !== ''))

/** Inputs for an operation's filters, open while one is set. */
export function filterForm(
  root: string,
  section: Section,
  key: string,
  given: Readonly<Record<string, string>>,
): Markup {
  const filters = Object.entries(operationOf(key).fields).filter(([name]) => !PAGING.has(name))
  const isSet = filters.some(([name]) => given[snakeCase(name)] !== undefined)
  return html`<details${isSet ? html` open` : ''}><summary>Filter</summary>
<form class="filters" action="${root}/${section}">${filters.map(([name, field]) => inputOf(name, field, given[snakeCase(name)]))}<button type="submit">Filter</button> <a href="${root}/${section}">All</a></form></details>`
}

/** The filter's words that an act knows, too. */
export function shared(key: string, filter: Readonly<Record<string, string>>): Record<string, string> {
  const known = new Set(Object.keys(operationOf(key).fields).map(snakeCase))
  return Object.fromEntries(Object.entries(filter).filter(([name]) => known.has(name)))
}
