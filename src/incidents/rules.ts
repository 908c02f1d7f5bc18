/** What an incident's workflow knows of it. Rule: docs/behaviour/incidents.md. */
import type { HealthStatus } from '../integrations/health-rules.ts'

/** As the row says; moments are ISO 8601. */
export interface IncidentSight {
  readonly incidentId: number
  readonly status: 'open' | 'closed'
  readonly source: 'health' | 'circuit' | 'sync'
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
