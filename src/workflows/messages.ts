/**
 * Names, ids, signals and queries of the workflows: what whoever starts, signals or queries them needs.
 *
 * Rule: docs/behaviour/workflows.md.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow'
import type { ProcessWebhookResult } from '../core/webhook-jobs.ts'

export const WORKFLOW = {
  webhookInbox: 'webhookInbox',
  processWebhook: 'processWebhook',
  recoverWebhooks: 'recoverWebhooks',
  reconcileWebhooks: 'reconcileWebhooks',
  dispatchSyncs: 'dispatchSyncs',
  syncIntegration: 'syncIntegration',
} as const

/** Ids begin with the deployment's `cache_prefix`, so that several can share a namespace. */
export const workflowId = {
  webhookInbox: (prefix: string, integrationId: number) => `${prefix}:webhook-inbox:${integrationId}`,
  dispatchSyncs: (prefix: string) => `${prefix}:dispatch-syncs`,
  syncIntegration: (prefix: string, integrationId: number) => `${prefix}:sync:${integrationId}`,
  processWebhook: (prefix: string, webhookId: number) => `${prefix}:webhook:${webhookId}`,
  recoverWebhooks: (prefix: string) => `${prefix}:recover-webhooks`,
  reconcileWebhooks: (prefix: string) => `${prefix}:reconcile-webhooks`,
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
}

export interface SyncProgress {
  readonly phase: 'opening' | 'listing' | 'processing' | 'finalising' | 'done'
  /** The run's row in the operation logs. */
  readonly syncLogId: number | null
  readonly listed: number | null
  readonly succeeded: number
  readonly failed: number
  /** Items between two attempts. */
  readonly waiting: number
  readonly startedAt: string
}

export const syncProgress = defineQuery<SyncProgress>('progress')
