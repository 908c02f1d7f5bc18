/**
 * Goes on with a run whose workflow is gone.
 *
 * Rule: docs/behaviour/sync-listing.md, "What a dead run left behind".
 */

import type { Framework } from '../framework/context.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { findLog } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { countItems, waitingItems } from './end-queries.ts'
import { remainingWait } from './finalisation.ts'
import { giveBackHeldItems } from './opening-queries.ts'
import type { RunIds } from './run-rules.ts'
import { itemsHeldByOwnWorkflow } from './start.ts'

/** As many rows as a run's list of waiting items holds; its finalisation names the others. */
const MAX_WAITING = 1_000

/** What an adopted run has behind it and before it. */
export interface AdoptedRun {
  readonly listed: number
  readonly succeeded: number
  /** Those that were skipped since among them. */
  readonly failed: number
  readonly pending: number
  readonly waiting: { readonly id: number; readonly seconds: number }[]
}

/**
 * Gives back the rows that nobody works on any more, and says what is left to do. May be run twice, and later again.
 *
 * @param olderThanSeconds given by a run that has no batch under way: rows that it still holds under a claim at least so old
 *   are given back. Not given: its adopter takes what the dead workflow's batches held, and keeps what its own do
 */
export async function takeOverRun(
  framework: Framework,
  { integrationId, syncLogId, olderThanSeconds }: RunIds & { readonly olderThanSeconds?: number },
): Promise<AdoptedRun> {
  const { db, logger, tables } = framework
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
      logger.warn(
        {
          event: 'sync.taken_over',
          integration: integrationId,
          provider: (await subjectOf(framework, integrationId)).provider,
          sync_log: syncLogId,
          items,
        },
        'items of a sync run that nobody works on any more were given back',
      )
  }
  const counts = await countItems(db, tables, syncLogId)
  const waiting = await waitingItems(db, tables, syncLogId, MAX_WAITING)
  return {
    listed: Number(metadata.listed ?? 0),
    succeeded: counts.success,
    failed: counts.failed + counts.skipped,
    pending: counts.pending,
    waiting: waiting.map((item) => ({ id: item.id, seconds: remainingWait(framework, item) })),
  }
}
