/**
 * The commands that have workflows of their own, as a person starts them: by the command's name, with an input that is
 * looked at first, and nothing is begun while the database is away. Code starts the same workflows by their own names.
 */
import type { DispatchResult } from '../core/sync-jobs.ts'
import type { ProcessWebhookInput, ProcessWebhookResult } from '../core/webhook-jobs.ts'
import { advanceCursor } from './advance-cursor.ts'
import { answering, answeringNothing, refuseUnlessCount } from './command-input.ts'
import { onceReachable } from './command-readiness.ts'
import { dispatchSyncs } from './dispatch-syncs.ts'
import { evaluateFailures } from './evaluate-failures.ts'
import { findOrphans } from './find-orphans.ts'
import { listFailedItems } from './list-failed-items.ts'
import { processSyncItem } from './process-sync-item.ts'
import { processWebhook } from './process-webhook.ts'
import { prune } from './prune.ts'
import { reconcileWebhooks } from './reconcile-webhooks.ts'
import { recoverWebhooks } from './recover-webhooks.ts'
import { refreshTokens } from './refresh-tokens.ts'
import { runProgramCommand } from './run-command.ts'
import { skipSyncItem } from './skip-sync-item.ts'

export const advanceCursorCommand = answering(onceReachable(advanceCursor), ['integrationId', 'reclaimStale', 'limit'])
export const evaluateFailuresCommand = answeringNothing(onceReachable(evaluateFailures))
export const findOrphansCommand = answering(onceReachable(findOrphans), ['model', 'integrationId', 'limit'])
export const listFailedItemsCommand = answering(onceReachable(listFailedItems), [
  'integrationId',
  'since',
  'limit',
  'all',
  'waiting',
])
export const pruneCommand = answeringNothing(onceReachable(prune))
export const reconcileWebhooksCommand = answering(onceReachable(reconcileWebhooks), [
  'integrationId',
  'since',
  'dryRun',
])
export const recoverWebhooksCommand = answeringNothing(onceReachable(recoverWebhooks))
export const refreshTokensCommand = answering(onceReachable(refreshTokens), ['integrationId'])
export const replayWebhookCommand = answering(onceReachable(replayWebhook), ['webhookId', 'replay'])
export const retrySyncItemCommand = answering(onceReachable(processSyncItem), ['itemId', 'tries', 'force'])
export const skipSyncItemCommand = answering(onceReachable(skipSyncItem), ['itemId'])
export const syncCommand = answering(sync, ['integrationId', 'dryRun', 'limit', 'from', 'to'])

interface SyncCommandInput {
  readonly integrationId?: number
  readonly dryRun?: boolean
  readonly limit?: number
  readonly from?: string
  readonly to?: string
}

/** Without an input what is due; else, as the command line does it, a run of one integration, a look, or a backfill. */
async function sync(input: SyncCommandInput): Promise<DispatchResult | unknown> {
  if (Object.keys(input).length === 0) return onceReachable(dispatchSyncs)()
  const { integrationId, ...options } = input
  refuseUnlessCount('integrationId', integrationId)
  return runProgramCommand({ ...options, integration: integrationId })
}

/** By hand it is a replay, unless that is refused: then only a row that waits is taken. */
async function replayWebhook(input: ProcessWebhookInput): Promise<ProcessWebhookResult> {
  return processWebhook({ replay: true, ...input })
}
