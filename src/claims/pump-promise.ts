/**
 * Whether the inbox, or the outbox, has promised to look again, as a process knows it that stores rows. Then nothing has to be woken.
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
      // That the database is away is no reason to leave rows lying.
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

  /** Those who ask at once share a question. */
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
