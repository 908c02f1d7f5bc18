import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  continueAsNew,
  isCancellation,
  log,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { FirstSteps } from '../activities/small-run.ts'
import type { OpenedRun } from '../activities/sync-activities.ts'
import { claimOf } from '../claims/rules.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
import { delayAfter } from '../syncs/items/item-rules.ts'
import { streamOption } from '../syncs/stream-rules.ts'
import type { ListingFailure, SyncBegan, SyncInput, SyncOutcome } from '../syncs/sync-jobs.ts'
import { BATCH_ROWS, pendingOf } from '../syncs/sync-jobs.ts'
import { opening, repeatable, step } from './activity-options.ts'
import { refuseUnlessForSync } from './given-input.ts'
import { began, syncProgress } from './messages.ts'
import type { ControlState, ProgressState } from './sync-controls.ts'
import { handleItemSignals, RunControls, RunProgress, showRun } from './sync-controls.ts'
import type { ItemRunState } from './sync-items.ts'
import { afterBatch, ItemRun, itemsToDo } from './sync-items.ts'
import type { ListingCall, ListingState, OpenRun } from './sync-listing.ts'
import { giveUpRun, listWhole, NEW_LISTING } from './sync-listing.ts'
import { handlersFinished, hasLongHistory, untilCancelled } from './workflow-end.ts'

const steps = proxyActivities<Activities>(step)
const { openSyncRun } = proxyActivities<Activities>(opening)
const { handleMissingItems } = proxyActivities<Activities>(repeatable)

/** Carried over when a run goes on in a new history. */
export interface RunState {
  readonly controls: ControlState
  readonly progress: ProgressState
  readonly stage: RunStage
}

/** Where a run is. `held`: paused before it was opened. */
type RunStage =
  | { readonly kind: 'held' }
  | { readonly kind: 'opening' }
  | { readonly kind: 'listing'; readonly run: OpenRun; readonly listing: ListingState; readonly first?: ListingCall }
  | { readonly kind: 'items'; readonly run: OpenRun; readonly items: ItemRunState; readonly reducerTries: number }

/** How a stage ends: with the next stage, with the run's outcome, or with a history that has become long. */
type StageEnd =
  | { readonly kind: 'next'; readonly stage: RunStage }
  | { readonly kind: 'over'; readonly outcome: SyncOutcome }
  | { readonly kind: 'long history'; readonly stage: RunStage }

/**
 * One sync run of one integration, or of one of its streams: open, list, process the items, finalise, announce.
 *
 * Durable promise: every listed item ends as success, failed or skipped, and then the run is finalised once, whichever
 * worker dies. Its id is the overlap lock; a pause without a run holds it. Retries wait in a bounded list on durable
 * timers; continue-as-new bounds its history.
 */
export async function syncIntegration(input: SyncInput, carried?: RunState): Promise<SyncOutcome> {
  refuseUnlessForSync(input)
  const { integrationId, stream, onlyIfDue, onlyIfAsked } = input
  const named = stream === undefined ? {} : { stream }
  const runId = workflowInfo().firstExecutionRunId
  /** From then on there may be a log row whose id the workflow does not know yet. */
  let isBegun = false
  const controls = new RunControls(carried?.controls)
  handleItemSignals(integrationId, controls)
  const progress = new RunProgress(controls, carried?.progress, (now) => showRun(input, now))
  const noteBeginning = (how: SyncBegan): void => {
    // The signal may arrive after the opening's result, which knows more.
    if (progress.state.phase === 'opening') progress.note(how)
  }
  setHandler(began, noteBeginning, {
    description: 'From the activity that opens the run, where that takes its time: how far it is.',
  })
  setHandler(syncProgress, () => progress.read(), {
    description: 'How far the run is: its phase, counts of items, rate, and whether it is paused.',
  })
  const hasBegunPaused = controls.handlePauses()

  const wholeRun = async (): Promise<SyncOutcome> => {
    let stage: RunStage = carried?.stage ?? { kind: hasBegunPaused ? 'held' : 'opening' }
    for (;;) {
      const end = await throughStage(stage).catch(async (error: unknown) => {
        // A run that is given up is over, too. A cancelled one ends its pause with it.
        if (!isCancellation(error)) await heldByPause()
        throw error
      })
      if (end.kind === 'over') {
        await heldByPause()
        return end.outcome
      }
      stage = end.stage
      if (end.kind === 'long history') {
        await handlersFinished()
        // A new history would not know of a cancellation that came with this one's last event.
        if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('The run was cancelled')
        const state: RunState = { controls: controls.state, progress: progress.state, stage }
        await continueAsNew<typeof syncIntegration>(input, state)
      }
    }
  }
  /** A pause that came while the run ended keeps the next run from starting, like a pause without a run. */
  const heldByPause = async (): Promise<void> => {
    if (!controls.isPaused) return
    progress.note({ phase: 'held' })
    try {
      await controls.untilResumed()
    } catch (error) {
      // The run is over: a cancellation ends only the hold.
      if (!isCancellation(error)) throw error
    }
  }
  const throughStage = (stage: RunStage): Promise<StageEnd> => {
    if (stage.kind === 'held') return hold()
    if (stage.kind === 'opening') return open()
    if (stage.kind === 'listing') return list(stage.run, stage.listing, stage.first)
    return processRun(stage, stream, controls, progress)
  }

  const hold = async (): Promise<StageEnd> => {
    progress.note({ phase: 'held' })
    await condition(() => !controls.isPaused || hasLongHistory())
    if (controls.isPaused) return { kind: 'long history', stage: { kind: 'held' } }
    return notThisTime('it was held by a pause, which is over')
  }

  const open = async (): Promise<StageEnd> => {
    const openedAt = Date.now()
    isBegun = true
    const opened: OpenedRun = await openSyncRun({
      integrationId,
      ...named,
      runId,
      goesOnAs: claimOf(workflowInfo().runId, 1),
      ...(onlyIfDue === undefined ? {} : { onlyIfDue }),
      ...(onlyIfAsked === undefined ? {} : { onlyIfAsked }),
    })
    if (opened.kind === 'nothing to do') return notThisTime(opened.reason)
    if (opened.kind === 'reclaimed') {
      for (const syncLogId of opened.syncLogIds)
        await CancellationScope.nonCancellable(() => steps.announceSyncRun({ integrationId, syncLogId }))
      return notThisTime('abandoned items of earlier runs were failed')
    }
    const run: OpenRun = { integrationId, syncLogId: opened.syncLogId, settings: opened.settings }
    progress.note({ syncLogId: run.syncLogId })
    if (opened.kind === 'open') return afterFirst(run, opened.first, Date.now() - openedAt)

    await sleep(opened.waitSeconds * 1_000, { summary: `then run ${run.syncLogId}, which was left behind, goes on` })
    const left = await steps.takeOverSyncRun({ integrationId, syncLogId: run.syncLogId })
    progress.note({ listed: left.listed, unchanged: left.unchanged ?? 0 })
    return { kind: 'next', stage: { kind: 'items', run, items: itemsToDo(left.pending, left), reducerTries: 0 } }
  }

  /** Goes on from where the opening activity left the run. */
  const afterFirst = async (run: OpenRun, first: FirstSteps | undefined, spentMs: number): Promise<StageEnd> => {
    if (first?.listing.kind !== 'listed') {
      const call = first === undefined ? {} : { first: { result: first.listing, spentMs } }
      return { kind: 'next', stage: { kind: 'listing', run, listing: NEW_LISTING, ...call } }
    }
    const { batch, end } = first
    const { listed, unchanged = 0 } = first.listing
    const pending = pendingOf(first.listing)
    const items =
      batch === undefined
        ? itemsToDo(pending)
        : afterBatch(itemsToDo(pending), { kind: 'pending', limit: BATCH_ROWS }, batch)
    progress.note({ listed, unchanged })
    progress.noteItems(items)
    if (end?.kind === 'finalised') return { kind: 'over', outcome: await announced(run, end) }
    const reducerTries = end?.kind === 'reducer threw' ? 1 : 0
    if (reducerTries > 0) {
      progress.note({ phase: 'finalising' })
      await untilReducerTry(reducerTries)
    }
    return { kind: 'next', stage: { kind: 'items', run, items, reducerTries } }
  }

  const list = async (run: OpenRun, before: ListingState, first?: ListingCall): Promise<StageEnd> => {
    progress.note({ phase: 'listing' })
    const gate = {
      untilResumed: () => controls.untilResumed(),
      onDeferred: (moment: number) => progress.note({ intakeFrom: moment }),
      onFailed: (listingFailure: ListingFailure) => progress.note({ listingFailure }),
    }
    const listed = await listWhole(run, before, gate, first)
    if (listed.kind === 'long history')
      return { kind: 'long history', stage: { kind: 'listing', run, listing: listed.state } }
    if (listed.kind === 'given up') {
      await giveUpRun(run, listed.reason)
      throw ApplicationFailure.nonRetryable(
        `The listing did not end: ${listed.remedied} The next run starts over; \`integrations show-sync-run ${run.syncLogId}\` has the log.`,
        'ListingFailed',
      )
    }
    progress.note({ listed: listed.listed, unchanged: listed.unchanged, intakeFrom: 0, listingFailure: null })
    return { kind: 'next', stage: { kind: 'items', run, items: itemsToDo(listed.pending), reducerTries: 0 } }
  }

  const result = await untilCancelled(controls.work, wholeRun)
  if (result.kind === 'cancelled') {
    await CancellationScope.nonCancellable(async () => {
      const syncLogId =
        progress.state.syncLogId ?? (isBegun ? await steps.findOpenedRun({ integrationId, ...named, runId }) : null)
      if (syncLogId === null) return
      await steps.cancelSyncRun({ integrationId, syncLogId })
      // Announces a finalisation whose result the cancellation discarded. A run that was cancelled has nothing to announce.
      await steps.announceSyncRun({ integrationId, syncLogId })
    })
  }
  progress.note({ phase: 'done' })
  await handlersFinished()
  if (result.kind === 'ended') return result.value
  // A cancellation by Temporal's own request ends the workflow as cancelled; one by the signal is an outcome.
  if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('The run was cancelled')
  return { kind: 'cancelled' }
}

function notThisTime(reason: string): StageEnd {
  return { kind: 'over', outcome: { kind: 'not this time', reason } }
}

/** A reducer that throws is a fault of the provider's code. A new release may fix it meanwhile; else the run is given up. */
const REDUCER_TRIES = 10
const REDUCER_WAITS_SECONDS = [10, 30, 120, 300]

/** @param tries that it has thrown */
function untilReducerTry(tries: number): Promise<void> {
  return sleep(delayAfter(tries, REDUCER_WAITS_SECONDS) * 1_000, {
    summary: `reduceCheckpoints() threw; try ${tries + 1} of ${REDUCER_TRIES}`,
  })
}

/** Processes the items and finalises the run, again and again until no row is unfinished. Then announces the run. */
async function processRun(
  stage: Extract<RunStage, { kind: 'items' }>,
  stream: string | undefined,
  controls: RunControls,
  progress: RunProgress,
): Promise<StageEnd> {
  const { run } = stage
  const { integrationId, syncLogId } = run
  const items = new ItemRun(run, stage.items, {
    isPaused: () => controls.isPaused,
    onState: (state) => progress.noteItems(state),
  })
  controls.tryNow = (itemId) => items.tryNow(itemId)
  // Announcing with the finalisation saves each run an activity. Listeners may take any time, so they get one of their own.
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
      await items.takeUp(result, () => controls.changes !== changes)
      continue
    }
    reducerTries += 1
    if (reducerTries < REDUCER_TRIES) {
      await untilReducerTry(reducerTries)
      continue
    }
    const reason = `reduceCheckpoints() threw: ${result.reason}`
    await giveUpRun(run, reason)
    throw ApplicationFailure.nonRetryable(
      `Run ${syncLogId} ended without its cursor: ${reason}. Mend the provider's code, then \`integrations advance-cursor ${integrationId}${streamOption(stream)}\`.`,
      'ReducerThrew',
    )
  }
}

/** The outcome of a finalised run. A cancellation comes too late for it, and its listeners are notified in any case. */
async function announced(
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
  const { fullListing: _fullListing, ...outcome } = result
  return outcome
}
