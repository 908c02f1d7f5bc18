/** Blanks what an integration's rows hold of others' data. Rule: docs/behaviour/integrations.md, "Erasure". */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import { recordAct } from '../observability/audit.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { DeleteIntegration } from './deletion.ts'
import { bringToRest, changeAll, clearCache } from './deletion.ts'

/** Stands in place of an error's text, and is the error of unfinished work that ended so. */
const ERASED = 'erased'

/** Tables that hold such data. */
const ERASABLE = [
  'webhooks',
  'deliveries',
  'requests',
  'syncItems',
  'recordHashes',
  'writtenRecords',
  'logs',
  'incidents',
  'events',
] as const satisfies readonly (keyof Tables)[]
export type ErasableTable = (typeof ERASABLE)[number]

/** Without `force` an integration with a living run is refused: its items need their payloads. */
export type EraseIntegration = DeleteIntegration

/** Rows that were blanked, by table; of the cache, entries that went. */
export type ErasedRows = Readonly<Record<ErasableTable | 'webhookSubscriptions' | 'cache', number>>

/**
 * Off and without credentials first, then chunk by chunk. A second erasure resumes one that broke off.
 *
 * @throws IntegrationNotFound; IntegrationBusy while a run lives, unless forced; BackendUnreachable; between two chunks the
 *   reason why the command was given up
 */
export async function eraseIntegration(
  framework: Framework,
  id: number,
  { force = false, by, from }: EraseIntegration = {},
): Promise<ErasedRows> {
  const { db, tables, encryption } = framework
  const row = await bringToRest(framework, id, { force, more: () => ({ credentials: encryption.encrypt(id, {}) }) })

  const counts: { -readonly [table in keyof ErasedRows]?: number } = {}
  for (const table of ERASABLE) {
    const { set, where } = BLANKING[table]
    // That of an incident says what its workflow has not seen.
    const updatedAt = table === 'incidents' ? sql`t.updated_at` : sql`clock_timestamp()`
    counts[table] = await changeAll(framework, table, id, {
      which: where,
      lock: sql`for update`,
      change: sql`update ${tables[table]} t set ${set}, updated_at = ${updatedAt} from chunk where t.id = chunk.id`,
    })
  }
  counts.webhookSubscriptions = await eraseSubscriptionError(framework, id)
  // A lock stays its owner's: work under it must not run twice.
  counts.cache = await clearCache(framework, id, { keepLocks: true })
  const erased = counts as ErasedRows
  await insertLog(db, tables, {
    integrationId: id,
    operation: 'erase',
    direction: 'inbound',
    status: 'success',
    metadata: { by: by ?? null, counts: erased },
  })
  await recordAct(db, tables, id, { by: by ?? 'host', from, action: 'erase', target: `integration:${id}` })
  integrationLogger(framework, row).info(
    { event: 'integration.erased', by: by ?? null, rows: erased },
    'an integration was erased',
  )
  return erased
}

/** What the last failed look was answered: one row at most. */
async function eraseSubscriptionError({ db, tables }: Framework, id: number): Promise<number> {
  const rows = await db.execute(sql`
    update ${tables.webhookSubscriptions} set last_error = ${ERASED}, updated_at = clock_timestamp()
    where integration_id = ${id} and last_error <> ${ERASED} returning 1`)
  return rows.length
}

interface Blanking {
  /** The columns' new values, of a row called `t`. */
  readonly set: SQL
  /** Whether there is something to blank. */
  readonly where: SQL
}

const error = sql`error = case when t.error is null then null else ${ERASED} end`
const hasError = sql`(t.error is not null and t.error <> ${ERASED})`
/** The framework's own notes of its runs, cursors and operators' acts: ids, counts, positions. A run's end reads them. */
const OWN_NOTES = sql`t.operation in ('sync', 'backfill', 'cursor', 'remap', 'erase', 'operator')`

const BLANKING: Readonly<Record<ErasableTable, Blanking>> = {
  // Without its payload a delivery can't be handled any more, so one that waits ends as failed.
  webhooks: {
    set: sql`payload = '', headers = '{}'::jsonb, claim = null, ordering_key = null, key_turn = null,
             status = case when t.status = 'processed' then 'processed' else 'failed' end,
             error = case when t.status = 'processed' then null else ${ERASED} end,
             processed_at = coalesce(t.processed_at, clock_timestamp())`,
    where: sql`t.payload <> '' or t.headers <> '{}'::jsonb or t.status in ('pending', 'processing') or t.ordering_key is not null
               or ${hasError}`,
  },
  deliveries: {
    set: sql`payload = '', headers = '{}'::jsonb`,
    where: sql`t.payload <> '' or t.headers <> '{}'::jsonb`,
  },
  // An answer that is gone must not be served from the response cache.
  requests: {
    set: sql`request_data = null, response_data = null, request_hash = null, expires_at = null, ${error}`,
    where: sql`t.request_data is not null or t.response_data is not null or t.request_hash is not null
               or t.expires_at is not null or ${hasError}`,
  },
  // An item that had not ended stays in the way of the cursor: it was never handled.
  syncItems: {
    set: sql`payload = null, record_hash = null, claim = null, last_error = null, next_attempt_at = null,
             status = case when t.status in ('pending', 'processing') then 'failed' else t.status end,
             error = case when t.status in ('pending', 'processing') or t.error is not null then ${ERASED} end,
             completed_at = coalesce(t.completed_at, clock_timestamp())`,
    where: sql`t.payload is not null or t.record_hash is not null or t.status in ('pending', 'processing') or ${hasError}`,
  },
  // A hash tells a guessed payload from another. Which listing named the record stays: it is not gone.
  recordHashes: {
    set: sql`hash = null, is_handled = false`,
    where: sql`t.hash is not null`,
  },
  // The same; the next echo counts as foreign. One that is under way is another's business: its write ends it.
  writtenRecords: {
    set: sql`hash = null`,
    where: sql`t.hash is not null`,
  },
  // A bookmark is the provider's text, such as the address of its next page. No listing goes on from it: its run ends.
  logs: {
    set: sql`summary = case when ${OWN_NOTES} then t.summary end, result_data = null,
             metadata = case when ${OWN_NOTES} then t.metadata - 'bookmark' end,
             status = case when t.status in ('processing', 'pending') then 'failed' else t.status end,
             error = case when t.status in ('processing', 'pending') or t.error is not null then ${ERASED} end`,
    where: sql`t.result_data is not null
               or ((t.summary is not null or t.metadata is not null) and not ${OWN_NOTES})
               or t.metadata ? 'bookmark' or t.status in ('processing', 'pending') or ${hasError}`,
  },
  // What people have written, which may quote anything.
  incidents: {
    set: sql`annotations = (
      select jsonb_agg(jsonb_set(a, '{text}', to_jsonb(${ERASED}::text)) order by n)
      from jsonb_array_elements(t.annotations) with ordinality as written (a, n))`,
    where: sql`exists (select from jsonb_array_elements(t.annotations) a where a ->> 'text' <> ${ERASED})`,
  },
  // No listener is called with an event without its content.
  events: {
    set: sql`payload = '{}'::jsonb, outcomes = '{}'::jsonb, claim = null,
             delivered_at = coalesce(t.delivered_at, clock_timestamp())`,
    where: sql`t.payload <> '{}'::jsonb or t.outcomes <> '{}'::jsonb or t.delivered_at is null`,
  },
}
