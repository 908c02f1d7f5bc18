/**
 * The rules of one item of a sync run.
 *
 * Rule: docs/behaviour/sync-items.md, "An item's attempts".
 */
/** What an item's row may say. */
export const SYNC_ITEM_STATUSES = ['pending', 'processing', 'success', 'failed', 'skipped'] as const

/** A year. A timer for longer than that is a mistake; some are no moment that a `Date` can hold. */
export const LONGEST_DEFERRAL_SECONDS = 31_557_600

/** What an error asks for in `retryAfterSeconds`. It is told apart by its code, so its type is not known. 0: it asks for nothing that can be used. */
export function askedSeconds(error: object): number {
  const seconds: unknown = Reflect.get(error, 'retryAfterSeconds')
  return Number.isFinite(seconds) ? Math.min(Math.max(Number(seconds), 0), LONGEST_DEFERRAL_SECONDS) : 0
}

export type ItemOutcome =
  | { readonly kind: 'succeeded' }
  | {
      readonly kind: 'failed'
      readonly message: string
      readonly minimumWaitSeconds?: number
      /** Another attempt would end alike. */
      readonly isFinal?: boolean
    }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'deferred'; readonly message: string; readonly retryAfterSeconds: number }
  /** What it refers to is not there yet. */
  | { readonly kind: 'not yet'; readonly message: string; readonly retryAfterSeconds: number }
  /** The worker stopped, or the run was cancelled, and the listeners had not ended 30 s later. */
  | { readonly kind: 'interrupted' }

export interface ItemPolicy {
  /** `sync.item_tries` */
  readonly tries: number
  /** `sync.item_backoff` */
  readonly backoffSeconds: readonly number[]
  /** `sync.item_retry_window` */
  readonly retryWindowSeconds: number
}

export type ItemStep =
  | { readonly kind: 'succeed' }
  | { readonly kind: 'fail'; readonly reason: string }
  | {
      readonly kind: 'wait'
      readonly seconds: number
      readonly because: 'failed' | 'deferred' | 'not yet' | 'interrupted'
    }

/** `NotYet` may put an item off this often. Each further one counts as a failure. */
const MAX_PUT_OFF = 20

/**
 * What happens to a sync item after one attempt.
 *
 * A rate-limit deferral is not an attempt, nor is a `NotYet`, up to a limit. The window runs from the row's creation, deferrals and pauses included; an
 * item due exactly at its end still runs. A refusal (an event that can never be delivered) ends the item at once. An
 * interruption says nothing about the item: it runs again.
 *
 * @param attempts genuine attempts so far, this one included
 * @param ageSeconds since the row was created
 */
export function nextStep(outcome: ItemOutcome, attempts: number, ageSeconds: number, policy: ItemPolicy): ItemStep {
  if (outcome.kind === 'succeeded') return { kind: 'succeed' }
  if (outcome.kind === 'refused') return { kind: 'fail', reason: outcome.message }
  if (outcome.kind === 'interrupted') return { kind: 'wait', seconds: 0, because: outcome.kind }
  const counts = outcome.kind === 'failed'
  const wait = counts
    ? Math.max(delayAfter(attempts, policy.backoffSeconds), outcome.minimumWaitSeconds ?? 0)
    : outcome.retryAfterSeconds
  if (counts && (outcome.isFinal || attempts >= policy.tries)) return { kind: 'fail', reason: outcome.message }
  if (ageSeconds + wait > policy.retryWindowSeconds) return { kind: 'fail', reason: outcome.message }
  return { kind: 'wait', seconds: wait, because: outcome.kind }
}

/** What was put off too often has failed: what it waits for does not come. @param putOff times before this one */
export function boundedOutcome(outcome: ItemOutcome, putOff: number): ItemOutcome {
  if (outcome.kind !== 'not yet' || putOff < MAX_PUT_OFF) return outcome
  return { kind: 'failed', message: outcome.message }
}

/** Whether a failure of this attempt would be the last: no tries are left, or the next one would be due after the window. */
export function isLikelyFinal(attempts: number, ageSeconds: number, policy: ItemPolicy): boolean {
  return nextStep({ kind: 'failed', message: '' }, attempts, ageSeconds, policy).kind === 'fail'
}

/** What is left of the wait between two attempts. @param waitedSeconds since the last one */
export function remainingWaitSeconds(
  attempts: number,
  waitedSeconds: number,
  backoffSeconds: readonly number[],
): number {
  return Math.max(0, Math.ceil(delayAfter(Math.max(attempts, 1), backoffSeconds) - waitedSeconds))
}

/**
 * The wait after attempt N: entry N of the list, the last entry reused past its end.
 *
 * @param attempt the attempt that ended, from 1
 * @param delaysSeconds at least one entry
 */
export function delayAfter(attempt: number, delaysSeconds: readonly number[]): number {
  const index = Math.min(attempt, delaysSeconds.length) - 1
  return delaysSeconds[Math.max(index, 0)] ?? 0
}
