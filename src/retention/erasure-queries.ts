/**
 * Statements that blank what an integration's rows hold of others' data. Each takes the next rows by ascending id and
 * passes over those that are blank already, so a second walk finds nothing.
 *
 * Rule: docs/behaviour/integrations.md, "Erasure".
 */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Chunk, Walked } from './deletion-queries.ts'
import { walked } from './deletion-queries.ts'

/** What stands where an error's text was, and why unfinished work ended. */
export const ERASED = 'erased'

/** Tables that hold such data. */
export const ERASABLE = [
  'webhooks',
  'requests',
  'syncItems',
  'logs',
  'events',
] as const satisfies readonly (keyof Tables)[]
export type ErasableTable = (typeof ERASABLE)[number]

interface Blanking {
  /** The columns' new values, of a row called `t`. */
  readonly set: SQL
  /** Whether there is something to blank. */
  readonly where: SQL
}

const error = sql`error = case when t.error is null then null else ${ERASED} end`
const hasError = sql`(t.error is not null and t.error <> ${ERASED})`
/** The framework's own notes of its runs, cursors and operators' acts: ids, counts, positions. */
const OWN_NOTES = sql`t.operation in ('sync', 'cursor', 'remap', 'erase', 'operator')`

const BLANKING: Readonly<Record<ErasableTable, Blanking>> = {
  // Without its payload a delivery can't be handled any more, so one that waits ends as failed.
  webhooks: {
    set: sql`payload = '', headers = '{}'::jsonb, claim = null,
             status = case when t.status = 'processed' then 'processed' else 'failed' end,
             error = case when t.status = 'processed' then null else ${ERASED} end,
             processed_at = coalesce(t.processed_at, clock_timestamp())`,
    where: sql`t.payload <> '' or t.headers <> '{}'::jsonb or t.status in ('pending', 'processing') or ${hasError}`,
  },
  // Nor may an answer that is gone be served from the response cache.
  requests: {
    set: sql`request_data = null, response_data = null, request_hash = null, expires_at = null, ${error}`,
    where: sql`t.request_data is not null or t.response_data is not null or t.request_hash is not null
               or t.expires_at is not null or ${hasError}`,
  },
  // An item that had not ended stays in the way of the cursor: it was never handled.
  syncItems: {
    set: sql`payload = null, claim = null, last_error = null, next_attempt_at = null,
             status = case when t.status in ('pending', 'processing') then 'failed' else t.status end,
             error = case when t.status in ('pending', 'processing') or t.error is not null then ${ERASED} end,
             completed_at = coalesce(t.completed_at, clock_timestamp())`,
    where: sql`t.payload is not null or t.status in ('pending', 'processing') or ${hasError}`,
  },
  logs: {
    set: sql`summary = case when ${OWN_NOTES} then t.summary end, result_data = null,
             metadata = case when ${OWN_NOTES} then t.metadata end,
             status = case when t.status in ('processing', 'pending') then 'failed' else t.status end,
             error = case when t.status in ('processing', 'pending') or t.error is not null then ${ERASED} end`,
    where: sql`t.result_data is not null
               or ((t.summary is not null or t.metadata is not null) and not ${OWN_NOTES})
               or t.status in ('processing', 'pending') or ${hasError}`,
  },
  // Nobody is told of an event without its content.
  events: {
    set: sql`payload = '{}'::jsonb, outcomes = '{}'::jsonb, claim = null,
             delivered_at = coalesce(t.delivered_at, clock_timestamp())`,
    where: sql`t.payload <> '{}'::jsonb or t.outcomes <> '{}'::jsonb or t.delivered_at is null`,
  },
}

/** Blanks the next rows of a table. Waits for those that somebody holds at this moment. */
export async function eraseChunk(
  db: Database,
  tables: Tables,
  name: ErasableTable,
  { integrationId, afterId, limit }: Chunk,
): Promise<Walked> {
  const table = tables[name]
  const { set, where } = BLANKING[name]
  const [row] = await db.execute<{ rows: number; last_id: string | null }>(sql`
    with chunk as (
      select t.id from ${table} t where t.integration_id = ${integrationId} and t.id > ${afterId} and (${where})
      order by t.id limit ${limit} for update
    ), blanked as (
      update ${table} t set ${set}, updated_at = clock_timestamp()
      from chunk where t.id = chunk.id returning t.id
    )
    select count(*)::int as rows, max(id) as last_id from blanked`)
  return walked(row)
}
