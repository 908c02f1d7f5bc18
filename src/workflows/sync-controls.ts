/** How a sync run is steered and watched: its signals, its query `progress`, and what the Temporal UI shows of it. */
import {
  ActivityFailure,
  CancellationScope,
  condition,
  log,
  ParentClosePolicy,
  proxyActivities,
  setDefaultSignalHandler,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult, SyncInput, SyncProgress } from '../syncs/sync-jobs.ts'
import { step } from './activity-options.ts'
import { lacksInput } from './given-input.ts'
import { WORKFLOW, workflowId } from './ids.ts'
import { cancel, itemsChanged, pause, resume, retryItem, skipItem } from './messages.ts'
import type { ItemRunState, WaitingItem } from './sync-items.ts'
import { moment, showing } from './temporal-ui.ts'

const { skipFailedItem } = proxyActivities<Activities>(step)

/** Carried over when a run goes on in a new history. A cancelled run does not go on. */
export interface ControlState {
  /** Milliseconds since the epoch; null: not paused. */
  readonly pausedAt: number | null
  /** Milliseconds of the pauses that are over. */
  readonly pausedMs: number
}

/** The signals `pause`, `resume`, `cancel` and `itemsChanged` of one run: they only note what is wanted, and the run acts on it. */
export class RunControls {
  /** The run's work: the signal `cancel` and Temporal's own cancellation both cancel it. */
  readonly work = new CancellationScope()
  /** Counts the changes of the run's items from outside. */
  changes = 0
  /** Called after a pause and after its end. */
  onPauseChange: () => void = () => {}
  /** Starts the next attempt of an item now. False: no such item waits in this run. */
  tryNow: (itemId: number) => boolean = () => false
  #state: ControlState

  constructor(carried: ControlState = { pausedAt: null, pausedMs: 0 }) {
    this.#state = carried
    setHandler(cancel, () => this.work.cancel(), {
      description: "Ends the run after what it has under way, as Temporal's own cancellation does. No input.",
    })
    setHandler(itemsChanged, () => this.lookAgain(), {
      description: 'Items of the run were changed from outside: it looks at them again. No input.',
    })
  }

  /**
   * Handles `pause` and `resume`. Call it once all other signals have a handler.
   *
   * Signals that came with the start of a history are delivered during this call, before the run does anything. A handler of
   * one name gets all of that name first, so one handler takes both: the order they were sent in decides.
   *
   * @returns whether a pause was among them, also if it has ended since: a pause without a run starts none
   */
  handlePauses(): boolean {
    const onPause = (): void => this.#change({ pausedAt: this.#state.pausedAt ?? Date.now() })
    const onResume = (): void => this.#change({ pausedMs: this.pausedMs, pausedAt: null })
    let hasBegunPaused = false
    setDefaultSignalHandler((name) => {
      if (name === pause.name) {
        hasBegunPaused = true
        onPause()
      }
      if (name === resume.name) onResume()
    })
    setDefaultSignalHandler(undefined)
    setHandler(pause, onPause, {
      description: 'Takes nothing new in; what runs goes on. Without a run it keeps one from starting. No input.',
    })
    setHandler(resume, onResume, { description: 'Ends a pause. No input.' })
    return hasBegunPaused
  }

  get state(): ControlState {
    return this.#state
  }

  get isPaused(): boolean {
    return this.#state.pausedAt !== null
  }

  /** Milliseconds of all pauses, with the current one. */
  get pausedMs(): number {
    const { pausedAt, pausedMs } = this.#state
    return pausedMs + (pausedAt === null ? 0 : Date.now() - pausedAt)
  }

  lookAgain(): void {
    this.changes += 1
  }

  async untilResumed(): Promise<void> {
    if (this.isPaused) await condition(() => !this.isPaused)
  }

  #change(change: Partial<ControlState>): void {
    this.#state = { ...this.#state, ...change }
    this.onPauseChange()
  }
}

/**
 * Handles the signals `retryItem` and `skipItem` of a run. Both outlive a cancelled run: they change failed rows, which the
 * run itself never takes.
 *
 * @param integrationId of the run, for log lines
 */
export function handleItemSignals(integrationId: number, controls: RunControls): void {
  const lookAgain = (): void => controls.lookAgain()
  const retryOrTryNow = async (input: ProcessSyncItemInput): Promise<void> => {
    if (lacksInput(retryItem.name, input)) return
    if (!controls.tryNow(input.itemId))
      await CancellationScope.nonCancellable(() => retry(integrationId, input, lookAgain))
  }
  setHandler(retryItem, retryOrTryNow, {
    description:
      'Tries an item that waits for another attempt now, or a failed one again in a workflow of its own. Input: {"itemId": 5}, or {"itemId": 5, "tries": 3}; 1 try by default. With "force": true even if a later run has listed a newer copy of its record.',
  })
  const skipOne = async (input: { itemId: number }): Promise<void> => {
    if (lacksInput(skipItem.name, input)) return
    await CancellationScope.nonCancellable(() => skip(integrationId, input, lookAgain))
  }
  setHandler(skipItem, skipOne, {
    description: 'Gives one failed item up for good. Input: {"itemId": 5}.',
  })
}

async function skip(integration: number, { itemId }: { itemId: number }, lookAgain: () => void): Promise<void> {
  try {
    await skipFailedItem({ itemId })
  } catch (error) {
    // A signal has no answer. Its sender sees the row, and the log says why the item was not skipped.
    if (!(error instanceof ActivityFailure)) throw error
    const fields = { integration, sync_item: itemId, error: error.cause?.message }
    log.warn('an item was not skipped', { event: 'item.not_skipped', ...fields })
  }
  lookAgain()
}

async function retry(
  integration: number,
  { itemId, tries, force }: ProcessSyncItemInput,
  lookAgain: () => void,
): Promise<void> {
  const item = { integration, sync_item: itemId }
  const notRetried = (why: string): void =>
    log.warn(`an item was not retried: ${why}`, { event: 'item.not_retried', ...item })
  // A run's id is `<prefix>:sync:<integration id>`, and `:<stream>` where it has a name.
  const prefix = /^(.*):sync:\d+(?::[A-Za-z0-9_-]+)?$/.exec(workflowInfo().workflowId)?.[1]
  if (prefix === undefined) return notRetried('the run was not started under the id of its integration')
  try {
    const child = await startChild<(input: ProcessSyncItemInput) => Promise<ProcessSyncItemResult>>(
      WORKFLOW.processSyncItem,
      {
        workflowId: workflowId.processSyncItem(prefix, itemId),
        args: [{ itemId, ...(tries === undefined ? {} : { tries }), ...(force === undefined ? {} : { force }) }],
        parentClosePolicy: ParentClosePolicy.ABANDON,
        // It works for the same integration.
        typedSearchAttributes: workflowInfo().typedSearchAttributes,
        staticSummary: `Retry of sync item ${itemId}`,
      },
    )
    child.result().then((result) => {
      if (result.outcome === 'outdated') notRetried('a later run has a newer copy of it')
      lookAgain()
    }, lookAgain)
  } catch (error) {
    // Compared by name: workflow code may import `@temporalio/workflow` only, and that does not export the class.
    if (!(error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError')) throw error
    log.info('the retry of an item is under way already', { event: 'item.retry_running', ...item })
  }
}

/** What the query `progress` is computed from. Carried over when a run goes on in a new history. */
export interface ProgressState extends Omit<SyncProgress, 'isPaused' | 'nextAttemptAt' | 'secondsLeft' | 'intakeFrom'> {
  /** Due moments of the first and the last item that waits, in milliseconds since the epoch; null: no item waits. */
  readonly waits: { readonly from: number; readonly to: number } | null
  /** Milliseconds since the epoch. */
  readonly intakeFrom: number
  /** Where the rate's measurement began: the moment, the pauses and the ended items before it; null: no item was processed yet. */
  readonly processing: { readonly since: number; readonly pausedMs: number; readonly ended: number } | null
  /** As of the last batch that ended. */
  readonly perSecond: number | null
}

/** How far a run is. */
export class RunProgress {
  readonly #controls: RunControls
  readonly #onChange: (progress: SyncProgress) => void
  #state: ProgressState

  /** @param onChange called after each change, also of a pause */
  constructor(controls: RunControls, carried: ProgressState | undefined, onChange: (progress: SyncProgress) => void) {
    this.#controls = controls
    this.#onChange = onChange
    this.#state = {
      phase: 'opening',
      syncLogId: null,
      listed: null,
      unchanged: 0,
      succeeded: 0,
      failed: 0,
      waiting: 0,
      waits: null,
      lastFailure: null,
      listingFailure: null,
      intakeFrom: 0,
      startedAt: new Date().toISOString(),
      processing: null,
      perSecond: null,
      // A field that an earlier release did not carry keeps its start value.
      ...carried,
    }
    controls.onPauseChange = () => this.note({})
    this.note({})
  }

  get state(): ProgressState {
    return this.#state
  }

  note(change: Partial<ProgressState>): void {
    this.#state = { ...this.#state, ...change }
    this.#onChange(this.read())
  }

  noteItems({ succeeded, failed, waiting, unlisted = 0, intakeFrom, lastFailure }: ItemRunState): void {
    const before = this.#state.succeeded + this.#state.failed
    const ended = succeeded + failed
    this.note({
      succeeded,
      failed,
      waiting: waiting.length + unlisted,
      waits: spanOf(waiting),
      intakeFrom,
      perSecond: ended === before ? this.#state.perSecond : this.#rate(ended),
      lastFailure: lastFailure ?? null,
    })
  }

  /** The rate is measured from the first batch on. */
  beginProcessing(): void {
    const { succeeded, failed, processing } = this.#state
    const began = { since: Date.now(), pausedMs: this.#controls.pausedMs, ended: succeeded + failed }
    this.note({ phase: 'processing', processing: processing ?? began })
  }

  read(): SyncProgress {
    const { intakeFrom, waits, listingFailure: failure, processing: _, ...told } = this.#state
    const isOver = told.phase === 'done'
    return {
      ...told,
      isPaused: this.#controls.isPaused,
      nextAttemptAt: isOver || waits === null ? null : new Date(waits.from).toISOString(),
      secondsLeft: isOver || this.#controls.isPaused ? null : this.#secondsLeft(),
      listingFailure: failure && { ...failure, nextAttemptAt: laterThanNow(failure.nextAttemptAt) },
      intakeFrom: !isOver && intakeFrom > Date.now() ? new Date(intakeFrom).toISOString() : null,
    }
  }

  /** A lower bound: an item that waits may fail again. */
  #secondsLeft(): number | null {
    const { perSecond, listed, unchanged, succeeded, failed, waiting, waits, intakeFrom } = this.#state
    if (perSecond === null || listed === null) return null
    const left = Math.max(0, listed - unchanged - succeeded - failed)
    const notBegun = Math.max(0, left - waiting)
    const until = (at: number): number => Math.max(0, at - Date.now()) / 1_000
    return Math.ceil(
      Math.max(
        left / perSecond,
        waits === null ? 0 : until(waits.to),
        notBegun === 0 ? 0 : until(intakeFrom) + notBegun / perSecond,
      ),
    )
  }

  /** @param endedItems since the run began */
  #rate(endedItems: number): number | null {
    const { processing, perSecond } = this.#state
    if (processing === null) return null
    const ended = endedItems - processing.ended
    const ms = Date.now() - processing.since - (this.#controls.pausedMs - processing.pausedMs)
    return ended <= 0 || ms <= 0 ? perSecond : Number(((ended * 1_000) / ms).toPrecision(3))
  }
}

const laterThanNow = (at: string | null): string | null => (at !== null && Date.parse(at) > Date.now() ? at : null)

function spanOf(waiting: readonly WaitingItem[]): ProgressState['waits'] {
  const moments = waiting.map(({ dueAt }) => dueAt)
  return moments.length === 0 ? null : { from: Math.min(...moments), to: Math.max(...moments) }
}

const PHASES: Readonly<Record<SyncProgress['phase'], string>> = {
  held: 'held by a pause',
  opening: 'opening',
  listing: 'listing',
  processing: 'processing items',
  finalising: 'finalising',
  done: 'done',
}

const STEERING = 'Signal `pause`: nothing new is taken in. Signal `cancel`: it ends after what it has under way.'

/** Shows a run in the Temporal UI, with the signals and commands for it. */
export function showRun({ integrationId, stream }: SyncInput, progress: SyncProgress): void {
  const { phase, isPaused, syncLogId, listed, succeeded, failed, waiting, nextAttemptAt, perSecond, intakeFrom } =
    progress
  const { listingFailure: failure, unchanged } = progress
  showing(
    `Sync of ${stream === undefined ? '' : `${stream} of `}integration ${integrationId}: ${isPaused && phase !== 'held' ? `paused while ${PHASES[phase]}` : PHASES[phase]}`,
    {
      Run: syncLogId,
      Listed: listed,
      Unchanged: unchanged === 0 ? null : unchanged,
      Succeeded: succeeded,
      Failed: failed,
      "The listing's last failure": failure && `call ${failure.attempt}: ${failure.error}`,
      'Waiting for another attempt': waiting,
      'The next of them': nextAttemptAt === null ? null : moment(Date.parse(nextAttemptAt)),
      'Items a second': perSecond,
      'Waits for the rate limit until': intakeFrom,
    },
    ...(phase === 'done' ? [] : [isPaused ? 'Signal `resume`: it goes on.' : STEERING]),
    syncLogId === null
      ? `\`integrations list-sync-runs --integration ${integrationId}\` has earlier runs.`
      : `\`integrations show-sync-run ${syncLogId}\` has the log${failed > 0 ? `, \`integrations list-failed-items --integration ${integrationId}\` what failed` : ''}${waiting > 0 ? `, \`integrations list-failed-items --integration ${integrationId} --waiting\` why items wait` : ''}.`,
  )
}
