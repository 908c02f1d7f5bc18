/**
 * Where one stream of an integration stands: its own row, or the integration's where the provider has one `sync()`.
 *
 * Rule: docs/behaviour/sync-streams.md, "Where a stream stands".
 */
import type { AnyColumn, SQL } from 'drizzle-orm'
import { and, eq, isNull, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { unseenByPlanner } from '../db/integrations-of.ts'
import { intervalOf } from '../db/schema/columns.ts'
import type { IntegrationRow, StreamRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { findIntegration, lockIntegration } from '../integrations/queries.ts'
import { streamsOf } from '../providers/streams.ts'
import type { SyncOf } from './sync-jobs.ts'

/** An integration as one of its streams sees it: the cursor, the times and the counters of syncs are the stream's. */
export interface SyncRow extends IntegrationRow {
  /** Null: the integration's own. */
  readonly stream: string | null
}

/** The condition that a row is of this stream. */
export function isOfStream(column: AnyColumn | SQL, stream: string | null | undefined): SQL {
  return stream == null ? isNull(column) : eq(column as AnyColumn, stream)
}

/**
 * The items of a stream, of a named one by the text of its index.
 *
 * No other index can answer that: by statistics of before an integration came it has no items, and any index with its id would
 * seem as good, also one that reads all of them.
 *
 * @param items the table, or its alias
 */
export function itemsOf(items: SQL, { integrationId, stream }: SyncOf): SQL {
  return stream == null
    ? sql`${items}.integration_id = ${unseenByPlanner(integrationId)} and ${items}.stream is null`
    : sql`${items}.integration_id + 0 = ${integrationId} and ${items}.stream = ${stream}`
}

/** How tables whose key has the stream name the integration's own one: a key column can't be null. */
export const OWN_STREAM = ''

/** Names the stream in a log line, a payload or an input; nothing for the integration's own. */
export const namedStream = (stream: string | null | undefined): { readonly stream?: string } =>
  stream == null ? {} : { stream }

/** Null: the integration is gone. */
export async function findSyncRow(
  db: Database | Transaction,
  tables: Tables,
  { integrationId, stream = null }: SyncOf,
): Promise<SyncRow | null> {
  const row = await findIntegration(db, tables, integrationId)
  if (row === null || stream === null) return row === null ? null : { ...row, stream }
  return overlaid(row, stream, await findStream(db, tables, row.id, stream))
}

/** The same, under the lock of the integration until the transaction ends. The stream has a row from then on. */
export async function lockSyncRow(
  tx: Transaction,
  tables: Tables,
  { integrationId, stream = null }: SyncOf,
): Promise<SyncRow | null> {
  const row = await lockIntegration(tx, tables, integrationId)
  return row === null ? null : ofLocked(tx, tables, row, stream)
}

/** @param row locked */
export async function ofLocked(
  tx: Transaction,
  tables: Tables,
  row: IntegrationRow,
  stream: string | null,
): Promise<SyncRow> {
  if (stream === null) return { ...row, stream }
  const found = await findStream(tx, tables, row.id, stream)
  if (found === null) await tx.insert(tables.streams).values({ integrationId: row.id, stream }).onConflictDoNothing()
  return overlaid(row, stream, found)
}

async function findStream(
  db: Database | Transaction,
  { streams }: Tables,
  integrationId: number,
  stream: string,
): Promise<StreamRow | null> {
  const [found] = await db
    .select()
    .from(streams)
    .where(and(eq(streams.integrationId, integrationId), eq(streams.stream, stream)))
  return found ?? null
}

/** @param found null: no run of the stream was ever opened or planned */
export function overlaid(row: IntegrationRow, stream: string, found: StreamRow | null): SyncRow {
  const seconds = found?.syncIntervalSeconds ?? null
  return {
    ...row,
    stream,
    lastSyncedAt: found?.lastSyncedAt ?? null,
    nextSyncAt: found?.nextSyncAt ?? null,
    consecutiveSyncFailures: found?.consecutiveSyncFailures ?? 0,
    syncStaleAlertedAt: found?.syncStaleAlertedAt ?? null,
    syncIntervalMinutes: seconds === null ? row.syncIntervalMinutes : seconds / 60,
    syncCursor: found?.syncCursor ?? null,
  }
}

/** @param row locked */
export async function updateCursor(tx: Transaction, tables: Tables, row: SyncRow, cursor: Json): Promise<void> {
  const { table, where } = placeOf(tables, row)
  await tx.update(table).set({ syncCursor: cursor }).where(where)
}

/** Columns that end a run. */
export interface RunTimes {
  readonly ending: RunEnding
  /** Null: runs only by hand, nothing is planned. */
  readonly intervalMinutes: number | null
  readonly consecutiveFailures: number
  readonly cursor?: Json
}

/** `cancelled` leaves the counter, and the next run comes after one interval. */
export type RunEnding = 'clean' | 'with failures' | 'cancelled'

/** @param row locked */
export async function recordRunTimes(
  { tables, providers }: Pick<Framework, 'tables' | 'providers'>,
  tx: Transaction,
  row: SyncRow,
  { ending, intervalMinutes, consecutiveFailures, cursor }: RunTimes,
): Promise<void> {
  const { table, where } = placeOf(tables, row)
  const now = sql`clock_timestamp()` as never
  const next = intervalMinutes === null ? null : sql`clock_timestamp() + ${intervalOf(sql`${intervalMinutes * 60}`)}`
  await tx
    .update(table)
    .set({
      consecutiveSyncFailures: consecutiveFailures,
      nextSyncAt: next as never,
      ...(ending === 'clean' ? { lastSyncedAt: now, syncStaleAlertedAt: null } : {}),
      ...(row.stream === null || ending === 'cancelled' ? {} : { lastRunAt: now }),
      ...(cursor === undefined ? {} : { syncCursor: cursor }),
    })
    .where(where)
  const provider = providers.find(row.provider)
  if (row.stream !== null && provider !== null)
    await sumUp(tx, tables, [row.id], streamsOf(provider) as readonly string[])
}

/**
 * The integration's own columns sum up its streams: the worst of each. So lists, filters and alerts over integrations need not
 * know of streams.
 *
 * @param declared streams that the provider has now; what an earlier release has left does not count
 */
export async function sumUp(
  tx: Transaction,
  { streams, integrations }: Tables,
  integrationIds: readonly number[],
  declared: readonly string[],
): Promise<void> {
  // A provider that no longer has a sync: what its streams have left does not count.
  if (declared.length === 0) return
  const list = (values: readonly (string | number)[]) =>
    sql.join(
      values.map((value) => sql`${value}`),
      sql`, `,
    )
  await tx.execute(sql`
    update ${integrations} i
    set last_synced_at = s.synced, next_sync_at = s.next, consecutive_sync_failures = s.failures,
        sync_stale_alerted_at = s.stale, updated_at = clock_timestamp()
    from (
      select integration_id, case when count(last_synced_at) = ${declared.length}::int then min(last_synced_at) end as synced,
             min(next_sync_at) as next, max(consecutive_sync_failures) as failures, min(sync_stale_alerted_at) as stale
      from ${streams} where integration_id in (${list(integrationIds)}) and stream in (${list(declared)})
      group by integration_id
    ) s
    where i.id = s.integration_id`)
}

function placeOf({ integrations, streams }: Tables, { id, stream }: SyncRow) {
  if (stream === null) return { table: integrations, where: eq(integrations.id, id) }
  // The two tables have these columns in common; the builder knows one table at a time.
  const table = streams as unknown as typeof integrations
  return { table, where: and(eq(streams.integrationId, id), eq(streams.stream, stream)) }
}
