/** Runs over a window of the past, and what full listings miss. Rule: docs/behaviour/sync-backfills.md. */

import { insideSync } from '../calls/inside-sync.ts'
import { isFinalFault } from '../calls/retry.ts'
import { Ending } from '../claims/ending.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { openSlice } from '../syncs/backfill.ts'
import type { Slice } from '../syncs/backfill-queries.ts'
import { handleMissing, missingItemsOf } from '../syncs/listing/missing.ts'
import type { RunIds } from '../syncs/run-rules.ts'
import { runSettings } from '../syncs/start.ts'
import { asFailure } from './activity-failures.ts'
import { temporalSurroundings } from './surroundings.ts'
import type { OpenedRun } from './sync-runs.ts'

export function syncBackfillActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Opens the log of one slice of a backfill, once what a dead backfill left open is ended. A second try finds the log of
     * the first.
     *
     * @param slice `runId` is the backfill's workflow's first; `from` is inclusive, `to` exclusive, both ISO 8601, as is
     *   `startedAt`, when the workflow started
     */
    async openBackfillSlice(
      slice: Slice & { readonly startedAt: string },
    ): Promise<Extract<OpenedRun, { kind: 'open' | 'nothing to do' }>> {
      const opened = await openSlice(framework, slice)
      return opened.kind === 'nothing to do' ? opened : { ...opened, settings: runSettings(framework) }
    },

    /**
     * Tells the provider which mapped ids two full listings in a row did not name. At least once: a second try tells all of
     * them again. When the worker stops, the provider's call has its time to end.
     *
     * @returns the number of ids that it was told
     */
    async handleMissingItems(run: RunIds): Promise<{ missing: number }> {
      const { cancellationSignal: signal } = surroundings()
      const target = await missingItemsOf(framework, run)
      if (target === null) return { missing: 0 }
      const ending = new Ending(signal)
      try {
        const missing = await insideSync({ signal }, () => handleMissing(framework, target, signal, ending.signal))
        return { missing }
      } catch (error) {
        // Temporal tells a cancellation and a stopping worker apart by this very error, and tries again after the second.
        signal.throwIfAborted()
        const nonRetryable = isFinalFault(error, target.provider)
        throw asFailure(error, { secrets: secretsIn(target.integration), nonRetryable })
      } finally {
        ending.release()
      }
    },
  }
}
