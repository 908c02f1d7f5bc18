/**
 * Signals and queries of the workflows, with what they take and give; names and ids are in ids.ts.
 *
 * Rule: docs/behaviour/workflows.md.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow'
import type { IncidentSight } from '../core/incident.ts'
import type { PumpCall } from '../core/pump-jobs.ts'
import type { ProcessSyncItemInput, SyncBegan, SyncProgress } from '../core/sync-jobs.ts'
import type { ProcessWebhookResult } from '../core/webhook-jobs.ts'
import { QUERY, SIGNAL } from './ids.ts'

/** Rows wait for the inbox of webhooks, or for the outbox of events. */
export const arrived = defineSignal(SIGNAL.arrived)

/** A pump asks for another one. */
export const pumpCalls = defineSignal<[PumpCall]>(SIGNAL.pumpCalls)

/** Of the inbox of webhooks, and of the outbox of events. */
export interface PumpedQueueInput {
  /** Carried over when a long life goes on in a new run. */
  readonly carried?: PumpedQueueState
}

export interface PumpedQueueState {
  readonly pumps: readonly {
    readonly claim: string
    /** ISO 8601. */
    readonly startedAt: string
    /** It claims nothing any more: a successor does. */
    readonly isLeaving: boolean
  }[]
  /** Pumps that have ended. */
  readonly ended: number
  readonly processed: number
  readonly failed: number
  /** ISO 8601: when a row is due for which it sleeps. Null: it works, or has nothing to wait for. */
  readonly nextDueAt: string | null
}

export const pumpedQueueState = defineQuery<PumpedQueueState>(QUERY.state)

export interface ProcessWebhookState {
  readonly phase: 'claiming' | 'done'
  readonly outcome: ProcessWebhookResult | null
}

export const processWebhookState = defineQuery<ProcessWebhookState>(QUERY.state)

export interface SyncInput {
  readonly integrationId: number
  /** A dispatch's: the run does not open when another one has ended since the dispatch read its list. */
  readonly onlyIfDue?: boolean
}

export const syncProgress = defineQuery<SyncProgress>(QUERY.progress)

/** Takes nothing new in; what runs goes on. With no run it holds the id, so that none starts. */
export const pause = defineSignal(SIGNAL.pause)
/** Ends a pause. */
export const resume = defineSignal(SIGNAL.resume)
/** Ends the run, as Temporal's own cancellation does. */
export const cancel = defineSignal(SIGNAL.cancel)
/** Tries one item again: at once if it waits for that, by a workflow of its own if it has failed. */
export const retryItem = defineSignal<[ProcessSyncItemInput]>(SIGNAL.retryItem)
/** Gives one failed item up for good. */
export const skipItem = defineSignal<[{ itemId: number }]>(SIGNAL.skipItem)
/** An item of the run was changed from outside: look again. */
export const itemsChanged = defineSignal(SIGNAL.itemsChanged)
/** The activity that begins the run takes its time: how far it is. */
export const began = defineSignal<[SyncBegan]>(SIGNAL.began)

export interface ProcessSyncItemState {
  readonly phase: 'running' | 'waiting' | 'done'
  readonly attempts: number
}

export const processSyncItemState = defineQuery<ProcessSyncItemState>(QUERY.state)

/** The incident was opened, or is worse. The workflow reads the row and decides nothing. */
export const escalate = defineSignal(SIGNAL.escalate)
/** The incident may be over. */
export const recovered = defineSignal(SIGNAL.recovered)

export interface IncidentState {
  /** `following` an open incident, `done` with a closed one, or `starting`. */
  readonly phase: 'starting' | 'following' | 'done'
  readonly incident: IncidentSight | null
  /** ISO 8601: when it is looked at again without a signal. */
  readonly nextLookAt: string | null
  /** Signals since the incident was first seen. */
  readonly signals: number
}

export const incidentState = defineQuery<IncidentState>(QUERY.state)

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
