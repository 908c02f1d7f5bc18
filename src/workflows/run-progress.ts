import type { LastFailure, SyncProgress } from '../core/sync-jobs.ts'
import type { ItemRunState, WaitingItem } from './item-run.ts'
import type { RunControls } from './run-controls.ts'

/** What the query `progress` is made of; a run that goes on in a new history takes it along. */
export interface ProgressState {
  readonly phase: SyncProgress['phase']
  readonly syncLogId: number | null
  readonly listed: number | null
  readonly succeeded: number
  readonly failed: number
  readonly waiting: number
  /** When the first and the last of them are tried again; null: none waits. Milliseconds since the epoch. */
  readonly waits: { readonly from: number; readonly to: number } | null
  readonly lastFailure: LastFailure | null
  /** Milliseconds since the epoch. */
  readonly intakeFrom: number
  /** ISO 8601. */
  readonly startedAt: string
  /** The moment from which the rate counts, and what had been before it; null: nothing is processed yet. */
  readonly processing: { readonly since: number; readonly pausedMs: number; readonly ended: number } | null
  /** As of the last batch that ended. */
  readonly perSecond: number | null
}

/** How far a run is. */
export class RunProgress {
  readonly #controls: RunControls
  readonly #onChange: (progress: SyncProgress) => void
  #state: ProgressState

  /** @param onChange after each change, a pause too */
  constructor(controls: RunControls, carried: ProgressState | undefined, onChange: (progress: SyncProgress) => void) {
    this.#controls = controls
    this.#onChange = onChange
    this.#state = {
      phase: 'opening',
      syncLogId: null,
      listed: null,
      succeeded: 0,
      failed: 0,
      waiting: 0,
      waits: null,
      lastFailure: null,
      intakeFrom: 0,
      startedAt: new Date().toISOString(),
      processing: null,
      perSecond: null,
      // What an earlier history did not carry is as at the start.
      ...carried,
    }
    controls.onChange(() => this.#changed())
    this.#changed()
  }

  get state(): ProgressState {
    return this.#state
  }

  note(change: Partial<Pick<ProgressState, 'phase' | 'syncLogId' | 'listed' | 'intakeFrom'>>): void {
    this.#state = { ...this.#state, ...change }
    this.#changed()
  }

  noteItems({ succeeded, failed, waiting, unlisted = 0, intakeFrom, lastFailure }: ItemRunState): void {
    const before = this.#state.succeeded + this.#state.failed
    const ended = succeeded + failed
    const perSecond = ended === before ? this.#state.perSecond : this.#rate(ended)
    const waits = waiting.length === 0 ? null : spanOf(waiting)
    const items = {
      succeeded,
      failed,
      waiting: waiting.length + unlisted,
      waits,
      intakeFrom,
      perSecond,
      lastFailure: lastFailure ?? null,
    }
    this.#state = { ...this.#state, ...items }
    this.#changed()
  }

  /** The rate counts from the first batch on. */
  beginProcessing(): void {
    const { succeeded, failed, processing } = this.#state
    const began = { since: Date.now(), pausedMs: this.#controls.pausedMs, ended: succeeded + failed }
    this.#state = { ...this.#state, phase: 'processing', processing: processing ?? began }
    this.#changed()
  }

  read(): SyncProgress {
    const { intakeFrom, waits, processing: _, ...told } = this.#state
    const isOver = told.phase === 'done'
    return {
      ...told,
      isPaused: this.#controls.isPaused,
      nextAttemptAt: isOver || waits === null ? null : new Date(waits.from).toISOString(),
      secondsLeft: isOver || this.#controls.isPaused ? null : this.#secondsLeft(),
      intakeFrom: !isOver && intakeFrom > Date.now() ? new Date(intakeFrom).toISOString() : null,
    }
  }

  /** What waits may fail again: no sooner than this. */
  #secondsLeft(): number | null {
    const { perSecond, listed, succeeded, failed, waiting, waits, intakeFrom } = this.#state
    if (perSecond === null || listed === null) return null
    const left = Math.max(0, listed - succeeded - failed)
    const notBegun = Math.max(0, left - waiting)
    const until = (moment: number): number => Math.max(0, moment - Date.now()) / 1_000
    return Math.ceil(
      Math.max(
        left / perSecond,
        waits === null ? 0 : until(waits.to),
        notBegun === 0 ? 0 : until(intakeFrom) + notBegun / perSecond,
      ),
    )
  }

  #changed(): void {
    this.#onChange(this.read())
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

function spanOf(waiting: readonly WaitingItem[]): { from: number; to: number } {
  let from = Number.POSITIVE_INFINITY
  let to = 0
  for (const { dueAt } of waiting) {
    from = Math.min(from, dueAt)
    to = Math.max(to, dueAt)
  }
  return { from, to }
}
