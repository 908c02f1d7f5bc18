/**
 * Jobs without Temporal, all but a sync run: the activities of their workflows, in the same order. One try each, so what goes
 * wrong is thrown.
 *
 * Rule: docs/testing.md, "Jobs".
 */
import { randomUUID } from 'node:crypto'
import { eventPumping } from '../activities/event-activities.ts'
import { incidentActivities } from '../activities/incident-activities.ts'
import { syncItemActivities } from '../activities/item-activities.ts'
import { pruningActivities } from '../activities/pruning-activities.ts'
import { pumpUntilEmpty } from '../activities/pumping.ts'
import type { Surroundings } from '../activities/surroundings.ts'
import { syncActivities } from '../activities/sync-activities.ts'
import { tokenActivities } from '../activities/token-activities.ts'
import { webhookActivities, webhookPumping } from '../activities/webhook-activities.ts'
import { webhookRecoveryActivities } from '../activities/webhook-recovery.ts'
import { claimOf, pumpClaimOf } from '../claims/rules.ts'
import { closeEndedLoops } from '../echoes/loops.ts'
import type { Framework, WorkflowStarters } from '../framework/context.ts'
import type { PruneResult, PruningStep } from '../retention/rules.ts'
import { PRUNING_STEPS } from '../retention/rules.ts'
import { rememberedStarts } from '../syncs/remembered-starts.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult } from '../syncs/sync-jobs.ts'
import type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
} from '../webhooks/webhook-jobs.ts'
import { MAX_REASONS } from '../webhooks/webhook-jobs.ts'
import type { ManualClock } from './manual-clock.ts'

/** What they find around them: they are never cancelled. */
const surroundings = (): Surroundings => ({
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
    runEvaluateFailures: () => incidentActivities(framework).evaluateFailureRatesNow(),
    async runDispatch() {
      // A worker does it each second. What could not begin then is tried again in the next dispatch.
      await rememberedStarts(framework)(performance.now())
      const { startDueSyncs, evaluateStaleness } = syncActivities(framework, surroundings)
      const starts = await startDueSyncs()
      const edges = await evaluateStaleness()
      await closeEndedLoops(framework)
      return { ...starts, ...edges }
    },
    runTokenRefresh: (input) => tokenActivities(framework, surroundings).refreshTokensNow(input),
    runRecovery: () => webhookRecoveryActivities(framework, surroundings).recoverStuckWebhooks(),
    runReconciliation: (input) => reconcile(framework, input),
    runProcessWebhook: (input) => processOne(framework, input),
  }
}

function processOne(framework: Framework, input: ProcessWebhookInput): Promise<ProcessWebhookResult> {
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
  const activities = webhookActivities(framework, surroundings)
  const total = { integrations: 0, seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: 0, failed: 0, skipped: 0 }
  const reasons: string[] = []
  for (const integrationId of (await activities.listReconcilable(input)).integrationIds) {
    const found = await activities.reconcileIntegration({ ...input, integrationId })
    for (const key of ['seen', 'known', 'inserted', 'tooLarge'] as const) total[key] += found[key]
    total.integrations += 1
    if (found.capped) total.capped += 1
    if (found.skipped === undefined) continue
    total.skipped += 1
    if (reasons.length < MAX_REASONS) reasons.push(`integration ${integrationId}: ${found.skipped}`)
  }
  return { ...total, reasons }
}

export interface ProcessedWebhooks {
  readonly processed: number
  readonly failed: number
}

/**
 * The inbox's work: claims and runs what is pending until nothing is.
 *
 * @param jobs of single webhooks: run, and taken from the list
 */
export async function processPending(
  framework: Framework,
  jobs: ProcessWebhookInput[] = [],
): Promise<ProcessedWebhooks> {
  const total = { processed: 0, failed: 0 }
  for (const job of jobs.splice(0)) {
    const { outcome } = await processOne(framework, job)
    if (outcome !== 'not claimed') total[outcome] += 1
  }
  const pumped = await pumpUntilEmpty(
    framework,
    webhookPumping(framework),
    surroundings(),
    pumpClaimOf(randomUUID(), 1),
  )
  return { processed: total.processed + pumped.processed, failed: total.failed + pumped.failed }
}

export interface DeliveredEvents {
  /** Events that are done with: each listener and target had them, was given up or is silenced. */
  readonly processed: number
  /** Tries after which an event waits for another one. */
  readonly failed: number
  /** Until the next one is due: move the clock on by this and deliver again. Null: none waits. */
  readonly nextInSeconds: number | null
}

/** The outbox's work: tells each listener and target that is due until none is. */
export async function deliverDueEvents(framework: Framework): Promise<DeliveredEvents> {
  const claim = pumpClaimOf(randomUUID(), 1)
  const pumped = await pumpUntilEmpty(framework, eventPumping(framework), surroundings(), claim)
  const { processed, failed, nextDueInMs } = pumped
  return { processed, failed, nextInSeconds: nextDueInMs === null ? null : nextDueInMs / 1_000 }
}

/**
 * One failed item again: the activity of the workflow `processSyncItem`, attempt by attempt. Where the workflow waits, the
 * clock is moved on. Rule: docs/behaviour/sync-items.md.
 */
export async function retryItem(
  framework: Framework,
  clock: ManualClock,
  { itemId, tries = 1, force = false }: ProcessSyncItemInput,
): Promise<ProcessSyncItemResult> {
  const { processOneSyncItem } = syncItemActivities(framework, surroundings)
  const runId = randomUUID()
  let attempt = 1
  for (let call = 1; ; call += 1) {
    const claim = `retry-${claimOf(runId, call)}`
    const { waitSeconds, isCounted, ...result } = await processOneSyncItem({ itemId, claim, attempt, tries, force })
    if (waitSeconds === null) return result
    // A deferral does not count as a try.
    if (isCounted) attempt += 1
    clock.advance(waitSeconds)
  }
}
