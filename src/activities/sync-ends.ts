/** How a run ends. Rule: docs/behaviour/sync-cursor.md, "Finalisation". */

import type { Framework } from '../framework/context.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import { announceRun } from '../syncs/announcement.ts'
import { cancelRun, failRun } from '../syncs/cut-short.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
import { finaliseRun } from '../syncs/finalisation.ts'
import type { RunIds } from '../syncs/run-rules.ts'

export type { Finalisation } from '../syncs/finalisation.ts'
export type { RunIds } from '../syncs/run-rules.ts'

export function syncEndActivities(framework: Framework) {
  const { logger } = framework

  async function announce(run: RunIds): Promise<void> {
    if ((await announceRun(framework, run)) === 'elsewhere')
      throw new Error(`another process is announcing run ${run.syncLogId}; looked at again until that is noted`)
  }

  return {
    /** The run is given up: its log says why, the cursor stays, the next run is planned. Once only, as finalisation. */
    async failSyncRun({ integrationId, syncLogId, reason }: RunIds & { reason: string }): Promise<void> {
      if (await failRun(framework, { integrationId, syncLogId }, reason))
        logger.error(
          {
            event: 'sync.failed',
            integration: integrationId,
            provider: (await subjectOf(framework, integrationId)).provider,
            sync_log: syncLogId,
            error: reason,
          },
          'sync run failed',
        )
    },

    /**
     * Ends the run once all its items have ended: status, counts, cursor and times. A second try finds it ended.
     *
     * @param announces announces the run, too, as `announceSyncRun` does
     */
    async finaliseSyncRun({
      integrationId,
      syncLogId,
      announces = false,
    }: RunIds & { readonly announces?: boolean }): Promise<Finalisation> {
      const { result, cursor, ...end } = await finaliseRun(framework, { integrationId, syncLogId }, { announces })
      if (end.isFinalisedNow && result.kind === 'finalised')
        logger.info(
          {
            event: 'sync.finished',
            integration: integrationId,
            provider: end.provider,
            sync_log: syncLogId,
            status: result.status,
            succeeded: result.succeeded,
            failed: result.failed,
            skipped: result.skipped,
            cursor,
          },
          'sync run finished',
        )
      if (announces && result.kind === 'finalised' && !end.isAnnounced) await announce({ integrationId, syncLogId })
      return result
    },

    /**
     * Tells the listeners how the run ended. At least once: a worker may die between telling and noting it. One that ends before
     * a listener has fails this try with why it ends, and another worker tells all of them again.
     */
    async announceSyncRun({ integrationId, syncLogId }: RunIds): Promise<void> {
      await announce({ integrationId, syncLogId })
    },

    /**
     * Ends a cancelled run: what had not started goes, what waits or is still held is `failed`. The cursor, the last clean
     * time and the counter stay; the next run is due after one interval. May be run twice.
     */
    async cancelSyncRun({ integrationId, syncLogId }: RunIds): Promise<void> {
      if (await cancelRun(framework, { integrationId, syncLogId }))
        logger.info(
          {
            event: 'sync.cancelled',
            integration: integrationId,
            provider: (await subjectOf(framework, integrationId)).provider,
            sync_log: syncLogId,
          },
          'sync run cancelled',
        )
    },
  }
}
