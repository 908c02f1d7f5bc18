/** What goes into and comes out of the evaluation of failure rates and the workflow of an incident. */

import type { FailureClass } from '../calls/failure-class-rules.ts'
import type { HealthStatus } from '../integrations/rules.ts'
import type { IncidentSource, IncidentStatus } from './rules.ts'

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

/** An incident as its workflow knows it; moments are ISO 8601. Rule: docs/behaviour/incidents.md. */
export interface IncidentSight {
  readonly incidentId: number
  readonly status: IncidentStatus
  readonly source: IncidentSource
  readonly reason: string
  readonly peakSeverity: HealthStatus
  readonly openedAt: string
  readonly lastErrorAt: string | null
  readonly closedAt: string | null
  /** Seconds until it may be closed by itself, at least 0; null once it is closed. */
  readonly autoCloseInSeconds: number | null
}

export interface FollowIncidentInput {
  readonly integrationId: number
}

/** What the workflow is started with. */
export interface IncidentInput extends FollowIncidentInput {
  /** Carried over when a long life goes on in a new run: signals since this incident was first seen. */
  readonly carried?: { readonly incidentId: number; readonly signals: number }
}
