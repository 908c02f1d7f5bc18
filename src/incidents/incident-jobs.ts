/** What comes out of an evaluation of the failure rates. */
import type { FailureClass } from '../calls/failure-class-rules.ts'

export interface ElevatedRate {
  readonly integrationId: number
  /** Percent, 0 to 100, not rounded. */
  readonly failureRate: number
  /** Requests in the window. */
  readonly requests: number
  /** The class with the most failures. */
  readonly dominantClass: FailureClass
}

export interface EvaluateFailuresResult {
  /** False where `observability.anomaly_enabled` is: nothing was looked at, and the markers stay. */
  readonly enabled: boolean
  /** Active integrations that were looked at. */
  readonly checked: number
  /** Newly elevated. */
  readonly elevated: readonly ElevatedRate[]
  /** Integrations whose rate is elevated no more. */
  readonly recovered: readonly number[]
}
