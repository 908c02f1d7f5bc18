/**
 * The state that all calls of one integration share: breaker, suppression and window, and the verdicts on a call. They are decided
 * together, in SQL: drizzle/functions/admit_calls.sql and settle_calls.sql.
 *
 * Moments are milliseconds since the epoch, by the database's clock.
 * Rule: docs/behaviour/requests.md, "Admission", "Rate limit" and "Settlement".
 */
import type { RateLimit } from '../rate-limit-rules.ts'
import type { BreakerState } from './breaker-rules.ts'

export interface CallState {
  readonly breaker: BreakerState
  /** No call until then: the provider has asked for quiet. */
  readonly suppressedUntil: number | null
  readonly window: WindowState | null
}

export type Admission =
  | { readonly kind: 'admitted'; readonly generation: number | null; readonly probe: boolean }
  | { readonly kind: 'open'; readonly openedAt: number | null; readonly retryAfterMs: number | null }
  | { readonly kind: 'suppressed'; readonly retryAfterMs: number }
  | { readonly kind: 'limited'; readonly retryAfterMs: number; readonly limit: Limit }

/** The calls admitted lately. Empty under a limit of another length or kind. */
export type WindowState =
  | { readonly kind: 'fixed'; readonly seconds: number; readonly startsAt: number; readonly count: number }
  | {
      readonly kind: 'sliding'
      readonly seconds: number
      /** Length of a slot in milliseconds. */
      readonly quantum: number
      /** Starts of the slots that hold calls, ascending, and how many each holds. */
      readonly slots: readonly number[]
      readonly counts: readonly number[]
    }

export type Limit = Pick<RateLimit, 'limit' | 'seconds' | 'window'>

/** Units taken in the window that `now` falls into. */
export function unitsUsed(stored: WindowState | null, { window, seconds }: Limit, now: number): number {
  if (stored === null || stored.kind !== window || stored.seconds !== seconds) return 0
  const lengthMs = seconds * 1_000
  if (stored.kind === 'fixed') {
    // A window starts at a multiple of its length. A clock that was set back stays in the one that it had reached.
    return stored.startsAt >= Math.floor(now / lengthMs) * lengthMs ? stored.count : 0
  }
  // A slot counts for as long as its last millisecond is within the window.
  const { slots, counts, quantum } = stored
  return counts
    .filter((_, index) => (slots[index] ?? 0) + quantum - 1 + lengthMs > now)
    .reduce((sum, count) => sum + count, 0)
}
