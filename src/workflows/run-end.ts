import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  log,
  proxyActivities,
  sleep,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { Finalisation } from '../activities/sync-ends.ts'
import { delayAfter } from '../core/sync-item.ts'
import type { SyncOutcome } from '../core/sync-jobs.ts'
import { repeatable, step } from './activity-options.ts'
import { ItemRun } from './item-run.ts'
import { hasLongHistory } from './long-history.ts'
import type { RunControls } from './run-controls.ts'
import type { RunProgress } from './run-progress.ts'
import type { OpenRun, RunStage, StageEnd } from './run-stages.ts'

/** A reducer that throws is a fault of the provider's code: a new release may mend it meanwhile, else the run is given up. */
const REDUCER_TRIES = 10
const REDUCER_WAITS_SECONDS = [10, 30, 120, 300]
/** Rows that another workflow holds (a retry by hand) end on their own, and say so; look again after this time at the latest. */
export const HELD_ELSEWHERE_WAIT = '30 seconds'
export const HELD_ELSEWHERE = { summary: 'items are held by a retry by hand; looked at again then' } as const
/** A worker that was given up learns within this time that nobody waits for its batch. */
export const ORPHANED_AFTER_SECONDS = 60

const steps = proxyActivities<Activities>(step)
const { handleMissingItems } = proxyActivities<Activities>(repeatable)

/** Items, finalisation, announcement: until no row is left unfinished. */
export async function processRun(
  stage: Extract<RunStage, { kind: 'items' }>,
  controls: RunControls,
  progress: RunProgress,
): Promise<StageEnd> {
  const { run } = stage
  const { integrationId, syncLogId } = run
  const itemTaskQueue = run.settings.itemTaskQueue
  const items = new ItemRun({ integrationId, syncLogId, itemTaskQueue }, stage.items, {
    isPaused: () => controls.isPaused,
    onState: (state) => progress.noteItems(state),
  })
  controls.onTryNow((itemId) => items.tryNow(itemId))
  // Saves each run an activity. Listeners take as long as they like, so they get an activity of their own.
  const announces = !run.settings.isListenedTo
  let { reducerTries } = stage
  const longHistory = (): StageEnd => ({
    kind: 'long history',
    stage: { kind: 'items', run, items: items.state, reducerTries },
  })

  for (;;) {
    progress.beginProcessing()
    if ((await items.work()) === 'long history' || hasLongHistory()) return longHistory()
    progress.note({ phase: 'finalising' })
    const changes = controls.changes
    const result = await CancellationScope.nonCancellable(() =>
      steps.finaliseSyncRun({ integrationId, syncLogId, announces }),
    )
    if (result.kind === 'finalised') return { kind: 'over', outcome: await announced(run, result) }
    if (result.kind === 'not this time') return { kind: 'over', outcome: result }
    if (result.kind === 'unfinished') {
      items.takeUp(result.pending, result.waiting)
      if (result.pending > 0 || result.waiting.length > 0) continue
      // No batch of ours is under way: what is held under a claim of ours was claimed by a worker that was given up before.
      const left = await steps.takeOverSyncRun({ integrationId, syncLogId, olderThanSeconds: ORPHANED_AFTER_SECONDS })
      items.takeUp(left.pending, left.waiting)
      if (left.pending === 0 && left.waiting.length === 0)
        await condition(() => controls.changes !== changes, HELD_ELSEWHERE_WAIT, HELD_ELSEWHERE)
      continue
    }
    reducerTries += 1
    if (reducerTries < REDUCER_TRIES) {
      await sleep(delayAfter(reducerTries, REDUCER_WAITS_SECONDS) * 1_000, {
        summary: `reduceCheckpoints() threw; try ${reducerTries + 1} of ${REDUCER_TRIES}`,
      })
      continue
    }
    const reason = `reduceCheckpoints() threw: ${result.reason}`
    await CancellationScope.nonCancellable(() => steps.failSyncRun({ integrationId, syncLogId, reason }))
    throw ApplicationFailure.nonRetryable(
      `Run ${syncLogId} ended without its cursor: ${reason}. Mend the provider's code, then \`integrations advance-cursor ${integrationId}\`.`,
      'ReducerThrew',
    )
  }
}

/** The run is over: a cancellation comes too late for it, and its listeners are told in any case. */
export async function announced(
  { integrationId, syncLogId, settings }: OpenRun,
  result: Extract<Finalisation, { kind: 'finalised' }>,
): Promise<SyncOutcome> {
  if (settings.isListenedTo)
    await CancellationScope.nonCancellable(() => steps.announceSyncRun({ integrationId, syncLogId }))
  if (result.fullListing) {
    try {
      await handleMissingItems({ integrationId, syncLogId })
    } catch (error) {
      if (!(error instanceof ActivityFailure) && !isCancellation(error)) throw error
      log.warn('what is gone at the provider was not told', {
        event: 'sync.missing_untold',
        integration: integrationId,
        sync_log: syncLogId,
        error: error instanceof ActivityFailure ? error.cause?.message : 'cancelled',
      })
    }
  }
  const { kind, status, succeeded, failed, skipped } = result
  return { kind, status, succeeded, failed, skipped }
}
