import type { Framework } from '../framework.ts'
import { keptAlive } from './heartbeat.ts'
import { syncItemActivities } from './sync-items.ts'
import { syncRunActivities } from './sync-runs.ts'
import { webhookReconciliationActivities } from './webhook-reconciliation.ts'
import { webhookRecoveryActivities } from './webhook-recovery.ts'
import { webhookActivities } from './webhooks.ts'

/** All activities, bound to one framework. Workflows know them by this type only. */
export function createActivities(framework: Framework): Activities {
  const webhooks = webhookActivities(framework)
  const recovery = webhookRecoveryActivities(framework)
  const reconciliation = webhookReconciliationActivities(framework)
  const runs = syncRunActivities(framework)
  const items = syncItemActivities(framework)
  return {
    processPendingWebhooks: keptAlive(webhooks.processPendingWebhooks),
    recoverStuckWebhooks: keptAlive(recovery.recoverStuckWebhooks),
    readWebhookState: keptAlive(recovery.readWebhookState),
    processOneWebhook: keptAlive(recovery.processOneWebhook),
    listReconcilable: keptAlive(reconciliation.listReconcilable),
    reconcileIntegration: keptAlive(reconciliation.reconcileIntegration),
    startDueSyncs: keptAlive(runs.startDueSyncs),
    openSyncRun: keptAlive(runs.openSyncRun),
    listSyncItems: keptAlive(runs.listSyncItems),
    failSyncRun: keptAlive(runs.failSyncRun),
    finaliseSyncRun: keptAlive(runs.finaliseSyncRun),
    announceSyncRun: keptAlive(runs.announceSyncRun),
    processSyncItems: keptAlive(items.processSyncItems),
  }
}

export type Activities = ReturnType<typeof webhookActivities> &
  ReturnType<typeof webhookRecoveryActivities> &
  ReturnType<typeof webhookReconciliationActivities> &
  ReturnType<typeof syncRunActivities> &
  ReturnType<typeof syncItemActivities>
