/**
 * Finds and takes over what dead workflows left behind: items in flight, and whole runs.
 *
 * Rules: docs/behaviour/sync-items.md, "Abandoned items"; docs/behaviour/sync-listing.md, "What a dead run left behind".
 */
import { and, asc, eq, sql } from 'drizzle-orm'
import { isOfRetry, OWN_WORKFLOW_CLAIM } from '../claims/rules.ts'
import type { Database } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { findLog, newestOpenRun } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { countItems, waitingItems } from './end-queries.ts'
import { runLogger } from './run-logger.ts'
import type { RunIds } from './run-rules.ts'
import type { SyncOf } from './sync-jobs.ts'
import { itemsOf } from './sync-rows.ts'

/** Beyond the last moment at which a retry may begin. */
const BEYOND_RETRY_WINDOW_SECONDS = 3_600
/** Questions to Temporal at once. */
const QUESTIONS = 20

/** The items of a run, or of all ordinary runs of a stream. */
type RunOrStream = { readonly syncLogId: number } | SyncOf

/** Items that a living workflow of their own has: no other work may touch them. @throws BackendUnreachable */
export async function itemsHeldByOwnWorkflow(framework: Framework, of: RunOrStream): Promise<number[]> {
  return livingRetries(framework, await itemsRetriedByHand(framework.db, framework.tables, of))
}

/** Those of the items whose own workflow lives. */
async function livingRetries({ workflows }: Framework, itemIds: readonly number[]): Promise<number[]> {
  const alive: number[] = []
  for (let at = 0; at < itemIds.length; at += QUESTIONS) {
    const asked = itemIds.slice(at, at + QUESTIONS)
    const answers = await Promise.all(asked.map((id) => workflows.isSyncItemRunning(id)))
    alive.push(...asked.filter((_, index) => answers[index]))
  }
  return alive
}

export interface Reclaimed {
  readonly items: number
  /** The runs that they belong to. */
  readonly syncLogIds: readonly number[]
}

/**
 * Fails items that were in flight for too long, unless their run or their own workflow lives. Their runs are then to be finalised.
 *
 * @param aliveSyncLogId the run that asks: it lives, and its workflow's id says that no other run does. 0: it has no log
 *   yet. Null: Temporal is asked whether a run lives
 */
export async function reclaimAbandonedItems(
  framework: Framework,
  of: SyncOf,
  aliveSyncLogId: number | null,
): Promise<Reclaimed> {
  const { config, db, tables, metrics } = framework
  const { item_reclaim_after, item_retry_window } = config.sync
  const seconds = Math.max(item_reclaim_after, item_retry_window + BEYOND_RETRY_WINDOW_SECONDS)
  const old = await itemsInFlightSince(db, tables, of, seconds)
  if (old.length === 0) return { items: 0, syncLogIds: [] }
  const alive = aliveSyncLogId ?? (await aliveRun(framework, of))
  const ofDeadRuns = old.filter(({ syncLogId }) => syncLogId === null || syncLogId !== alive)
  // A row keeps the claim of its own workflow between two attempts, too.
  const retried = ofDeadRuns.filter(({ claim }) => claim !== null && isOfRetry(claim)).map(({ id }) => id)
  const held = new Set(await livingRetries(framework, retried))
  const abandoned = ofDeadRuns.filter(({ id }) => !held.has(id))
  const failed = await failAbandonedItems(db, tables, abandoned)
  if (failed.length === 0) return { items: 0, syncLogIds: [] }
  const subject = { ...(await subjectOf(framework, of.integrationId)), stream: of.stream ?? null }
  const logger = integrationLogger(framework, subject)
  for (const { id, syncLogId, externalId } of failed)
    logger.warn(
      { event: 'item.abandoned', sync_log: syncLogId, sync_item: id, external_id: externalId },
      'a sync item was in flight for too long; it is failed',
    )
  metrics.syncItemSettled(subject, 'failed', failed.length)
  const runs = new Set(failed.flatMap(({ syncLogId }) => syncLogId ?? []))
  return { items: failed.length, syncLogIds: [...runs].sort((a, b) => a - b) }
}

/** The log of the run that lives; null: no run lives. */
async function aliveRun({ db, tables, workflows }: Framework, of: SyncOf): Promise<number | null> {
  if (!(await workflows.isSyncRunning(of))) return null
  return newestOpenRun(db, tables, of)
}

/** What an adopted run has behind it and before it. */
export interface AdoptedRun {
  readonly listed: number
  /** Records that were as they were handled last; not there: none. */
  readonly unchanged?: number
  readonly succeeded: number
  /** With those that were skipped since. */
  readonly failed: number
  readonly pending: number
  readonly waiting: { readonly id: number; readonly seconds: number }[]
}

/**
 * Gives back the rows that dead workers hold, and says what is left to do. May be run twice, and later again.
 *
 * @param olderThanSeconds given by a run that has no batch under way: rows that it still holds under a claim of this age
 *   are given back. Not given: its adopter takes what the dead workflow's batches held, and keeps what its own do
 */
export async function takeOverRun(
  framework: Framework,
  { olderThanSeconds, ...run }: RunIds & { readonly olderThanSeconds?: number },
): Promise<AdoptedRun> {
  const { db, tables } = framework
  const { syncLogId } = run
  const log = await findLog(db, tables, syncLogId)
  const metadata = (log?.metadata ?? {}) as Partial<RunMetadata>
  const adopter = typeof metadata.adopted_by === 'string' ? metadata.adopted_by : null
  if (log?.status === 'processing' && (adopter !== null || olderThanSeconds !== undefined)) {
    const items = await giveBackHeldItems(db, tables, {
      syncLogId,
      keep: olderThanSeconds === undefined ? adopter : null,
      keepItems: await itemsHeldByOwnWorkflow(framework, { syncLogId }),
      olderThanSeconds: olderThanSeconds ?? 0,
    })
    if (items > 0)
      (await runLogger(framework, run)).warn(
        { event: 'sync.taken_over', items },
        'items of a sync run that a dead worker held were given back',
      )
  }
  const counts = await countItems(db, tables, syncLogId)
  const unchanged = Number(metadata.unchanged ?? 0)
  return {
    listed: Number(metadata.listed ?? 0),
    ...(unchanged === 0 ? {} : { unchanged }),
    succeeded: counts.success,
    failed: counts.failed + counts.skipped,
    pending: counts.pending,
    waiting: await waitingItems(db, tables, syncLogId, framework.config.sync.item_backoff),
  }
}

/** Items that a workflow of their own holds, or held before it died. */
async function itemsRetriedByHand(db: Database, { syncItems, logs }: Tables, of: RunOrStream): Promise<number[]> {
  const among =
    'syncLogId' in of
      ? sql`s.sync_log_id = ${of.syncLogId}`
      : sql`${itemsOf(sql`s`, of)}
        and exists (select 1 from ${logs} l where l.id = s.sync_log_id and l.operation = 'sync')`
  const rows = await db.execute<{ id: string }>(sql`
    select s.id from ${syncItems} s
    where ${among} and s.status = 'processing' and starts_with(s.claim, ${OWN_WORKFLOW_CLAIM})
    order by s.id`)
  return rows.map((row) => Number(row.id))
}

/**
 * Takes the rows of a run from dead claims. A first attempt goes back to the queue; a later one waits for as long as it
 * would have. A batch that comes late finds its claim gone and changes nothing. How far its listeners came is not known, so
 * an item that was not judged is foreign.
 *
 * @param keep the run id of the workflow that resumes the run: the rows of its own batches stay. Null: no row stays
 * @param keepItems held by living workflows of their own
 * @param olderThanSeconds a claim made since then stays
 */
async function giveBackHeldItems(
  db: Database,
  { syncItems }: Tables,
  given: {
    readonly syncLogId: number
    readonly keep: string | null
    readonly keepItems: readonly number[]
    readonly olderThanSeconds: number
  },
): Promise<number> {
  const kept = given.keep === null ? sql`` : sql` and not starts_with(claim, ${`${given.keep}:`})`
  // A retry by hand holds its row between two attempts, too: it has begun no attempt then.
  const isBetweenAttempts = sql`claim like '%:waiting'`
  const begun = sql`case when ${isBetweenAttempts} then attempts else greatest(attempts - 1, 0) end`
  const rows = await db.execute<{ id: string }>(sql`
    update ${syncItems}
    set status = case when ${begun} > 0 then 'processing' else 'pending' end, attempts = ${begun}, claim = null,
        is_own = case when ${isBetweenAttempts} then is_own else coalesce(is_own, false) end
    where sync_log_id = ${given.syncLogId} and status = 'processing' and claim is not null
      and updated_at <= clock_timestamp() - make_interval(secs => ${given.olderThanSeconds})
      and id not in (select value::bigint from jsonb_array_elements_text(${jsonText(given.keepItems)}::jsonb))${kept}
    returning id`)
  return rows.length
}

interface InFlightItem {
  readonly id: number
  readonly syncLogId: number | null
  readonly externalId: string | null
  readonly attempts: number
  readonly claim: string | null
}

/** Items that began, have not ended, and are older than `seconds`. A backfill's items go on with it. */
async function itemsInFlightSince(
  db: Database,
  { syncItems, logs }: Tables,
  of: SyncOf,
  seconds: number,
): Promise<InFlightItem[]> {
  return db
    .select({
      id: syncItems.id,
      syncLogId: syncItems.syncLogId,
      externalId: syncItems.externalId,
      attempts: syncItems.attempts,
      claim: syncItems.claim,
    })
    .from(syncItems)
    .leftJoin(logs, eq(logs.id, syncItems.syncLogId))
    .where(
      and(
        itemsOf(sql`${syncItems}`, of),
        eq(syncItems.status, 'processing'),
        sql`${syncItems.createdAt} < clock_timestamp() - make_interval(secs => ${seconds}::double precision)`,
        sql`${logs.operation} is distinct from 'backfill'`,
      ),
    )
    .orderBy(asc(syncItems.id))
}

/** Fails the items that have not moved since they were read. @returns these */
async function failAbandonedItems(
  db: Database,
  { syncItems }: Tables,
  items: readonly InFlightItem[],
): Promise<InFlightItem[]> {
  if (items.length === 0) return []
  const rows = await db.execute<{ id: string }>(sql`
    update ${syncItems} s
    set status = 'failed', error = 'abandoned', claim = null, next_attempt_at = null, completed_at = clock_timestamp(), updated_at = clock_timestamp()
    from jsonb_to_recordset(${jsonText(items)}::jsonb) as seen (id bigint, attempts integer, claim text)
    where s.id = seen.id and s.status = 'processing' and s.attempts = seen.attempts
      and s.claim is not distinct from seen.claim
    returning s.id`)
  const failed = new Set(rows.map((row) => Number(row.id)))
  return items.filter(({ id }) => failed.has(id))
}
