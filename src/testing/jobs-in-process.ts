/**
 * Jobs that are not about one sync run, without Temporal: the activities of their workflows, in the same order. One try each,
 * so what goes wrong is thrown.
 *
 * Rule: docs/testing.md, "Jobs".
 */
import { randomUUID } from 'node:crypto'
import { anomalyActivities } from '../activities/anomaly-activities.ts'
import { pruningActivities } from '../activities/pruning-activities.ts'
import type { Surroundings } from '../activities/surroundings.ts'
import { syncDispatchActivities } from '../activities/sync-dispatch.ts'
import { tokenActivities } from '../activities/token-activities.ts'
import { webhookReconciliationActivities } from '../activities/webhook-reconciliation.ts'
import { webhookRecoveryActivities } from '../activities/webhook-recovery.ts'
import { claimOf } from '../claims/rules.ts'
import type { Framework, WorkflowStarters } from '../framework/context.ts'
import type { PruneResult, PruningStep } from '../retention/rules.ts'
import { PRUNING_STEPS } from '../retention/rules.ts'
import type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
} from '../webhooks/webhook-jobs.ts'

/** What they find around them: they are never cancelled. */
export const surroundings = (): Surroundings => ({
  cancellationSignal: new AbortController().signal,
  info: { attempt: 1 },
})

type Job =
  | 'runPrune'
  | 'runEvaluateFailures'
  | 'runDispatch'
  | 'runTokenRefresh'
  | 'runRecovery'
  | 'runReconciliation'
  | 'runProcessWebhook'

export function jobsInProcess(framework: Framework): Pick<WorkflowStarters, Job> {
  return {
    runPrune: () => prune(framework),
    runEvaluateFailures: () => anomalyActivities(framework).evaluateFailureRatesNow(),
    async runDispatch() {
      const { startDueSyncs, evaluateStaleness } = syncDispatchActivities(framework, { surroundings })
      const starts = await startDueSyncs()
      return { ...starts, ...(await evaluateStaleness()) }
    },
    runTokenRefresh: (input) => tokenActivities(framework, surroundings).refreshTokensNow(input),
    runRecovery: () => webhookRecoveryActivities(framework, surroundings).recoverStuckWebhooks(),
    runReconciliation: (input) => reconcile(framework, input),
    runProcessWebhook: (input) => processOne(framework, input),
  }
}

export function processOne(framework: Framework, input: ProcessWebhookInput): Promise<ProcessWebhookResult> {
  return webhookRecoveryActivities(framework, surroundings).processOneWebhook({
    ...input,
    claim: claimOf(randomUUID(), 1),
  })
}

async function prune(framework: Framework): Promise<PruneResult> {
  const { pruneStep } = pruningActivities(framework, surroundings)
  const runId = randomUUID()
  const counts: Partial<Record<PruningStep, number>> = {}
  for (const step of PRUNING_STEPS) counts[step] = await pruneStep({ step, runId })
  return { counts: counts as PruneResult['counts'], failed: [] }
}

async function reconcile(framework: Framework, input: ReconcileWebhooksInput): Promise<ReconcileWebhooksResult> {
  const activities = webhookReconciliationActivities(framework, surroundings)
  const total = { integrations: 0, seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: 0, failed: 0 }
  for (const integrationId of (await activities.listReconcilable(input)).integrationIds) {
    const found = await activities.reconcileIntegration({ ...input, integrationId })
    for (const key of ['seen', 'known', 'inserted', 'tooLarge'] as const) total[key] += found[key]
    total.integrations += 1
    if (found.capped) total.capped += 1
  }
  return total
}
