/** The package's main entry: what a host imports. */
export type { Config, ConfigInput } from './config/schema.ts'
export * from './core/errors.ts'
export type { Clock, Logger } from './core/logger.ts'
export type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  BackfillInput,
  DispatchResult,
  FailedItem,
  ListFailedItemsInput,
  ProcessSyncItemResult,
  SkipSyncItemResult,
  SyncProgress,
} from './core/sync-jobs.ts'
export type { EventName, IntegrationEvents, RequestRecord, SyncItemRecord, SyncResult } from './events/events.ts'
export type { EventDelivery, ListenerOptions } from './events/listeners.ts'
export { createIntegrations, type Integrations, type IntegrationsOptions } from './integrations.ts'
export type { ListIntegrations } from './operations/integration-list.ts'
export type { CreateIntegration, UpdateIntegration } from './operations/integrations.ts'
export { type MappedTableOptions, mappedTable } from './operations/mapped-table.ts'
export type { CursorChange } from './operations/sync-cursor.ts'
export type { RetryItem, StartedRetry } from './operations/sync-item-acts.ts'
export type { ListSyncItems, SyncItemDetail, SyncItemSummary } from './operations/sync-item-list.ts'
export type { ListSyncRuns, SyncRunDetail, SyncRunSummary } from './operations/sync-run-list.ts'
export type { SampledItem, SampleOptions, SyncSample } from './operations/sync-sample.ts'
export type { Arrival, Delivery } from './operations/webhook-arrival.ts'
export type { ListWebhooks, WebhookDetail, WebhookSummary } from './operations/webhook-list.ts'
export type { ReplayedWebhooks, ReplayPreview, ReplayWebhooks } from './operations/webhook-replay.ts'
export * from './provider.ts'
export type { ProviderSource } from './providers/registry.ts'
export type { TemporalOptions } from './temporal/connection.ts'
