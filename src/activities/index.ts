import type { Framework } from '../framework.ts'
import { anomalyActivities } from './anomalies.ts'
import { commandStep } from './command-steps.ts'
import { tellingUntilEnd, withEndingListeners } from './ending-listeners.ts'
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
  const ending = withEndingListeners(framework)
  // Temporal tells no activity inside a workflow task that its worker stops.
  const surroundings = graceIsOver && surroundingsUntil(graceIsOver)
  const webhooks = webhookActivities(framework, surroundings)
  const recovery = webhookRecoveryActivities(framework)
  const reconciliation = webhookReconciliationActivities(ending)
  const runs = syncRunActivities(framework)
  const dispatch = syncDispatchActivities(ending)
  const ends = syncEndActivities(ending)
  const items = syncItemActivities(framework)
  const retries = syncItemActivities(ending)
  const backfills = syncBackfillActivities(framework)
  const operations = syncOperationActivities(ending)
  const tokens = tokenActivities(ending)
  const orphans = orphanActivities(framework)
  const anomalies = anomalyActivities(ending)
  const pruning = pruningActivities(ending)
  const incidents = incidentActivities(ending)
  const events = eventActivities(framework)

  // Those that tell listeners of framework events; elsewhere these have a bound with the handler or item that makes the call.
  const until = surroundings === undefined ? {} : { surroundings }
  const once = <Input extends unknown[], Output>(activity: (...input: Input) => Promise<Output>) =>
    keptAlive(tellingUntilEnd(activity, until))
  const toldAgain = <Input extends unknown[], Output>(activity: (...input: Input) => Promise<Output>) =>
    keptAlive(tellingUntilEnd(activity, { ...until, isToldAgain: true }))
  return {
    processPendingWebhooks: keptAlive(webhooks.processPendingWebhooks),
    recoverStuckWebhooks: keptAlive(recovery.recoverStuckWebhooks),
    readWebhookState: keptAlive(commandStep('readWebhookState', recovery.readWebhookState)),
    processOneWebhook: keptAlive(commandStep('processOneWebhook', recovery.processOneWebhook)),
    listReconcilable: keptAlive(commandStep('listReconcilable', reconciliation.listReconcilable)),
    reconcileIntegration: once(reconciliation.reconcileIntegration),
    startDueSyncs: keptAlive(dispatch.startDueSyncs),
    evaluateStaleness: once(dispatch.evaluateStaleness),
    openSyncRun: keptAlive(runs.openSyncRun),
    listSyncItems: keptAlive(runs.listSyncItems),
    takeOverSyncRun: keptAlive(runs.takeOverSyncRun),
    processSyncItems: keptAlive(items.processSyncItems),
    processOneSyncItem: toldAgain(commandStep('processOneSyncItem', retries.processOneSyncItem)),
    failSyncRun: keptAlive(ends.failSyncRun),
    cancelSyncRun: keptAlive(ends.cancelSyncRun),
    finaliseSyncRun: keptAlive(ends.finaliseSyncRun),
    announceSyncRun: toldAgain(ends.announceSyncRun),
    openBackfillSlice: keptAlive(backfills.openBackfillSlice),
    handleMissingItems: keptAlive(backfills.handleMissingItems),
    skipFailedItem: once(commandStep('skipFailedItem', operations.skipFailedItem)),
    listFailedSyncItems: keptAlive(commandStep('listFailedSyncItems', operations.listFailedSyncItems)),
    advanceSyncCursor: toldAgain(commandStep('advanceSyncCursor', operations.advanceSyncCursor)),
    refreshTokensNow: once(commandStep('refreshTokensNow', tokens.refreshTokensNow)),
    findOrphanRows: keptAlive(commandStep('findOrphanRows', orphans.findOrphanRows)),
    evaluateFailureRatesNow: once(anomalies.evaluateFailureRatesNow),
    pruneStep: once(pruning.pruneStep),
    readPrunedRows: keptAlive(pruning.readPrunedRows),
    followIncident: keptAlive(incidents.followIncident),
    closeIncidentWhenWell: once(incidents.closeIncidentWhenWell),
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
