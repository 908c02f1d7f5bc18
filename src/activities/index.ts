import type { Framework } from '../framework/context.ts'
import { anomalyActivities } from './anomaly-activities.ts'
import { boundedStep, commandStep } from './command-steps.ts'
import { tellingUntilEnd } from './ending-listeners.ts'
import { eventActivities } from './event-activities.ts'
import { keptAlive } from './heartbeat.ts'
import { incidentActivities } from './incident-activities.ts'
import { syncItemActivities } from './item-activities.ts'
import { orphanActivities } from './orphan-activities.ts'
import { pruningActivities } from './pruning-activities.ts'
import type { WorkerEnd } from './surroundings.ts'
import { surroundingsUntil } from './surroundings.ts'
import { syncBackfillActivities } from './sync-backfills.ts'
import { syncDispatchActivities } from './sync-dispatch.ts'
import { syncEndActivities } from './sync-ends.ts'
import { syncOperationActivities } from './sync-operations.ts'
import { syncRunActivities } from './sync-runs.ts'
import { tokenActivities } from './token-activities.ts'
import { webhookActivities } from './webhook-activities.ts'
import { webhookReconciliationActivities } from './webhook-reconciliation.ts'
import { webhookRecoveryActivities } from './webhook-recovery.ts'

/**
 * All activities, bound to one framework. Workflows import only their type.
 *
 * @param end of the worker that runs them; default: Temporal's cancellations alone
 */
export function createActivities(framework: Framework, end?: WorkerEnd): Activities {
  const surroundings = end && surroundingsUntil(end)
  const webhooks = webhookActivities(framework, surroundings)
  const recovery = webhookRecoveryActivities(framework, surroundings)
  const reconciliation = webhookReconciliationActivities(framework)
  const runs = syncRunActivities(framework)
  const dispatch = syncDispatchActivities(framework)
  const ends = syncEndActivities(framework)
  const items = syncItemActivities(framework)
  const backfills = syncBackfillActivities(framework)
  const operations = syncOperationActivities(framework)
  const tokens = tokenActivities(framework)
  const orphans = orphanActivities(framework)
  const anomalies = anomalyActivities(framework)
  const pruning = pruningActivities(framework)
  const incidents = incidentActivities(framework)
  const events = eventActivities(framework, surroundings)

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
    listReconcilable: step(command('listReconcilable', reconciliation.listReconcilable)),
    reconcileIntegration: step(reconciliation.reconcileIntegration),
    startDueSyncs: step(boundedStep(dispatch.startDueSyncs, surroundings)),
    evaluateStaleness: step(boundedStep(dispatch.evaluateStaleness, surroundings)),
    openSyncRun: step(runs.openSyncRun),
    findOpenedRun: step(runs.findOpenedRun),
    listSyncItems: step(runs.listSyncItems),
    takeOverSyncRun: step(runs.takeOverSyncRun),
    processSyncItems: step(items.processSyncItems),
    processOneSyncItem: step(command('processOneSyncItem', items.processOneSyncItem)),
    failSyncRun: step(ends.failSyncRun),
    cancelSyncRun: step(ends.cancelSyncRun),
    finaliseSyncRun: step(ends.finaliseSyncRun),
    announceSyncRun: step(ends.announceSyncRun),
    openBackfillSlice: step(backfills.openBackfillSlice),
    handleMissingItems: step(backfills.handleMissingItems),
    skipFailedItem: step(command('skipFailedItem', operations.skipFailedItem)),
    listFailedSyncItems: step(command('listFailedSyncItems', operations.listFailedSyncItems)),
    advanceSyncCursor: step(command('advanceSyncCursor', operations.advanceSyncCursor)),
    refreshTokensNow: step(command('refreshTokensNow', tokens.refreshTokensNow)),
    findOrphanRows: step(command('findOrphanRows', orphans.findOrphanRows)),
    evaluateFailureRatesNow: step(anomalies.evaluateFailureRatesNow),
    pruneStep: step(pruning.pruneStep),
    readPrunedRows: step(pruning.readPrunedRows),
    followIncident: step(incidents.followIncident),
    closeIncidentWhenWell: step(incidents.closeIncidentWhenWell),
    rewakeFollowers: step(incidents.rewakeFollowers),
  }
}

export type Activities = ReturnType<typeof webhookActivities> &
  ReturnType<typeof webhookRecoveryActivities> &
  ReturnType<typeof webhookReconciliationActivities> &
  ReturnType<typeof syncDispatchActivities> &
  ReturnType<typeof syncRunActivities> &
  ReturnType<typeof syncEndActivities> &
  ReturnType<typeof syncBackfillActivities> &
  ReturnType<typeof syncOperationActivities> &
  ReturnType<typeof tokenActivities> &
  ReturnType<typeof orphanActivities> &
  ReturnType<typeof anomalyActivities> &
  ReturnType<typeof pruningActivities> &
  ReturnType<typeof incidentActivities> &
  ReturnType<typeof eventActivities> &
  ReturnType<typeof syncItemActivities>
