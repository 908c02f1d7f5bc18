/**
 * Admissions in hand: under a steady load an admission gives out units for the next calls, too, so that these need no statement.
 *
 * A unit counts in its window from the moment it is given out, and is used before that window ends, or never. When a unit is used, the
 * breaker was closed and no quiet was asked for at most {@link TERM_MS} ago. News of this process itself ends its leases at once.
 * Rule: docs/behaviour/requests.md, "Leases".
 */
import type { Joined } from './joined-queries.ts'

/** How old an admission may be when its call is made. Longer makes a breaker that another process opened slower to obey. */
const TERM_MS = 100
/** Fewer calls in a term are asked for one by one. */
const MIN_CALLS = 4
const MAX_UNITS = 100

interface Lease {
  units: number
  readonly generation: number | null
  /** By `performance.now()`. */
  readonly endsAt: number
}

/** Calls admitted in the term under way and in the one before. */
interface Demand {
  startedAt: number
  calls: number
  before: number
}

export class Leases {
  readonly #leases = new Map<number, Lease>()
  readonly #demands = new Map<number, Demand>()
  readonly #endedAt = new Map<number, number>()

  /** Admits the callers from the lease. Null: it has too few units. */
  take(integrationId: number, callers: number): { readonly generation: number | null } | null {
    const lease = this.#leases.get(integrationId)
    if (lease === undefined || lease.units < callers) return null
    const now = performance.now()
    if (now >= lease.endsAt) {
      this.#leases.delete(integrationId)
      return null
    }
    lease.units -= callers
    this.#count(integrationId, callers, now)
    return lease
  }

  /** How many units to ask for beyond the callers: as many as the last term has used. Counts the callers. */
  wanted(integrationId: number, callers: number): number {
    const { before, calls } = this.#count(integrationId, callers, performance.now())
    const expected = Math.min(Math.max(before, calls), MAX_UNITS)
    return expected < MIN_CALLS ? 0 : expected
  }

  /** @param askedAt moment of the question, by `performance.now()` */
  give(integrationId: number, { more, leftMs, generation }: Joined, askedAt: number): void {
    if (more === 0 || askedAt <= (this.#endedAt.get(integrationId) ?? Number.NEGATIVE_INFINITY)) return
    this.#leases.set(integrationId, { units: more, generation, endsAt: askedAt + Math.min(TERM_MS, leftMs) })
  }

  /** Also drops a lease that was asked for before and has not come yet. */
  end(integrationId: number): void {
    this.#leases.delete(integrationId)
    this.#endedAt.set(integrationId, performance.now())
  }

  #count(integrationId: number, callers: number, now: number): Demand {
    const known = this.#demands.get(integrationId)
    if (known === undefined || now - known.startedAt >= TERM_MS) {
      const before = known !== undefined && now - known.startedAt < 2 * TERM_MS ? known.calls : 0
      const demand = { startedAt: now, calls: callers, before }
      this.#demands.set(integrationId, demand)
      return demand
    }
    known.calls += callers
    return known
  }
}
