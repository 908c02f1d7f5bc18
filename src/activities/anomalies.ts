/** The failure rates as an activity. Rule: docs/behaviour/failure-rates.md. */
import type { EvaluateFailuresResult } from '../core/anomaly-jobs.ts'
import type { Framework } from '../framework.ts'
import { evaluateFailureRates } from '../operations/anomalies.ts'

export function anomalyActivities(framework: Framework) {
  return {
    /** Harmless to repeat: each edge is noted once. */
    async evaluateFailureRatesNow(): Promise<EvaluateFailuresResult> {
      return evaluateFailureRates(framework)
    },
  }
}
