/** Statements over the sync items table. A claim is one statement; its docstring names the race it wins. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray, isNull, or, sql } from 'drizzle-orm'
import { afterLoss, claimAndItsLosses, lossesOf } from '../../claims/rules.ts'
import type { Database, Transaction } from '../../db/client.ts'
import { jsonText, MAX_SMALLINT } from '../../db/schema/columns.ts'
import type { SyncItemRow, Tables } from '../../db/schema/tables.ts'

/** What a retry that was terminated holds is given up by its worker sooner: its heartbeat is answered by an error. */
const LEFT_BEHIND_SECONDS = 60

/** Items of a class that nobody may run: instead of being claimed they fail, their attempts as they were. */
export interface ItemRefusal {
  readonly eventClass: string
  readonly error: string
}

/** What a claim gives: rows to run (`processing`), and refused ones (`failed`). */
export interface Claiming {
  readonly claim: string
  readonly refusals: readonly ItemRefusal[]
}

/**
 * Moves the next `pending` rows of a run to `processing` under this claim and counts the attempt. Rows that another
 * batch is taking at the same moment are passed over. None before the listing is complete: else the cursor could move
 * past what a failed listing never named.
 */
export async function claimPendingItems(
  db: Database | Transaction,
  { syncItems, logs }: Tables,
  { syncLogId, limit, ...claiming }: Claiming & { syncLogId: number; limit: number },
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

/** Takes rows that wait between two attempts (`processing`, held by nobody) and counts the attempt. */
export async function claimWaitingItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  { ids, ...claiming }: Claiming & { ids: readonly number[] },
): Promise<SyncItemRow[]> {
  if (ids.length === 0) return []
  const rows = await db
    .update(syncItems)
    .set(claimed(syncItems, claiming))
    .where(and(inArray(syncItems.id, [...ids]), eq(syncItems.status, 'processing'), isNull(syncItems.claim)))
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/**
 * Takes one item for its retry by hand and counts the attempt. Of two that ask at once, one gets it.
 *
 * The first attempt takes a `failed` row whose payload has not been erased, or one that an earlier retry has left behind:
 * the id of a retry's workflow is its lock, so that one is over. What it held it may hold a while longer. A later attempt takes only what a retry put to wait.
 *
 * Unless it is forced, none takes an item that has a newer copy in a later run: whatever was true when it was asked for.
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
 * Puts an item whose retry may not go on back to `failed`, with what its last attempt ended with: a later run has a newer copy
 * by now. The same condition as that of the claim, so that one of the two fits. True: it was put back.
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

/** A row that no attempt of a retry has right now. @param orLeftBehind also one that a dead retry seems to hold still */
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
/** Statuses of a later item beside which an older one must not be retried: what it wrote, or is about to write, is newer. */
const OUTDATING = sql.raw("('success', 'skipped', 'pending', 'processing')")

/**
 * Of the newest later item of the same class and external id, among those of certain statuses; null: there is none. As a
 * scalar it is asked by the index over the external ids, row by row.
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

/** Rows that an earlier try of the same batch still holds: its worker died, or it could not settle them. */
export async function itemsHeldBy(db: Database, { syncItems }: Tables, claim: string): Promise<SyncItemRow[]> {
  return db
    .select()
    .from(syncItems)
    .where(and(sql`${syncItems.status} = 'processing'`, inArray(syncItems.claim, claimAndItsLosses(claim))))
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

/** What became of one attempt. `waiting` keeps the row `processing` until its time comes. */
export interface ItemSettlement {
  readonly id: number
  readonly attempts: number
  readonly claim: string
  readonly status: 'success' | 'failed' | 'waiting'
  /** Who holds the row while it waits; null: nobody. */
  readonly waitsFor: string | null
  /** The attempt does not count: a deferral. */
  readonly uncounted: boolean
  readonly error: string | null
  /** Of an item that waits: for how long, and what the attempt ended with. Null: it does not wait. */
  readonly wait: {
    readonly seconds: number
    /** Null: nothing that is known; what an earlier attempt ended with stays. */
    readonly error: string | null
    /** By `NotYet`. */
    readonly isPutOff: boolean
  } | null
  /** A log line for a genuine failed attempt; null for none. */
  readonly failure: { readonly message: string; readonly maxAttempts: number; readonly durationMs: number } | null
}

/**
 * Ends attempts and logs each genuine failure below the run's log, in one statement: all of it is stored, or nothing.
 *
 * @returns the ids that were settled. A row that was claimed anew since is not among them.
 */
export async function settleItems(
  db: Database | Transaction,
  { syncItems, logs }: Tables,
  settlements: readonly ItemSettlement[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    with outcome as (
      select * from jsonb_to_recordset(${jsonText(settlements)}::jsonb) as o
        (id bigint, attempts int, claim text, status text, "waitsFor" text, uncounted boolean, error text, wait jsonb,
         failure jsonb)
    ), settled as (
      update ${syncItems} s
      set status = case o.status when 'waiting' then 'processing' else o.status end,
          attempts = case when o.uncounted then s.attempts - 1 else s.attempts end,
          error = o.error, claim = o."waitsFor", updated_at = clock_timestamp(),
          completed_at = case o.status when 'waiting' then null else clock_timestamp() end,
          last_error = case o.status when 'waiting' then coalesce(o.wait ->> 'error', s.last_error) end,
          next_attempt_at = clock_timestamp() + make_interval(secs => (o.wait ->> 'seconds')::double precision),
          put_off = s.put_off + (coalesce(o.wait ->> 'isPutOff', 'false') = 'true')::int
      from outcome o
      -- coalesce() keeps the planner to the primary key: the index of what is held is full of a long run's dead entries.
      where s.id = o.id and coalesce(s.status, '') = 'processing' and s.attempts = o.attempts and s.claim = o.claim
      returning s.id, s.integration_id, s.sync_log_id, s.external_id, o.attempts as attempt, o.failure
    ), logged as (
      insert into ${logs} (integration_id, operation, direction, status, external_id, error, attempt, max_attempts,
                           duration_ms, parent_id)
      select integration_id, 'sync_item', 'inbound', 'failed', left(external_id, 255), failure ->> 'message', attempt,
             least((failure ->> 'maxAttempts')::int, ${sql.raw(String(MAX_SMALLINT))}), (failure ->> 'durationMs')::int, sync_log_id
      from settled where jsonb_typeof(failure) = 'object' order by id
    )
    select id from settled`)
  return new Set(rows.map((row) => Number(row.id)))
}

/**
 * Of settlements that were left out, those whose very attempt has been settled so: the statement before was committed, and
 * its answer was lost on the way. The error tells it from a row that was failed by somebody else meanwhile.
 */
export async function itemsSettledBefore(
  db: Database,
  { syncItems }: Tables,
  settlements: readonly ItemSettlement[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  const asked = settlements.map(({ id, attempts, status, waitsFor, uncounted, error }) => ({
    id,
    attempts: uncounted ? attempts - 1 : attempts,
    status: status === 'waiting' ? 'processing' : status,
    claim: waitsFor,
    error,
  }))
  const rows = await db.execute<{ id: string }>(sql`
    select s.id
    from ${syncItems} s
    join jsonb_to_recordset(${jsonText(asked)}::jsonb) as o (id bigint, attempts int, status text, claim text, error text)
      on s.id = o.id and s.status = o.status and s.attempts = o.attempts
         and s.claim is not distinct from o.claim and s.error is not distinct from o.error`)
  return new Set(rows.map((row) => Number(row.id)))
}

/** Where a row goes that no listener has seen. */
export type GivenBack =
  | { readonly status: 'pending' }
  | { readonly status: 'processing'; readonly waitsFor: string | null }

/**
 * Gives claimed rows back that no listener has seen; the attempt does not count. One that a later try has taken up
 * meanwhile is that one's.
 *
 * @returns the ids that went back
 */
export async function handBackItems(
  db: Database | Transaction,
  { syncItems }: Tables,
  rows: readonly Pick<SyncItemRow, 'id' | 'attempts' | 'claim'>[],
  to: GivenBack,
): Promise<Set<number>> {
  if (rows.length === 0) return new Set()
  const given = rows.map(({ id, attempts, claim }) => ({ id, attempts, claim }))
  const back = await db.execute<{ id: string }>(sql`
    update ${syncItems} s
    set status = ${to.status}, attempts = s.attempts - 1, updated_at = clock_timestamp(),
        claim = ${to.status === 'pending' ? null : to.waitsFor}::text,
        next_attempt_at = ${to.status === 'pending' ? sql`null` : sql`clock_timestamp()`}
    from jsonb_to_recordset(${jsonText(given)}::jsonb) as r (id bigint, attempts int, claim text)
    where s.id = r.id and s.status = 'processing' and s.attempts = r.attempts and s.claim = r.claim
    returning s.id`)
  return new Set(back.map((row) => Number(row.id)))
}

export async function findItem(db: Database, { syncItems }: Tables, id: number): Promise<SyncItemRow | null> {
  const [row] = await db.select().from(syncItems).where(eq(syncItems.id, id))
  return row ?? null
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
