/** The bundle's entry. A host with workflows of its own re-exports this beside them. A command's workflow also has the command's name. */
export { backfillSync } from './backfill-sync.ts'
export * from './command-workflows.ts'
export { dispatchSyncs } from './dispatch-syncs.ts'
export { incident } from './incident.ts'
export {
  advanceCursor,
  evaluateFailures,
  findOrphans,
  listFailedItems,
  recoverWebhooks,
  refreshTokens,
  skipSyncItem,
} from './one-activity.ts'
export { processSyncItem } from './process-sync-item.ts'
export { processWebhook } from './process-webhook.ts'
export { prune } from './prune-workflow.ts'
export { eventOutbox, webhookInbox } from './pumped-queue.ts'
export { reconcileWebhooks } from './reconcile-workflow.ts'
export {
  advanceCursorCommand as 'integrations:advance-cursor',
  evaluateFailuresCommand as 'integrations:evaluate-failures',
  findOrphansCommand as 'integrations:find-orphans',
  listFailedItemsCommand as 'integrations:list-failed-items',
  pruneCommand as 'integrations:prune',
  reconcileWebhooksCommand as 'integrations:reconcile-webhooks',
  recoverWebhooksCommand as 'integrations:recover-webhooks',
  refreshTokensCommand as 'integrations:refresh-tokens',
  replayWebhookCommand as 'integrations:replay-webhook',
  retrySyncItemCommand as 'integrations:retry-sync-item',
  skipSyncItemCommand as 'integrations:skip-sync-item',
  syncCommand as 'integrations:sync',
} from './started-commands.ts'
export { syncIntegration } from './sync-integration.ts'
export { webhookSubscription } from './webhook-subscription.ts'
