/**
 * Workflows that run one activity and return its result. Each has a short history, and may overlap with another run of itself.
 *
 * Rule: docs/behaviour/workflows.md.
 */
import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { EvaluateFailuresResult } from '../incidents/incident-jobs.ts'
import type { FindOrphansInput, FindOrphansResult } from '../mappings/mapping-jobs.ts'
import type { RefreshTokensInput, RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  FailedItem,
  ListFailedItemsInput,
  SkipSyncItemInput,
  SkipSyncItemResult,
} from '../syncs/sync-jobs.ts'
import type { RecoverWebhooksResult } from '../webhooks/webhook-jobs.ts'
import { pass, scheduledStep, step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { advanceSyncCursor, listFailedSyncItems, recoverStuckWebhooks, skipFailedItem } =
  proxyActivities<Activities>(step)
const { refreshTokensNow } = proxyActivities<Activities>(pass)
const { evaluateFailureRatesNow } = proxyActivities<Activities>(scheduledStep)
const { findOrphanRows } = proxyActivities<Activities>({
  ...step,
  // The host's table may have any number of rows.
  startToCloseTimeout: '6 hours',
  // A host's model may throw at every try, each time after hours. Three tries, then the command reports it.
  retry: { ...step.retry, maximumAttempts: 3 },
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
})

/**
 * The command `advance-cursor`: finalises again the runs that earlier workflows left open.
 *
 * Durable promise: the activity runs again when its worker dies. Each run is finalised under its guards, so a second try
 * changes nothing.
 */
export async function advanceCursor(input: AdvanceCursorInput): Promise<AdvanceCursorResult> {
  return readably(() => advanceSyncCursor(input))
}

/**
 * The command `evaluate-failures`.
 *
 * Durable promise: each integration whose failure rate rises above the threshold, or falls below it, is noted once.
 */
export async function evaluateFailures(): Promise<EvaluateFailuresResult> {
  return readably(() => evaluateFailureRatesNow())
}

/** The command `find-orphans`: changes nothing. The input must name a model; the activity refuses an input without one. */
export async function findOrphans(input: Partial<FindOrphansInput> = {}): Promise<FindOrphansResult> {
  return readably(() => findOrphanRows({ ...input, model: input.model ?? '' }))
}

/** The command `list-failed-items`: changes nothing. */
export async function listFailedItems(input: ListFailedItemsInput = {}): Promise<FailedItem[]> {
  return readably(() => listFailedSyncItems(input))
}

/**
 * Recovers stranded webhooks, and retries failed ones.
 *
 * Durable promise: each due row gets a job, or the inbox is woken for it. When two runs overlap, one of them takes each row.
 */
export async function recoverWebhooks(): Promise<RecoverWebhooksResult> {
  return readably(() => recoverStuckWebhooks())
}

/**
 * Refreshes tokens that are about to expire, and tokens whose refresh token would expire unused.
 *
 * Durable promise: each due integration is tried once, whatever happens to the others. A later run tries a failed one again
 * after its wait. Runs may overlap, also with the refresh of one integration: each token has a lock.
 */
export async function refreshTokens(input: RefreshTokensInput = {}): Promise<RefreshTokensResult> {
  return readably(() => refreshTokensNow(input))
}

/**
 * The command `skip-sync-item`: skips one failed item for good.
 *
 * Durable promise: the row is skipped and its run is finalised again, or the workflow fails with the reason.
 */
export async function skipSyncItem(input: SkipSyncItemInput): Promise<SkipSyncItemResult> {
  return readably(() => skipFailedItem(input))
}
