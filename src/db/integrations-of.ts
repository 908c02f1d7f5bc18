/** The integrations that a list is about, as its filter names them. */

import type { SQL } from 'drizzle-orm'
import { and, asc, eq, sql } from 'drizzle-orm'
import type { Page } from '../framework/list-filter.ts'
import { newestFirst } from '../framework/list-filter.ts'
import type { Database } from './client.ts'
import type { IntegrationRow, Tables } from './schema/tables.ts'

/** All that is given must hold, of the integration as it is now. */
export interface IntegrationSelection {
  readonly integrationId?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
}

/** More are looked for among the rows of all integrations: one question each would cost more. */
const FEW = 100

/** A condition on the integrations' table; undefined: all of them. */
export function isOneOfThem(
  { integrations }: Tables,
  { integrationId, provider, owner }: IntegrationSelection,
): SQL | undefined {
  return and(
    integrationId === undefined ? undefined : eq(integrations.id, integrationId),
    provider === undefined ? undefined : eq(integrations.provider, provider),
    owner === undefined ? undefined : eq(integrations.ownerType, owner.type),
    owner === undefined ? undefined : eq(integrations.ownerId, owner.id),
  )
}

/** A condition on another table's `integration_id`; undefined: any. */
export function belongsToThem(tables: Tables, column: SQL, of: IntegrationSelection): SQL | undefined {
  const { integrations } = tables
  const isOne = isOneOfThem(tables, of)
  return isOne === undefined
    ? undefined
    : sql`${column} in (select ${integrations.id} from ${integrations} where ${isOne})`
}

/** Which integration a row is of, for a person. */
export interface IntegrationLabels {
  readonly provider: IntegrationRow['provider']
  readonly integrationName: IntegrationRow['name']
}

/** Scalars, so that they are asked for the rows of a page alone, and a plan of before stays. @param id of the row's integration */
export function integrationColumns({ integrations }: Tables, id: SQL) {
  const of = (column: SQL) => sql<string>`(select ${column} from ${integrations} where ${integrations}.id = ${id})`
  return { provider: of(sql`${integrations}.provider`), integrationName: of(sql`${integrations}.name`) }
}

/** Their ids, when they are few; null: they are many, or all. */
export async function fewIntegrations(
  db: Database,
  tables: Tables,
  of: IntegrationSelection,
): Promise<number[] | null> {
  const { integrations } = tables
  const isOne = isOneOfThem(tables, of)
  if (isOne === undefined) return null
  const rows = await db
    .select({ id: integrations.id })
    .from(integrations)
    .where(isOne)
    .orderBy(asc(integrations.id))
    .limit(FEW + 1)
  return rows.length > FEW ? null : rows.map(({ id }) => id)
}

/** Rows that are written side by side may have ids in another order than their times: some hundreds of them, at most. */
const OUT_OF_ORDER = 10_000

/**
 * Rows of all integrations, newest first. A search along the ids ends where no row of `since` or later can be: it would go on to the
 * oldest row. Undefined: there is no such end.
 */
export async function* newestSince<Row extends { readonly id: number }>(
  { db, tables }: { readonly db: Database; readonly tables: Tables },
  rows: Tables['webhooks'] | Tables['syncItems'] | Tables['mappings'],
  since: Date | undefined,
  range: Parameters<typeof newestFirst>[1],
  read: (page: Page, from: number | undefined) => PromiseLike<Row[]>,
): AsyncGenerator<Row> {
  const from = since === undefined ? undefined : await firstIdSince(db, tables, rows, since)
  if (from !== null) yield* newestFirst((page) => read(page, from), range)
}

/** An id below which no row of this moment or later is, by the index of integration and time. Null: there is no such row. */
export async function firstIdSince(
  db: Database,
  { integrations }: Tables,
  rows: Tables['webhooks'] | Tables['syncItems'] | Tables['mappings'],
  since: Date,
): Promise<number | null> {
  const from = since.toISOString()
  const [row] = await db.execute<{ id: string | null }>(sql`
    select min(first.id) as id from ${integrations} cross join lateral (
      select ${rows.id} as id from ${rows}
      where ${rows.integrationId} = ${integrations.id} and ${rows.createdAt} >= ${from}::timestamptz
      order by ${rows.createdAt}, ${rows.id} limit 1
    ) first`)
  return row?.id == null ? null : Math.max(1, Number(row.id) - OUT_OF_ORDER)
}

/** Numbers as one parameter, whatever their number. */
export function bigints(values: readonly number[]): SQL {
  return sql`${`{${values.join(',')}}`}::bigint[]`
}

/**
 * An integration's id whose value the planner does not see. By statistics of before it came an integration has no rows, so that any
 * index with its id seems as good as the right one, and one is taken that reads all its rows.
 */
export const unseenByPlanner = (integrationId: number): SQL => sql`(select ${integrationId}::bigint)`
