/** A page that lists rows: filters in the address, newest first, a page at a time. The rows are those of the API's operation. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Shows } from '../../commands/command.ts'
import { snakeCase } from '../../commands/command.ts'
import type { Integrations } from '../../create-integrations.ts'
import { queryGiven } from '../body.ts'
import type { AccessEnvironment } from '../caller.ts'
import { buttons } from './acts.ts'
import { inputOf } from './form-fields.ts'
import type { Section } from './frame.ts'
import { dashboardPage, readerOf } from './frame.ts'
import type { Column, Markup } from './markup.ts'
import { badge, NOTHING, tableOf, time } from './markup.ts'
import { ask, operationOf } from './operation-door.ts'

/** Rows on a page. */
const PAGE = 50
/** Fields that page through a list, and are no filters. */
const PAGING = new Set(['after', 'limit'])

export type Row = Readonly<Record<string, unknown>> & { readonly id: number }

export interface ListingPage {
  /** Its path below the root, too. */
  readonly section: Section
  readonly title: string
  /** Of the API: `get /webhooks`. */
  readonly operation: string
  /** In place of what the command shows. */
  readonly columns?: (root: string) => readonly Column<Row>[]
  /** Acts on everything that the filter finds: keys of operations with some of the same fields. */
  readonly acts?: readonly { readonly operation: string; readonly label?: string }[]
  /** Above the table. */
  readonly lead?: (reader: { readonly root: string; readonly mayOperate: boolean }) => Markup
}

export async function listingPage(
  integrations: Integrations,
  context: Context<AccessEnvironment>,
  { section, title, operation: key, columns, acts = [], lead }: ListingPage,
): Promise<Response> {
  const reader = readerOf(integrations, context)
  const { root } = reader
  const given = Object.fromEntries(Object.entries(queryGiven(context)).filter(([, value]) => value !== ''))
  const { data, next } = await ask<{ data: readonly Row[]; next: number | null }>(integrations, context, key, {
    limit: String(PAGE),
    ...given,
  })
  const { fields, command } = operationOf(key)
  const { shows = {}, none = 'Nothing.' } = command
  const filters = Object.entries(fields).filter(([name]) => !PAGING.has(name))
  const { after, ...filter } = given
  const older = new URLSearchParams({ ...filter, after: String(next) })
  return dashboardPage(integrations, context, {
    title,
    section,
    isLive: after === undefined,
    main: html`${lead?.(reader) ?? ''}
<details${Object.keys(filter).length > 0 ? html` open` : ''}><summary>Filter</summary>
<form class="filters" action="${root}/${section}">${filters.map(([name, field]) => inputOf(name, field, given[snakeCase(name)]))}<button type="submit">Filter</button> <a href="${root}/${section}">All</a></form></details>
${
  data.length > 0
    ? buttons(
        reader,
        acts.flatMap((act) =>
          fits(act.operation, filter) ? [{ ...act, words: sharedWith(act.operation, filter) }] : [],
        ),
      )
    : NOTHING
}
${tableOf({ caption: `${title}, newest first. Times are UTC.`, columns: columns?.(root) ?? columnsOf(root, section, shows), rows: data, none })}
<p>${after === undefined ? '' : html`<a href="${root}/${section}?${new URLSearchParams(filter).toString()}">Newest</a> `}${next === null ? '' : html`<a rel="next" href="${root}/${section}?${older.toString()}">Older</a>`}</p>`,
  })
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

/** The filter's words that an act knows, too. */
function sharedWith(key: string, filter: Readonly<Record<string, string>>): Record<string, string> {
  const known = new Set(Object.keys(operationOf(key).fields).map(snakeCase))
  return Object.fromEntries(Object.entries(filter).filter(([name]) => known.has(name)))
}

/** The columns that the command line shows, with links, moments and states as such. */
function columnsOf(root: string, section: Section, shows: Shows): Column<Row>[] {
  return Object.entries(shows).map(([head, of]) => ({
    head,
    cell: (row) => {
      const value = typeof of === 'string' ? row[of] : of(row)
      return cellOf(root, section, typeof of === 'string' ? of : '', value)
    },
  }))
}

/** Columns that name a row of another list. */
const LEADS_TO: Readonly<Record<string, Section>> = {
  integration_id: 'integrations',
  sync_log_id: 'sync-runs',
  retry_of: 'requests',
  prior_request_id: 'requests',
}
const STATES = new Set(['status', 'health_status', 'circuit', 'state'])

function cellOf(root: string, section: Section, column: string, value: unknown): unknown {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return time(value)
  if (column === 'id') return html`<a href="${root}/${section}/${value}">${value}</a>`
  const leadsTo = LEADS_TO[column]
  if (leadsTo !== undefined) return html`<a href="${root}/${leadsTo}/${value}">${value}</a>`
  if (STATES.has(column)) return badge(String(value))
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)
}
