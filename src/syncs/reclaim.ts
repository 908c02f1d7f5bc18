/** Items that were in flight for too long. Rule: docs/behaviour/sync-items.md, "Abandoned items". */
import { isOfRetry } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import { newestOpenRun } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { InFlightItem } from './end-queries.ts'
import { failAbandonedItems, itemsInFlightSince } from './end-queries.ts'

/** Beyond the last moment at which a retry may begin. */
const BEYOND_RETRY_WINDOW_SECONDS = 3_600
/** Questions to Temporal at once. */
const QUESTIONS = 20
export interface Reclaimed {
  readonly items: number
  /** The runs that they belong to. */
  readonly syncLogIds: readonly number[]
}

/**
 * Fails what has been in flight for too long, unless its run or its own workflow lives. Its run is then to be finalised.
 *
 * @param aliveSyncLogId the run that asks: it lives, and by its workflow's id no other one does. 0: one that has no log
 *   yet. Null: whether a run lives is asked of Temporal
 */
export async function reclaimAbandonedItems(
  framework: Framework,
  integrationId: number,
  aliveSyncLogId: number | null,
): Promise<Reclaimed> {
  const { config, db, tables, logger, metrics } = framework
  const { item_reclaim_after, item_retry_window } = config.sync
  const old = await itemsInFlightSince(db, tables, {
    integrationId,
    seconds: Math.max(item_reclaim_after, item_retry_window + BEYOND_RETRY_WINDOW_SECONDS),
  })
  if (old.length === 0) return { items: 0, syncLogIds: [] }
  const alive = aliveSyncLogId ?? (await aliveRun(framework, integrationId))
  const abandoned = await withoutOwnWorkflow(
    framework,
    old.filter(({ syncLogId }) => syncLogId === null || syncLogId !== alive),
  )
  const failed = await failAbandonedItems(db, tables, abandoned)
  const runs = failed.flatMap(({ syncLogId }) => (syncLogId === null ? [] : [syncLogId]))
  if (failed.length === 0) return { items: 0, syncLogIds: [] }
  const subject = await subjectOf(framework, integrationId)
  for (const { id, syncLogId, externalId } of failed)
    logger.warn(
      {
        event: 'item.abandoned',
        integration: integrationId,
        provider: subject.provider,
        sync_log: syncLogId,
        sync_item: id,
        external_id: externalId,
      },
      'a sync item was in flight for too long; it is failed',
    )
  metrics.syncItemSettled(subject, 'failed', failed.length)
  return { items: failed.length, syncLogIds: [...new Set(runs)].sort((a, b) => a - b) }
}

/** The log of the run that lives; null: none does. */
async function aliveRun({ db, tables, workflows }: Framework, integrationId: number): Promise<number | null> {
  if (!(await workflows.isSyncRunning(integrationId))) return null
  return newestOpenRun(db, tables, integrationId)
}

/** A row keeps the claim of its own workflow between two attempts, too. */
async function withoutOwnWorkflow(
  { workflows }: Framework,
  items: readonly InFlightItem[],
): Promise<readonly InFlightItem[]> {
  const abandoned: InFlightItem[] = []
  for (let from = 0; from < items.length; from += QUESTIONS) {
    const some = items.slice(from, from + QUESTIONS)
    const lives = await Promise.all(
      some.map(({ id, claim }) => (claim !== null && isOfRetry(claim) ? workflows.isSyncItemRunning(id) : false)),
    )
    abandoned.push(...some.filter((_, at) => !lives[at]))
  }
  return abandoned
}
