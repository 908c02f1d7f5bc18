/** What is counted, one method a metric. Rule: docs/behaviour/metrics.md. */
import type { FailureClass } from '../calls/failure-class-rules.ts'

/** Whose it is: an integration's row and its handle both are one. */
export interface Subject {
  readonly provider: string
  /** Null where it is not known. */
  readonly id: number | null
  /** Of a count of syncs; null, or not given: the integration's own. */
  readonly stream?: string | null
}

/** In the place of a provider that is not registered, or a stream that it does not declare: a stranger's word becomes no label. */
export const UNKNOWN_PROVIDER = '(unknown)'

/** What becomes of a delivery: the door's words, and `reconciled` for one that our own question brought. */
export const RECEIVED_OUTCOMES = [
  'queued',
  'duplicate',
  'unwanted',
  'handshake',
  'bad_signature',
  'too_large',
  'too_slow',
  'unknown_provider',
  'no_webhooks',
  'unknown_integration',
  'unavailable',
  'reconciled',
] as const
export type ReceivedOutcome = (typeof RECEIVED_OUTCOMES)[number]

export const SETTLED_WEBHOOKS = ['processed', 'failed'] as const
export type SettledWebhook = (typeof SETTLED_WEBHOOKS)[number]

export const SETTLED_ITEMS = ['success', 'failed', 'skipped'] as const
export type SettledItem = (typeof SETTLED_ITEMS)[number]

export const ECHOES = ['webhook', 'item'] as const
export type Echo = (typeof ECHOES)[number]

export const ENDED_RUNS = ['success', 'partial', 'failed', 'cancelled'] as const
export type EndedRun = (typeof ENDED_RUNS)[number]

/**
 * Types of workflows that recovery may end at any time, since rows say what is left to do: another one is started for them. The
 * scheduled ones would hold up their Schedule, which starts none while one runs.
 */
export const REPLACEABLE_WORKFLOWS = [
  'webhookInbox',
  'eventOutbox',
  'incident',
  'webhookSubscription',
  'syncIntegration',
  'dispatchSyncs',
  'evaluateFailures',
  'recoverWebhooks',
  'reconcileWebhooks',
  'refreshTokens',
  'prune',
] as const
export type ReplaceableWorkflow = (typeof REPLACEABLE_WORKFLOWS)[number]

/**
 * Counts what this process has done. Called once the statement that settles it has been committed, so that nothing is counted
 * which another process has settled. Never throws, and costs less than a microsecond.
 */
export interface Metrics {
  /** `webhooks_received_total`. @param count how many alike; default 1 */
  webhookReceived(of: Subject, outcome: ReceivedOutcome, count?: number): void
  /** `webhooks_processed_total` and `webhook_duration_seconds`. @param seconds of its handler; null: none has run */
  webhookSettled(of: Subject, status: SettledWebhook, seconds: number | null): void
  /** `requests_total` and `request_duration_seconds`. @param failureClass null: it succeeded */
  requestMade(of: Subject, failureClass: FailureClass | null, seconds: number): void
  /** `rate_limited_total` */
  requestRateLimited(of: Subject): void
  /** `sync_runs_total` */
  syncRunEnded(of: Subject, status: EndedRun): void
  /** `sync_items_total`. @param count how many alike; default 1 */
  syncItemSettled(of: Subject, status: SettledItem, count?: number): void
  /** `sync_deferrals_total` */
  syncItemDeferred(of: Subject): void
  /** `echoes_total`: counted when it is judged, with each attempt. */
  echoArrived(of: Subject, as: Echo): void
  /** `wakeups_failed_total` */
  wakeUpFailed(): void
  /** `workflows_replaced_total` */
  workflowReplaced(workflow: ReplaceableWorkflow): void
  /** `worker_polling`. @param isPolling asked at each scrape; of the workers that this process has made last */
  workersMade(isPolling: () => boolean): void
}
