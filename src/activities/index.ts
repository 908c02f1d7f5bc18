import type { Framework } from '../framework.ts'
import { anomalyActivities } from './anomalies.ts'
import { commandStep } from './command-steps.ts'
import { eventActivities } from './events.ts'
import { keptAlive } from './heartbeat.ts'
import { incidentActivities } from './incidents.ts'
import { orphanActivities } from './orphans.ts'
import { pruningActivities } from './pruning.ts'
import { surroundingsUntil } from './surroundings.ts'
import { syncBackfillActivities } from './sync-backfills.ts'
import { syncDispatchActivities } from './sync-dispatch.ts'
import { syncEndActivities } from './sync-ends.ts'
import { syncItemActivities } from './sync-items.ts'
import { syncOperationActivities } from './sync-operations.ts'
import { syncRunActivities } from './sync-runs.ts'
import { tokenActivities } from './tokens.ts'
import { webhookReconciliationActivities } from './webhook-reconciliation.ts'
import { webhookRecoveryActivities } from './webhook-recovery.ts'
import { webhookActivities } from './webhooks.ts'

/**
 * All activities, bound to one framework. Workflows know them by this type only.
 *
 * @param graceIsOver aborted when the worker that runs them has used up its grace; default: Temporal's cancellations alone
 */
export function createActivities(framework: Framework, graceIsOver?: AbortSignal): Activities {
  // The only ones that run a host's code inside a workflow task.
  const webhooks = webhookActivities(framework, graceIsOver && surroundingsUntil(graceIsOver))
  const recovery = webhookRecoveryActivities(framework)
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
  const events = eventActivities(framework)
  return {
    processPendingWebhooks: keptAlive(webhooks.processPendingWebhooks),
    recoverStuckWebhooks: keptAlive(recovery.recoverStuckWebhooks),
    readWebhookState: keptAlive(commandStep('readWebhookState', recovery.readWebhookState)),
    processOneWebhook: keptAlive(commandStep('processOneWebhook', recovery.processOneWebhook)),
    listReconcilable: keptAlive(commandStep('listReconcilable', reconciliation.listReconcilable)),
    reconcileIntegration: keptAlive(reconciliation.reconcileIntegration),
    startDueSyncs: keptAlive(dispatch.startDueSyncs),
    evaluateStaleness: keptAlive(dispatch.evaluateStaleness),
    openSyncRun: keptAlive(runs.openSyncRun),
    listSyncItems: keptAlive(runs.listSyncItems),
    takeOverSyncRun: keptAlive(runs.takeOverSyncRun),
    processSyncItems: keptAlive(items.processSyncItems),
    processOneSyncItem: keptAlive(commandStep('processOneSyncItem', items.processOneSyncItem)),
    failSyncRun: keptAlive(ends.failSyncRun),
    cancelSyncRun: keptAlive(ends.cancelSyncRun),
    finaliseSyncRun: keptAlive(ends.finaliseSyncRun),
    announceSyncRun: keptAlive(ends.announceSyncRun),
    openBackfillSlice: keptAlive(backfills.openBackfillSlice),
    handleMissingItems: keptAlive(backfills.handleMissingItems),
    skipFailedItem: keptAlive(commandStep('skipFailedItem', operations.skipFailedItem)),
    listFailedSyncItems: keptAlive(commandStep('listFailedSyncItems', operations.listFailedSyncItems)),
    advanceSyncCursor: keptAlive(commandStep('advanceSyncCursor', operations.advanceSyncCursor)),
    refreshTokensNow: keptAlive(commandStep('refreshTokensNow', tokens.refreshTokensNow)),
    findOrphanRows: keptAlive(commandStep('findOrphanRows', orphans.findOrphanRows)),
    evaluateFailureRatesNow: keptAlive(anomalies.evaluateFailureRatesNow),
    pruneStep: keptAlive(pruning.pruneStep),
    readPrunedRows: keptAlive(pruning.readPrunedRows),
    followIncident: keptAlive(incidents.followIncident),
    closeIncidentWhenWell: keptAlive(incidents.closeIncidentWhenWell),
    rewakeFollowers: keptAlive(incidents.rewakeFollowers),
    deliverEvents: keptAlive(events.deliverEvents),
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
