/** What the framework tells its host, by name. All come after the commit of what they tell of. Rule: docs/behaviour/events.md. */

import type { FailureClass } from '../calls/failure-class-rules.ts'
import type { Json } from '../framework/json.ts'
import type { IncidentSource, IncidentStatus } from '../incidents/rules.ts'
import type { HealthStatus } from '../integrations/rules.ts'
import type { Integration } from '../providers/integration.ts'
import type { SYNC_ITEM_STATUSES } from '../syncs/items/item-rules.ts'
import type { RunStatus } from '../syncs/run-rules.ts'

/** One attempt of an outbound call, as its row in `integration_requests` says. */
export interface RequestRecord {
  readonly id: number
  readonly integrationId: number
  readonly endpoint: string
  readonly method: string
  readonly statusCode: number | null
  /** Without secrets, and cut, as it is stored. */
  readonly requestData: string | null
  readonly idempotencyKey: string | null
  readonly providerRequestId: string | null
  /** Without secrets, and cut, as it is stored. */
  readonly responseData: string | null
  readonly error: string | null
  readonly failureClass: FailureClass | null
  readonly durationMs: number
  readonly retryOf: number | null
  readonly relatedType: string | null
  readonly relatedId: number | null
  readonly cacheHits: number
  readonly staleHits: number
}

/** One item of a sync run, as its row in `integration_sync_items` says. */
export interface SyncItemRecord {
  readonly id: number
  readonly integrationId: number
  readonly batchId: string | null
  readonly syncLogId: number | null
  readonly eventClass: string
  readonly externalId: string | null
  readonly checkpointValue: Json
  readonly status: (typeof SYNC_ITEM_STATUSES)[number]
  readonly error: string | null
  readonly attempts: number
  readonly completedAt: Date | null
  /** Only an event that an earlier release has stored lacks it. */
  readonly createdAt?: Date
  /** As `createdAt`. */
  readonly updatedAt?: Date
}

/** A span of trouble, as its row in `integration_incidents` says. */
export interface IncidentRecord {
  readonly id: number
  /** Only an event that an earlier release has stored lacks it. */
  readonly integrationId?: number
  readonly status: IncidentStatus
  readonly source: IncidentSource
  readonly reason: string
  readonly peakSeverity: HealthStatus
  readonly openedAt: Date
  readonly lastErrorAt: Date | null
  readonly closedAt: Date | null
}

/** One operation, as its row in `integration_logs` says. */
export interface OperationRecord {
  readonly id: number
  readonly integrationId: number
  readonly operation: string
  readonly direction: 'inbound' | 'outbound'
  readonly status: string
  readonly summary: string | null
  readonly externalId: string | null
  /** Without secrets, as it is stored. */
  readonly metadata: Json
  /** Without secrets, as it is stored. */
  readonly resultData: Json
  readonly error: string | null
  /** Null outside a sync item's run. */
  readonly attempt: number | null
  /** Null outside a sync item's run. */
  readonly maxAttempts: number | null
  readonly durationMs: number | null
  readonly parentId: number | null
  readonly createdAt: Date
}

/** What an event about a sync names it by. */
export interface NamesStream {
  /** A key of the provider's `streams`; not there: the integration's own. */
  readonly stream?: string
}

/** How a sync run ended; the counts come from its rows. */
export interface SyncResult {
  readonly kind: RunStatus
  readonly successCount: number
  readonly failureCount: number
  readonly skippedCount: number
  /** Records that were as they were handled last: `skipUnchanged`. */
  readonly unchangedCount: number
  /** When the run ended clean; null with failures. */
  readonly safeSyncedAt: Date | null
  /** The cursor after the run. */
  readonly cursor: Json
}

export interface IntegrationEvents {
  IntegrationCreated: { readonly integration: Integration }
  CredentialsUpdated: { readonly integration: Integration; readonly keys: readonly string[] }
  RequestCompleted: { readonly integration: Integration; readonly request: RequestRecord }
  RequestFailed: { readonly integration: Integration; readonly request: RequestRecord; readonly error: unknown }
  /** Its health reached `disabled`: it is switched off. Before `IntegrationHealthChanged`. */
  IntegrationDisabled: { readonly integration: Integration }
  IntegrationHealthChanged: {
    readonly integration: Integration
    readonly previousStatus: HealthStatus
    readonly newStatus: HealthStatus
  }
  CircuitOpened: {
    readonly integration: Integration
    readonly reason: 'threshold_reached' | 'half_open_probe_failed' | 'forced_open'
    readonly openedAt: Date
  }
  CircuitClosed: {
    readonly integration: Integration
    readonly reason: 'half_open_probe_succeeded' | 'forced_closed'
  }
  IncidentOpened: { readonly integration: Integration; readonly incident: IncidentRecord }
  IncidentEscalated: {
    readonly integration: Integration
    readonly incident: IncidentRecord
    /** Whether its peak severity has risen. */
    readonly rises: boolean
  }
  IncidentClosed: { readonly integration: Integration; readonly incident: IncidentRecord }
  OperationStarted: { readonly integration: Integration; readonly log: OperationRecord }
  OperationCompleted: { readonly integration: Integration; readonly log: OperationRecord }
  OperationFailed: { readonly integration: Integration; readonly log: OperationRecord }
  /** After a verified webhook is stored; at most once, not awaited by the answer. */
  WebhookReceived: {
    readonly integration: Integration
    readonly provider: string
    readonly webhookId: number
    readonly deliveryId: string
    readonly eventType: string | null
  }
  /** Once per finalised run, at least once if a worker dies while telling. */
  SyncCompleted: { readonly integration: Integration; readonly result: SyncResult } & NamesStream
  /** An item's attempts are used up. */
  SyncItemFailed: { readonly integration: Integration; readonly item: SyncItemRecord; readonly error: unknown }
  /** The same external id has failed in `consecutiveFailedRuns` runs with no success between; again with each further one. */
  SyncItemStuck: {
    readonly integration: Integration
    readonly item: SyncItemRecord
    readonly consecutiveFailedRuns: number
  }
  /** No clean run for `sync.stale_after_intervals` intervals; once, until it recovers. */
  SyncBecameStale: NamesStream & {
    readonly integration: Integration
    /** Since the last clean run, or since its creation. */
    readonly secondsSinceSync: number
    readonly intervalMinutes: number
  }
  SyncStalenessRecovered: { readonly integration: Integration } & NamesStream
  /** Too many of its requests fail; once, until the rate falls again. */
  ElevatedFailureRate: {
    readonly integration: Integration
    /** Percent, 0 to 100. */
    readonly failureRate: number
    readonly windowMinutes: number
    readonly observedRequests: number
    /** The class with the most failures. */
    readonly dominantClass: FailureClass
  }
  FailureRateRecovered: { readonly integration: Integration }
  /** A person has authorized it: its tokens are stored. */
  OAuthCompleted: { readonly integration: Integration }
  /** An authorization or a revocation failed; nothing was stored. */
  OAuthFailed: {
    readonly integration: Integration
    readonly stage: 'authorize' | 'callback' | 'exchange' | 'revoke'
    readonly error: unknown
  }
  OAuthRevoked: { readonly integration: Integration }
  /** The provider takes its refresh token no longer; once, until a person authorizes it again. */
  ReauthRequired: { readonly integration: Integration; readonly reason: string }
}

export type EventName = keyof IntegrationEvents
