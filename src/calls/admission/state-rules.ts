/**
 * What all calls of one integration share: breaker, suppression and window, and the verdicts on a call. They are decided together,
 * in SQL: drizzle/functions/admit_calls.sql and settle_calls.sql.
 *
 * Rule: docs/behaviour/requests.md, "Admission" and "Settlement".
 */
import type { BreakerState } from './breaker-rules.ts'
import type { Limit, WindowState } from './limiter-rules.ts'

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
