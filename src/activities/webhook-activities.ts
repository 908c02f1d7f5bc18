/**
 * The inbox of stored webhooks, and the search for those that never arrived.
 *
 * Rules: docs/behaviour/webhooks.md, "The inbox"; docs/behaviour/webhook-reconciliation.md.
 */

import { isFinalFault } from '../calls/retry.ts'
import { PumpedWork } from '../claims/claimed-work.ts'
import type { Pumped, PumpInput } from '../claims/pump-jobs.ts'
import { WEBHOOK_INBOX } from '../claims/pump-jobs.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import { leftApart, webhookState } from '../webhooks/queries.ts'
import type { Reconcilable, ReconciledIntegration } from '../webhooks/reconciliation.ts'
import { reconcilable, reconcilableIntegrations, reconcileIntegrationWebhooks } from '../webhooks/reconciliation.ts'
import type { ReconcileWebhooksInput } from '../webhooks/webhook-jobs.ts'
import type { EndedWebhook } from '../webhooks/webhook-queue.ts'
import { webhookQueue } from '../webhooks/webhook-queue.ts'
import { asFailure } from './activity-failures.ts'
import type { LostRows, Pumping } from './pumping.ts'
import { pumpUntilRelieved } from './pumping.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Rows that were set apart and have no workflow yet. */
const LEFT_SECONDS = 20
const JOBS_AT_ONCE = 50

export interface ReconcileIntegrationInput {
  readonly integrationId: number
  /** ISO 8601 with a zone, in place of the end of the last run. */
  readonly since?: string | undefined
  /** Counts, and stores nothing. */
  readonly dryRun?: boolean | undefined
}

export function webhookActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Handles pending webhooks of all integrations, for ten minutes or until none is left and the promise to look is kept.
     *
     * May be run twice: each try has a claim of its own. Rows of a dead pump are set apart by any other pump.
     */
    pumpWebhooks: (input: PumpInput): Promise<Pumped> =>
      pumpUntilRelieved(framework, webhookPumping(framework), surroundings(), input),

    /** Only reads. Fails for good when the integration asked for cannot be reconciled. */
    async listReconcilable(input: ReconcileWebhooksInput): Promise<{ integrationIds: number[] }> {
      return { integrationIds: await reconcilableIntegrations(framework, input) }
    },

    /**
     * Stores what never arrived. May be run twice: what the first try stored is known to the second. When the worker stops, a
     * call of the provider's is not waited for.
     */
    async reconcileIntegration({ integrationId, ...asked }: ReconcileIntegrationInput): Promise<ReconciledIntegration> {
      const { cancellationSignal: signal } = surroundings()
      let target: Reconcilable | null = null
      try {
        target = await reconcilable(framework, integrationId)
        return await reconcileIntegrationWebhooks(framework, target, asked, signal)
      } catch (error) {
        // Cancelled, or the worker stops: Temporal tells these apart by this very error, and the second is tried again.
        if (target !== null && signal.aborted) throw signal.reason
        const isGone = isIntegrationsError(error, 'integration_not_found')
        throw asFailure(error, {
          secrets: target === null ? [] : secretsIn(target.integration),
          nonRetryable: isGone || isFinalFault(error, target?.provider),
        })
      }
    },
  }
}

export function webhookPumping(framework: Framework): Pumping<WebhookRow, EndedWebhook> {
  const queue = webhookQueue(framework)
  return {
    queue: WEBHOOK_INBOX,
    rows: queue.rows,
    concurrency: framework.config.webhook.concurrency,
    isPatient: true,
    workOf: (worker, claim) => new PumpedWork(worker, queue, claim),
    afterLosses: (lost) => jobsForLost(framework, lost),
    nextDueInMs: async () => null,
  }
}

/** Has a workflow handle each row that has lost its pump. */
async function jobsForLost(framework: Framework, lost: readonly LostRows[]): Promise<{ hasMore: boolean }> {
  const { db, tables, logger } = framework
  for (const { claim, ids } of lost) {
    logger.warn(
      { event: 'inbox.pump_lost', claim, webhooks: ids.length },
      'the worker of some webhooks was lost; each is handled by a workflow of its own now',
    )
    await startJobs(framework, ids)
  }
  const left = await leftApart(db, tables, { olderThanSeconds: LEFT_SECONDS, limit: JOBS_AT_ONCE })
  await startJobs(framework, left)
  return { hasMore: left.length === JOBS_AT_ONCE }
}

/** A later pass asks again for jobs that cannot be started now. */
async function startJobs({ db, tables, workflows, logger }: Framework, ids: readonly number[]): Promise<void> {
  const start = async (webhookId: number): Promise<void> => {
    const row = await webhookState(db, tables, webhookId)
    if (row !== null) await workflows.startProcessWebhook({ webhookId }, row.integrationId)
  }
  for (let at = 0; at < ids.length; at += JOBS_AT_ONCE) {
    const page = ids.slice(at, at + JOBS_AT_ONCE)
    const started = await Promise.allSettled(page.map(start))
    const failure = started.find((result) => result.status === 'rejected')
    if (failure === undefined) continue
    logger.warn(
      { event: 'webhook.job_not_started', webhooks: ids.length - at, error: errorLine(failure.reason, 300) },
      'a job could not be started; its webhook waits, and is tried again',
    )
    return
  }
}
