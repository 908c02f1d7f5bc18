/** How long activities may take and how often they are tried, in one place. */
import type { ActivityOptions } from '@temporalio/workflow'
import { ActivityCancellationType } from '@temporalio/workflow'

/** Temporal notices a dead worker within this time. Another worker takes up its rows at once. */
const HEARTBEAT_TIMEOUT = '20 seconds'
/**
 * Long work goes through the task queue, where any worker can take it and the fairness key counts. An eager start would give it
 * to the worker that runs the workflow.
 */
const THROUGH_THE_QUEUE = { allowEagerDispatch: false } as const
const RETRY = { initialInterval: '1 second', maximumInterval: '30 seconds', backoffCoefficient: 2 } as const

/**
 * A cancelled workflow ends after its running activities, so that nothing is written for it afterwards: deleting and erasing
 * an integration count on that.
 */
const cancellationType = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

/** Short statements. Retried until the database is back. */
export const step: ActivityOptions = {
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
}

/**
 * A look at a webhook subscription. A worker that dies is noticed sooner than others: a short subscription would end meanwhile. The
 * look notes what failed at the provider, so what is tried again is our own database's fault.
 */
export const subscriptionLook: ActivityOptions = { ...step, heartbeatTimeout: '10 seconds' }

/** A step of work by a Schedule. Few tries: the Schedule starts no further run while this one runs, and the next one does it again. */
export const scheduledStep: ActivityOptions = { ...step, retry: { ...RETRY, maximumAttempts: 5 } }

/**
 * A batch starts no handler after 30 s, and each handler has its own timeout, an hour at most; the rest is settlement. It
 * takes up a lost worker's rows group after group, so it may take many times as long as a handler. The heartbeat shows a
 * lost worker.
 */
export const batch: ActivityOptions = {
  startToCloseTimeout: '1 day',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
  cancellationType,
  ...THROUGH_THE_QUEUE,
}

/** Opens a run, and does its first steps while they are quick. An eager start is fine: the workers share the workflow tasks. */
export const opening: ActivityOptions = { ...batch, allowEagerDispatch: true }

/** A pass over all integrations, each of which has its own timeout. */
export const pass: ActivityOptions = {
  startToCloseTimeout: '2 hours',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
  cancellationType,
}

/**
 * One webhook, or a pump: that works for ten minutes, and then until its last handlers end. The next try comes soon, also after
 * many lost workers or many waits for a turn.
 */
export const single: ActivityOptions = { ...batch, retry: { ...RETRY, maximumInterval: '5 seconds' } }

/**
 * One call of a listing. The workflow itself counts faults, lost workers and deferrals, so Temporal tries it once.
 * Its wait for a worker has no bound: while no worker runs, nothing lists.
 *
 * @param timeoutSeconds `sync.job_timeout`, of one call
 * @param leftMs what is left of `sync.lock_ttl`, which bounds all calls together
 */
export function listing(timeoutSeconds: number, leftMs: number): ActivityOptions {
  return {
    startToCloseTimeout: Math.min(timeoutSeconds * 1_000, leftMs),
    heartbeatTimeout: HEARTBEAT_TIMEOUT,
    cancellationType,
    ...THROUGH_THE_QUEUE,
    retry: { maximumAttempts: 1 },
  }
}

/** Work of a provider's code that a later run repeats: an integration's reconciliation, the handling of missing items. */
export const repeatable: ActivityOptions = {
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  cancellationType,
  retry: { initialInterval: '10 seconds', backoffCoefficient: 3, maximumAttempts: 3 },
}
