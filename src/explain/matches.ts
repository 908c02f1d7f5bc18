/** Finds records by a text: each question walks an index that the text leads. Rule: docs/behaviour/explain.md, "References". */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { Limits } from '../access/rules.ts'
import type { Framework } from '../framework/context.ts'
import type { RecordRef } from './lives.ts'
import type { Reference, TextKind } from './reference-rules.ts'
import { modelIn } from './reference-rules.ts'

export type TextReference = Extract<Reference, { readonly kind: 'text' }>

/** Matches that are named. */
export const MAX_MATCHES = 10

interface Found {
  readonly integrationId: number
  /** Null: found is the integration that knows the text. */
  readonly id: number | null
}

/** In the order of the kinds; one more than {@link MAX_MATCHES} of each at most. Only what lies within the limits. */
export async function matchesOf(
  framework: Framework,
  { text, of, integrationId }: TextReference,
  limits: Limits,
): Promise<RecordRef[]> {
  const { tables } = framework
  const { webhooks, mappings, syncItems, requests, idempotencyKeys } = tables
  const within = withinLimits(limits, integrationId)
  const rows = (table: PgTable, column: PgColumn) => rowsWith(framework, table, column, text, within)
  const integrations = (table: PgTable, column: PgColumn) => integrationsWith(framework, table, column, text, within)
  const questions: Readonly<Record<TextKind, () => Promise<RecordRef[]>>> = {
    model: async () =>
      (await hasModel(framework, text, within)) ? [{ kind: 'model', id: text, integrationId: null }] : [],
    delivery: async () => (await rows(webhooks, webhooks.deliveryId)).map(rowRef('webhook')),
    external: async () =>
      distinct([
        ...(await integrations(mappings, mappings.externalId)),
        ...(await integrations(syncItems, syncItems.externalId)),
      ]).map((id) => ({ kind: 'external', id: text, integrationId: id })),
    'provider-request': async () => (await rows(requests, requests.providerRequestId)).map(rowRef('request')),
    key: async () =>
      distinct([
        ...(await integrations(idempotencyKeys, idempotencyKeys.key)),
        ...(await integrations(requests, requests.idempotencyKey)),
      ]).map((id) => ({ kind: 'key', id: text, integrationId: id })),
  }
  return (await Promise.all(of.map((kind) => questions[kind]()))).flat()
}

const rowRef =
  (kind: 'webhook' | 'request') =>
  ({ id, integrationId }: Found): RecordRef => ({ kind, id: id ?? 0, integrationId })

function distinct(found: readonly Found[]): number[] {
  return [...new Set(found.map(({ integrationId }) => integrationId))].sort((a, b) => a - b)
}

/** A condition on the row `i` of an integration. */
export function withinLimits({ provider, owner }: Limits, integrationId: number | null = null): SQL {
  const conditions = [
    ...(integrationId === null ? [] : [sql`i.id = ${integrationId}`]),
    ...(provider === undefined ? [] : [sql`i.provider = ${provider}`]),
    ...(owner === undefined ? [] : [sql`i.owner_type = ${owner.type} and i.owner_id = ${owner.id}`]),
  ]
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `)
}

async function rowsWith(
  { db, tables }: Framework,
  table: PgTable,
  column: PgColumn,
  text: string,
  within: SQL,
): Promise<Found[]> {
  const found = await db.execute<{ id: string; integration_id: string }>(sql`
    select r.id, r.integration_id from ${table} r join ${tables.integrations} i on i.id = r.integration_id and ${within}
    where r.${sql.identifier(column.name)} = ${text}
    order by r.id desc limit ${MAX_MATCHES + 1}`)
  return found.map((row) => ({ id: Number(row.id), integrationId: Number(row.integration_id) }))
}

/** From one integration to the next by the index, however many rows of one know the text. */
async function integrationsWith(
  { db, tables }: Framework,
  table: PgTable,
  column: PgColumn,
  text: string,
  within: SQL,
): Promise<Found[]> {
  const named = sql`r.${sql.identifier(column.name)} = ${text}`
  const next = (after: SQL) =>
    sql`(select r.integration_id from ${table} r where ${named} and r.integration_id > ${after}
         order by r.integration_id limit 1)`
  const found = await db.execute<{ id: string }>(sql`
    with recursive walk as (
      select ${next(sql`0`)} as id
      union all
      select ${next(sql`walk.id`)} from walk where walk.id is not null
    )
    select walk.id from walk join ${tables.integrations} i on i.id = walk.id and ${within} limit ${MAX_MATCHES + 1}`)
  return found.map(({ id }) => ({ id: null, integrationId: Number(id) }))
}

async function hasModel({ db, tables }: Framework, text: string, within: SQL): Promise<boolean> {
  const model = modelIn(text)
  if (model === null) return false
  const { mappings, requests, integrations } = tables
  const number = /^\d{1,15}$/.test(model.id) ? Number(model.id) : null
  const related =
    number === null
      ? sql``
      : sql` or exists (select from ${requests} r join ${integrations} i on i.id = r.integration_id and ${within}
                        where r.related_id = ${number} and r.related_type = ${model.type})`
  const [row] = await db.execute<{ found: boolean }>(sql`
    select exists (select from ${mappings} m join ${integrations} i on i.id = m.integration_id and ${within}
                   where m.internal_type = ${model.type} and m.internal_id = ${model.id})${related} as found`)
  return row?.found === true
}
