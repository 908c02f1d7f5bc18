/**
 * What a process that stores rows knows of the promise to look again. While the promise holds, the process wakes nothing.
 *
 * Rule: docs/behaviour/webhooks.md, "The promise".
 */
import type { Promised } from './lease-queries.ts'

/** After its end: the pump that keeps it says so then. */
const SETTLED_MS = 250

export class InboxPromise {
  readonly #read: () => Promise<Promised | null>
  /** By performance.now(): rows that are committed before it are seen. */
  #until = Number.NEGATIVE_INFINITY
  #reading: Promise<Promised | null> | null = null
  #watch: NodeJS.Timeout | undefined

  /** @param read what the database says of the promise */
  constructor(read: () => Promise<Promised | null>) {
    this.#read = read
  }

  /** Rows are committed: calls `wake` unless they are seen without it. Never throws. */
  unless(wake: () => void): void {
    if (this.#counts(wake)) return
    this.#refresh().then(
      () => {
        if (!this.#counts(wake)) wake()
      },
      // The database is away. The rows must not lie there.
      () => wake(),
    )
  }

  #counts(wake: () => void): boolean {
    // The rows were committed before this moment.
    const waitMs = this.#until - performance.now()
    if (waitMs <= 0) return false
    this.#watch ??= setTimeout(() => void this.#look(wake), waitMs + SETTLED_MS).unref()
    return true
  }

  /** A promise that was neither kept nor renewed: its worker has died. */
  async #look(wake: () => void): Promise<void> {
    this.#watch = undefined
    const promised = await this.#refresh().catch(() => null)
    if (this.#counts(wake) || promised?.hasEnded === true) return
    wake()
  }

  /** Callers at the same moment share one question. */
  #refresh(): Promise<Promised | null> {
    this.#reading ??= this.#ask().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  async #ask(): Promise<Promised | null> {
    const askedAt = performance.now()
    const promised = await this.#read()
    // Counted from the question: the promise ends no sooner than this.
    if (promised !== null) this.#until = Math.max(this.#until, askedAt + promised.remainingMs)
    return promised
  }
}
