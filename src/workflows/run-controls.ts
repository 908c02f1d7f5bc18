import { CancellationScope, condition, setHandler } from '@temporalio/workflow'
import { cancel, itemsChanged, pause, resume } from './messages.ts'

/** What a run that goes on in a new history takes along. A cancelled run does not go on. */
export interface ControlState {
  /** Milliseconds since the epoch; null: not paused. */
  readonly pausedAt: number | null
  /** Milliseconds of the pauses that are over. */
  readonly pausedMs: number
}

/** Pause, resume, cancel and "look again" of one run: signals only note, the run acts on it. */
export class RunControls {
  /** Cancelled by the signal, and with the workflow. */
  readonly work = new CancellationScope()
  #pausedAt: number | null
  #pausedMs: number
  #changes = 0
  #onChange: () => void = () => {}
  #tryNow: (itemId: number) => boolean = () => false

  constructor(state: ControlState = { pausedAt: null, pausedMs: 0 }) {
    this.#pausedAt = state.pausedAt
    this.#pausedMs = state.pausedMs
    // A signal that came with the start is handed over right here, before the run does anything.
    const onPause = (): void => {
      this.#pausedAt ??= Date.now()
      this.#onChange()
    }
    const onResume = (): void => {
      this.#pausedMs = this.pausedMs
      this.#pausedAt = null
      this.#onChange()
    }
    setHandler(pause, onPause, {
      description: 'Takes nothing new in; what runs goes on. Without a run it keeps one from starting. No input.',
    })
    setHandler(resume, onResume, { description: 'Ends a pause. No input.' })
    setHandler(cancel, () => this.work.cancel(), {
      description: "Ends the run after what it has under way, as Temporal's own cancellation does. No input.",
    })
    setHandler(itemsChanged, () => this.lookAgain(), {
      description: 'Items of the run were changed from outside: it looks at them again. No input.',
    })
  }

  /** @param listener told of a pause and of its end */
  onChange(listener: () => void): void {
    this.#onChange = listener
  }

  /** @param tryNow of the items at work: lets the next attempt of one that waits begin now */
  onTryNow(tryNow: (itemId: number) => boolean): void {
    this.#tryNow = tryNow
  }

  /** False: no such item waits here. */
  tryNow(itemId: number): boolean {
    return this.#tryNow(itemId)
  }

  get isPaused(): boolean {
    return this.#pausedAt !== null
  }

  /** Milliseconds of all pauses, the one that holds included. */
  get pausedMs(): number {
    return this.#pausedMs + (this.#pausedAt === null ? 0 : Date.now() - this.#pausedAt)
  }

  get state(): ControlState {
    return { pausedAt: this.#pausedAt, pausedMs: this.#pausedMs }
  }

  lookAgain(): void {
    this.#changes += 1
  }

  /** Counts up with each change from outside. */
  get changes(): number {
    return this.#changes
  }

  async untilResumed(): Promise<void> {
    if (this.isPaused) await condition(() => !this.isPaused)
  }
}
