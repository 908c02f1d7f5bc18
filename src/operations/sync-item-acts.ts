/** What an operator does with a failed item. Rule: docs/behaviour/sync-items.md, "Skip and retry". */
import { isOfRetry } from '../core/claim.ts'
import {
  IntegrationNotFound,
  InvalidArgumentException,
  isIntegrationsError,
  SyncItemNotFailed,
  SyncItemNotFound,
} from '../core/errors.ts'
import { errorLine } from '../core/logger.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult, SkipSyncItemResult } from '../core/sync-jobs.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import { lockLog } from '../db/queries/logs.ts'
import { findItem, skipFailedItem } from '../db/queries/sync-items.ts'
import type { LogRow, SyncItemRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { subjectOf } from './metric-subject.ts'
import { announceRun } from './sync-announcement.ts'
import { finaliseRun } from './sync-finalisation.ts'

/** As for `sync.item_tries`. */
const MAX_TRIES = 1_000

export interface SkipItem {
  /** A try before may have skipped it and not come to the end: then the rest is done. Default false. */
  readonly isTriedAgain?: boolean
}

/**
 * Gives a failed item up for good; its run is finalised, or its cursor moved, if that was all it waited for.
 *
 * @throws SyncItemNotFound, SyncItemNotFailed; why a listener was given up that is told of its run: to be tried again
 */
export async function skipSyncItem(
  framework: Framework,
  itemId: number,
  { isTriedAgain = false }: SkipItem = {},
): Promise<SkipSyncItemResult> {
  const { db, tables, logger, metrics } = framework
  const skipped = await skipFailedItem(db, tables, itemId)
  if (skipped === null) {
    const row = await findItem(db, tables, itemId)
    if (row === null) throw new SyncItemNotFound(itemId)
    if (!isTriedAgain || row.status !== 'skipped') throw new SyncItemNotFailed(itemId, row.status)
    return { itemId, integrationId: row.integrationId, cursorMoved: await itemResolved(framework, row) }
  }
  const { integrationId } = skipped
  const subject = await subjectOf(framework, integrationId)
  metrics.syncItemSettled(subject, 'skipped')
  logger.info(
    { event: 'item.skipped', integration: integrationId, provider: subject.provider, sync_item: itemId },
    'a failed sync item was skipped',
  )
  return { itemId, integrationId, cursorMoved: await itemResolved(framework, skipped) }
}

export interface RetryItem {
  /** Attempts that it gets, 1 to 1,000; default 1. */
  readonly tries?: number
}

export interface StartedRetry {
  readonly itemId: number
  readonly integrationId: number
  readonly workflowId: string
}

/**
 * Runs the listeners of a failed item again on a worker and waits for the end.
 *
 * @throws SyncItemNotFound, SyncItemNotFailed, InvalidArgumentException, BackendUnreachable
 */
export async function retrySyncItem(
  framework: Framework,
  itemId: number,
  options: RetryItem = {},
): Promise<ProcessSyncItemResult> {
  const { input, provider } = await retryOf(framework, itemId, options)
  const result = await framework.workflows.runProcessSyncItem(input, provider)
  if (result === 'already running') throw held(itemId)
  if (result.outcome !== 'not failed') return result
  // It was moved on after we had looked at it.
  await retryableItem(framework, itemId)
  throw held(itemId)
}

/**
 * Starts the same and does not wait.
 *
 * @param workflowId the id that the workflow has: it can be asked there how far it is
 * @throws as {@link retrySyncItem}
 */
export async function startItemRetry(
  framework: Framework,
  itemId: number,
  workflowId: string,
  options: RetryItem = {},
): Promise<StartedRetry> {
  const { input, provider, integrationId } = await retryOf(framework, itemId, options)
  if ((await framework.workflows.startProcessSyncItem(input, provider)) === 'already running') throw held(itemId)
  return { itemId, integrationId, workflowId }
}

/**
 * After a failed item was skipped, or its retry has ended: finalises its run, or moves the cursor of one that is finalised
 * already, and wakes the living run. May be done twice.
 *
 * A run that lives is left to its own workflow, which alone finalises and announces it.
 *
 * @returns whether the cursor moved
 * @throws why a listener was given up that is told of the run: then the run is announced when this is done again
 */
export async function itemResolved(
  framework: Framework,
  { integrationId, syncLogId }: Pick<SyncItemRow, 'integrationId' | 'syncLogId'>,
): Promise<boolean> {
  const { db, tables, logger } = framework
  // The log may have been pruned: then nothing is left to finalise.
  // Under its lock: a finalisation that is under way has counted the item as failed, and is waited for.
  const log = syncLogId === null ? null : await db.transaction((tx) => lockLog(tx, tables, syncLogId))
  let cursorMoved = false
  if (log !== null && !(await isLiving(framework, log, integrationId))) {
    const run = { integrationId, syncLogId: log.id }
    const end = await finaliseRun(framework, run)
    cursorMoved = end.cursorMoved
    if (end.result.kind === 'reducer threw')
      logger.error(
        {
          event: 'sync.not_finalised',
          integration: integrationId,
          provider: (await subjectOf(framework, integrationId)).provider,
          sync_log: log.id,
          error: end.result.reason,
        },
        'reduceCheckpoints() threw, so this sync run was not finalised, and the cursor stays',
      )
    // Also what one before us had finalised and could not announce.
    if (end.result.kind === 'finalised') await announceRun(framework, run)
  }
  await nudge(framework, integrationId)
  return cursorMoved
}

/** Whether the workflow of this very run may still be at work: it has not finalised it, and a run of its integration lives. */
async function isLiving(framework: Framework, log: LogRow, integrationId: number): Promise<boolean> {
  if (log.operation !== 'sync' || log.status !== 'processing') return false
  const { workflows, logger } = framework
  try {
    return await workflows.isSyncRunning(integrationId)
  } catch (error) {
    if (!isIntegrationsError(error, 'backend_unreachable')) throw error
    // It is left to whoever comes next: the run itself if it lives, else the next one.
    logger.warn(
      {
        event: 'sync.not_asked',
        integration: integrationId,
        provider: (await subjectOf(framework, integrationId)).provider,
        sync_log: log.id,
        error: errorLine(error, 300),
      },
      'Temporal could not be asked whether this sync run lives, so it is not finalised now',
    )
    return true
  }
}

/** Without it a living run looks again within 30 s. */
async function nudge(framework: Framework, integrationId: number): Promise<void> {
  const { workflows, logger } = framework
  try {
    await workflows.nudgeSync(integrationId)
  } catch (error) {
    if (!isIntegrationsError(error, 'backend_unreachable')) throw error
    logger.warn(
      {
        event: 'sync.not_nudged',
        integration: integrationId,
        provider: (await subjectOf(framework, integrationId)).provider,
        error: errorLine(error, 300),
      },
      'a living sync run could not be told that an item changed; it looks again by itself',
    )
  }
}

async function retryOf(
  framework: Framework,
  itemId: number,
  { tries = 1 }: RetryItem,
): Promise<{ input: ProcessSyncItemInput; provider: string; integrationId: number }> {
  if (!Number.isInteger(tries) || tries < 1 || tries > MAX_TRIES)
    throw new InvalidArgumentException(
      'tries',
      `an integer from 1 to ${MAX_TRIES} is allowed, ${String(tries)} was given`,
    )
  const { integrationId } = await retryableItem(framework, itemId)
  const integration = await findIntegration(framework.db, framework.tables, integrationId)
  if (integration === null) throw new IntegrationNotFound(integrationId)
  return { input: { itemId, tries }, provider: integration.provider, integrationId }
}

async function retryableItem({ db, tables, workflows }: Framework, itemId: number): Promise<SyncItemRow> {
  const row = await findItem(db, tables, itemId)
  if (row === null) throw new SyncItemNotFound(itemId)
  // What a retry has left behind that was ended from outside is nobody's: another retry may have it.
  const isLeftBehind =
    row.status === 'processing' && isOfRetry(row.claim ?? '') && !(await workflows.isSyncItemRunning(itemId))
  if (row.status !== 'failed' && !isLeftBehind) throw new SyncItemNotFailed(itemId, row.status)
  if (row.payload === null) throw new SyncItemNotFailed(itemId, row.status, true)
  return row
}

/** A retry has it, or had it when we asked. */
const held = (itemId: number): SyncItemNotFailed => new SyncItemNotFailed(itemId, 'processing')
