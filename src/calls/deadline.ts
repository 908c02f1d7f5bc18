/** How long one attempt may take, and its caller's patience: whichever ends first ends the attempt. */
import { followSignals } from './follow-signals.ts'

export class Deadline {
  readonly #controller = new AbortController()
  readonly #release: () => void
  readonly #timer: NodeJS.Timeout
  #reject: ((reason: unknown) => void) | null = null
  #timeout: Error | null = null

  /**
   * @param caller the caller's own signal
   * @param timeout made when it is needed: an error's stack is costly, and most attempts end in time
   */
  constructor(caller: AbortSignal | undefined, timeoutMs: number, timeout: () => Error) {
    this.#release = followSignals(this.#controller, [caller], (reason) => this.#reject?.(reason))
    this.#timer = setTimeout(() => {
      this.#timeout = timeout()
      this.#controller.abort(this.#timeout)
      this.#reject?.(this.#timeout)
    }, timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** A work that ignores the signal loses: its late result, or rejection, is dropped. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.signal.aborted) reject(this.signal.reason)
      this.#reject = reject
      work.then(resolve, reject)
    })
  }

  /** Whether this is the error with which the time ran out. */
  isOver(error: unknown): boolean {
    return this.#timeout !== null && error === this.#timeout
  }

  release(): void {
    clearTimeout(this.#timer)
    this.#release()
  }
}
