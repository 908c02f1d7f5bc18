/**
 * Finds and takes over what dead workflows left behind: items in flight, and whole runs.
 *
 * Rules: docs/behaviour/sync-items.md, "Abandoned items"; docs/behaviour/sync-listing.md, "What a dead run left behind".
 */
import { isOfRetry } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { findLog, newestOpenRun } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { countItems, waitingItems } from './end-queries.ts'
import { failAbandonedItems, giveBackHeldItems, itemsInFlightSince, itemsRetriedByHand } from './opening-queries.ts'
import { runLogger } from './run-logger.ts'
import type { RunIds } from './run-rules.ts'

/** Beyond the last moment at which a retry may begin. */
const BEYOND_RETRY_WINDOW_SECONDS = 3_600
/** Questions to Temporal at once. */
const QUESTIONS = 20

/** Items that a living workflow of their own has: no other work may touch them. @throws BackendUnreachable */
export async function itemsHeldByOwnWorkflow(
  framework: Framework,
  of: Parameters<typeof itemsRetriedByHand>[2],
): Promise<number[]> {
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
  integrationId: number,
  aliveSyncLogId: number | null,
): Promise<Reclaimed> {
  const { config, db, tables, metrics } = framework
  const { item_reclaim_after, item_retry_window } = config.sync
  const seconds = Math.max(item_reclaim_after, item_retry_window + BEYOND_RETRY_WINDOW_SECONDS)
  const old = await itemsInFlightSince(db, tables, { integrationId, seconds })
  if (old.length === 0) return { items: 0, syncLogIds: [] }
  const alive = aliveSyncLogId ?? (await aliveRun(framework, integrationId))
  const ofDeadRuns = old.filter(({ syncLogId }) => syncLogId === null || syncLogId !== alive)
  // A row keeps the claim of its own workflow between two attempts, too.
  const retried = ofDeadRuns.filter(({ claim }) => claim !== null && isOfRetry(claim)).map(({ id }) => id)
  const held = new Set(await livingRetries(framework, retried))
  const abandoned = ofDeadRuns.filter(({ id }) => !held.has(id))
  const failed = await failAbandonedItems(db, tables, abandoned)
  if (failed.length === 0) return { items: 0, syncLogIds: [] }
  const subject = await subjectOf(framework, integrationId)
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
async function aliveRun({ db, tables, workflows }: Framework, integrationId: number): Promise<number | null> {
  if (!(await workflows.isSyncRunning(integrationId))) return null
  return newestOpenRun(db, tables, integrationId)
}

/** What an adopted run has behind it and before it. */
export interface AdoptedRun {
  readonly listed: number
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
  return {
    listed: Number(metadata.listed ?? 0),
    succeeded: counts.success,
    failed: counts.failed + counts.skipped,
    pending: counts.pending,
    waiting: await waitingItems(db, tables, syncLogId, framework.config.sync.item_backoff),
  }
}
