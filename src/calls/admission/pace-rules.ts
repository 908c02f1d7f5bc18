/**
 * How a process that has waited for a sliding window goes on, so that the window holds by the provider's clock, too.
 *
 * Rule: docs/behaviour/requests.md, "On the way".
 */
import type { Limit } from './limiter-rules.ts'

export interface Pace {
  /** Calls that are let go in each step. */
  readonly units: number
  readonly everyMs: number
}

/** Of the window: what the margin costs of the limit. */
const MARGIN_SHARE = 0.02
/** What the way of two calls through the Internet differs by. */
const MIN_MARGIN_MS = 100
/** The way does not grow with the window. */
const MAX_MARGIN_MS = 1_000
/** Shorter steps would cost a statement each for little. */
const MIN_STEP_MS = 50

/** How much later than it is free a unit is used. */
export function marginMs({ seconds }: Pick<Limit, 'seconds'>): number {
  return Math.min(Math.max(seconds * 1_000 * MARGIN_SHARE, MIN_MARGIN_MS), MAX_MARGIN_MS)
}

/** The limit, spread over its window and the margin: the same unit is used again no sooner than that. */
export function paceOf({ limit, seconds }: Pick<Limit, 'limit' | 'seconds'>): Pace {
  const unitMs = (seconds * 1_000 + marginMs({ seconds })) / limit
  const units = Math.ceil(MIN_STEP_MS / unitMs)
  return { units, everyMs: units * unitMs }
}
