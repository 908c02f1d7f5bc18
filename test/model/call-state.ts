/**
 * A model of admission and settlement: breaker, suppression and window, decided together. All or nothing: a refusal by one gate takes
 * nothing from another. The product decides in SQL (drizzle/functions/); call-state.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/requests.md, "Admission" and "Settlement".
 */

import type {
  Admission,
  BreakerSettings,
  CallState,
  CircuitOverride,
  Limit,
} from '../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../src/calls/admission/state-rules.ts'
import type { CircuitChange, Outcome } from './circuit-breaker.ts'
import { admitByBreaker, settleOnBreaker, underStrategy } from './circuit-breaker.ts'
import { admitByLimit, movedBack } from './rate-limiter.ts'

export interface CallSettings {
  readonly breaker: BreakerSettings
  readonly override: CircuitOverride | null
  /** Null: no limit. */
  readonly limit: Limit | null
}

/** What an attempt says about the time to come. */
export interface Quiet {
  /** A throttle's `Retry-After`, already capped. */
  readonly forMs: number | null
  /** When an exhausted quota is whole again; at most a day ahead counts. */
  readonly until: number | null
}

/** A provider's clock may be wrong: no reset further ahead is believed. */
const MAX_RESET_AHEAD_MS = 86_400_000

export const NO_CALLS: CallState = { breaker: CLOSED_BREAKER, suppressedUntil: null, window: null }

export function admit(
  stored: CallState,
  settings: CallSettings,
  owner: string,
  now: number,
): { readonly next: CallState; readonly admission: Admission } {
  const { limit } = settings
  const state = limit === null ? stored : withWindowMovedBack(stored, settings, limit, now)
  const refused = (admission: Admission) => ({ next: state, admission })
  const verdict = admitByBreaker(state.breaker, settings.breaker, settings.override, owner, now)
  if (verdict.kind === 'refused')
    return refused({ kind: 'open', openedAt: verdict.openedAt, retryAfterMs: verdict.retryAfterMs })
  if (state.suppressedUntil !== null && now < state.suppressedUntil)
    return refused({ kind: 'suppressed', retryAfterMs: state.suppressedUntil - now })
  const admission: Admission = { kind: 'admitted', generation: verdict.generation, probe: verdict.probe }
  if (limit === null) return { next: { ...state, breaker: verdict.next, window: null }, admission }
  const unit = admitByLimit(state.window, limit, now)
  if (unit.kind === 'refused') return refused({ kind: 'limited', retryAfterMs: unit.retryAfterMs, limit })
  return { next: { ...state, breaker: verdict.next, window: unit.next }, admission }
}

/** What a refusal stores, too. A breaker that counts is stored with it as it counts now. */
function withWindowMovedBack(
  stored: CallState,
  { breaker, override }: CallSettings,
  limit: Limit,
  now: number,
): CallState {
  const window = movedBack(stored.window, limit, now)
  if (window === stored.window) return stored
  const counts = breaker.enabled && override === null
  return { ...stored, window, breaker: counts ? underStrategy(stored.breaker, breaker) : stored.breaker }
}

export function settle(
  state: CallState,
  settings: BreakerSettings,
  outcome: Outcome,
  quiet: Quiet,
  now: number,
): { readonly next: CallState; readonly change: CircuitChange | null } {
  const { next: breaker, change } = settleOnBreaker(state.breaker, settings, outcome, now)
  return { next: { ...state, breaker, suppressedUntil: quieter(state.suppressedUntil, quiet, now) }, change }
}

/** Only ever moves later. */
function quieter(until: number | null, quiet: Quiet, now: number): number | null {
  const candidates = [until, quiet.forMs === null ? null : now + quiet.forMs]
  if (quiet.until !== null && quiet.until > now) candidates.push(Math.min(quiet.until, now + MAX_RESET_AHEAD_MS))
  const known = candidates.filter((moment) => moment !== null)
  return known.length === 0 ? null : Math.max(...known)
}
