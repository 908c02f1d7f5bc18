/**
 * A model of the circuit breaker: whether a call may be made, and what its outcome changes. The product decides in SQL
 * (drizzle/functions/); call-state.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/requests.md, "Circuit breaker".
 */
import type { BreakerSettings, BreakerState, CircuitOverride, Slice } from '../../src/calls/admission/state-rules.ts'
import { resetBreaker } from '../../src/calls/admission/state-rules.ts'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'

export type BreakerVerdict =
  | {
      readonly kind: 'admitted'
      readonly next: BreakerState
      /** Comes back with the outcome; null: the outcome is not counted. */
      readonly generation: number | null
      /** Whether the call tries if the provider is back. Its slot waits for the outcome. */
      readonly probe: boolean
    }
  | {
      readonly kind: 'refused'
      readonly openedAt: number | null
      /** Null: nobody knows (forced open, or a probe is under way). */
      readonly retryAfterMs: number | null
    }

export interface Outcome {
  readonly owner: string
  readonly generation: number | null
  /** Null is success. */
  readonly failureClass: FailureClass | null
}

export type CircuitChange =
  | { readonly kind: 'opened'; readonly reason: 'threshold_reached' | 'half_open_probe_failed' }
  | { readonly kind: 'closed'; readonly reason: 'half_open_probe_succeeded' }

/** A window is counted in at most so many slices. */
const SLICES = 60
/** A probe that says nothing keeps its slot at least so long. */
const MIN_PROBE_LEASE_SECONDS = 60

/** Whether a call may be made now. Taking a probe's slot is part of `next`: nothing is taken unless that is stored. */
export function admitByBreaker(
  stored: BreakerState,
  settings: BreakerSettings,
  override: CircuitOverride | null,
  owner: string,
  now: number,
): BreakerVerdict {
  if (override === 'forced_open') return { kind: 'refused', openedAt: stored.openedAt, retryAfterMs: null }
  if (override !== null || !settings.enabled) return { kind: 'admitted', next: stored, generation: null, probe: false }
  const breaker = underStrategy(stored, settings)
  if (breaker.state === 'closed')
    return { kind: 'admitted', next: breaker, generation: breaker.generation, probe: false }
  if (breaker.state === 'open') {
    const { openedAt } = breaker
    const cooldownMs = settings.cooldownSeconds * 1_000
    // A clock that had jumped ahead may have opened it.
    if (openedAt !== null && Math.abs(now - openedAt) < cooldownMs)
      return { kind: 'refused', openedAt, retryAfterMs: openedAt + cooldownMs - now }
    return probing({ ...breaker, state: 'half_open', generation: breaker.generation + 1 }, settings, owner, now)
  }
  if (breaker.probe !== null && now < breaker.probe.until)
    return { kind: 'refused', openedAt: breaker.openedAt, retryAfterMs: null }
  return probing(breaker, settings, owner, now)
}

/** What the outcome of an admitted call changes. */
export function settleOnBreaker(
  stored: BreakerState,
  settings: BreakerSettings,
  outcome: Outcome,
  now: number,
): { readonly next: BreakerState; readonly change: CircuitChange | null } {
  if (outcome.generation === null) return { next: stored, change: null }
  const breaker = underStrategy(stored, settings)
  if (outcome.generation !== breaker.generation) return { next: breaker, change: null }
  const failed = outcome.failureClass === 'upstream'
  if (breaker.state === 'half_open') {
    const isProbe = breaker.probe?.owner === outcome.owner && now < breaker.probe.until
    if (!isProbe) return { next: breaker, change: null }
    if (failed) return { next: opened(breaker, now), change: { kind: 'opened', reason: 'half_open_probe_failed' } }
    if (outcome.failureClass === null)
      return { next: resetBreaker(breaker), change: { kind: 'closed', reason: 'half_open_probe_succeeded' } }
    return { next: { ...breaker, probe: null }, change: null }
  }
  if (breaker.state === 'open') return { next: breaker, change: null }
  const counted = settings.strategy === 'rate' ? counting(breaker, settings, failed, now) : streaking(breaker, outcome)
  if (!failed || !trips(counted, settings)) return { next: counted, change: null }
  return { next: opened(counted, now), change: { kind: 'opened', reason: 'threshold_reached' } }
}

/** Another strategy counts other things: it starts empty. An open breaker stays open. */
export function underStrategy(breaker: BreakerState, { strategy }: BreakerSettings): BreakerState {
  return breaker.strategy === strategy ? breaker : { ...breaker, strategy, slices: [], streak: 0 }
}

function probing(breaker: BreakerState, settings: BreakerSettings, owner: string, now: number): BreakerVerdict {
  const leaseSeconds = Math.max(settings.cooldownSeconds, MIN_PROBE_LEASE_SECONDS)
  const next = { ...breaker, probe: { owner, until: now + leaseSeconds * 1_000 } }
  return { kind: 'admitted', next, generation: next.generation, probe: true }
}

function counting(breaker: BreakerState, settings: BreakerSettings, failed: boolean, now: number): BreakerState {
  const sliceMs = Math.ceil(settings.windowSeconds / SLICES) * 1_000
  const startsAt = Math.floor(now / sliceMs) * sliceMs
  const kept = recent(breaker.slices, settings, now)
  const [total, failures] = totals(kept.filter(([start]) => start === startsAt))
  const others = kept.filter(([start]) => start !== startsAt)
  return { ...breaker, slices: [...others, [startsAt, total + 1, failures + (failed ? 1 : 0)]] }
}

function streaking(breaker: BreakerState, { failureClass }: Outcome): BreakerState {
  if (failureClass === null) return { ...breaker, streak: 0 }
  return failureClass === 'upstream' ? { ...breaker, streak: breaker.streak + 1 } : breaker
}

function trips({ slices, streak }: BreakerState, settings: BreakerSettings): boolean {
  if (settings.strategy === 'count') return streak >= settings.threshold
  const [total, failed] = totals(slices)
  return total >= settings.minimum && failed * 100 >= settings.ratePercent * total
}

function recent(slices: readonly Slice[], { windowSeconds }: BreakerSettings, now: number): readonly Slice[] {
  return slices.filter(([startsAt]) => startsAt > now - windowSeconds * 1_000)
}

function totals(slices: readonly Slice[]): readonly [total: number, failed: number] {
  return slices.reduce<readonly [number, number]>(
    ([total, failed], [, all, failures]) => [total + all, failed + failures],
    [0, 0],
  )
}

function opened(breaker: BreakerState, now: number): BreakerState {
  const { generation } = breaker
  return { ...breaker, state: 'open', generation: generation + 1, openedAt: now, probe: null, slices: [], streak: 0 }
}
