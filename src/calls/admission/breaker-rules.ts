/**
 * The state of one integration's circuit breaker, and what operators see of it. Whether a call may be made, and what its outcome
 * changes, is decided in SQL: drizzle/functions/admit_calls.sql and settle_calls.sql.
 *
 * Moments are milliseconds since the epoch, by the database's clock.
 * Rule: docs/behaviour/requests.md, "Circuit breaker".
 */

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
