/**
 * The time that a process may spend on the generic routes, where it asks one integration after the other for a delivery's owner. A forger
 * makes it ask all of them, for a body of any size up to the limit.
 *
 * Rule: docs/behaviour/webhooks.md, "The generic route".
 */

/** The credit of an idle process: one delivery of the largest size to the last of 100 integrations takes about a third of it. */
const MOST_MS = 3_000
/** The share of passing time that comes back: a tenth of one CPU. */
const GAIN = 0.1

export class VerificationCredit {
  #leftMs = MOST_MS
  #countedAt: number
  readonly #now: () => number

  /** @param now milliseconds, of a clock that never goes back */
  constructor(now = () => performance.now()) {
    this.#now = now
    this.#countedAt = now()
  }

  isSpent(): boolean {
    return this.#left() <= 0
  }

  spend(ms: number): void {
    this.#leftMs = this.#left() - ms
  }

  /** Returns the time spent on a delivery that turned out to be genuine. */
  giveBack(ms: number): void {
    this.#leftMs = Math.min(this.#left() + ms, MOST_MS)
  }

  #left(): number {
    const now = this.#now()
    this.#leftMs = Math.min(this.#leftMs + (now - this.#countedAt) * GAIN, MOST_MS)
    this.#countedAt = now
    return this.#leftMs
  }
}
