/**
 * The rules of one item of a sync run.
 *
 * Rule: docs/behaviour/sync-items.md, "An item's attempts".
 */
import { delayAfter } from './backoff.ts'

export type ItemOutcome =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'failed'; readonly message: string; readonly minimumWaitSeconds?: number }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'deferred'; readonly message: string; readonly retryAfterSeconds: number }
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
  | { readonly kind: 'wait'; readonly seconds: number; readonly counted: boolean }

/**
 * What happens to a sync item after one attempt.
 *
 * A rate-limit deferral is not an attempt. The window runs from the row's creation, deferrals and pauses included; an
 * item due exactly at its end still runs. A refusal (an event that can never be delivered) ends the item at once. An
 * interruption says nothing about the item: it runs again.
 *
 * @param attempts genuine attempts so far, this one included
 * @param ageSeconds since the row was created
 */
export function nextStep(outcome: ItemOutcome, attempts: number, ageSeconds: number, policy: ItemPolicy): ItemStep {
  if (outcome.kind === 'succeeded') return { kind: 'succeed' }
  if (outcome.kind === 'refused') return { kind: 'fail', reason: outcome.message }
  if (outcome.kind === 'interrupted') return { kind: 'wait', seconds: 0, counted: false }
  const deferred = outcome.kind === 'deferred'
  const wait = deferred
    ? outcome.retryAfterSeconds
    : Math.max(delayAfter(attempts, policy.backoffSeconds), outcome.minimumWaitSeconds ?? 0)
  if (!deferred && attempts >= policy.tries) return { kind: 'fail', reason: outcome.message }
  if (ageSeconds + wait > policy.retryWindowSeconds) return { kind: 'fail', reason: outcome.message }
  return { kind: 'wait', seconds: wait, counted: !deferred }
}

/** Whether a failure of this attempt would be the last: no tries are left, or the next one would be due after the window. */
export function isLikelyFinal(attempts: number, ageSeconds: number, policy: ItemPolicy): boolean {
  return nextStep({ kind: 'failed', message: '' }, attempts, ageSeconds, policy).kind === 'fail'
}
