/**
 * The steps of a reconciliation: the list of integrations, then one at a time.
 *
 * Rule: docs/behaviour/webhook-reconciliation.md.
 */

import { isFinalFault } from '../calls/final-fault.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import type { Reconcilable, ReconciledIntegration } from '../webhooks/reconciliation.ts'
import { reconcilable, reconcilableIntegrations, reconcileIntegrationWebhooks } from '../webhooks/reconciliation.ts'
import type { ReconcileWebhooksInput } from '../webhooks/webhook-jobs.ts'
import { asFailure } from './activity-failures.ts'
import { temporalSurroundings } from './surroundings.ts'

export interface ReconcileIntegrationInput {
  readonly integrationId: number
  /** ISO 8601 with a zone, in place of the end of the last run. */
  readonly since?: string | undefined
  /** Counts, and stores nothing. */
  readonly dryRun?: boolean | undefined
}

export function webhookReconciliationActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
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
