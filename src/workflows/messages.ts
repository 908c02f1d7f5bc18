/**
 * Names, ids, signals and queries of the workflows: what whoever starts, signals or queries them needs.
 *
 * Rule: docs/behaviour/workflows.md.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow'
import type { SyncProgress } from '../core/sync-jobs.ts'
import type { ProcessWebhookResult } from '../core/webhook-jobs.ts'

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
} as const

/** Ids begin with the deployment's `cache_prefix`, so that several can share a namespace. */
export const workflowId = {
  webhookInbox: (prefix: string, integrationId: number) => `${prefix}:webhook-inbox:${integrationId}`,
  dispatchSyncs: (prefix: string) => `${prefix}:dispatch-syncs`,
  syncIntegration: (prefix: string, integrationId: number) => `${prefix}:sync:${integrationId}`,
  processSyncItem: (prefix: string, itemId: number) => `${prefix}:sync-item:${itemId}`,
  backfillSync: (prefix: string, integrationId: number) => `${prefix}:backfill:${integrationId}`,
  processWebhook: (prefix: string, webhookId: number) => `${prefix}:webhook:${webhookId}`,
  recoverWebhooks: (prefix: string) => `${prefix}:recover-webhooks`,
  reconcileWebhooks: (prefix: string) => `${prefix}:reconcile-webhooks`,
  /** @param integrationId of a refresh of this one only */
  refreshTokens: (prefix: string, integrationId?: number) =>
    `${prefix}:refresh-tokens${integrationId === undefined ? '' : `:${integrationId}`}`,
  findOrphans: (prefix: string) => `${prefix}:find-orphans`,
  /** @param replayAttempt the attempt that began the last replay: each replay is a start of its own */
  webhookHandler: (prefix: string, webhookId: number, replayAttempt: number | null = null) =>
    `${prefix}:webhook-handler:${webhookId}${replayAttempt === null ? '' : `:${replayAttempt}`}`,
} as const

export const scheduleId = (prefix: string, name: string): string => `${prefix}:schedule:${name}`
export const taskQueue = (prefix: string, queue: string): string => `${prefix}-${queue}`

/** Rows wait for the inbox. */
export const arrived = defineSignal('arrived')

export interface InboxInput {
  readonly integrationId: number
  /** Carried over when a long life goes on in a new run. */
  readonly carried?: InboxState
}

export interface InboxState {
  /** `waiting` for a signal, in the `fast` lane, or in `batches`. */
  readonly phase: 'waiting' | 'fast' | 'batches'
  readonly lanes: number
  readonly batches: number
  readonly processed: number
  readonly failed: number
  /** Milliseconds of the slowest handler of the last batch that had rows. */
  readonly slowestMs: number
  readonly lastBatchAt: string | null
}

export const inboxState = defineQuery<InboxState>('state')

export interface ProcessWebhookState {
  readonly phase: 'claiming' | 'done'
  readonly outcome: ProcessWebhookResult | null
}

export const processWebhookState = defineQuery<ProcessWebhookState>('state')

export interface SyncInput {
  readonly integrationId: number
  /** A dispatch's: the run does not open when another one has ended since the dispatch read its list. */
  readonly onlyIfDue?: boolean
}

export const syncProgress = defineQuery<SyncProgress>('progress')

/** Takes nothing new in; what runs goes on. With no run it holds the id, so that none starts. */
export const pause = defineSignal('pause')
/** Ends a pause. */
export const resume = defineSignal('resume')
/** Ends the run, as Temporal's own cancellation does. */
export const cancel = defineSignal('cancel')
/** Tries one failed item again, by a workflow of its own. */
export const retryItem = defineSignal<[{ itemId: number; tries?: number }]>('retryItem')
/** Gives one failed item up for good. */
export const skipItem = defineSignal<[{ itemId: number }]>('skipItem')
/** An item of the run was changed from outside: look again. */
export const itemsChanged = defineSignal('itemsChanged')

export interface ProcessSyncItemState {
  readonly phase: 'running' | 'waiting' | 'done'
  readonly attempts: number
}

export const processSyncItemState = defineQuery<ProcessSyncItemState>('state')

export interface BackfillProgress {
  /** ISO 8601: the slice at work. */
  readonly from: string
  readonly to: string
  readonly slices: number
  readonly slicesDone: number
  readonly listed: number
  readonly succeeded: number
  readonly failed: number
}

export const backfillProgress = defineQuery<BackfillProgress>('progress')
