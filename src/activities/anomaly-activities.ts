/** The failure rates as an activity. Rule: docs/behaviour/failure-rates.md. */

import type { Framework } from '../framework/context.ts'
import { evaluateFailureRates } from '../incidents/anomalies.ts'
import type { EvaluateFailuresResult } from '../incidents/incident-jobs.ts'

export function anomalyActivities(framework: Framework) {
  return {
    /** Harmless to repeat: each edge is noted once. */
    async evaluateFailureRatesNow(): Promise<EvaluateFailuresResult> {
      return evaluateFailureRates(framework)
    },
  }
}
