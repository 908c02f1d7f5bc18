/** Statements over the sync items table. A claim is one statement; its docstring names the race it wins. */
import { and, asc, eq, gt, inArray, isNull, sql } from 'drizzle-orm'
import { afterLoss, claimAndItsLosses, lossesOf } from '../../core/claim.ts'
import type { Json } from '../../core/json.ts'
import type { Database, Transaction } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { SyncItemRow, Tables } from '../schema/tables.ts'

export interface NewSyncItem {
  readonly eventClass: string
  readonly externalId: string | null
  readonly checkpointValue: Json
  readonly payload: { readonly v: number; readonly data: Json }
}

/** Stores a chunk of listed items as `pending`, in order. */
export async function insertSyncItems(
  db: Database,
  { syncItems }: Tables,
  run: { integrationId: number; syncLogId: number; batchId: string },
  items: readonly NewSyncItem[],
): Promise<void> {
  if (items.length === 0) return
  await db.execute(sql`
    insert into ${syncItems} (integration_id, sync_log_id, batch_id, event_class, external_id, checkpoint_value, payload)
    select ${run.integrationId}, ${run.syncLogId}, ${run.batchId}, item ->> 'eventClass', item ->> 'externalId',
           nullif(item -> 'checkpointValue', 'null'::jsonb), item -> 'payload'
    from jsonb_array_elements(${jsonText(items)}::jsonb) with ordinality as i (item, position)
    order by position`)
}

/** Deletes what an earlier try of the listing stored. Items start only after a whole listing, so none has begun. */
export async function deleteUnstartedItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<number> {
  const rows = await db
    .delete(syncItems)
    .where(and(eq(syncItems.syncLogId, syncLogId), eq(syncItems.status, 'pending'), eq(syncItems.attempts, 0)))
    .returning({ id: syncItems.id })
  return rows.length
}

/**
 * Moves the next `pending` rows of a run to `processing` under this claim and counts the attempt. Rows that another
 * batch is taking at the same moment are passed over. None before the listing is complete: else the cursor could move
 * past what a failed listing never named.
 */
export async function claimPendingItems(
  db: Database,
  { syncItems, logs }: Tables,
  { syncLogId, claim, limit }: { syncLogId: number; claim: string; limit: number },
): Promise<SyncItemRow[]> {
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and claim more than the limit.
  const next = db.$with('next').as(
    db
      .select({ id: syncItems.id })
      .from(syncItems)
      .where(
        and(
          eq(syncItems.syncLogId, syncLogId),
          eq(syncItems.status, 'pending'),
          sql`exists (select 1 from ${logs} l where l.id = ${syncLogId} and l.metadata -> 'enumerated' = 'true'::jsonb)`,
        ),
      )
      .orderBy(asc(syncItems.id))
      .limit(limit)
      .for('update', { skipLocked: true }),
  )
  const rows = await db
    .with(next)
    .update(syncItems)
    .set({ status: 'processing', attempts: sql`${syncItems.attempts} + 1`, claim })
    .where(inArray(syncItems.id, db.select({ id: next.id }).from(next)))
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/** Takes rows that wait between two attempts (`processing`, held by nobody) and counts the attempt. */
export async function claimWaitingItems(
  db: Database,
  { syncItems }: Tables,
  { ids, claim }: { ids: readonly number[]; claim: string },
): Promise<SyncItemRow[]> {
  if (ids.length === 0) return []
  const rows = await db
    .update(syncItems)
    .set({ attempts: sql`${syncItems.attempts} + 1`, claim })
    .where(and(inArray(syncItems.id, [...ids]), eq(syncItems.status, 'processing'), isNull(syncItems.claim)))
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/** Rows that an earlier try of the same batch still holds: its worker died, or it could not settle them. */
export async function itemsHeldBy(db: Database, { syncItems }: Tables, claim: string): Promise<SyncItemRow[]> {
  return db
    .select()
    .from(syncItems)
    .where(and(eq(syncItems.status, 'processing'), inArray(syncItems.claim, claimAndItsLosses(claim))))
    .orderBy(asc(syncItems.id))
}

/**
 * Takes up a row whose worker died. A lost worker is no failure of the listener, so the attempt that died keeps its
 * number; the loss is counted in the claim. Null when somebody else has moved the row since.
 */
export async function takeUpItem(
  db: Database,
  { syncItems }: Tables,
  row: SyncItemRow,
  claim: string,
): Promise<{ row: SyncItemRow; losses: number } | null> {
  const losses = lossesOf(row.claim ?? claim, claim) + 1
  const [taken] = await db
    .update(syncItems)
    .set({ claim: afterLoss(claim, losses) })
    .where(
      and(
        eq(syncItems.id, row.id),
        eq(syncItems.status, 'processing'),
        eq(syncItems.attempts, row.attempts),
        sql`${syncItems.claim} = ${row.claim}`,
      ),
    )
    .returning()
  return taken === undefined ? null : { row: taken, losses }
}

/** What became of one attempt. `waiting` keeps the row `processing`, held by nobody until its time comes. */
export interface ItemSettlement {
  readonly id: number
  readonly attempts: number
  readonly claim: string
  readonly status: 'success' | 'failed' | 'waiting'
  /** The attempt does not count: a deferral. */
  readonly uncounted: boolean
  readonly error: string | null
  /** A log line for a genuine failed attempt; null for none. */
  readonly failure: { readonly message: string; readonly maxAttempts: number; readonly durationMs: number } | null
}

/**
 * Ends attempts and logs each genuine failure below the run's log, in one statement: all of it is stored, or nothing.
 *
 * @returns the ids that were settled. A row that was claimed anew since is not among them.
 */
export async function settleItems(
  db: Database,
  { syncItems, logs }: Tables,
  settlements: readonly ItemSettlement[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    with outcome as (
      select * from jsonb_to_recordset(${jsonText(settlements)}::jsonb) as o
        (id bigint, attempts int, claim text, status text, uncounted boolean, error text, failure jsonb)
    ), settled as (
      update ${syncItems} s
      set status = case o.status when 'waiting' then 'processing' else o.status end,
          attempts = case when o.uncounted then s.attempts - 1 else s.attempts end,
          error = o.error, claim = null, updated_at = clock_timestamp(),
          completed_at = case o.status when 'waiting' then null else clock_timestamp() end
      from outcome o
      where s.id = o.id and s.status = 'processing' and s.attempts = o.attempts and s.claim = o.claim
      returning s.id, s.integration_id, s.sync_log_id, s.external_id, o.attempts as attempt, o.failure
    ), logged as (
      insert into ${logs} (integration_id, operation, direction, status, external_id, error, attempt, max_attempts,
                           duration_ms, parent_id)
      select integration_id, 'sync_item', 'inbound', 'failed', left(external_id, 255), failure ->> 'message', attempt,
             (failure ->> 'maxAttempts')::int, (failure ->> 'durationMs')::int, sync_log_id
      from settled where jsonb_typeof(failure) = 'object' order by id
    )
    select id from settled`)
  return new Set(rows.map((row) => Number(row.id)))
}

/** Gives claimed rows back that no listener has seen; the attempt does not count. */
export async function handBackItems(
  db: Database,
  { syncItems }: Tables,
  claim: string,
  rows: readonly SyncItemRow[],
): Promise<void> {
  if (rows.length === 0) return
  const ids = rows.map((row) => row.id)
  // A first attempt goes back to the queue; a later one to those that wait.
  await db
    .update(syncItems)
    .set({
      status: sql`case when ${syncItems.attempts} > 1 then 'processing' else 'pending' end`,
      attempts: sql`${syncItems.attempts} - 1`,
      claim: null,
    })
    .where(
      and(
        inArray(syncItems.id, ids),
        eq(syncItems.status, 'processing'),
        inArray(syncItems.claim, claimAndItsLosses(claim)),
      ),
    )
}

export type ItemCounts = Record<SyncItemRow['status'], number>

export async function countItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<ItemCounts> {
  const rows = await db
    .select({ status: syncItems.status, count: sql<string>`count(*)` })
    .from(syncItems)
    .where(eq(syncItems.syncLogId, syncLogId))
    .groupBy(syncItems.status)
  const counts: ItemCounts = { pending: 0, processing: 0, success: 0, failed: 0, skipped: 0 }
  for (const row of rows) counts[row.status] = Number(row.count)
  return counts
}

/** Rows of a run that are neither finished nor held: what a workflow that lost count must take up again. */
export async function waitingItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  limit: number,
): Promise<{ id: number; attempts: number; updatedAt: Date }[]> {
  return db
    .select({ id: syncItems.id, attempts: syncItems.attempts, updatedAt: syncItems.updatedAt })
    .from(syncItems)
    .where(and(eq(syncItems.syncLogId, syncLogId), eq(syncItems.status, 'processing'), isNull(syncItems.claim)))
    .orderBy(asc(syncItems.id))
    .limit(limit)
}

/** Checkpoints of the run's finished items in dispatch order, page by page. */
export async function* finishedCheckpoints(
  tx: Transaction,
  { syncItems }: Tables,
  syncLogId: number,
  pageSize: number,
): AsyncGenerator<Json[]> {
  let after = 0
  for (;;) {
    const rows = await tx
      .select({ id: syncItems.id, checkpoint: syncItems.checkpointValue })
      .from(syncItems)
      .where(
        and(
          eq(syncItems.syncLogId, syncLogId),
          inArray(syncItems.status, ['success', 'skipped']),
          sql`${syncItems.checkpointValue} is not null`,
          gt(syncItems.id, after),
        ),
      )
      .orderBy(asc(syncItems.id))
      .limit(pageSize)
    if (rows.length === 0) return
    after = rows.at(-1)?.id ?? after
    yield rows.map((row) => row.checkpoint as Json)
  }
}

/**
 * Whether a failed item of an earlier run still holds the cursor: none of the same class and external id has succeeded
 * or been skipped since. Without an external id only its own retry or skip resolves it.
 */
export async function hasUnresolvedFailure(
  tx: Transaction,
  { syncItems }: Tables,
  integrationId: number,
  beforeLogId: number,
): Promise<boolean> {
  const [row] = await tx.execute<{ found: boolean }>(sql`
    select exists (
      select 1 from ${syncItems} f
      where f.integration_id = ${integrationId} and f.status = 'failed' and f.sync_log_id < ${beforeLogId}
        and not exists (
          select 1 from ${syncItems} later
          where later.integration_id = f.integration_id and later.external_id = f.external_id
            and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped')
        )
    ) as found`)
  return row?.found === true
}
