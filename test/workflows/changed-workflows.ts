/** Copies of our workflows that do something else first: histories of the real ones must not fit them. */
import { sleep } from '@temporalio/workflow'
import type { FollowIncidentInput } from '../../src/incidents/incident-jobs.ts'
import type { FindOrphansInput } from '../../src/mappings/mapping-jobs.ts'
import type { RefreshTokensInput } from '../../src/oauth/oauth-jobs.ts'
import type { KeepSubscriptionInput } from '../../src/subscriptions/subscription-jobs.ts'
import type {
  AdvanceCursorInput,
  BackfillInput,
  ListFailedItemsInput,
  ProcessSyncItemInput,
  SkipSyncItemInput,
  SyncInput,
} from '../../src/syncs/sync-jobs.ts'
import type { ProcessWebhookInput, ReconcileWebhooksInput } from '../../src/webhooks/webhook-jobs.ts'
import * as real from '../../src/workflows/index.ts'
import type { PumpedQueueInput } from '../../src/workflows/messages.ts'

export async function webhookInbox(input?: PumpedQueueInput) {
  await somethingElse()
  return real.webhookInbox(input)
}

export async function syncIntegration(input: SyncInput, carried?: Parameters<typeof real.syncIntegration>[1]) {
  await somethingElse()
  return real.syncIntegration(input, carried)
}

export async function dispatchSyncs() {
  await somethingElse()
  return real.dispatchSyncs()
}

export async function processWebhook(input: ProcessWebhookInput) {
  await somethingElse()
  return real.processWebhook(input)
}

export async function recoverWebhooks() {
  await somethingElse()
  return real.recoverWebhooks()
}

export async function reconcileWebhooks(
  input: ReconcileWebhooksInput,
  carried?: Parameters<typeof real.reconcileWebhooks>[1],
) {
  await somethingElse()
  return real.reconcileWebhooks(input, carried)
}

export async function processSyncItem(input: ProcessSyncItemInput, ...before: [number?, number?]) {
  await somethingElse()
  return real.processSyncItem(input, ...before)
}

export async function backfillSync(input: BackfillInput, carried?: Parameters<typeof real.backfillSync>[1]) {
  await somethingElse()
  return real.backfillSync(input, carried)
}

export async function findOrphans(input?: Partial<FindOrphansInput>) {
  await somethingElse()
  return real.findOrphans(input)
}

export async function listFailedItems(input?: ListFailedItemsInput) {
  await somethingElse()
  return real.listFailedItems(input)
}

export async function skipSyncItem(input: SkipSyncItemInput) {
  await somethingElse()
  return real.skipSyncItem(input)
}

export async function advanceCursor(input: AdvanceCursorInput) {
  await somethingElse()
  return real.advanceCursor(input)
}

export async function refreshTokens(input?: RefreshTokensInput) {
  await somethingElse()
  return real.refreshTokens(input)
}

export async function evaluateFailures() {
  await somethingElse()
  return real.evaluateFailures()
}

export async function prune() {
  await somethingElse()
  return real.prune()
}

export { prune as 'integrations:prune' }

export async function incident(input: FollowIncidentInput) {
  await somethingElse()
  return real.incident(input)
}

export async function webhookSubscription(input: KeepSubscriptionInput) {
  await somethingElse()
  return real.webhookSubscription(input)
}

export async function eventOutbox(input?: PumpedQueueInput) {
  await somethingElse()
  return real.eventOutbox(input)
}

/** Two timers at once. No workflow of ours begins so. */
async function somethingElse(): Promise<void> {
  await Promise.all([sleep('1 second'), sleep('2 seconds')])
}
