/** When nothing new starts, and when what still runs is given up. Rule: docs/behaviour/workers.md, "The end of a worker". */
import { setMaxListeners } from 'node:events'

/** The time that running handlers and listeners have when the worker stops or the run is cancelled. */
const ENDING_MS = 30_000

/** The end of one activity. {@link release} it when the activity ends: a worker's own signals outlive it. */
export class Ending {
  readonly #begun = new AbortController()
  readonly #enough = new AbortController()
  readonly #causes: readonly AbortSignal[]
  #timer: NodeJS.Timeout | undefined
  readonly #begin = (): void => {
    if (this.#begun.signal.aborted) return
    const reason: unknown = this.#causes.find(({ aborted }) => aborted)?.reason
    this.#begun.abort(reason)
    this.#timer = setTimeout(() => this.#enough.abort(reason), ENDING_MS)
  }

  /** @param causes any of them begins the end: a cancellation, the end of a worker's grace; undefined counts for none */
  constructor(...causes: readonly (AbortSignal | undefined)[]) {
    this.#causes = causes.filter((cause) => cause !== undefined)
    // Each running row listens; Node takes more than ten for a leak.
    setMaxListeners(0, this.#begun.signal, this.#enough.signal)
    if (this.#causes.some(({ aborted }) => aborted)) this.#begin()
    else for (const cause of this.#causes) cause.addEventListener('abort', this.#begin, { once: true })
  }

  /** Aborted when nothing new starts. */
  get begun(): AbortSignal {
    return this.#begun.signal
  }

  /** Aborted 30 s later, when what still runs is given up. */
  get signal(): AbortSignal {
    return this.#enough.signal
  }

  release(): void {
    for (const cause of this.#causes) cause.removeEventListener('abort', this.#begin)
    clearTimeout(this.#timer)
  }
}
