/** Runs over a window of the past, and what full listings miss. Rule: docs/behaviour/sync-backfills.md. */

import { insideSync } from '../calls/inside-sync.ts'
import { Ending } from '../claims/ending.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { lockIntegration } from '../integrations/queries.ts'
import { switchedOffBy } from '../integrations/switched-off-rules.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { insertLog } from '../observability/log-queries.ts'
import { classifiesFailures, hasBackfill } from '../providers/contracts.ts'
import type { Slice } from '../syncs/backfill-queries.ts'
import { findSliceLog } from '../syncs/backfill-queries.ts'
import { endDeadBackfills } from '../syncs/dead-backfills.ts'
import { handleMissing, missingItemsOf } from '../syncs/listing/missing.ts'
import { asFailure, isFinalFault } from './activity-failures.ts'
import { runSettings } from './small-run.ts'
import { temporalSurroundings } from './surroundings.ts'
import type { OpenedRun } from './sync-runs.ts'

export function syncBackfillActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { db, tables, logger, providers } = framework

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
      const { integrationId, runId, from, to } = slice
      await endDeadBackfills(framework, slice)
      return db.transaction(async (tx) => {
        // Two tries that overlap open one log.
        const row = await lockIntegration(tx, tables, integrationId)
        if (row === null) return nothingToDo(`there is no integration ${integrationId}`)
        if (switchedOffBy(row) !== null) return nothingToDo('the integration is switched off')
        const provider = providers.find(row.provider)
        if (provider === null) return nothingToDo(`the provider "${row.provider}" is not registered`)
        if (!hasBackfill(provider)) return nothingToDo(`the provider "${row.provider}" has no syncWindow()`)
        const settings = runSettings(framework)
        const existing = await findSliceLog(tx, tables, slice)
        if (existing !== null) return { kind: 'open' as const, syncLogId: existing.id, settings }
        const metadata: RunMetadata = {
          run_id: runId,
          window: { from, to },
          incremental: false,
          cursor_before: (row.syncCursor ?? null) as Json,
          enumerated: false,
        }
        const opened = { operation: 'backfill', direction: 'inbound', status: 'processing' } as const
        const syncLogId = await insertLog(tx, tables, { integrationId, ...opened, metadata })
        logger.info(
          {
            event: 'backfill.slice_started',
            integration: integrationId,
            provider: row.provider,
            sync_log: syncLogId,
            from,
            to,
          },
          'a slice of a backfill started',
        )
        return { kind: 'open' as const, syncLogId, settings }
      })
    },

    /**
     * Tells the provider which mapped ids two full listings in a row did not name. At least once: a second try tells all of
     * them again. When the worker stops, what the provider is at has its time to end.
     *
     * @returns how many it was told of
     */
    async handleMissingItems(run: { integrationId: number; syncLogId: number }): Promise<{ missing: number }> {
      const { cancellationSignal: signal } = surroundings()
      const target = await missingItemsOf(framework, run)
      if (target === null) return { missing: 0 }
      const { integration, provider } = target
      const ending = new Ending(signal)
      try {
        const missing = await insideSync({ signal }, () => handleMissing(framework, target, signal, ending.signal))
        return { missing }
      } catch (error) {
        // Cancelled, or the worker stops: Temporal tells these apart by this very error, and the second is tried again.
        if (signal.aborted) throw signal.reason
        const classOf = classifiesFailures(provider) ? (fault: unknown) => provider.classifyFailure(fault) : undefined
        throw asFailure(error, { secrets: secretsIn(integration), nonRetryable: isFinalFault(error, classOf) })
      } finally {
        ending.release()
      }
    },
  }
}

function nothingToDo(reason: string): Extract<OpenedRun, { kind: 'nothing to do' }> {
  return { kind: 'nothing to do', reason }
}
