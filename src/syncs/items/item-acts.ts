/** What an operator does with a failed item. Rule: docs/behaviour/sync-items.md, "Skip and retry". */
import { isOfRetry } from '../../claims/rules.ts'
import type { LogRow, SyncItemRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import {
  InvalidArgumentException,
  isIntegrationsError,
  SyncItemNotFailed,
  SyncItemNotFound,
  SyncItemOutdated,
} from '../../framework/errors.ts'
import { errorLine, integrationLogger } from '../../framework/logger.ts'
import { requireIntegration } from '../../integrations/queries.ts'
import { findLog, lockLog } from '../../observability/log-queries.ts'
import { subjectOf } from '../../observability/metric-subject.ts'
import { announceRun } from '../announcement.ts'
import { finaliseRun } from '../finalisation.ts'
import { runLogger, subjectLogger } from '../run-logger.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult, SkipSyncItemResult, SyncOf } from '../sync-jobs.ts'
import { findItem, makeWaitingItemDue, outdatingItem, skipFailedItem } from './item-queries.ts'

/** As for `sync.item_tries`. */
const MAX_TRIES = 1_000

/**
 * Gives a failed item up for good; its run is finalised, or its cursor moved, if that was all it waited for.
 *
 * @param isTriedAgain an earlier try may have skipped the item without coming to the end: then the rest is done
 * @throws SyncItemNotFound, SyncItemNotFailed; the error of a listener that was given up: the caller tries again
 */
export async function skipSyncItem(
  framework: Framework,
  itemId: number,
  { isTriedAgain = false }: { readonly isTriedAgain?: boolean } = {},
): Promise<SkipSyncItemResult> {
  const { db, tables, metrics } = framework
  const skipped = await skipFailedItem(db, tables, itemId)
  if (skipped === null) {
    const row = await findItem(db, tables, itemId)
    if (row === null) throw new SyncItemNotFound(itemId)
    if (!isTriedAgain || row.status !== 'skipped') throw new SyncItemNotFailed(itemId, row.status)
    const { integrationId, stream } = row
    return { itemId, integrationId, stream, ...(await itemResolved(framework, row)) }
  }
  const { integrationId, stream } = skipped
  const subject = { ...(await subjectOf(framework, integrationId)), stream }
  metrics.syncItemSettled(subject, 'skipped')
  const logger = integrationLogger(framework, subject)
  logger.info({ event: 'item.skipped', sync_item: itemId }, 'a failed sync item was skipped')
  return { itemId, integrationId, stream, ...(await itemResolved(framework, skipped)) }
}

export interface RetryItem {
  /** Attempts that it gets, 1 to 1,000; default 1. */
  readonly tries?: number
  /** Also an item with a newer copy in a later run: the retry may write older data over newer. Default false. */
  readonly force?: boolean
}

export interface StartedRetry {
  readonly itemId: number
  readonly integrationId: number
  readonly workflowId: string
}

/** What `startItemRetry()` names: the workflows that may come to have the item. */
export interface RetryWorkflows {
  readonly retry: string
  readonly run: string
  readonly backfill: string
}

/**
 * Runs the listeners of a failed item again on a worker and waits for the end. One that waits for another attempt is tried now
 * by the run or retry that has it, and the caller does not wait for that.
 *
 * @throws SyncItemNotFound, SyncItemNotFailed, SyncItemOutdated, InvalidArgumentException, BackendUnreachable
 */
export async function retrySyncItem(
  framework: Framework,
  itemId: number,
  options: RetryItem = {},
): Promise<ProcessSyncItemResult> {
  const { input, provider, row } = await retryOf(framework, itemId, options)
  if ((await triedNow(framework, row)) !== null)
    return { itemId, outcome: 'tried now', status: row.status, attempts: row.attempts, error: null }
  const result = await framework.workflows.runProcessSyncItem(input, { integrationId: row.integrationId, provider })
  if (result === 'already running') throw heldItemError(itemId)
  if (result.outcome === 'outdated') await refuseOutdated(framework, itemId)
  if (result.outcome !== 'not failed') return result
  // It was moved on after we had looked at it.
  await retryableItem(framework, itemId)
  throw heldItemError(itemId)
}

/**
 * Starts the same and does not wait.
 *
 * @param ids ids of the workflows, where the state of an item's retry can be asked
 * @throws as {@link retrySyncItem}
 */
export async function startItemRetry(
  framework: Framework,
  itemId: number,
  ids: (of: SyncOf) => RetryWorkflows,
  options: RetryItem = {},
): Promise<StartedRetry> {
  const { input, provider, row } = await retryOf(framework, itemId, options)
  const { integrationId } = row
  const waitsIn = await triedNow(framework, row)
  if (waitsIn !== null) return { itemId, integrationId, workflowId: ids(row)[waitsIn] }
  if ((await framework.workflows.startProcessSyncItem(input, { integrationId, provider })) === 'already running')
    throw heldItemError(itemId)
  return { itemId, integrationId, workflowId: ids(row).retry }
}

/**
 * After a failed item was skipped, or its retry has ended: finalises its run, or moves the cursor of one that is finalised
 * already, and wakes the living run. May be done twice.
 *
 * A run that lives is left to its own workflow, which alone finalises and announces it.
 *
 * @throws the error of a listener that was given up: the next call announces the run again
 */
export async function itemResolved(
  framework: Framework,
  { integrationId, syncLogId, stream }: Pick<SyncItemRow, 'integrationId' | 'syncLogId' | 'stream'>,
): Promise<Pick<SkipSyncItemResult, 'cursorMoved' | 'reducerThrew'>> {
  const { db, tables } = framework
  // The log may have been pruned: then nothing is left to finalise.
  // Under its lock: a finalisation that is under way has counted the item as failed, and is waited for.
  const log = syncLogId === null ? null : await db.transaction((tx) => lockLog(tx, tables, syncLogId))
  let cursorMoved = false
  let reducerThrew: string | null = null
  if (log !== null && !(await isLiving(framework, log))) {
    const run = { integrationId, syncLogId: log.id }
    const end = await finaliseRun(framework, run)
    cursorMoved = end.cursorMoved
    if (end.result.kind === 'reducer threw') {
      reducerThrew = end.result.reason
      const logger = await runLogger(framework, run)
      logger.error(
        { event: 'sync.not_finalised', error: reducerThrew },
        'reduceCheckpoints() threw, so this sync run was not finalised, and the cursor stays',
      )
    }
    // Also what one before us had finalised and could not announce.
    if (end.result.kind === 'finalised') await announceRun(framework, run)
  }
  await nudge(framework, { integrationId, stream })
  return { cursorMoved, reducerThrew }
}

/** Whether the workflow of this very run may still be at work: it has not finalised it, and a run of its stream lives. */
async function isLiving(framework: Framework, log: LogRow): Promise<boolean> {
  if (log.operation !== 'sync' || log.status !== 'processing') return false
  try {
    return await framework.workflows.isSyncRunning(log)
  } catch (error) {
    if (!isIntegrationsError(error, 'backend_unreachable')) throw error
    // It is left to the run itself if it lives, else to the next one.
    const logger = await runLogger(framework, { integrationId: log.integrationId, syncLogId: log.id })
    logger.warn(
      { event: 'sync.not_asked', error: errorLine(error, 300) },
      'Temporal could not be asked whether this sync run lives, so it is not finalised now',
    )
    return true
  }
}

/** Without it a living run looks again within 30 s. */
async function nudge(framework: Framework, of: SyncOf): Promise<void> {
  try {
    await framework.workflows.nudgeSync(of)
  } catch (error) {
    if (!isIntegrationsError(error, 'backend_unreachable')) throw error
    const logger = await subjectLogger(framework, of)
    logger.warn(
      { event: 'sync.not_nudged', error: errorLine(error, 300) },
      'a living sync run could not be told that an item changed; it looks again by itself',
    )
  }
}

async function retryOf(
  framework: Framework,
  itemId: number,
  { tries = 1, force = false }: RetryItem,
): Promise<{ input: ProcessSyncItemInput; provider: string; row: SyncItemRow }> {
  if (!Number.isInteger(tries) || tries < 1 || tries > MAX_TRIES)
    throw new InvalidArgumentException(
      'tries',
      `an integer from 1 to ${MAX_TRIES} is allowed, ${String(tries)} was given`,
    )
  const row = await retryableItem(framework, itemId)
  const { provider } = await requireIntegration(framework, row.integrationId)
  // Of one that waits the next attempt comes anyway.
  if (!force && !isWaiting(row)) await refuseOutdated(framework, itemId)
  return { input: { itemId, tries, ...(force ? { force } : {}) }, provider, row }
}

/** Nothing may have come of it by the time that the item is claimed: that statement asks again. @throws SyncItemOutdated */
async function refuseOutdated({ db, tables }: Framework, itemId: number): Promise<void> {
  const newer = await outdatingItem(db, tables, itemId)
  if (newer !== null) throw new SyncItemOutdated(itemId, newer.id, newer.status)
}

/** Between two attempts; what a dead retry has left behind does not wait. */
const isWaiting = ({ status, claim, nextAttemptAt }: SyncItemRow): boolean =>
  status === 'processing' && (claim === null || nextAttemptAt !== null)

/** Null: the item does not wait, or the workflow in which it waits is gone. */
async function triedNow(framework: Framework, row: SyncItemRow): Promise<keyof RetryWorkflows | null> {
  if (!isWaiting(row)) return null
  const { db, tables, workflows } = framework
  const log = row.syncLogId === null ? null : await findLog(db, tables, row.syncLogId)
  const waitsIn = row.claim !== null ? 'retry' : log?.operation === 'backfill' ? 'backfill' : 'run'
  const item = { itemId: row.id, integrationId: row.integrationId, stream: row.stream }
  if (await workflows.tryItemNow(item, waitsIn)) {
    // The workflow may not have it in its list, which is bounded, or may not have come so far.
    if (waitsIn !== 'retry') await makeWaitingItemDue(db, tables, row.id)
    return waitsIn
  }
  // What a dead run has left waiting its next one takes up; what a dead retry has left another retry may have.
  if (waitsIn !== 'retry') throw new SyncItemNotFailed(row.id, row.status)
  await refuseOutdated(framework, row.id)
  return null
}

async function retryableItem({ db, tables, workflows }: Framework, itemId: number): Promise<SyncItemRow> {
  const row = await findItem(db, tables, itemId)
  if (row === null) throw new SyncItemNotFound(itemId)
  if (isWaiting(row)) return row
  // A row that a terminated retry has left behind has no holder: another retry may take it.
  const isLeftBehind =
    row.status === 'processing' && isOfRetry(row.claim ?? '') && !(await workflows.isSyncItemRunning(itemId))
  if (row.status !== 'failed' && !isLeftBehind) throw new SyncItemNotFailed(itemId, row.status)
  if (row.payload === null) throw new SyncItemNotFailed(itemId, row.status, true)
  return row
}

/** A retry has it, or had it when we asked. */
const heldItemError = (itemId: number): SyncItemNotFailed => new SyncItemNotFailed(itemId, 'processing')
