/** How a run ends. Rule: docs/behaviour/sync-cursor.md, "Finalisation". */

import type { Framework } from '../framework/context.ts'
import { announceOnce } from '../syncs/announcement.ts'
import { cancelRun, failRun } from '../syncs/cut-short.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
import { endRun } from '../syncs/finalisation.ts'
import { runLogger } from '../syncs/run-logger.ts'
import type { RunIds } from '../syncs/run-rules.ts'

export type { Finalisation } from '../syncs/finalisation.ts'
export type { RunIds } from '../syncs/run-rules.ts'

export function syncEndActivities(framework: Framework) {
  return {
    /** Gives the run up: its log says why, the cursor stays, the next run is planned. Once only, as finalisation. */
    async failSyncRun({ reason, ...run }: RunIds & { reason: string }): Promise<void> {
      if (await failRun(framework, run, reason))
        (await runLogger(framework, run)).error({ event: 'sync.failed', error: reason }, 'sync run failed')
    },

    /**
     * Ends the run once all its items have ended: status, counts, cursor and times. A second try finds it ended.
     *
     * @param announces announces the run, too, as `announceSyncRun` does
     */
    async finaliseSyncRun({ announces, ...run }: RunIds & { readonly announces?: boolean }): Promise<Finalisation> {
      return endRun(framework, run, { announces: announces === true })
    },

    /**
     * Tells the listeners how the run ended. At least once: a worker may die between telling and noting it. A worker that stops
     * before a listener has ended fails this try, and another worker tells all of them again.
     */
    async announceSyncRun(run: RunIds): Promise<void> {
      await announceOnce(framework, run)
    },

    /**
     * Cancels the run: unstarted items go, items that wait or are held become `failed`. The cursor, the last clean time and the
     * counter stay; the next run is due after one interval. May be run twice.
     */
    async cancelSyncRun(run: RunIds): Promise<void> {
      if (await cancelRun(framework, run))
        (await runLogger(framework, run)).info({ event: 'sync.cancelled' }, 'sync run cancelled')
    },
  }
}
