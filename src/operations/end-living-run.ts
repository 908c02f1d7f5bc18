/** Ends a living run for somebody who will not have it go on. Rule: docs/behaviour/syncs.md, "Cancel". */
import { recentRuns } from '../db/queries/sync-opening.ts'
import type { Framework } from '../framework.ts'
import { cancelRun } from './sync-cut-short.ts'

/** The log of a living run is among the newest ones: a run that adopts an older one opens none. */
const RECENT_RUNS = 20

/**
 * Cancels the run and waits until it is over. One that no worker ends is terminated, and can't end its own log any more: that
 * is done for it, or the next run would go on with what it left.
 *
 * @throws BackendUnreachable
 */
export async function endLivingRun(framework: Framework, integrationId: number): Promise<void> {
  const { db, tables, workflows } = framework
  // Asked before: a run that begins once this one is over is not meant.
  const open = (await recentRuns(db, tables, integrationId, RECENT_RUNS)).filter(({ isOpen }) => isOpen)
  await workflows.cancelSync(integrationId)
  // Once only: a log that the run has ended itself is left as it is.
  for (const { syncLogId } of open) await cancelRun(framework, { integrationId, syncLogId })
}
