/** How long activities may take and how often they are tried, in one place. */
import type { ActivityOptions, LocalActivityOptions } from '@temporalio/workflow'
import { ActivityCancellationType } from '@temporalio/workflow'

/** A dead worker is known within this time; the next one takes its rows up at once. */
const HEARTBEAT_TIMEOUT = '20 seconds'
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

/** A batch starts nothing after 30 s, and each handler has its own time limit; the rest is settlement. */
export const batch: ActivityOptions = {
  startToCloseTimeout: '2 hours',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  retry: RETRY,
  cancellationType,
}

/** The fast lane runs inside the workflow's task: few rows, tried in place while the database is away for a moment. */
export const fastBatch: LocalActivityOptions = {
  startToCloseTimeout: '2 hours',
  localRetryThreshold: '10 seconds',
  retry: RETRY,
}

/**
 * One listing. Three attempts end it; two more are kept for lost workers, which Temporal counts too.
 *
 * @param timeoutSeconds `sync.job_timeout`, of one attempt
 * @param totalSeconds `sync.lock_ttl`, of all together
 */
export function listing(timeoutSeconds: number, totalSeconds: number): ActivityOptions {
  return {
    startToCloseTimeout: timeoutSeconds * 1_000,
    scheduleToCloseTimeout: totalSeconds * 1_000,
    heartbeatTimeout: HEARTBEAT_TIMEOUT,
    cancellationType,
    retry: { initialInterval: '10 seconds', backoffCoefficient: 3, maximumAttempts: 5 },
  }
}

/** One integration's reconciliation: what it did not get to, or what failed, comes with the next run, an hour later. */
export const reconciliation: ActivityOptions = {
  startToCloseTimeout: '30 minutes',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  cancellationType,
  retry: { initialInterval: '10 seconds', backoffCoefficient: 3, maximumAttempts: 3 },
}
