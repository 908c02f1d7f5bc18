/**
 * When a listing began: what changes afterwards may have been missed by it, so the cursor does not pass this moment.
 *
 * Rule: docs/behaviour/sync-cursor.md, "The beginning of the listing".
 */

/** Where no answer tells the provider's time: our clock may be this much ahead of it, as with signed times of webhooks. */
const CLOCK_SKEW_SECONDS = 300
/**
 * A `Date` further away is no clock: a device that has booted says 1970, .NET's empty time reads as 2001. A clock that
 * is wrong by less is that of the provider's update times, too, and right to go by.
 */
const FARTHEST_SECONDS = 10 * 365 * 86_400
/** `Date` has whole seconds (RFC 9110, 5.6.7), and so have many update times: a change in that very second comes again. */
const DATE_RESOLUTION_SECONDS = 1

export class ListingBeginning {
  readonly #ours: number
  readonly #earlier: number
  /** By the provider's clock; the earliest of all answers, since its servers may differ. */
  #byProvider = Number.POSITIVE_INFINITY

  /**
   * @param startedAt when this try began, by the database's clock
   * @param earlier the beginning that an earlier try left with its bookmark, which this try goes on from; null: none did
   */
  constructor(startedAt: Date, earlier: Date | null) {
    this.#ours = startedAt.getTime()
    this.#earlier = earlier?.getTime() ?? Number.POSITIVE_INFINITY
  }

  /**
   * @param date of an answer
   * @param secondsSinceStart between the start of this try and that answer, by a monotonic clock
   */
  heard(date: Date, secondsSinceStart: number): void {
    const began = date.getTime() - (secondsSinceStart + DATE_RESOLUTION_SECONDS) * 1_000
    if (Math.abs(began - this.#ours) > FARTHEST_SECONDS * 1_000) return
    this.#byProvider = Math.min(this.#byProvider, began)
  }

  get at(): Date {
    const own = Number.isFinite(this.#byProvider) ? this.#byProvider : this.#ours - CLOCK_SKEW_SECONDS * 1_000
    return new Date(Math.floor(Math.min(own, this.#earlier)))
  }
}
