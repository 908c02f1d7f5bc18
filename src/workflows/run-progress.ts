import type { SyncProgress } from '../core/sync-jobs.ts'
import type { ItemRunState } from './item-run.ts'
import type { RunControls } from './run-controls.ts'

/** What the query `progress` is made of; a run that goes on in a new history takes it along. */
export interface ProgressState {
  readonly phase: SyncProgress['phase']
  readonly syncLogId: number | null
  readonly listed: number | null
  readonly succeeded: number
  readonly failed: number
  readonly waiting: number
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
    this.#state = carried ?? {
      phase: 'opening',
      syncLogId: null,
      listed: null,
      succeeded: 0,
      failed: 0,
      waiting: 0,
      intakeFrom: 0,
      startedAt: new Date().toISOString(),
      processing: null,
      perSecond: null,
    }
    controls.onChange(() => this.#changed())
    this.#changed()
  }

  get state(): ProgressState {
    return this.#state
  }

  note(change: Partial<Omit<ProgressState, 'processing' | 'perSecond' | 'startedAt'>>): void {
    this.#state = { ...this.#state, ...change }
    this.#changed()
  }

  noteItems({ succeeded, failed, waiting, intakeFrom }: ItemRunState): void {
    const before = this.#state.succeeded + this.#state.failed
    const ended = succeeded + failed
    const perSecond = ended === before ? this.#state.perSecond : this.#rate(ended)
    this.#state = { ...this.#state, succeeded, failed, waiting: waiting.length, intakeFrom, perSecond }
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
    const { intakeFrom, processing: _, ...told } = this.#state
    const { perSecond } = told
    const isOver = told.phase === 'done'
    const left = told.listed === null ? null : Math.max(0, told.listed - told.succeeded - told.failed)
    const secondsLeft =
      isOver || this.#controls.isPaused || perSecond === null || left === null ? null : Math.ceil(left / perSecond)
    return {
      ...told,
      isPaused: this.#controls.isPaused,
      secondsLeft,
      intakeFrom: !isOver && intakeFrom > Date.now() ? new Date(intakeFrom).toISOString() : null,
    }
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
