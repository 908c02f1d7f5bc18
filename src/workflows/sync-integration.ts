import {
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  continueAsNew,
  isCancellation,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { FirstSteps } from '../activities/small-run.ts'
import type { OpenedRun } from '../activities/sync-runs.ts'
import { claimOf } from '../core/claim.ts'
import type { FoundBy } from '../core/search-attributes.ts'
import type { SyncBegan, SyncOutcome } from '../core/sync-jobs.ts'
import { BATCH_ROWS } from '../core/sync-jobs.ts'
import { opening, step } from './activity-options.ts'
import { untilCancelled } from './cancellation.ts'
import { afterBatch, itemsToDo } from './item-run.ts'
import { handleItemSignals } from './item-signals.ts'
import type { ListingCall, ListingState } from './listing-loop.ts'
import { listWhole, NEW_LISTING } from './listing-loop.ts'
import { handlersFinished, hasLongHistory } from './long-history.ts'
import type { SyncInput } from './messages.ts'
import { began, syncProgress } from './messages.ts'
import { RunControls } from './run-controls.ts'
import { showRun } from './run-details.ts'
import { announced, processRun } from './run-end.ts'
import { RunProgress } from './run-progress.ts'
import type { OpenRun, RunStage, RunState, StageEnd } from './run-stages.ts'
import { askingLabels, setSearchAttributes } from './search-attributes.ts'

const steps = proxyActivities<Activities>(step)
const { openSyncRun } = proxyActivities<Activities>(opening)

/**
 * One sync run of one integration: open, list, process the items, finalise, announce.
 *
 * Durable promise: every listed item ends as success, failed or skipped, and then the run is finalised once, whichever
 * worker dies. Its id is the overlap lock; a pause without a run holds it. Retries wait in a bounded list on durable
 * timers; continue-as-new bounds its history.
 */
export async function syncIntegration(input: SyncInput, carried?: RunState): Promise<SyncOutcome> {
  const { integrationId, onlyIfDue } = input
  const runId = workflowInfo().firstExecutionRunId
  /** It may have a log that is not known here. */
  let isBegun = false
  const controls = new RunControls(carried?.controls)
  handleItemSignals(
    integrationId,
    () => controls.lookAgain(),
    (itemId) => controls.tryNow(itemId),
  )
  const progress = new RunProgress(controls, carried?.progress, (now) => showRun(integrationId, now))
  const noteBeginning = (how: SyncBegan): void => {
    // It may come after the opening's end, which knows more.
    if (progress.state.phase === 'opening') progress.note(how)
  }
  setHandler(began, noteBeginning, {
    description: 'From the activity that opens the run, where that takes its time: how far it is.',
  })
  setHandler(syncProgress, () => progress.read(), {
    description: 'How far the run is: its phase, counts of items, rate, and whether it is paused.',
  })

  const wholeRun = async (): Promise<SyncOutcome> => {
    let stage: RunStage = carried?.stage ?? { kind: controls.isPaused ? 'held' : 'opening' }
    for (;;) {
      const end = await throughStage(stage)
      if (end.kind === 'over') {
        await heldByPause()
        return end.outcome
      }
      stage = end.stage
      if (end.kind === 'long history') {
        await handlersFinished()
        // A cancellation that came with the last event would not be known to the new run.
        if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('The run was cancelled')
        await continueAsNew<typeof syncIntegration>(input, {
          controls: controls.state,
          progress: progress.state,
          stage,
        })
      }
    }
  }
  /** A pause that came while the run ended keeps the next one from starting, as one without a run does. */
  const heldByPause = async (): Promise<void> => {
    if (!controls.isPaused) return
    progress.note({ phase: 'held' })
    try {
      await controls.untilResumed()
    } catch (error) {
      // The run is over: a cancellation ends the hold alone.
      if (!isCancellation(error)) throw error
    }
  }
  const throughStage = (stage: RunStage): Promise<StageEnd> => {
    if (stage.kind === 'held') return hold()
    if (stage.kind === 'opening') return open()
    if (stage.kind === 'listing') return list(stage.run, stage.listing, stage.first)
    return processRun(stage, controls, progress)
  }

  const hold = async (): Promise<StageEnd> => {
    progress.note({ phase: 'held' })
    await condition(() => !controls.isPaused || hasLongHistory())
    if (controls.isPaused) return { kind: 'long history', stage: { kind: 'held' } }
    return { kind: 'over', outcome: { kind: 'not this time', reason: 'it was held by a pause, which is over' } }
  }

  const open = async (): Promise<StageEnd> => {
    const openedAt = Date.now()
    isBegun = true
    const opened: OpenedRun & FoundBy = await openSyncRun({
      integrationId,
      runId,
      goesOnAs: claimOf(workflowInfo().runId, 1),
      ...(onlyIfDue === undefined ? {} : { onlyIfDue }),
      ...askingLabels(),
    })
    setSearchAttributes(opened)
    if (opened.kind === 'nothing to do')
      return { kind: 'over', outcome: { kind: 'not this time', reason: opened.reason } }
    if (opened.kind === 'reclaimed') {
      for (const syncLogId of opened.syncLogIds)
        await CancellationScope.nonCancellable(() => steps.announceSyncRun({ integrationId, syncLogId }))
      return { kind: 'over', outcome: { kind: 'not this time', reason: 'abandoned items of earlier runs were failed' } }
    }
    const run: OpenRun = { integrationId, syncLogId: opened.syncLogId, settings: opened.settings }
    progress.note({ syncLogId: run.syncLogId })
    if (opened.kind === 'open') return afterFirst(run, opened.first, Date.now() - openedAt)

    await sleep(opened.waitSeconds * 1_000, { summary: `then run ${run.syncLogId}, which was left behind, goes on` })
    const left = await steps.takeOverSyncRun({ integrationId, syncLogId: run.syncLogId })
    progress.note({ listed: left.listed })
    return { kind: 'next', stage: { kind: 'items', run, items: itemsToDo(left.pending, left), reducerTries: 0 } }
  }

  /** From where the opening has left the run. */
  const afterFirst = async (run: OpenRun, first: FirstSteps | undefined, spentMs: number): Promise<StageEnd> => {
    if (first?.listing.kind !== 'listed') {
      const call = first === undefined ? {} : { first: { result: first.listing, spentMs } }
      return { kind: 'next', stage: { kind: 'listing', run, listing: NEW_LISTING, ...call } }
    }
    const { batch, end } = first
    const { listed } = first.listing
    const items =
      batch === undefined
        ? itemsToDo(listed)
        : afterBatch(itemsToDo(listed), { kind: 'pending', limit: BATCH_ROWS }, batch)
    progress.note({ listed })
    progress.noteItems(items)
    if (end?.kind === 'finalised') return { kind: 'over', outcome: await announced(run, end) }
    return { kind: 'next', stage: { kind: 'items', run, items, reducerTries: 0 } }
  }

  const list = async (run: OpenRun, before: ListingState, first?: ListingCall): Promise<StageEnd> => {
    progress.note({ phase: 'listing' })
    const gate = {
      untilResumed: () => controls.untilResumed(),
      onDeferred: (moment: number) => progress.note({ intakeFrom: moment }),
    }
    const listed = await listWhole(run, before, gate, first)
    if (listed.kind === 'long history')
      return { kind: 'long history', stage: { kind: 'listing', run, listing: listed.state } }
    if (listed.kind === 'given up') {
      const { syncLogId } = run
      await CancellationScope.nonCancellable(() =>
        steps.failSyncRun({ integrationId, syncLogId, reason: listed.reason }),
      )
      throw ApplicationFailure.nonRetryable(
        `The listing did not end: ${listed.remedied} The next run begins anew; \`integrations show-sync-run ${syncLogId}\` has the log.`,
        'ListingFailed',
      )
    }
    progress.note({ listed: listed.listed, intakeFrom: 0 })
    return { kind: 'next', stage: { kind: 'items', run, items: itemsToDo(listed.listed), reducerTries: 0 } }
  }

  const result = await untilCancelled(controls.work, wholeRun)
  if (result.kind === 'cancelled') {
    await CancellationScope.nonCancellable(async () => {
      const syncLogId =
        progress.state.syncLogId ?? (isBegun ? await steps.findOpenedRun({ integrationId, runId }) : null)
      if (syncLogId === null) return
      await steps.cancelSyncRun({ integrationId, syncLogId })
      // A finalisation in the very task that the cancellation voided stands, and is told; a cancelled run tells nothing.
      await steps.announceSyncRun({ integrationId, syncLogId })
    })
  }
  progress.note({ phase: 'done' })
  await handlersFinished()
  if (result.kind === 'ended') return result.value
  // Temporal's own cancellation is answered in Temporal's own way.
  if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('The run was cancelled')
  return { kind: 'cancelled' }
}
