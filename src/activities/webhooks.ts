import { Context } from '@temporalio/activity'
import { MAX_LOST_WORKERS } from '../core/claim.ts'
import type { WebhookOutcome } from '../db/queries/webhooks.ts'
import {
  claimPendingWebhooks,
  handBackWebhooks,
  settleWebhooks,
  takeUpWebhook,
  webhooksHeldBy,
} from '../db/queries/webhooks.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { runWebhook } from '../operations/webhooks.ts'
import { runBatch } from './batch.ts'

export interface WebhookBatch {
  readonly integrationId: number
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  readonly limit: number
}

export interface WebhookBatchResult {
  /** Pending rows that this batch took; equal to the limit when more may wait. */
  readonly claimed: number
  readonly processed: number
  readonly failed: number
  /** The slowest handler. */
  readonly slowestMs: number
}

export function webhookActivities(framework: Framework) {
  const { config, db, tables, logger } = framework

  return {
    /**
     * Takes pending webhooks of one integration and runs each one's handler.
     *
     * May be run twice: a second try under the same claim first takes up the rows that the first one still holds, one at
     * a time, and counts the loss; rows that were settled are settled.
     */
    async processPendingWebhooks({ integrationId, claim, limit }: WebhookBatch): Promise<WebhookBatchResult> {
      const context = Context.current()
      const tally = { claimed: 0, processed: 0, failed: 0, slowestMs: 0 }
      const settle = async (outcomes: readonly WebhookOutcome[]): Promise<void> => {
        const settled = await settleWebhooks(db, tables, 'webhook', outcomes)
        for (const outcome of outcomes) report(outcome, settled.has(outcome.id))
      }
      const report = (outcome: WebhookOutcome, settled: boolean): void => {
        const fields = { integration: integrationId, webhook: outcome.id, attempt: outcome.attempts }
        if (!settled) {
          logger.warn(
            { event: 'webhook.superseded', ...fields },
            'a later attempt holds this webhook; its outcome counts',
          )
          return
        }
        tally[outcome.status] += 1
        tally.slowestMs = Math.max(tally.slowestMs, outcome.durationMs)
        const ended = { event: `webhook.${outcome.status}`, ...fields, duration_ms: outcome.durationMs }
        if (outcome.status === 'processed') logger.info(ended, 'webhook processed')
        else logger.warn({ ...ended, error: outcome.error }, 'webhook failed')
      }

      for (const row of await webhooksHeldBy(db, tables, claim)) await takeUp(framework, row, claim, settle)
      const rows = await claimPendingWebhooks(db, tables, { integrationId, claim, limit })
      const ran = await runBatch({
        rows,
        concurrency: config.webhook.concurrency,
        signal: context.cancellationSignal,
        logger,
        run: (row) => runWebhook(framework, row),
        settle,
        handBack: (unstarted) =>
          handBackWebhooks(
            db,
            tables,
            claim,
            unstarted.map((row) => row.id),
          ),
      })
      // Rows that went back are pending again: the lane must come for them.
      return { ...tally, claimed: ran < rows.length ? limit : rows.length }
    },
  }
}

/** A row whose worker died with it. One at a time: if it is what kills workers, it takes no other down. */
async function takeUp(
  framework: Framework,
  row: WebhookRow,
  claim: string,
  settle: (outcomes: readonly WebhookOutcome[]) => Promise<void>,
): Promise<void> {
  const taken = await takeUpWebhook(framework.db, framework.tables, row, claim)
  if (taken === null) return
  framework.logger.warn(
    { event: 'webhook.worker_lost', integration: row.integrationId, webhook: row.id, losses: taken.losses },
    'the worker of a webhook was lost; it is taken up again',
  )
  if (taken.losses < MAX_LOST_WORKERS) return settle([await runWebhook(framework, taken.row)])
  await settle([
    {
      id: row.id,
      attempts: taken.row.attempts,
      claim: taken.row.claim ?? '',
      status: 'failed',
      error: `worker lost ${taken.losses} times`,
      result: null,
      durationMs: 0,
    },
  ])
}
