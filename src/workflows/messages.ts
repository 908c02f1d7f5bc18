/**
 * Signals and queries of the workflows, with the types of their inputs and results. Names and ids are in ids.ts.
 *
 * Rule: docs/behaviour/workflows.md.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow'
import type { PumpCall } from '../claims/pump-jobs.ts'
import type { IncidentSight } from '../incidents/incident-jobs.ts'
import type { SubscriptionSight } from '../subscriptions/subscription-jobs.ts'
import type { ProcessSyncItemInput, SyncBegan, SyncProgress } from '../syncs/sync-jobs.ts'
import type { ProcessWebhookResult } from '../webhooks/webhook-jobs.ts'
import { QUERY, SIGNAL } from './ids.ts'

/** Rows wait for the inbox of webhooks, or for the outbox of events. */
export const arrived = defineSignal(SIGNAL.arrived)

/** A pump asks for another one. */
export const pumpCalls = defineSignal<[PumpCall]>(SIGNAL.pumpCalls)

/** Input of the inbox of webhooks and of the outbox of events. */
export interface PumpedQueueInput {
  /** Carried over when the workflow goes on in a new history. */
  readonly carried?: PumpedQueueState
}

export interface PumpedQueueState {
  readonly pumps: readonly {
    readonly claim: string
    /** ISO 8601. */
    readonly startedAt: string
    /** It claims no more rows: a successor does. */
    readonly isLeaving: boolean
  }[]
  /** Pumps that have ended. */
  readonly ended: number
  readonly processed: number
  readonly failed: number
  /** ISO 8601: when the next row is due, while the workflow sleeps. Null: it works, or waits for nothing. */
  readonly nextDueAt: string | null
}

export const pumpedQueueState = defineQuery<PumpedQueueState>(QUERY.state)

export interface ProcessWebhookState {
  readonly phase: 'claiming' | 'done'
  readonly outcome: ProcessWebhookResult | null
}

export const processWebhookState = defineQuery<ProcessWebhookState>(QUERY.state)

export const syncProgress = defineQuery<SyncProgress>(QUERY.progress)

/** Stops the intake; what runs goes on. Without a run it holds the workflow id, so that no run starts. */
export const pause = defineSignal(SIGNAL.pause)
/** Ends a pause. */
export const resume = defineSignal(SIGNAL.resume)
/** Ends the run, as Temporal's own cancellation does. */
export const cancel = defineSignal(SIGNAL.cancel)
/** Tries one item again: at once if it waits for another attempt, in a workflow of its own if it has failed. */
export const retryItem = defineSignal<[ProcessSyncItemInput]>(SIGNAL.retryItem)
/** Skips one failed item for good. */
export const skipItem = defineSignal<[{ itemId: number }]>(SIGNAL.skipItem)
/** An item of the run was changed from outside: the run looks again. */
export const itemsChanged = defineSignal(SIGNAL.itemsChanged)
/** How far the activity that opens the run is, when it takes long. */
export const began = defineSignal<[SyncBegan]>(SIGNAL.began)

export interface ProcessSyncItemState {
  readonly phase: 'running' | 'waiting' | 'done'
  readonly attempts: number
}

export const processSyncItemState = defineQuery<ProcessSyncItemState>(QUERY.state)

/** The incident was opened, or is worse. The workflow reads its row. */
export const escalate = defineSignal(SIGNAL.escalate)
/** The incident may be over. */
export const recovered = defineSignal(SIGNAL.recovered)

export interface IncidentState {
  /** `following`: the incident is open. `done`: it is closed. */
  readonly phase: 'starting' | 'following' | 'done'
  readonly incident: IncidentSight | null
  /** ISO 8601: when the workflow looks at it again without a signal. */
  readonly nextLookAt: string | null
  /** Signals since the incident was first seen. */
  readonly signals: number
}

export const incidentState = defineQuery<IncidentState>(QUERY.state)

/** Something about the subscription has changed: it is looked at now. */
export const look = defineSignal(SIGNAL.look)

export interface WebhookSubscriptionState {
  /** Null: it has not been looked at yet, or no one has asked for one. */
  readonly sight: SubscriptionSight | null
  /** ISO 8601: when it is looked at again without a signal. */
  readonly nextLookAt: string | null
}

export const webhookSubscriptionState = defineQuery<WebhookSubscriptionState>(QUERY.state)

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

export const backfillProgress = defineQuery<BackfillProgress>(QUERY.progress)
