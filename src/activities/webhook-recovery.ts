import type { AsksLabels, FoundBy } from '../core/search-attributes.ts'
import type { ProcessWebhookInput, ProcessWebhookResult, RecoverWebhooksResult } from '../core/webhook-jobs.ts'
import { webhookState } from '../db/queries/webhook-recovery.ts'
import type { ClaimableFrom } from '../db/queries/webhooks.ts'
import { claimWebhook } from '../db/queries/webhooks.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { recoverWebhooks } from '../operations/webhook-recovery.ts'
import { foundBy } from './found-by.ts'
import { temporalSurroundings } from './surroundings.ts'
import { processRows } from './webhooks.ts'

export interface ProcessOneWebhook extends ProcessWebhookInput, AsksLabels {
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  /** Of a replay: as the row was before it. A second try tells by it whether the first one has settled the row. */
  readonly attemptsBefore?: number
}

export interface WebhookState {
  readonly status: WebhookRow['status']
  readonly attempts: number
}

export function webhookRecoveryActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { db, tables } = framework

  return {
    /** May be run twice: what the first try has taken up is not due any more, and the second goes on behind it. */
    async recoverStuckWebhooks(): Promise<RecoverWebhooksResult> {
      return recoverWebhooks(framework, surroundings().cancellationSignal)
    },

    /** Null: it is gone. Looks only. */
    async readWebhookState({ webhookId }: { webhookId: number }): Promise<WebhookState | null> {
      return webhookState(db, tables, webhookId)
    },

    /**
     * Claims one webhook, runs its handler and settles it.
     *
     * May be run twice: a second try takes up the row that the first one still holds, and claims none that the first one
     * has settled.
     *
     * @throws when the row went back to `pending` unhandled, since the worker stopped: to be tried by another one
     */
    async processOneWebhook(input: ProcessOneWebhook): Promise<ProcessWebhookResult & FoundBy> {
      const { webhookId, claim } = input
      const context = surroundings()
      const isRetry = context.info.attempt > 1
      const tally = await processRows(framework, context, {
        claim,
        async take(held) {
          if (held > 0 || (isRetry && endedBefore(input, await webhookState(db, tables, webhookId)) !== null)) return []
          const row =
            (await claimWebhook(db, tables, { id: webhookId, claim, from: startOf(input) })) ??
            // The first try gave it back.
            (isRetry ? await claimWebhook(db, tables, { id: webhookId, claim, from: { status: 'pending' } }) : null)
          return row === null ? [] : [row]
        },
      })
      if (tally.handedBack > 0) throw new Error(`webhook ${webhookId} went back to pending before its handler ran`)
      const state = await webhookState(db, tables, webhookId)
      const ended = tally.processed > 0 ? 'processed' : tally.failed > 0 ? 'failed' : null
      return {
        webhookId,
        outcome: ended ?? (isRetry ? endedBefore(input, state) : null) ?? 'not claimed',
        status: state?.status ?? null,
        attempts: state?.attempts ?? null,
        ...(state === null ? {} : await foundBy(framework, state.integrationId, input)),
      }
    },
  }
}

function startOf({ replay = false, stuckAttempts }: ProcessWebhookInput): ClaimableFrom {
  if (replay) return { replay: true }
  return stuckAttempts === undefined ? { status: 'pending' } : { status: 'processing', attempts: stuckAttempts }
}

/** How an earlier try has settled the row: it is settled, and had not been when the job began. */
function endedBefore(
  { attemptsBefore = -1 }: ProcessOneWebhook,
  state: WebhookState | null,
): 'processed' | 'failed' | null {
  if (state === null || state.attempts <= attemptsBefore) return null
  return state.status === 'processed' || state.status === 'failed' ? state.status : null
}
