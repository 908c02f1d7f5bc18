/** How sync items are claimed and settled. A claim is one statement; its docstring names the race it wins. Rule: docs/behaviour/sync-items.md. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, inArray, isNotNull, isNull, or, sql } from 'drizzle-orm'
import type { ClaimedRows, Settlement } from '../../claims/claimed-rows.ts'
import type { Database, Transaction } from '../../db/client.ts'
import { bigints } from '../../db/integrations-of.ts'
import { jsonText, MAX_SMALLINT } from '../../db/schema/columns.ts'
import type { SyncItemRow, Tables } from '../../db/schema/tables.ts'
import type { SyncItemRecord } from '../../events/events.ts'
import type { Json } from '../../framework/json.ts'
import { keepHashes } from '../record-queries.ts'

/** The worker of a terminated retry gives its row up sooner: Temporal answers its heartbeat by an error. */
const LEFT_BEHIND_SECONDS = 60

/** Items of a class that must not run: a claim fails them, and leaves their attempts as they were. */
export interface ItemRefusal {
  readonly eventClass: string
  readonly error: string
}

/** A claim gives rows to run (`processing`), and refused ones (`failed`). */
export interface Claiming {
  readonly claim: string
  readonly refusals: readonly ItemRefusal[]
}

/**
 * Moves the next `pending` rows of a run to `processing` under this claim and counts the attempt. Rows that another
 * batch is taking at the same moment are passed over. It takes none before the listing is complete: else the cursor could move
 * past an item that a failed listing never named.
 *
 * @param after all up to this id have been claimed. Without it each claim of a large run walks over the index entries of all
 * that were claimed before, which only a vacuum takes away.
 */
export async function claimPendingItems(
  db: Database | Transaction,
  { syncItems, logs }: Tables,
  {
    syncLogId,
    limit,
    after = 0,
    ...claiming
  }: Claiming & { syncLogId: number; limit: number; after?: number | undefined },
): Promise<SyncItemRow[]> {
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and claim more than the limit.
  const next = db.$with('next').as(
    db
      .select({ id: syncItems.id })
      .from(syncItems)
      .where(
        and(
          // The text of the partial index, so that it serves under any plan. The sum keeps others out: by statistics of before the
          // listing one row is expected, and all that is pending would be read and sorted for each claim.
          sql`${syncItems.syncLogId} + 0 = ${syncLogId}`,
          sql`${syncItems.status} = 'pending'`,
          gt(syncItems.id, after),
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
    .set(claimed(syncItems, claiming))
    .where(inArray(syncItems.id, db.select({ id: next.id }).from(next)))
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/** Takes rows of a run that wait between two attempts (`processing`, without a claim) and counts the attempt. */
export async function claimWaitingItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  { ids, syncLogId, ...claiming }: Claiming & { ids: readonly number[]; syncLogId: number },
): Promise<SyncItemRow[]> {
  if (ids.length === 0) return []
  const rows = await db
    .update(syncItems)
    .set(claimed(syncItems, claiming))
    .where(
      and(
        inArray(syncItems.id, [...ids]),
        eq(syncItems.syncLogId, syncLogId),
        eq(syncItems.status, 'processing'),
        isNull(syncItems.claim),
      ),
    )
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/**
 * Takes one item for its retry by hand and counts the attempt. Of two claims at once, one gets the item.
 *
 * The first attempt takes a `failed` row whose payload has not been erased, or a row that an earlier retry has left behind. That retry
 * is over, since the id of a retry's workflow is its lock; it may hold its row a while longer. A later attempt takes only a row that a
 * retry has put to wait.
 *
 * Unless it is forced, no attempt takes an item that has a newer copy in a later run by now.
 */
export async function claimItemForRetry(
  db: Database | Transaction,
  { syncItems }: Tables,
  { id, isFirst, force, ...claiming }: Claiming & { id: number; isFirst: boolean; force: boolean },
): Promise<SyncItemRow | null> {
  const ofRetry = betweenRetries(syncItems, isFirst)
  const from = isFirst
    ? or(and(eq(syncItems.status, 'failed'), sql`${syncItems.payload} is not null`), ofRetry)
    : ofRetry
  const [row] = await db
    .update(syncItems)
    .set(claimed(syncItems, claiming))
    .where(and(eq(syncItems.id, id), from, force ? undefined : sql`${newerCopy(syncItems, OUTDATING, 'id')} is null`))
    .returning()
  return row ?? null
}

/**
 * Puts an item back to `failed`, with its last error, when its retry may not go on: a later run has a newer copy. The condition is that
 * of {@link claimItemForRetry}, so that one of the two fits.
 *
 * @returns whether it was put back
 */
export async function endOutdatedRetry(
  db: Database,
  { syncItems }: Tables,
  { id, isFirst }: { id: number; isFirst: boolean },
): Promise<boolean> {
  const rows = await db
    .update(syncItems)
    .set({
      status: 'failed',
      error: sql`coalesce(${syncItems.lastError}, 'its retry was given up')`,
      claim: null,
      nextAttemptAt: null,
      completedAt: sql`clock_timestamp()`,
    })
    .where(
      and(
        eq(syncItems.id, id),
        betweenRetries(syncItems, isFirst),
        sql`${newerCopy(syncItems, OUTDATING, 'id')} is not null`,
      ),
    )
    .returning({ id: syncItems.id })
  return rows.length > 0
}

/** A row that no attempt of a retry holds right now. @param orLeftBehind also a row that a dead retry seems to hold */
function betweenRetries(syncItems: Tables['syncItems'], orLeftBehind: boolean) {
  const waits = sql`${syncItems.claim} like 'retry-%:waiting'`
  const isLeft = and(
    sql`${syncItems.claim} like 'retry-%'`,
    sql`${syncItems.updatedAt} < clock_timestamp() - make_interval(secs => ${LEFT_BEHIND_SECONDS})`,
  )
  return and(eq(syncItems.status, 'processing'), orLeftBehind ? or(waits, isLeft) : waits)
}

/** Statuses of a later item that make up for a failed one. */
const MAKING_UP = sql.raw("('success', 'skipped')")
/** Statuses of a later item that forbid the retry of an older one: the later item wrote newer data, or is about to. */
const OUTDATING = sql.raw("('success', 'skipped', 'pending', 'processing')")
const ANY = sql.raw("('success', 'skipped', 'pending', 'processing', 'failed')")

/**
 * A column of the newest later item of the same class and external id, among those of certain statuses; null: there is none. As a
 * scalar it uses the index over the external ids, row by row.
 */
function newerCopy(syncItems: Tables['syncItems'], statuses: SQL, column: 'id' | 'status'): SQL<string | null> {
  // With the table's name: in a list of columns Drizzle leaves it out, and each would be compared with itself.
  return sql<string | null>`(
    select newer.${sql.raw(column)} from ${syncItems} newer
    where newer.integration_id = ${syncItems}.integration_id and newer.external_id = ${syncItems}.external_id
      and newer.event_class = ${syncItems}.event_class and newer.id > ${syncItems}.id and newer.status in ${statuses}
    order by newer.id desc limit 1)`
}

/** The later item that made up for a failed one; null: none did. */
export function madeUpForBy(syncItems: Tables['syncItems']): SQL<number | null> {
  return sql<number | null>`${newerCopy(syncItems, MAKING_UP, 'id')}`.mapWith(Number)
}

/**
 * Those of these items that a retry of many takes: the newest copy of their record, with a payload. Of two failed copies, only the
 * newer one makes up for the other; retried together, the older one could end last.
 */
export async function newestCopies(
  db: Database,
  { syncItems }: Tables,
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  const rows = await db
    .select({ id: syncItems.id })
    .from(syncItems)
    .where(
      and(
        sql`${syncItems.id} = any(${bigints(ids)})`,
        isNotNull(syncItems.payload),
        sql`${newerCopy(syncItems, ANY, 'id')} is null`,
      ),
    )
  return new Set(rows.map(({ id }) => id))
}

/** The newest later item of the same class and external id that a retry of this one would cross; null: none. */
export async function outdatingItem(
  db: Database,
  { syncItems }: Tables,
  id: number,
): Promise<{ id: number; status: SyncItemRow['status'] } | null> {
  const [row] = await db
    .select({ by: newerCopy(syncItems, OUTDATING, 'id'), status: newerCopy(syncItems, OUTDATING, 'status') })
    .from(syncItems)
    .where(eq(syncItems.id, id))
  return row?.by == null ? null : { id: Number(row.by), status: row.status as SyncItemRow['status'] }
}

/** Those of the items that a listener would write over newer data with, in the sense of {@link claimItemForRetry}. */
export async function outdatedAmong(
  db: Database,
  { syncItems }: Tables,
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .select({ id: syncItems.id, by: newerCopy(syncItems, OUTDATING, 'id') })
    .from(syncItems)
    .where(inArray(syncItems.id, [...ids]))
  return new Set(rows.filter(({ by }) => by !== null).map(({ id }) => id))
}

/** Skips items that this attempt holds, without a listener: the attempt does not count. May be run twice. */
export async function skipHeldItems(
  db: Database,
  { syncItems }: Tables,
  rows: readonly Pick<SyncItemRow, 'id' | 'attempts' | 'claim'>[],
  error: string,
): Promise<void> {
  await db.execute(sql`
    update ${syncItems} r
    set status = 'skipped', error = ${error}, attempts = r.attempts - 1, claim = null, completed_at = clock_timestamp(),
        updated_at = clock_timestamp()
    from jsonb_to_recordset(${jsonText(rows.map(({ id, attempts, claim }) => ({ id, attempts, claim })))}::jsonb)
      as s (id bigint, attempts int, claim text)
    where r.id = s.id and r.status = 'processing' and r.attempts = s.attempts and r.claim = s.claim`)
}

/** What a claim writes. */
function claimed(syncItems: Tables['syncItems'], { claim, refusals }: Claiming) {
  // A row that is claimed more often than the column can say stays there; its claim tells its attempts apart.
  const attempts = sql`least(${syncItems.attempts} + 1, ${sql.raw(String(MAX_SMALLINT))})`
  const cleared = { nextAttemptAt: null }
  if (refusals.length === 0)
    return { ...cleared, status: 'processing', attempts, claim, error: null, completedAt: null } as const
  const refused = sql`${syncItems.eventClass} in (${sql.join(
    refusals.map(({ eventClass }) => sql`${eventClass}`),
    sql`, `,
  )})`
  const error = sql`case ${syncItems.eventClass} ${sql.join(
    refusals.map((refusal) => sql`when ${refusal.eventClass} then ${refusal.error}::text`),
    sql` `,
  )} end`
  return {
    ...cleared,
    status: sql`case when ${refused} then 'failed' else 'processing' end`,
    attempts: sql`case when ${refused} then ${syncItems.attempts} else ${attempts} end`,
    claim: sql`case when ${refused} then null else ${claim}::text end`,
    completedAt: sql`case when ${refused} then clock_timestamp() end`,
    error,
  }
}

/** The outcome of one attempt. `waiting` keeps the row `processing` until its time comes. */
export interface ItemSettlement extends Settlement {
  readonly status: 'success' | 'failed' | 'waiting'
  /** The claim that holds the row while it waits; null: no claim. */
  readonly waitsFor: string | null
  /** The attempt does not count: a deferral. */
  readonly uncounted: boolean
  readonly error: string | null
  /** Whether it said only what we wrote ourselves; null: not judged. */
  readonly isOwn: boolean | null
  /** Of an item that waits: for how long, and what the attempt ended with. Null: it does not wait. */
  readonly wait: {
    readonly seconds: number
    /** Null: nothing is known, and the text of an earlier attempt stays. */
    readonly error: string | null
    /** By `NotYet`. */
    readonly isPutOff: boolean
  } | null
  /** A log line for a genuine failed attempt; null for none. */
  readonly failure: { readonly message: string; readonly maxAttempts: number; readonly durationMs: number } | null
}

/** Where a row goes that no listener has seen. */
export type GivenBack =
  | { readonly status: 'pending' }
  | { readonly status: 'processing'; readonly waitsFor: string | null }

/** Each genuine failure gets a log row below the run's. */
export const claimedItems = (
  tables: Tables,
  givenBack: GivenBack = { status: 'pending' },
  { keepsHashes = false }: { readonly keepsHashes?: boolean } = {},
): ClaimedRows<Tables['syncItems']> => ({
  table: tables.syncItems,
  isHeld: sql`r.status = 'processing'`,
  released:
    givenBack.status === 'pending'
      ? sql`status = 'pending', claim = null, next_attempt_at = null`
      : sql`claim = ${givenBack.waitsFor}::text, next_attempt_at = clock_timestamp()`,
  settling: {
    fields: sql`status text, "waitsFor" text, uncounted boolean, error text, "isOwn" boolean, wait jsonb, failure jsonb`,
    writes: sql`
      status = case s.status when 'waiting' then 'processing' else s.status end,
      attempts = case when s.uncounted then r.attempts - 1 else r.attempts end, error = s.error, claim = s."waitsFor",
      completed_at = case s.status when 'waiting' then null else clock_timestamp() end,
      last_error = case s.status when 'waiting' then coalesce(s.wait ->> 'error', r.last_error) end,
      next_attempt_at = clock_timestamp() + make_interval(secs => (s.wait ->> 'seconds')::double precision),
      is_own = coalesce(s."isOwn", r.is_own),
      put_off = r.put_off + (coalesce(s.wait ->> 'isPutOff', 'false') = 'true')::int`,
    returns: sql`r.sync_log_id, r.external_id, s.attempts as attempt, s.failure, s.status, r.stream, r.event_class, r.record_hash`,
    ...(keepsHashes ? { keeps: keepHashes(tables) } : {}),
    logs: sql`
      insert into ${tables.logs} (integration_id, operation, direction, status, external_id, error, attempt, max_attempts,
                           duration_ms, parent_id, origin)
      select integration_id, 'sync_item', 'inbound', 'failed', left(external_id, 255), failure ->> 'message', attempt,
             least((failure ->> 'maxAttempts')::int, ${sql.raw(String(MAX_SMALLINT))}), (failure ->> 'durationMs')::int, sync_log_id,
             'item:' || id
      from settled where jsonb_typeof(failure) = 'object' order by id`,
    // The error tells the settlement from that of a row that was failed by another hand meanwhile.
    isStored: sql`
      r.attempts = s.attempts - s.uncounted::int and r.status = case s.status when 'waiting' then 'processing' else s.status end
      and r.claim is not distinct from s."waitsFor" and r.error is not distinct from s.error`,
  },
})

export async function findItem(db: Database, { syncItems }: Tables, id: number): Promise<SyncItemRow | null> {
  const [row] = await db.select().from(syncItems).where(eq(syncItems.id, id))
  return row ?? null
}

/** Items as events tell of them, by id. Not the payloads: those are the listeners' business. */
export async function itemRecords(
  db: Database | Transaction,
  { syncItems }: Tables,
  ids: readonly number[],
): Promise<Map<number, SyncItemRecord>> {
  if (ids.length === 0) return new Map()
  const { id, integrationId, batchId, syncLogId, eventClass, externalId, checkpointValue, status } = syncItems
  const { error, attempts, completedAt, createdAt, updatedAt } = syncItems
  const rows = await db
    .select({
      ...{ id, integrationId, batchId, syncLogId, eventClass, externalId, checkpointValue, status },
      ...{ error, attempts, completedAt, createdAt, updatedAt },
    })
    .from(syncItems)
    .where(inArray(id, [...ids]))
  return new Map(
    rows.map((row) => [row.id, { ...row, checkpointValue: (row.checkpointValue ?? null) as Json }] as const),
  )
}

/** The next attempt of an item that waits in a run is due: it is among the first that the run's finalisation names. */
export async function makeWaitingItemDue(db: Database, { syncItems }: Tables, id: number): Promise<void> {
  await db
    .update(syncItems)
    .set({ nextAttemptAt: sql`least(${syncItems.nextAttemptAt}, clock_timestamp())` })
    .where(and(eq(syncItems.id, id), eq(syncItems.status, 'processing'), isNull(syncItems.claim)))
}

/** Gives a failed item up. Null: it is not failed (any more). Its error stays, so that what was skipped can be seen. */
export async function skipFailedItem(db: Database, { syncItems }: Tables, id: number): Promise<SyncItemRow | null> {
  const [row] = await db
    .update(syncItems)
    .set({ status: 'skipped', completedAt: sql`clock_timestamp()` })
    .where(and(eq(syncItems.id, id), eq(syncItems.status, 'failed')))
    .returning()
  return row ?? null
}
