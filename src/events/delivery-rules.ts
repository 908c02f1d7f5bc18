/** When a durable event is told again, and when that ends. Rule: docs/behaviour/events.md, "Durable events". */

/** After this many failed tries a listener or target is given up for the event. */
export const MAX_TRIES = 10
/** Doubled after each try: 10, 20, 40 ... 2,560 s, together 85 minutes. */
const FIRST_WAIT_MS = 10_000
const LONGEST_WAIT_MS = 3_600_000

/** The outcome of an event for one consumer: a queued listener or a target. Moments are ISO 8601, by the clock that judges the rows. */
export type ConsumerOutcome =
  | { readonly status: 'delivered'; readonly attempts: number; readonly at: string }
  | {
      readonly status: 'waiting'
      readonly attempts: number
      readonly dueAt: string
      readonly error: string
      readonly at: string
    }
  | { readonly status: 'given_up'; readonly attempts: number; readonly error: string; readonly at: string }
  /** Never sent: a person had silenced the trouble that the event repeats. `attempts` were made before that. */
  | { readonly status: 'silenced'; readonly attempts: number; readonly at: string }

/** By the key of a listener or target. */
export type Outcomes = Readonly<Record<string, ConsumerOutcome>>

/** One try. `gone` and `lost` end it: the target takes nothing any more, or its worker died with it too often. */
export type Try =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'silenced' }
  | { readonly kind: 'failed' | 'gone' | 'lost'; readonly error: string }

/** @param before what there was; undefined: this was the first try */
export function outcomeOf(tried: Try, before: ConsumerOutcome | undefined, nowMs: number): ConsumerOutcome {
  const at = new Date(nowMs).toISOString()
  const earlier = before?.attempts ?? 0
  if (tried.kind === 'silenced') return { status: 'silenced', attempts: earlier, at }
  const attempts = earlier + 1
  if (tried.kind === 'delivered') return { status: 'delivered', attempts, at }
  const { error } = tried
  if (tried.kind !== 'failed' || attempts >= MAX_TRIES) return { status: 'given_up', attempts, error, at }
  return { status: 'waiting', attempts, dueAt: new Date(nowMs + waitMsAfter(attempts)).toISOString(), error, at }
}

/** @param attempts failed tries so far, at least 1 */
export function waitMsAfter(attempts: number): number {
  return Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), LONGEST_WAIT_MS)
}

/** Whether a consumer is to be told now: it was never tried, or is due again. */
export function isDue(outcome: ConsumerOutcome | undefined, nowMs: number): boolean {
  return outcome === undefined || (outcome.status === 'waiting' && Date.parse(outcome.dueAt) <= nowMs)
}

/**
 * When the first consumer is due, in milliseconds; null: each has had the event, was given up or is silenced.
 *
 * @param keys of the consumers
 */
export function nextDueMs(keys: readonly string[], outcomes: Outcomes, nowMs: number): number | null {
  const dueAt = keys.flatMap((key) => {
    const outcome = outcomes[key]
    if (outcome === undefined) return [nowMs]
    return outcome.status === 'waiting' ? [Date.parse(outcome.dueAt)] : []
  })
  return dueAt.length === 0 ? null : Math.min(...dueAt)
}
