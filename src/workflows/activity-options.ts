/** How long activities may take and how often they are tried, in one place. */
import type { ActivityOptions } from '@temporalio/workflow'
import { ActivityCancellationType } from '@temporalio/workflow'

/** A dead worker is known within this time; the next one takes its rows up at once. */
const HEARTBEAT_TIMEOUT = '20 seconds'
/**
 * Long work goes through the queue, where any worker waits and the fairness key counts: a server that starts activities eagerly
 * would hand it to the worker that has the workflow.
 */
const THROUGH_THE_QUEUE = { allowEagerDispatch: false } as const
const RETRY = { initialInterval: '1 second', maximumInterval: '30 seconds', backoffCoefficient: 2 } as const

/**
 * A workflow that is cancelled ends after what it has under way, so that nobody writes for it once it is over: deleting
 * and erasing an integration count on it.
 */
const cancellationType = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

/** Short statements. Tried until the database is back. */
export const step: ActivityOptions = {
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
}

/**
 * A batch starts nothing after 30 s, and each handler has its own time limit, an hour at most; the rest is settlement. What a
 * lost worker left is taken up group after group, so a batch may take many times as long as a handler. A lost worker is known
 * by its heartbeat.
 */
export const batch: ActivityOptions = {
  startToCloseTimeout: '1 day',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
  cancellationType,
  ...THROUGH_THE_QUEUE,
}

/** Opens a run, and goes on with it as far as that is quick. Workers share the runs' workflow tasks, and so these. */
export const opening: ActivityOptions = { ...batch, allowEagerDispatch: true }

/** A pass over all integrations, each of which has a time limit of its own. */
export const pass: ActivityOptions = {
  startToCloseTimeout: '2 hours',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
  cancellationType,
}

/** One webhook on its own. However many workers it has lost, or turns it has waited for, the next try comes soon. */
export const single: ActivityOptions = { ...batch, retry: { ...RETRY, maximumInterval: '5 seconds' } }

/** Works for ten minutes, and then for as long as its last handlers take. A lost worker is known by its heartbeat. */
export const pump: ActivityOptions = { ...single }

/**
 * One call of a listing. The workflow counts faults, lost workers and deferrals on its own, so Temporal tries it once.
 *
 * @param timeoutSeconds `sync.job_timeout`, of one call
 * @param leftMs what is left of `sync.lock_ttl`, which bounds all calls together
 */
export function listing(timeoutSeconds: number, leftMs: number): ActivityOptions {
  return {
    startToCloseTimeout: Math.min(timeoutSeconds * 1_000, leftMs),
    scheduleToCloseTimeout: leftMs,
    heartbeatTimeout: HEARTBEAT_TIMEOUT,
    cancellationType,
    ...THROUGH_THE_QUEUE,
    retry: { maximumAttempts: 1 },
  }
}

/** Work of a provider's code that a later run does anew: an integration's reconciliation, the telling of what is gone. */
export const repeatable: ActivityOptions = {
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  cancellationType,
  retry: { initialInterval: '10 seconds', backoffCoefficient: 3, maximumAttempts: 3 },
}
