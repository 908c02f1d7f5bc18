import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { EvaluateFailuresResult } from '../core/anomaly-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

// Given up soon: the next minute's evaluates again, and none starts while this one goes on.
const { evaluateFailureRatesNow } = proxyActivities<Activities>({
  ...step,
  retry: { ...step.retry, maximumAttempts: 5 },
})

/**
 * The command `evaluate-failures`.
 *
 * Durable promise: each integration whose failure rate rises above the threshold, or falls below it, is noted once. Runs may
 * overlap. One activity, so its history is short.
 */
export async function evaluateFailures(): Promise<EvaluateFailuresResult> {
  return readably(() => evaluateFailureRatesNow())
}
