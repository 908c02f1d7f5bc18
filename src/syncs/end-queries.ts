/** Statements that end a sync run. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { unseenByPlanner } from '../db/integrations-of.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { LogRow, SyncItemRow, Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'
import { remainingWaitSeconds } from './items/item-rules.ts'
import { isOfStream, itemsOf } from './sync-rows.ts'

export type ItemCounts = Record<SyncItemRow['status'], number>

export async function countItems(db: Database, { syncItems }: Tables, syncLogId: number): Promise<ItemCounts> {
  const [row] = await db.execute<{ counts: Partial<ItemCounts> | null }>(
    sql`select ${countsOf(syncItems, syncLogId)} as counts`,
  )
  return { ...NO_ITEMS, ...row?.counts }
}

/** A run's log, locked until the transaction ends, and how its items stand. */
export async function lockRun(
  tx: Transaction,
  { logs, syncItems }: Tables,
  syncLogId: number,
): Promise<{ log: LogRow; counts: ItemCounts } | null> {
  const [row] = await tx
    .select({ log: logs, counts: sql<Partial<ItemCounts> | null>`${countsOf(syncItems, syncLogId)}` })
    .from(logs)
    .where(eq(logs.id, syncLogId))
    .for('update')
  return row === undefined ? null : { log: row.log, counts: { ...NO_ITEMS, ...row.counts } }
}

const NO_ITEMS: ItemCounts = { pending: 0, processing: 0, success: 0, failed: 0, skipped: 0 }

function countsOf(syncItems: Tables['syncItems'], syncLogId: number): SQL {
  return sql`(
    select jsonb_object_agg(status, count)
    from (select i.status, count(*) from ${syncItems} i where i.sync_log_id = ${syncLogId} group by i.status) counted)`
}

/** As many rows as a run's list of waiting items holds; its next finalisation names the others. */
const MAX_WAITING = 1_000

/**
 * Items of a run that have begun and are not held, each with the seconds until its next attempt: a workflow that lost count
 * takes them up again.
 *
 * @param backoffSeconds `sync.item_backoff`, for an item whose batch was lost before it noted the next attempt
 */
export async function waitingItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  backoffSeconds: readonly number[],
): Promise<{ id: number; seconds: number }[]> {
  const rows = await db
    .select({
      id: syncItems.id,
      attempts: syncItems.attempts,
      waitedSeconds: sql<number>`extract(epoch from clock_timestamp() - ${syncItems.updatedAt})::float8`,
      secondsLeft: sql<number | null>`extract(epoch from ${syncItems.nextAttemptAt} - clock_timestamp())::float8`,
    })
    .from(syncItems)
    .where(and(eq(syncItems.syncLogId, syncLogId), eq(syncItems.status, 'processing'), isNull(syncItems.claim)))
    // Those that are due first: beyond the limit the same ones must not be named again and again.
    .orderBy(sql`${syncItems.nextAttemptAt} nulls first`, asc(syncItems.id))
    .limit(MAX_WAITING)
  return rows.map(({ id, attempts, waitedSeconds, secondsLeft }) => ({
    id,
    seconds:
      secondsLeft === null
        ? remainingWaitSeconds(attempts, waitedSeconds, backoffSeconds)
        : Math.max(0, Math.ceil(secondsLeft)),
  }))
}

/**
 * Checkpoints of the run's finished items in dispatch order, page by page. Once in a transaction: many are read by a cursor, since
 * each page by id would sort the rest again.
 *
 * @param finishedItems at least their number
 */
export async function* finishedCheckpoints(
  tx: Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  { pageSize, finishedItems }: { readonly pageSize: number; readonly finishedItems: number },
): AsyncGenerator<Json[]> {
  // `+ 0`: sorted once, and not read in the order of the primary key, which would walk the rows of every other run.
  const finished = sql`
    select checkpoint_value::text as checkpoint from ${syncItems}
    where sync_log_id = ${sql.raw(String(syncLogId))} and status in ('success', 'skipped') and checkpoint_value is not null
    order by id + 0`
  const parsed = (rows: readonly { checkpoint: string }[]) =>
    rows.map(({ checkpoint }) => JSON.parse(checkpoint) as Json)
  if (finishedItems <= pageSize) {
    const rows = await tx.execute<{ checkpoint: string }>(finished)
    if (rows.length > 0) yield parsed(rows)
    return
  }
  await tx.execute(sql`declare finished_checkpoints no scroll cursor for ${finished}`)
  for (;;) {
    const rows = await tx.execute<{ checkpoint: string }>(
      sql`fetch forward ${sql.raw(String(pageSize))} from finished_checkpoints`,
    )
    if (rows.length > 0) yield parsed(rows)
    if (rows.length < pageSize) return
  }
}

/** External ids in one statement. Pages, and no join of items with items: right after many inserts the planner would compare each with each. */
const IDS_PAGE = 1_000

/**
 * Whether the cursor must stay, however this run ended: it was set since the run began, or an item of an earlier run of its stream is not
 * done, neither by its own row nor by a later one of the same class and external id. An item that is being retried is not
 * done. A backfill's rows hold no cursor, but can make up for a failed item.
 */
export async function isCursorHeld(
  tx: Transaction,
  { syncItems, logs }: Tables,
  { id: runLogId, integrationId, stream }: Pick<LogRow, 'id' | 'integrationId' | 'stream'>,
): Promise<boolean> {
  const isOf = isOfStream(sql`stream`, stream)
  const itsOwn = itemsOf(sql`i`, { integrationId, stream })
  // Without a log an item is of a run that was pruned since.
  const isOfEarlierRun = sql`
    coalesce(sync_log_id, 0) < ${runLogId}
    and coalesce(sync_log_id, 0) not in (
      select id from ${logs} where integration_id = ${integrationId} and operation = 'backfill')`
  const undone = sql`status in ('pending', 'processing', 'failed') and ${isOf} and ${isOfEarlierRun}`
  // A record that fails in each run leaves a row in each. For the integration's own stream only their index is read:
  // ids of other streams, backfills and later runs are among them, and are sorted out below.
  const failed =
    stream === null ? sql`integration_id = ${unseenByPlanner(integrationId)}` : sql`${itsOwn} and ${isOfEarlierRun}`
  // Null: an item without an external id, which no other item makes up for; or the cursor was set by hand since.
  const rows = await tx.execute<{ external_id: string | null }>(sql`
    select external_id from ${syncItems} i
    where ${itsOwn} and status in ('pending', 'processing') and ${isOfEarlierRun}
    union
    select external_id from (
      select integration_id, external_id, event_class, max(id) as id from ${syncItems} i
      where ${failed} and external_id is not null and status = 'failed'
      group by integration_id, external_id, event_class
    ) newest
    where (
      select done.id from ${syncItems} done
      where done.integration_id = newest.integration_id and done.external_id = newest.external_id
        and done.event_class = newest.event_class and done.id > newest.id and done.status in ('success', 'skipped')
      order by done.id desc limit 1) is null
    union
    select null where exists (
      select 1 from ${syncItems} i where ${itsOwn} and status = 'failed' and external_id is null and ${isOfEarlierRun}
    ) or exists (
      select 1 from ${logs} where integration_id = ${integrationId} and ${isOf} and operation = 'cursor' and id > ${runLogId})`)
  const ids = rows.flatMap((row) => row.external_id ?? [])
  if (ids.length < rows.length) return true
  for (let from = 0; from < ids.length; from += IDS_PAGE) {
    const unresolved = await tx.execute(sql`
      select 1 from ${syncItems}
      where integration_id = ${unseenByPlanner(integrationId)} and external_id = any(${textArray(ids.slice(from, from + IDS_PAGE))})
      group by event_class, external_id
      having max(id) filter (where ${undone}) > coalesce(max(id) filter (where status in ('success', 'skipped')), 0)
      limit 1`)
    if (unresolved.length > 0) return true
  }
  return false
}

/** Most rows of an external id that one run is taken to have: one for each class. */
const ROWS_OF_A_RUN = 20

export interface StuckItem {
  /** The failed row of this run; of several with this external id the last. */
  readonly itemId: number
  /** As far as the newest rows of the external id say. */
  readonly runs: number
}

/**
 * External ids that failed in this run and, with it, in at least `threshold` runs since they last succeeded or were skipped,
 * whatever their class. Backfills do not count.
 *
 * Reads only the newest rows of each, since one that fails in each run leaves a row in each.
 */
export async function stuckItems(
  tx: Transaction,
  { syncItems, logs }: Tables,
  run: Pick<LogRow, 'id' | 'integrationId' | 'stream'>,
  threshold: number,
): Promise<StuckItem[]> {
  const failed = await tx.execute<{ external_id: string }>(sql`
    select distinct external_id from ${syncItems}
    where sync_log_id = ${run.id} and status = 'failed' and external_id <> ''`)
  const ids = failed.map((row) => row.external_id)
  const stuck: StuckItem[] = []
  for (let from = 0; from < ids.length; from += IDS_PAGE) {
    // Of the log's integration the planner knows no value: by old statistics a new one would seem to have a few rows.
    const rows = await tx.execute<{ id: string; runs: string }>(sql`
      select max(item.id) filter (where item.sync_log_id = ${run.id}) as id, count(distinct item.sync_log_id) as runs
      from ${logs} l
      cross join unnest(${textArray(ids.slice(from, from + IDS_PAGE))}) as failed (external_id)
      cross join lateral (
        select newest.*, max(newest.id) filter (where newest.status in ('success', 'skipped')) over () as done
        from (
          select i.id, i.sync_log_id, i.status from ${syncItems} i
          where i.integration_id = l.integration_id and i.external_id = failed.external_id
            and ${isOfStream(sql`i.stream`, run.stream)} and i.status in ('failed', 'success', 'skipped')
          order by i.id desc limit ${threshold * ROWS_OF_A_RUN}
        ) newest
      ) item
      where l.id = ${run.id} and item.status = 'failed' and item.id > coalesce(item.done, 0)
        and item.sync_log_id <= ${run.id} and item.sync_log_id not in (
          select id from ${logs} where integration_id = ${run.integrationId} and operation = 'backfill')
      group by failed.external_id having count(distinct item.sync_log_id) >= ${threshold}`)
    stuck.push(...rows.map((row) => ({ itemId: Number(row.id), runs: Number(row.runs) })))
  }
  return stuck.sort((a, b) => a.itemId - b.itemId)
}

/** One parameter, whose values the planner knows: it hashes them. */
function textArray(values: readonly string[]): SQL {
  const literal = `{${values.map((value) => `"${value.replaceAll(/[\\"]/g, '\\$&')}"`).join(',')}}`
  return sql`${literal}::text[]`
}

/** Rows of one part. With their payloads, those of a large run may take longer than one statement has. */
const DELETED_AT_ONCE = 5_000

/**
 * Deletes items that have not started, in parts. Only those that it finds at its beginning: a later try of the listing
 * may store more meanwhile.
 *
 * @param afterId items up to this one stay
 * @returns their number
 */
export async function deletePendingItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  afterId = 0,
): Promise<number> {
  const pending = pendingOfRun(syncLogId)
  const [newest] = await db.execute<{ id: string }>(
    sql`select id from ${syncItems} where ${pending} order by id desc limit 1`,
  )
  const upTo = Number(newest?.id ?? 0)
  let deleted = 0
  let after = afterId
  while (after < upTo) {
    const [row] = await db.execute<{ deleted: string; last: string | null }>(sql`
      with part as (
        select id from ${syncItems} where ${pending} and id > ${after} and id <= ${upTo}
        order by id limit ${sql.raw(String(DELETED_AT_ONCE))}
      ), gone as (
        delete from ${syncItems} i using part where i.id = part.id and i.status = 'pending' returning 1
      )
      select (select count(*) from gone) as deleted, (select max(id) from part) as last`)
    deleted += Number(row?.deleted)
    after = Number(row?.last ?? upTo)
  }
  return deleted
}

/**
 * Deletes the unstarted items of a run that is about to end, if they are more than one part. From then on its listing
 * counts as incomplete: no batch claims any more, and the next run ends this one if the process dies here.
 */
export async function emptyLargeRun(db: Database, tables: Tables, syncLogId: number): Promise<void> {
  const { logs, syncItems } = tables
  const emptied = await db
    .update(logs)
    .set({ metadata: sql`coalesce(${logs.metadata}, '{}'::jsonb) || '{"enumerated": false}'::jsonb` })
    .where(
      and(
        eq(logs.id, syncLogId),
        eq(logs.status, 'processing'),
        sql`exists (
          select 1 from ${syncItems} where ${pendingOfRun(syncLogId)}
          order by id offset ${sql.raw(String(DELETED_AT_ONCE))} limit 1)`,
      ),
    )
    .returning({ id: logs.id })
  if (emptied.length > 0) await deletePendingItems(db, tables, syncLogId)
}

/** The text of the partial index, as in claimPendingItems(). */
function pendingOfRun(syncLogId: number): SQL {
  return sql`sync_log_id + 0 = ${syncLogId} and status = 'pending'`
}

/** Fails items that wait or are held: a late batch finds its claim gone. @param but these stay @returns their number */
export async function failHeldItems(
  tx: Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  error: string,
  but: readonly number[],
): Promise<number> {
  const [row] = await tx.execute<{ count: string }>(sql`
    with failed as (
      update ${syncItems}
      set status = 'failed', error = ${error}, claim = null, next_attempt_at = null, completed_at = clock_timestamp(), updated_at = clock_timestamp()
      where sync_log_id = ${syncLogId} and status = 'processing'
        and id not in (select value::bigint from jsonb_array_elements_text(${jsonText(but)}::jsonb)) returning 1
    )
    select count(*) as count from failed`)
  return Number(row?.count)
}

/**
 * Takes the announcement of a finalised run, or keeps it, for some seconds from now. Of two at once one gets it.
 *
 * @param announcer a text of its own for each that asks
 * @returns null: there is nothing to announce, or another one has it
 */
export async function holdAnnouncement(
  db: Database,
  { logs }: Tables,
  syncLogId: number,
  { announcer, seconds }: { readonly announcer: string; readonly seconds: number },
): Promise<LogRow | null> {
  const now = sql`extract(epoch from clock_timestamp())::float8`
  const [row] = await db
    .update(logs)
    .set({
      metadata: sql`${logs.metadata} || jsonb_build_object(
        'announcer', ${announcer}::text, 'announcing_until', ${now} + ${seconds}::float8)`,
    })
    .where(
      and(
        eq(logs.id, syncLogId),
        eq(logs.operation, 'sync'),
        inArray(logs.status, ['success', 'partial', 'failed']),
        // Only finalisation writes it: a run whose listing failed is `failed`, too.
        sql`${logs.metadata} -> 'success_count' is not null`,
        sql`${logs.metadata} -> 'announced_at' is null`,
        sql`(${logs.metadata} ->> 'announcer' = ${announcer}
          or coalesce((${logs.metadata} ->> 'announcing_until')::float8, 0) <= ${now})`,
      ),
    )
    .returning()
  return row ?? null
}

/** Notes that a run is announced. False: another one has taken the announcement meanwhile. */
export async function noteAnnouncement(
  db: Database,
  { logs }: Tables,
  syncLogId: number,
  { announcer, at }: { readonly announcer: string; readonly at: Date },
): Promise<boolean> {
  const patch = { announced_at: at.toISOString() }
  const rows = await db
    .update(logs)
    .set({ metadata: sql`(${logs.metadata} - 'announcing_until' - 'announcer') || ${jsonText(patch)}::jsonb` })
    .where(and(eq(logs.id, syncLogId), sql`${logs.metadata} ->> 'announcer' = ${announcer}`))
    .returning({ id: logs.id })
  return rows.length > 0
}
