/** The package's main entry: what a host imports. */

export type { ConfigEntry } from './config/describe.ts'
export type { ConfigSource } from './config/load.ts'
export type { Config, ConfigInput, ConfigKey, ConfigUnit } from './config/schema.ts'
export type { TemporalTls } from './config/temporal-tls.ts'
export type { Principal, Scope } from './core/access.ts'
export type { ElevatedRate, EvaluateFailuresResult } from './core/anomaly-jobs.ts'
export * from './core/errors.ts'
export type { Clock, Logger } from './core/logger.ts'
export type { OAuthStatus } from './core/oauth-status.ts'
export type { FindOrphansInput, FindOrphansResult, Orphan } from './core/orphan-jobs.ts'
export type { PruneCounts, PruneResult, PruningStep } from './core/pruning.ts'
export type { AppliedSearchAttributes, SearchAttributeName, SearchAttributeState } from './core/search-attributes.ts'
export type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  BackfillInput,
  DispatchResult,
  FailedItem,
  LastFailure,
  ListFailedItemsInput,
  ProcessSyncItemResult,
  SkipSyncItemResult,
  StaleSync,
  SyncProgress,
} from './core/sync-jobs.ts'
export type { RunStatus } from './core/sync-run.ts'
export type { RefreshTokensInput, RefreshTokensResult } from './core/token-jobs.ts'
export type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
  RecoverWebhooksResult,
  ReplacedWorkflow,
} from './core/webhook-jobs.ts'
export type { Database, Transaction } from './db/client.ts'
export type { OwnedTable } from './db/queries/deletion.ts'
export type { ErasableTable } from './db/queries/erasure.ts'
export type { IncidentSummary } from './db/queries/incident-list.ts'
export type { NewestIntegrations } from './db/queries/operator.ts'
export type { ItemStanding } from './db/queries/sync-lists.ts'
export type { LastRun, SyncStanding } from './db/queries/sync-standings.ts'
export type { EgressPolicy } from './egress/guarded-fetch.ts'
export { generateEncryptionKey } from './encryption.ts'
export type {
  EventName,
  IncidentRecord,
  IntegrationEvents,
  OperationRecord,
  RequestRecord,
  SyncItemRecord,
  SyncResult,
} from './events/events.ts'
export type {
  EventDelivery,
  EventKey,
  Later,
  Listener,
  ListenerOptions,
  Listeners,
  QueuedListener,
} from './events/listeners.ts'
export type { ScheduleState } from './framework.ts'
export { createIntegrations, type Integrations, type IntegrationsOptions } from './integrations.ts'
export type { Access, LinkTarget, Session } from './operations/access.ts'
export type { DeletedRows, DeleteIntegration } from './operations/deletion.ts'
export type { Finding } from './operations/doctor.ts'
export type { KeyStatus, KeyUse } from './operations/encryption-keys.ts'
export type { ErasedRows, EraseIntegration } from './operations/erasure.ts'
export type { HealthCheckResult } from './operations/health-check.ts'
export type { HealthReport } from './operations/health-report.ts'
export type { ListIncidents } from './operations/incident-list.ts'
export type { ListIntegrations } from './operations/integration-list.ts'
export type { Owner } from './operations/integration-owner.ts'
export type { IntegrationSummary } from './operations/integration-summaries.ts'
export type { CreateIntegration, UpdateIntegration } from './operations/integrations.ts'
export type { KeyRotation, RotateOptions } from './operations/key-rotation.ts'
export { type MappedTableOptions, mappedTable } from './operations/mapped-table.ts'
export type { SentNotification } from './operations/notifications.ts'
export type { BegunAuthorization, CompletedAuthorization, OAuthCallback, OAuthPlace } from './operations/oauth.ts'
export type { OAuthLink } from './operations/oauth-links.ts'
export type { Revocation } from './operations/oauth-revocation.ts'
export type { IntegrationDetail, IntegrationPage, OperatorAct, OperatorView } from './operations/operator.ts'
export type { OrphanSearch } from './operations/orphans.ts'
export type { OutboxStatus } from './operations/outbox.ts'
export type { ProviderDescription } from './operations/provider-list.ts'
export type { PartState, Readiness } from './operations/readiness.ts'
export type { Statistics, StatisticsInput, StatisticsSpan } from './operations/statistics.ts'
export type { CursorChange } from './operations/sync-cursor.ts'
export type { RetryItem, StartedRetry } from './operations/sync-item-acts.ts'
export type { ListSyncItems, SyncItemDetail, SyncItemSummary } from './operations/sync-item-list.ts'
export type { ListSyncRuns, SyncRunDetail, SyncRunSummary } from './operations/sync-run-list.ts'
export type { SampledItem, SampleOptions, SyncSample } from './operations/sync-sample.ts'
export type { HasTransactions } from './operations/transactions.ts'
export type { Arrival, Delivery } from './operations/webhook-arrival.ts'
export type {
  Dismissal,
  DismissalPreview,
  DismissedWebhook,
  DismissedWebhooks,
  DismissWebhooks,
} from './operations/webhook-dismissal.ts'
export type { ListWebhooks, WebhookDetail, WebhookSummary } from './operations/webhook-list.ts'
export type { ReplayedWebhooks, ReplayPreview, ReplayWebhooks, StartedReplay } from './operations/webhook-replay.ts'
export type { RotatedWebhookSecret, RotateWebhookSecret } from './operations/webhook-secrets.ts'
export * from './provider.ts'
export type { AnyProvider, ProviderSource } from './providers/registry.ts'
export type { TemporalOptions } from './temporal/connection.ts'
