/**
 * Names and ids of the workflows, their signals and queries, task queues and Schedules, for the code that starts, signals or
 * queries them. It imports nothing of Temporal's: loading the SDK would slow the start of every host.
 *
 * Rule: docs/behaviour/workflows.md.
 */
export const WORKFLOW = {
  webhookInbox: 'webhookInbox',
  processWebhook: 'processWebhook',
  recoverWebhooks: 'recoverWebhooks',
  reconcileWebhooks: 'reconcileWebhooks',
  dispatchSyncs: 'dispatchSyncs',
  syncIntegration: 'syncIntegration',
  processSyncItem: 'processSyncItem',
  backfillSync: 'backfillSync',
  listFailedItems: 'listFailedItems',
  skipSyncItem: 'skipSyncItem',
  advanceCursor: 'advanceCursor',
  refreshTokens: 'refreshTokens',
  findOrphans: 'findOrphans',
  evaluateFailures: 'evaluateFailures',
  prune: 'prune',
  incident: 'incident',
  webhookSubscription: 'webhookSubscription',
  eventOutbox: 'eventOutbox',
} as const

/** What each takes is in messages.ts. */
export const SIGNAL = {
  arrived: 'arrived',
  pumpCalls: 'pumpCalls',
  pause: 'pause',
  resume: 'resume',
  cancel: 'cancel',
  retryItem: 'retryItem',
  skipItem: 'skipItem',
  itemsChanged: 'itemsChanged',
  began: 'began',
  escalate: 'escalate',
  recovered: 'recovered',
  look: 'look',
} as const

/** What each returns is in messages.ts. */
export const QUERY = { state: 'state', progress: 'progress' } as const

interface StreamOf {
  readonly integrationId: number
  /** Null, or not given: the integration's own. */
  readonly stream?: string | null | undefined
}

const suffix = (stream: string | null | undefined): string => (stream == null ? '' : `:${stream}`)

/** Ids begin with the deployment's `cache_prefix`, so that several can share a namespace. */
export const workflowId = {
  webhookInbox: (prefix: string) => `${prefix}:webhook-inbox`,
  dispatchSyncs: (prefix: string) => `${prefix}:dispatch-syncs`,
  syncIntegration: (prefix: string, { integrationId, stream }: StreamOf) =>
    `${prefix}:sync:${integrationId}${suffix(stream)}`,
  processSyncItem: (prefix: string, itemId: number) => `${prefix}:sync-item:${itemId}`,
  backfillSync: (prefix: string, { integrationId, stream }: StreamOf) =>
    `${prefix}:backfill:${integrationId}${suffix(stream)}`,
  processWebhook: (prefix: string, webhookId: number) => `${prefix}:webhook:${webhookId}`,
  recoverWebhooks: (prefix: string) => `${prefix}:recover-webhooks`,
  reconcileWebhooks: (prefix: string) => `${prefix}:reconcile-webhooks`,
  /** @param integrationId for a refresh of this integration only */
  refreshTokens: (prefix: string, integrationId?: number) =>
    `${prefix}:refresh-tokens${integrationId === undefined ? '' : `:${integrationId}`}`,
  findOrphans: (prefix: string) => `${prefix}:find-orphans`,
  evaluateFailures: (prefix: string) => `${prefix}:evaluate-failures`,
  prune: (prefix: string) => `${prefix}:prune`,
  incident: (prefix: string, integrationId: number) => `${prefix}:incident:${integrationId}`,
  webhookSubscription: (prefix: string, integrationId: number) => `${prefix}:webhook-subscription:${integrationId}`,
  eventOutbox: (prefix: string) => `${prefix}:event-outbox`,
  /** @param id of a row: `webhook_7`, `item_9` */
  rowHandler: (prefix: string, id: string) => `${prefix}:row-handler:${id}`,
  /** @param replayAttempt the attempt that began the last replay: each replay has a workflow of its own */
  webhookHandler: (prefix: string, webhookId: number, replayAttempt: number | null = null) =>
    `${prefix}:webhook-handler:${webhookId}${replayAttempt === null ? '' : `:${replayAttempt}`}`,
} as const

export const scheduleId = (prefix: string, name: string): string => `${prefix}:schedule:${name}`
export const taskQueue = (prefix: string, queue: string): string => `${prefix}-${queue}`
