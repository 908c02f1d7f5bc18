/**
 * The state that all calls of one integration share: breaker, suppression and window, what operators see of it, and the verdicts
 * on a call. They are decided together, in SQL: drizzle/functions/admit_calls.sql and settle_calls.sql.
 *
 * Moments are milliseconds since the epoch, by the database's clock.
 * Rule: docs/behaviour/requests.md, "Admission", "Circuit breaker", "Rate limit" and "Settlement".
 */
import type { RateLimit } from '../rate-limit-rules.ts'
import type { Unit } from './shared-budgets.ts'

export interface CallState {
  readonly breaker: BreakerState
  /** No call until then: the provider has asked for quiet. */
  readonly suppressedUntil: number | null
  readonly window: WindowState | null
}

export type Admission =
  | {
      readonly kind: 'admitted'
      readonly generation: number | null
      readonly probe: boolean
      /** Of the budget that the integration shares. */
      readonly unit?: Unit
    }
  | { readonly kind: 'open'; readonly openedAt: number | null; readonly retryAfterMs: number | null }
  | { readonly kind: 'suppressed'; readonly retryAfterMs: number }
  | { readonly kind: 'limited'; readonly retryAfterMs: number; readonly limit: Limit }
  /** By the budget that the integration shares. `limit` null: the provider has asked for quiet, or it is not known. */
  | { readonly kind: 'shared'; readonly retryAfterMs: number; readonly limit: Limit | null }

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
    // A window starts at a multiple of its length. A clock that was set back keeps the count of the one that it had reached.
    return stored.startsAt >= Math.floor(now / lengthMs) * lengthMs ? stored.count : 0
  }
  // A slot counts for as long as its last millisecond is within the window.
  const { slots, counts, quantum } = stored
  return counts
    .filter((_, index) => (slots[index] ?? 0) + quantum - 1 + lengthMs > now)
    .reduce((sum, count) => sum + count, 0)
}

export interface BreakerSettings {
  /** `circuit_breaker.enabled` */
  readonly enabled: boolean
  readonly strategy: 'rate' | 'count'
  /** Rate: `circuit_breaker.time_window`, `failure_rate_threshold` (percent), `minimum_requests`. */
  readonly windowSeconds: number
  readonly ratePercent: number
  readonly minimum: number
  /** Count: `circuit_breaker.threshold`. */
  readonly threshold: number
  readonly cooldownSeconds: number
}

export type CircuitOverride = 'forced_open' | 'forced_closed' | 'disabled'

/** Outcomes of one slice of the window: `[starts at, all, upstream failures]`. */
export type Slice = readonly [startsAt: number, total: number, failed: number]

export interface BreakerState {
  readonly state: 'closed' | 'open' | 'half_open'
  /** Goes up at each change. An outcome that was admitted under another one changes nothing. */
  readonly generation: number
  readonly openedAt: number | null
  /** Who tries whether the provider is back; its slot is free again after `until`. */
  readonly probe: { readonly owner: string; readonly until: number } | null
  readonly strategy: 'rate' | 'count'
  readonly slices: readonly Slice[]
  /** Count: upstream failures since the last success. */
  readonly streak: number
}

export const CLOSED_BREAKER: BreakerState = {
  state: 'closed',
  generation: 0,
  openedAt: null,
  probe: null,
  strategy: 'rate',
  slices: [],
  streak: 0,
}

/** Closed and empty: what an operator's override leaves behind when it is cleared, or over. */
export function resetBreaker(breaker: BreakerState): BreakerState {
  const { generation } = breaker
  return { ...breaker, state: 'closed', generation: generation + 1, openedAt: null, probe: null, slices: [], streak: 0 }
}

/** What counts against the provider now: upstream failures in the window, or in a row. */
export function failuresCounted(
  { strategy, streak, slices }: BreakerState,
  settings: BreakerSettings,
  now: number,
): {
  readonly failures: number
  /** Percent of the window's outcomes; null without outcomes, and under the strategy `count`. */
  readonly ratePercent: number | null
} {
  // Another strategy counts other things: it starts empty.
  const isCounted = strategy === settings.strategy
  if (settings.strategy === 'count') return { failures: isCounted ? streak : 0, ratePercent: null }
  const since = now - settings.windowSeconds * 1_000
  let total = 0
  let failures = 0
  for (const [startsAt, all, failed] of isCounted ? slices : [])
    if (startsAt > since) {
      total += all
      failures += failed
    }
  return { failures, ratePercent: total === 0 ? null : (failures * 100) / total }
}
