import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ItemBatch, ItemBatchResult } from '../activities/sync-items.ts'
import type { Finalisation, RunSettings } from '../activities/sync-runs.ts'
import { delayAfter } from '../core/backoff.ts'
import { claimOf } from '../core/claim.ts'
import { batch, listing, step } from './activity-options.ts'
import type { SyncInput, SyncProgress } from './messages.ts'
import { syncProgress } from './messages.ts'

const BATCH_ROWS = 200
const MAX_LANES = 4
/** Items that wait for another attempt; a full list stops the intake until some are done. */
const MAX_WAITING = 1_000
/** Keeps a history short of 5,000 events: a batch costs some six. */
const MAX_BATCHES = 400

const steps = proxyActivities<Activities>(step)

/** What a run that goes on in a new history takes along. */
export interface RunState {
  readonly syncLogId: number
  readonly settings: RunSettings
  readonly progress: SyncProgress
  readonly waiting: readonly WaitingItem[]
  /** Nothing pending was left at the last look. */
  readonly drained: boolean
  /** Milliseconds since the epoch. Nothing new is taken in before: the provider's limit was met. */
  readonly intakeFrom: number
}

interface WaitingItem {
  readonly id: number
  /** Milliseconds since the epoch. */
  readonly dueAt: number
}

/**
 * One sync run of one integration: open, list, process the items, finalise, announce.
 *
 * Durable promise: every listed item ends as success, failed or skipped, and then the run is finalised once, whichever
 * worker dies. Its id is the overlap lock. Retries wait in a bounded list on durable timers; continue-as-new bounds its
 * history.
 */
export async function syncIntegration({ integrationId }: SyncInput, carried?: RunState): Promise<Finalisation> {
  let progress: SyncProgress = carried?.progress ?? {
    phase: 'opening',
    syncLogId: null,
    listed: null,
    succeeded: 0,
    failed: 0,
    waiting: 0,
    startedAt: new Date().toISOString(),
  }
  setHandler(syncProgress, () => progress)

  let state = carried
  if (state === undefined) {
    const opened = await steps.openSyncRun({ integrationId, runId: workflowInfo().firstExecutionRunId })
    if (opened.kind === 'nothing to do') return { kind: 'not this time', reason: opened.reason }
    const { syncLogId, settings } = opened
    progress = { ...progress, phase: 'listing', syncLogId }
    const { listSyncItems } = proxyActivities<Activities>(
      listing(settings.listingTimeoutSeconds, settings.listingTotalSeconds),
    )
    try {
      const { listed } = await listSyncItems({ integrationId, syncLogId })
      progress = { ...progress, phase: 'processing', listed }
    } catch (error) {
      const reason = reasonOf(error)
      // A run that was cancelled from outside must still say so in its log.
      await CancellationScope.nonCancellable(() => steps.failSyncRun({ integrationId, syncLogId, reason }))
      throw ApplicationFailure.nonRetryable(`The listing did not end: ${reason}`, 'ListingFailed')
    }
    state = { syncLogId, settings, progress, waiting: [], drained: progress.listed === 0, intakeFrom: 0 }
  }

  const { syncLogId, settings } = state
  const { processSyncItems } = proxyActivities<Activities>({
    ...batch,
    taskQueue: settings.itemTaskQueue,
    priority: { fairnessKey: String(integrationId) },
  })
  let waiting: readonly WaitingItem[] = state.waiting
  let drained = state.drained
  let batches = 0
  let intakeFrom = state.intakeFrom
  let full = false
  let reducerTries = 0

  const next = (): ItemBatch | null => {
    if (batches >= MAX_BATCHES) return null
    const due = waiting.filter((item) => item.dueAt <= Date.now()).slice(0, BATCH_ROWS)
    if (due.length > 0) {
      const taken = new Set(due.map((item) => item.id))
      waiting = waiting.filter((item) => !taken.has(item.id))
      progress = { ...progress, waiting: waiting.length }
      return request({ kind: 'due', ids: [...taken] })
    }
    const takesIn = !drained && waiting.length < MAX_WAITING && intakeFrom <= Date.now()
    return takesIn ? request({ kind: 'pending', limit: BATCH_ROWS }) : null
  }
  const request = (take: ItemBatch['take']): ItemBatch => {
    batches += 1
    return { syncLogId, take, claim: claimOf(workflowInfo().runId, batches) }
  }
  const note = (take: ItemBatch['take'], result: ItemBatchResult): void => {
    if (take.kind === 'pending') {
      full = result.claimed >= take.limit
      if (!full) drained = true
    }
    if (result.deferredSeconds > 0) intakeFrom = Math.max(intakeFrom, Date.now() + result.deferredSeconds * 1_000)
    waiting = [...waiting, ...result.waiting.map(({ id, seconds }) => ({ id, dueAt: Date.now() + seconds * 1_000 }))]
    progress = {
      ...progress,
      succeeded: progress.succeeded + result.succeeded,
      failed: progress.failed + result.failed,
      waiting: waiting.length,
    }
  }
  const runOne = async (): Promise<boolean> => {
    const item = next()
    if (item === null) return false
    note(item.take, await processSyncItems(item))
    return true
  }
  const lane = async (): Promise<void> => {
    while (await runOne());
  }

  for (;;) {
    if (batches >= MAX_BATCHES || workflowInfo().continueAsNewSuggested)
      await continueAsNew<typeof syncIntegration>(
        { integrationId },
        { syncLogId, settings, progress, waiting, drained, intakeFrom },
      )
    // The first batch shows whether there is work for more lanes than one.
    if (await runOne()) {
      await Promise.all(Array.from({ length: full ? MAX_LANES : 1 }, lane))
      continue
    }
    if (waiting.length > 0 || !drained) {
      await condition(() => false, Math.max(1, nextWakeAt(waiting, drained ? null : intakeFrom) - Date.now()))
      continue
    }
    progress = { ...progress, phase: 'finalising' }
    const result = await steps.finaliseSyncRun({ integrationId, syncLogId })
    if (result.kind === 'unfinished') {
      // Rows that a lost batch left behind: the table knows them, so they are taken up from there.
      drained = result.pending === 0
      waiting = result.waiting.map(({ id, seconds }) => ({ id, dueAt: Date.now() + seconds * 1_000 }))
      progress = { ...progress, phase: 'processing', waiting: waiting.length }
      if (drained && waiting.length === 0) await condition(() => false, HELD_ELSEWHERE_WAIT)
      continue
    }
    if (result.kind === 'reducer threw') {
      reducerTries += 1
      if (reducerTries < REDUCER_TRIES) {
        await sleep(delayAfter(reducerTries, REDUCER_WAITS_SECONDS) * 1_000)
        continue
      }
      const reason = `reduceCheckpoints() threw: ${result.reason}`
      await steps.failSyncRun({ integrationId, syncLogId, reason })
      throw ApplicationFailure.nonRetryable(reason, 'ReducerThrew')
    }
    if (result.kind === 'finalised') await steps.announceSyncRun({ integrationId, syncLogId })
    progress = { ...progress, phase: 'done' }
    return result
  }
}

/** A reducer that throws is a fault of the provider's code: a new release may mend it meanwhile, else the run is given up. */
const REDUCER_TRIES = 10
const REDUCER_WAITS_SECONDS = [10, 30, 120, 300]
/** Rows that another workflow holds (a retry by hand) end on their own; look again after this time. */
const HELD_ELSEWHERE_WAIT = '30 seconds'

/** The earliest moment at which there is something to do. */
function nextWakeAt(waiting: readonly WaitingItem[], intakeFrom: number | null): number {
  const moments = waiting.map((item) => item.dueAt)
  if (intakeFrom !== null && waiting.length < MAX_WAITING) moments.push(intakeFrom)
  return Math.min(...moments)
}

function reasonOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : error
  return cause instanceof Error ? cause.message : String(cause)
}
