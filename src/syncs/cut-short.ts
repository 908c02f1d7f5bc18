/** Ends a run before its time: its listing failed, or it was cancelled. Rule: docs/behaviour/sync-cursor.md, "Cut short". */

import type { Transaction } from '../db/client.ts'
import type { LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { lockIntegration } from '../integrations/queries.ts'
import { endRunLog, lockLog, mergeLogMetadata } from '../observability/log-queries.ts'
import { deletePendingItems, emptyLargeRun, failHeldItems } from './end-queries.ts'
import { itemsHeldByOwnWorkflow } from './leftovers.ts'
import { recentRuns } from './opening-queries.ts'
import { planNext } from './plan-next.ts'
import type { RunIds } from './run-rules.ts'
import type { SyncOf } from './sync-jobs.ts'
import type { SyncRow } from './sync-rows.ts'
import { ofLocked } from './sync-rows.ts'

const MAX_ERROR_LENGTH = 1_000

/** Gives a run up: unstarted items go, the cursor stays, the next run is planned as after a failure. Once only, as finalisation. */
export async function failRun(framework: Framework, run: RunIds, reason: string): Promise<boolean> {
  return endOpenRun(framework, run, async (tx, row, log) => {
    // Without its rows the run has not seen all that it listed: its cursor is never taken, late or not.
    const deleted = await deletePendingItems(tx, framework.tables, log.id)
    if (deleted > 0) await mergeLogMetadata(tx, framework.tables, log.id, { enumerated: false })
    await endRunLog(tx, framework.tables, log.id, {
      status: 'failed',
      error: reason.slice(0, MAX_ERROR_LENGTH),
    })
    if (log.operation === 'sync') await planNext(framework, tx, row, 'with failures')
    return { status: 'failed', failedItems: 0 }
  })
}

/**
 * Cancels a run: unstarted items go, items that wait or are held become `failed` with the error `cancelled`. The cursor, the
 * last clean time and the counter stay; the next run is due after one interval. A batch that comes late finds its rows
 * settled; an item that a retry by hand holds stays with it. Once only.
 *
 * @throws BackendUnreachable
 */
export async function cancelRun(framework: Framework, run: RunIds): Promise<boolean> {
  const retried = await itemsHeldByOwnWorkflow(framework, { syncLogId: run.syncLogId })
  return endOpenRun(framework, run, async (tx, row, log) => {
    const failed = await letGoOfItems(framework, tx, log, 'cancelled', retried)
    await endRunLog(tx, framework.tables, log.id, {
      status: 'cancelled',
      summary: failed === 0 ? 'cancelled' : `cancelled, ${failed} items had begun`,
    })
    if (log.operation === 'sync') await planNext(framework, tx, row, 'cancelled')
    return { status: 'cancelled', failedItems: failed }
  })
}

/**
 * Ends the slice of a dead backfill, as a cancelled run's items end, with the error `abandoned`. Its items hold no cursor. Once only.
 *
 * @param retried items that a retry by hand holds: they stay
 */
export async function abandonSlice(
  framework: Framework,
  run: RunIds,
  reason: string,
  retried: readonly number[],
): Promise<boolean> {
  return endOpenRun(framework, run, async (tx, _, log) => {
    const failed = await letGoOfItems(framework, tx, log, 'abandoned', retried)
    await endRunLog(tx, framework.tables, log.id, {
      status: 'failed',
      error: reason.slice(0, MAX_ERROR_LENGTH),
    })
    return { status: 'failed', failedItems: failed }
  })
}

/** @returns how many had begun, and are failed now */
async function letGoOfItems(
  { tables }: Framework,
  tx: Transaction,
  { id }: LogRow,
  error: string,
  but: readonly number[],
): Promise<number> {
  await deletePendingItems(tx, tables, id)
  const failed = await failHeldItems(tx, tables, id, error, but)
  // What a batch that was ending has handed back between these two statements.
  await deletePendingItems(tx, tables, id)
  // Void: with rows deleted, the rest says nothing about what was listed.
  await mergeLogMetadata(tx, tables, id, { enumerated: false })
  return failed
}

/** Counted by the metrics. */
interface Ended {
  readonly status: 'failed' | 'cancelled'
  /** Items that had begun, and are failed by its end. */
  readonly failedItems: number
}

/** @returns false: it has ended already, or is gone */
async function endOpenRun(
  { db, tables, metrics }: Framework,
  { integrationId, syncLogId }: RunIds,
  end: (tx: Transaction, row: SyncRow, log: LogRow) => Promise<Ended>,
): Promise<boolean> {
  // Before the locks: while they are held, calls of the integration wait.
  await emptyLargeRun(db, tables, syncLogId)
  const ended = await db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, integrationId)
    const log = await lockLog(tx, tables, syncLogId)
    if (row === null || log === null || log.status !== 'processing') return null
    const ofRun = await ofLocked(tx, tables, row, log.stream)
    return { row: ofRun, ...(await end(tx, ofRun, log)) }
  })
  if (ended === null) return false
  metrics.syncRunEnded(ended.row, ended.status)
  if (ended.failedItems > 0) metrics.syncItemSettled(ended.row, 'failed', ended.failedItems)
  return true
}

/**
 * Cancels the living run and waits until it is over. Rule: docs/behaviour/syncs.md, "Cancel".
 *
 * Without a worker the run is terminated, and cannot end its own log. So its log is ended here, or the next run would resume it.
 *
 * @throws BackendUnreachable
 */
export async function endLivingRun(framework: Framework, of: SyncOf): Promise<void> {
  const { db, tables, workflows } = framework
  // Read before: a run that begins after this one is not meant.
  const open = (await recentRuns(db, tables, of)).filter(({ isOpen }) => isOpen)
  await workflows.cancelSync(of)
  for (const { syncLogId } of open) await cancelRun(framework, { integrationId: of.integrationId, syncLogId })
}
