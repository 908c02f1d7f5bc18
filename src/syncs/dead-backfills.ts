/** What a backfill left open whose workflow is gone. Rule: docs/behaviour/sync-backfills.md, "Backfills". */

import type { Framework } from '../framework/context.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { openSlicesOfOthers } from './backfill-queries.ts'
import { abandonSlice } from './cut-short.ts'
import { itemsHeldByOwnWorkflow } from './start.ts'

const REASON = 'the workflow of the backfill ended before this slice was done'

/**
 * Ends the slices that other backfills of the integration have left open: the id of a backfill's workflow is its lock, so
 * they belong to workflows that were terminated. May be done twice.
 *
 * @param startedAt of the workflow that asks, ISO 8601: what was opened later may be of one that has taken its place
 * @throws BackendUnreachable
 */
export async function endDeadBackfills(
  framework: Framework,
  {
    integrationId,
    runId,
    startedAt: before,
  }: { readonly integrationId: number; readonly runId: string; readonly startedAt: string },
): Promise<void> {
  const { db, tables, logger } = framework
  for (const syncLogId of await openSlicesOfOthers(db, tables, { integrationId, runId, before })) {
    const retried = await itemsHeldByOwnWorkflow(framework, { syncLogId })
    if (!(await abandonSlice(framework, { integrationId, syncLogId }, REASON, retried))) continue
    const { provider } = await subjectOf(framework, integrationId)
    logger.warn(
      { event: 'backfill.abandoned', integration: integrationId, provider, sync_log: syncLogId, error: REASON },
      'a slice of an earlier backfill was left open; it is failed, and its window may be started again',
    )
  }
}
