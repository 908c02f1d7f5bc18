import type { Framework } from '../framework/context.ts'
import { boundedStep, commandStep } from './command-steps.ts'
import { tellingUntilEnd } from './ending-listeners.ts'
import { eventActivities } from './event-activities.ts'
import { keptAlive } from './heartbeat.ts'
import { incidentActivities } from './incident-activities.ts'
import { syncItemActivities } from './item-activities.ts'
import { orphanActivities } from './orphan-activities.ts'
import { pruningActivities } from './pruning-activities.ts'
import { subscriptionActivities } from './subscription-activities.ts'
import type { WorkerEnd } from './surroundings.ts'
import { surroundingsUntil } from './surroundings.ts'
import { syncActivities } from './sync-activities.ts'
import { tokenActivities } from './token-activities.ts'
import { webhookActivities } from './webhook-activities.ts'
import { webhookRecoveryActivities } from './webhook-recovery.ts'

/**
 * All activities, bound to one framework. Workflows import only their type.
 *
 * @param end of the worker that runs them; default: Temporal's cancellations alone
 */
export function createActivities(framework: Framework, end?: WorkerEnd) {
  const surroundings = end && surroundingsUntil(end)
  const webhooks = webhookActivities(framework, surroundings)
  const recovery = webhookRecoveryActivities(framework, surroundings)
  const syncs = syncActivities(framework)
  const items = syncItemActivities(framework)
  const tokens = tokenActivities(framework)
  const orphans = orphanActivities(framework)
  const pruning = pruningActivities(framework)
  const incidents = incidentActivities(framework)
  const events = eventActivities(framework, surroundings)
  const subscriptions = subscriptionActivities(framework, surroundings)

  // With heartbeats, and without waiting for slow listeners at the worker's end.
  const step = <Input extends unknown[], Output>(activity: (...input: Input) => Promise<Output>) =>
    keptAlive(tellingUntilEnd(activity, surroundings))
  // For a person's input; the person waits for the result.
  const command = <Input, Output>(
    name: Parameters<typeof commandStep>[0],
    activity: (input: Input) => Promise<Output>,
  ) => commandStep(name, activity, surroundings)
  return {
    // A pump sends its own heartbeats, with what it holds.
    pumpWebhooks: tellingUntilEnd(webhooks.pumpWebhooks, surroundings),
    pumpEvents: tellingUntilEnd(events.pumpEvents, surroundings),
    recoverStuckWebhooks: step(boundedStep(recovery.recoverStuckWebhooks, surroundings)),
    readWebhookState: step(command('readWebhookState', recovery.readWebhookState)),
    processOneWebhook: step(command('processOneWebhook', recovery.processOneWebhook)),
    listReconcilable: step(command('listReconcilable', webhooks.listReconcilable)),
    reconcileIntegration: step(webhooks.reconcileIntegration),
    startDueSyncs: step(boundedStep(syncs.startDueSyncs, surroundings)),
    evaluateStaleness: step(boundedStep(syncs.evaluateStaleness, surroundings)),
    openSyncRun: step(syncs.openSyncRun),
    findOpenedRun: step(syncs.findOpenedRun),
    listSyncItems: step(syncs.listSyncItems),
    takeOverSyncRun: step(syncs.takeOverSyncRun),
    processSyncItems: step(items.processSyncItems),
    processOneSyncItem: step(command('processOneSyncItem', items.processOneSyncItem)),
    failSyncRun: step(syncs.failSyncRun),
    cancelSyncRun: step(syncs.cancelSyncRun),
    finaliseSyncRun: step(syncs.finaliseSyncRun),
    announceSyncRun: step(syncs.announceSyncRun),
    openBackfillSlice: step(syncs.openBackfillSlice),
    handleMissingItems: step(syncs.handleMissingItems),
    skipFailedItem: step(command('skipFailedItem', syncs.skipFailedItem)),
    listFailedSyncItems: step(command('listFailedSyncItems', syncs.listFailedSyncItems)),
    advanceSyncCursor: step(command('advanceSyncCursor', syncs.advanceSyncCursor)),
    refreshTokensNow: step(command('refreshTokensNow', tokens.refreshTokensNow)),
    findOrphanRows: step(command('findOrphanRows', orphans.findOrphanRows)),
    evaluateFailureRatesNow: step(incidents.evaluateFailureRatesNow),
    pruneStep: step(pruning.pruneStep),
    readPrunedRows: step(pruning.readPrunedRows),
    followIncident: step(incidents.followIncident),
    closeIncidentWhenWell: step(incidents.closeIncidentWhenWell),
    keepWebhookSubscription: step(subscriptions.keepWebhookSubscription),
    rewakeFollowers: step(incidents.rewakeFollowers),
  }
}

export type Activities = ReturnType<typeof createActivities>
