/** Finds records by a text, by a probe of an index in each integration. Rule: docs/behaviour/explain.md, "References". */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { Limits } from '../access/rules.ts'
import { isOneOfThem } from '../db/integrations-of.ts'
import type { Framework } from '../framework/context.ts'
import type { RecordRef } from './life-lines.ts'
import type { Reference, TextKind } from './reference-rules.ts'
import { modelIn } from './reference-rules.ts'

export type TextReference = Extract<Reference, { readonly kind: 'text' }>

/** Matches that are named. */
export const MAX_MATCHES = 10

interface Found {
  readonly id: number
  readonly integrationId: number
}

/** In the order of the kinds; one more than {@link MAX_MATCHES} of each at most. Only what lies within the limits. */
export async function matchesOf(
  framework: Framework,
  { text, of, integrationId }: TextReference,
  limits: Limits,
): Promise<RecordRef[]> {
  const { webhooks, mappings, syncItems, requests, idempotencyKeys } = framework.tables
  const within = isOneOfThem(framework.tables, { ...limits, integrationId: integrationId ?? undefined }) ?? sql`true`
  const inEach = (table: PgTable, column: PgColumn) => oneInEach(framework, table, column, text, within)
  const questions: Readonly<Record<TextKind, () => Promise<RecordRef[]>>> = {
    model: async () =>
      (await hasModel(framework, text, within)) ? [{ kind: 'model', id: text, integrationId: null }] : [],
    delivery: async () => (await inEach(webhooks, webhooks.deliveryId)).map((row) => ({ kind: 'webhook', ...row })),
    external: async () =>
      distinct(await inEach(mappings, mappings.externalId), await inEach(syncItems, syncItems.externalId)).map(
        (known) => ({ kind: 'external', id: text, integrationId: known }),
      ),
    'provider-request': async () =>
      (await requestsKnownAs(framework, text, within)).map((row) => ({ kind: 'request', ...row })),
    key: async () =>
      distinct(await inEach(idempotencyKeys, idempotencyKeys.key), await inEach(requests, requests.idempotencyKey)).map(
        (known) => ({ kind: 'key', id: text, integrationId: known }),
      ),
  }
  return (await Promise.all(of.map((kind) => questions[kind]()))).flat()
}

function distinct(...found: readonly (readonly Found[])[]): number[] {
  return [...new Set(found.flat().map(({ integrationId }) => integrationId))].sort((a, b) => a - b)
}

/** In each integration that knows the text, one of its rows: a probe of its index for each, as the limit within leaves no other plan. */
async function oneInEach(
  { db, tables: { integrations } }: Framework,
  table: PgTable,
  column: PgColumn,
  text: string,
  within: SQL,
): Promise<Found[]> {
  const found = await db.execute<{ id: string; integration_id: string }>(sql`
    select one.id, ${integrations.id} as integration_id from ${integrations} cross join lateral (
      select t.id from ${table} t
      where t.integration_id = ${integrations.id} and t.${sql.identifier(column.name)} = ${text} limit 1
    ) one where ${within} order by ${integrations.id} limit ${MAX_MATCHES + 1}`)
  return found.map((row) => ({ id: Number(row.id), integrationId: Number(row.integration_id) }))
}

/** The newest. */
async function requestsKnownAs(
  { db, tables: { requests, integrations } }: Framework,
  text: string,
  within: SQL,
): Promise<Found[]> {
  const found = await db.execute<{ id: string; integration_id: string }>(sql`
    select r.id, r.integration_id from ${requests} r
    join ${integrations} on ${integrations.id} = r.integration_id and ${within}
    where r.provider_request_id = ${text}
    order by r.id desc limit ${MAX_MATCHES + 1}`)
  return found.map((row) => ({ id: Number(row.id), integrationId: Number(row.integration_id) }))
}

/** Whether one maps it. */
async function hasModel({ db, tables }: Framework, text: string, within: SQL): Promise<boolean> {
  const model = modelIn(text)
  if (model === null) return false
  const { mappings, integrations } = tables
  const [row] = await db.execute<{ found: boolean }>(sql`
    select exists (select from ${mappings} m join ${integrations} on ${integrations.id} = m.integration_id and ${within}
                   where m.internal_type = ${model.type} and m.internal_id = ${model.id}) as found`)
  return row?.found === true
}
