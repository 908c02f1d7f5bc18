import { MAX_LOST_WORKERS } from '../core/claim.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import {
  claimPendingItems,
  claimWaitingItems,
  handBackItems,
  itemsHeldBy,
  settleItems,
  takeUpItem,
} from '../db/queries/sync-items.ts'
import type { IntegrationRow, SyncItemRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { getIntegration } from '../operations/integration.ts'
import { patiently } from '../operations/patiently.ts'
import type { ItemRun } from '../operations/sync-items.ts'
import { itemRecord, runSyncItem } from '../operations/sync-items.ts'
import type { Batch } from './batch.ts'
import { runBatch } from './batch.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Either the next pending items of a run, or certain ones whose wait is over. */
export interface ItemBatch {
  readonly syncLogId: number
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  readonly take: { readonly kind: 'pending'; readonly limit: number } | { readonly kind: 'due'; readonly ids: number[] }
}

export interface ItemBatchResult {
  readonly claimed: number
  readonly succeeded: number
  readonly failed: number
  /** Items that run again. */
  readonly waiting: { readonly id: number; readonly seconds: number }[]
  /** Seconds until the provider has capacity again; the run takes nothing new in before. 0: no limit was met. */
  readonly deferredSeconds: number
}

export function syncItemActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { config, db, tables, logger } = framework

  return {
    /**
     * Runs the listeners of a batch of items.
     *
     * May be run twice: a second try under the same claim first takes up the rows that the first one still holds. What
     * the first one had put to wait without being able to say so is found by the finalisation, which names such rows.
     */
    async processSyncItems({ syncLogId, claim, take }: ItemBatch): Promise<ItemBatchResult> {
      const context = surroundings()
      const tally = { succeeded: 0, failed: 0, deferredSeconds: 0 }
      const waiting: { id: number; seconds: number }[] = []
      const settle = async (runs: readonly ItemRun[]): Promise<void> => {
        const settled = await settleItems(
          db,
          tables,
          runs.map((run) => run.settlement),
        )
        for (const run of runs)
          if (settled.has(run.row.id)) await report(run)
          else logger.warn({ event: 'item.superseded', item: run.row.id }, 'a later attempt holds this item')
      }
      const report = async ({ row, integration, step, error }: ItemRun): Promise<void> => {
        if (step.kind === 'succeed') tally.succeeded += 1
        else if (step.kind === 'wait') {
          waiting.push({ id: row.id, seconds: step.seconds })
          if (!step.counted) tally.deferredSeconds = Math.max(tally.deferredSeconds, step.seconds)
        } else {
          tally.failed += 1
          logger.warn(
            {
              event: 'item.failed',
              integration: row.integrationId,
              item: row.id,
              external_id: row.externalId,
              error: step.reason,
            },
            'sync item failed',
          )
          if (integration !== null)
            await framework.listeners.emit('SyncItemFailed', { integration, item: itemRecord(row, step.reason), error })
        }
      }

      const batch: Omit<Batch<SyncItemRow, IntegrationRow | null, ItemRun>, 'rows'> = {
        concurrency: config.sync.item_concurrency,
        signal: context.cancellationSignal,
        logger,
        prepare: (row) => findIntegration(db, tables, row.integrationId),
        run: (row, integration) => runSyncItem(framework, row, integration, context.cancellationSignal),
        settle,
        handBack: async (unstarted) => {
          await handBackItems(db, tables, claim, unstarted)
          // A later attempt waits for nothing but a lane; a first one is pending again.
          for (const row of unstarted) if (row.attempts > 1) waiting.push({ id: row.id, seconds: 0 })
        },
      }
      // One at a time: if a row is what kills workers, it takes no other down.
      for (const held of await itemsHeldBy(db, tables, claim)) {
        const taken = await takeUp(framework, held, claim)
        if (taken?.kind === 'again') await runBatch({ ...batch, rows: [taken.row] })
        if (taken?.kind === 'given up') await patiently('a settlement', () => settle([taken.outcome]), batch)
      }
      const rows =
        take.kind === 'due'
          ? await claimWaitingItems(db, tables, { ids: take.ids, claim })
          : await claimPendingItems(db, tables, { syncLogId, claim, limit: take.limit })
      const ran = await runBatch({ ...batch, rows })
      const limit = take.kind === 'pending' ? take.limit : take.ids.length
      return { ...tally, waiting, claimed: ran < rows.length ? limit : rows.length }
    },
  }
}

/** Takes up a row whose worker died with it, or gives it up after too many. Null: somebody else has moved it since. */
async function takeUp(
  framework: Framework,
  held: SyncItemRow,
  claim: string,
): Promise<{ kind: 'again'; row: SyncItemRow } | { kind: 'given up'; outcome: ItemRun } | null> {
  const taken = await takeUpItem(framework.db, framework.tables, held, claim)
  if (taken === null) return null
  const { row, losses } = taken
  framework.logger.warn(
    { event: 'item.worker_lost', integration: row.integrationId, item: row.id, losses },
    'the worker of a sync item was lost; it is taken up again',
  )
  if (losses < MAX_LOST_WORKERS) return { kind: 'again', row }
  const reason = `worker lost ${losses} times`
  return {
    kind: 'given up',
    outcome: {
      row,
      integration: await getIntegration(framework, row.integrationId),
      step: { kind: 'fail', reason },
      error: new Error(reason),
      settlement: {
        id: row.id,
        attempts: row.attempts,
        claim: row.claim ?? '',
        status: 'failed',
        uncounted: false,
        error: reason,
        failure: null,
      },
    },
  }
}
