/** The package's main entry: what a host imports. */

export type { BegunSignIn, EndedSignIn, OidcSignIn } from './access/oidc-sign-in.ts'
export type { CreateToken, ListTokens, TokenSummary } from './access/operator-tokens.ts'
export type { Claims, Limits, Principal, Scope } from './access/rules.ts'
export type { Access, LinkTarget, Session } from './access/tokens-and-links.ts'
export type { IntegrationsAdmin, LinkedWorkflow } from './admin.ts'
export type {
  ForgetIdempotencyKey,
  IdempotencyKeyDetail,
  IdempotencyKeyFilter,
  IdempotencyKeySummary,
  ListIdempotencyKeys,
} from './calls/idempotency-list.ts'
export type { ListRequests, RequestDetail, RequestFilter, RequestSummary, StatusClass } from './calls/request-list.ts'
export type { ConfigEntry, ConfigSource } from './config/load.ts'
export type { Config, ConfigInput, ConfigKey, ConfigUnit } from './config/schema.ts'
export type { TemporalTls } from './config/temporal-tls.ts'
export { createIntegrations, type Integrations, type IntegrationsOptions } from './create-integrations.ts'
export type { KeyStatus, KeyUse } from './credentials/encryption-keys.ts'
export type { KeyRotation, RotateOptions } from './credentials/key-rotation.ts'
export type { Database, Transaction } from './db/client.ts'
export type { IntegrationLabels, IntegrationSelection } from './db/integrations-of.ts'
export type { EgressPolicy } from './egress/guarded-fetch.ts'
export { generateEncryptionKey } from './encryption.ts'
export type {
  ListStoredEvents,
  StoredDelivery,
  StoredEventDetail,
  StoredEventFilter,
  StoredEventStatus,
  StoredEventSummary,
} from './events/event-list.ts'
export type {
  EventName,
  IncidentRecord,
  IntegrationEvents,
  NamesStream,
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
export type { SentNotification } from './events/notify.ts'
export type { OutboxStatus } from './events/outbox.ts'
export type {
  AmbiguousRecords,
  ExplainedLine,
  ExplainedRecord,
  ExplainOptions,
  Explanation,
} from './explain/explain.ts'
export type { LifeLine, RecordKind, RecordRef } from './explain/life-lines.ts'
export type { Origin } from './explain/lives.ts'
export type { FoundPayload, FoundPayloads, PayloadSearch } from './explain/payload-search.ts'
export type { RowKind } from './explain/reference-rules.ts'
export type { ActOnMany } from './failures/act-progress.ts'
export type { FailureKind, WaitingItems } from './failures/failure-rules.ts'
export type { FailureFilter, FailureGroup, Failures, ListFailures } from './failures/failures.ts'
export type { GroupActor, RetriedGroup, RetryGroup, RetryGroupPreview } from './failures/retry-group.ts'
export type {
  ForwardTarget,
  HandledBy,
  HandlingTarget,
  HandlingTargetSource,
  WorkflowTarget,
} from './forwarding/target.ts'
export type { ScheduleState } from './framework/context.ts'
export * from './framework/errors.ts'
export type { Clock, Logger } from './framework/logger.ts'
export type { HasTransactions } from './framework/transactions.ts'
export type { IncidentActor } from './incidents/acts.ts'
export type { ElevatedRate, EvaluateFailuresResult } from './incidents/incident-jobs.ts'
export type { IncidentAnnotation, IncidentSummary, ListIncidents } from './incidents/list.ts'
export type { IncidentSource, IncidentStatus } from './incidents/rules.ts'
export type { Diagnosis, WantedDiagnosis } from './integrations/doctor/kept-diagnosis.ts'
export type { Finding } from './integrations/doctor/run-doctor.ts'
export type { HealthCheckResult } from './integrations/health-check.ts'
export type { HealthReport, HealthReportOptions } from './integrations/health-report.ts'
export type { IntegrationSummary, ListIntegrations } from './integrations/list.ts'
export type {
  IntegrationDetail,
  IntegrationPage,
  NewestIntegrations,
  OperatorAct,
  OperatorView,
} from './integrations/operator-view.ts'
export type { ProviderDescription } from './integrations/provider-list.ts'
export type { PartState, Readiness, ReadinessOptions } from './integrations/readiness.ts'
export type { CreateIntegration, UpdateIntegration } from './integrations/records.ts'
export type { Owner } from './integrations/rules.ts'
export { type MappedTableOptions, mappedTable } from './mappings/mapped-table.ts'
export type { MappingActor, RepointMapping } from './mappings/mapping-acts.ts'
export type { FindOrphansInput, FindOrphansResult, Orphan } from './mappings/mapping-jobs.ts'
export type { ListMappings, MappingFilter, MappingSummary } from './mappings/mapping-list.ts'
export type { OrphanSearch } from './mappings/orphans.ts'
export type { BegunAuthorization, CompletedAuthorization, OAuthCallback, OAuthPlace } from './oauth/authorization.ts'
export type { OAuthLink } from './oauth/links.ts'
export type { RefreshTokensInput, RefreshTokensResult } from './oauth/oauth-jobs.ts'
export type { Revocation } from './oauth/revocation.ts'
export type { OAuthStatus } from './oauth/status-rules.ts'
export type { AuditEntry, AuditedIntegration, ListAudit } from './observability/audit.ts'
export type { ListLogs, LogFilter, LogNode, LogSummary, LogTree, LogTreeOptions } from './observability/log-list.ts'
export type { Statistics, StatisticsInput, StatisticsSpan } from './observability/statistics.ts'
export * from './provider.ts'
export type { AnyProvider, ProviderSource } from './providers/registry.ts'
export type { Playing as RehearsalPlaying } from './rehearsal/play.ts'
export type {
  AskedCall as RehearsalAskedCall,
  CallSpan as RehearsalCallSpan,
  Handled as RehearsalEnd,
  Piece as RehearsalPiece,
  PieceKind as RehearsalPieceKind,
  Played as RehearsalHandling,
  PlayedCall as RehearsalCall,
  RecordedCall as RehearsalRecordedCall,
  Recording as RehearsalRecording,
  RehearsalInput,
  RowChange as RehearsalRowChange,
  SentOnWire as RehearsalSent,
} from './rehearsal/rehearsal-jobs.ts'
export type { Scratch as RehearsalScratch } from './rehearsal/scratch-copy.ts'
export type { DeletedRows, DeleteIntegration, OwnedTable } from './retention/deletion.ts'
export type { ErasableTable, ErasedRows, EraseIntegration } from './retention/erasure.ts'
export type { PruneCounts, PruneResult, PruningStep } from './retention/rules.ts'
export type { ChartMark } from './rollups/marks.ts'
export type { RollUpResult } from './rollups/roll-up.ts'
export type { ChartWindow } from './rollups/rollup-rules.ts'
export type {
  BusiestBy,
  BusiestIntegration,
  ChartFilter,
  ChartPoint,
  ChartSeries,
  Figures,
  Percentiles,
  Sparkline,
} from './rollups/series.ts'
export type { SubscriptionView } from './subscriptions/acts.ts'
export type { IntervalReason, ShownInterval } from './syncs/adaptive-rules.ts'
export type { StartSync, SyncStart } from './syncs/ask-rules.ts'
export type { OfStream, OnEachStream } from './syncs/by-hand.ts'
export type { CursorChange } from './syncs/cursor.ts'
export type { RetryItem, StartedRetry } from './syncs/items/item-acts.ts'
export type { ItemStanding, ListSyncItems, SyncItemDetail, SyncItemSummary } from './syncs/items/item-list.ts'
export type { ConfirmedMissing, ConfirmMissing } from './syncs/listing/missing.ts'
export type { SampledItem, SampleOptions, SyncSample } from './syncs/listing/sample.ts'
export type { SyncPause } from './syncs/pause-rules.ts'
export type { ListSyncRuns, SyncRunDetail, SyncRunSummary } from './syncs/run-list.ts'
export type { RunStatus } from './syncs/run-rules.ts'
export type { LastRun, OpenRun, SyncStanding } from './syncs/standing-queries.ts'
export type { StreamStanding } from './syncs/stream-list.ts'
export type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  BackfillInput,
  DispatchResult,
  FailedItem,
  LastFailure,
  ListFailedItemsInput,
  ListingFailure,
  ProcessSyncItemResult,
  SkipSyncItemResult,
  StaleSync,
  SyncProgress,
} from './syncs/sync-jobs.ts'
export type { TemporalOptions } from './temporal/connection.ts'
export type { AppliedSearchAttributes, SearchAttributeName, SearchAttributeState } from './temporal/label-rules.ts'
export type { ExpectHandshake } from './webhooks/answers.ts'
export type { Accepted, Arrival, ArrivedParts, Delivery } from './webhooks/arrival.ts'
export type { ChangedRow, OnChangedWebhooks } from './webhooks/bulk.ts'
export type {
  Dismissal,
  DismissalPreview,
  DismissedWebhook,
  DismissedWebhooks,
  DismissWebhooks,
} from './webhooks/dismissal.ts'
export type { ListWebhooks, WebhookDetail, WebhookSummary } from './webhooks/list.ts'
export type { ReplayedWebhooks, ReplayPreview, ReplayWebhooks, StartedReplay } from './webhooks/replay.ts'
export type { RotatedWebhookSecret, RotateWebhookSecret } from './webhooks/secrets.ts'
export type { TestableProvider, TestDelivery, TestDeliveryInput } from './webhooks/test-delivery.ts'
export type { Signing } from './webhooks/test-delivery-rules.ts'
export type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
  RecoverWebhooksResult,
  ReplacedWorkflow,
} from './webhooks/webhook-jobs.ts'
