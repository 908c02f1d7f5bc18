import { MAX_LOST_WORKERS } from '../core/claim.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { WebhookOutcome } from '../db/queries/webhooks.ts'
import {
  claimPendingWebhooks,
  handBackWebhooks,
  settleWebhooks,
  takeUpWebhook,
  webhooksHeldBy,
} from '../db/queries/webhooks.ts'
import type { IntegrationRow, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { runWebhook } from '../operations/webhooks.ts'
import type { Batch } from './batch.ts'
import { patiently, runBatch } from './batch.ts'
import { temporalSurroundings } from './surroundings.ts'

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

export function webhookActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { config, db, tables, logger } = framework

  return {
    /**
     * Takes pending webhooks of one integration and runs each one's handler.
     *
     * May be run twice: a second try under the same claim first takes up the rows that the first one still holds, one at
     * a time, and counts the loss; rows that were settled are settled.
     */
    async processPendingWebhooks({ integrationId, claim, limit }: WebhookBatch): Promise<WebhookBatchResult> {
      const context = surroundings()
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

      const batch: Omit<Batch<WebhookRow, IntegrationRow | null, WebhookOutcome>, 'rows'> = {
        concurrency: config.webhook.concurrency,
        signal: context.cancellationSignal,
        logger,
        prepare: (row) => findIntegration(db, tables, row.integrationId),
        run: (row, integration) => runWebhook(framework, row, integration),
        settle,
        handBack: (unstarted) =>
          handBackWebhooks(
            db,
            tables,
            claim,
            unstarted.map((row) => row.id),
          ),
      }
      // One at a time: if a row is what kills workers, it takes no other down.
      for (const held of await webhooksHeldBy(db, tables, claim)) {
        const taken = await takeUp(framework, held, claim)
        if (taken?.kind === 'again') await runBatch({ ...batch, rows: [taken.row] })
        if (taken?.kind === 'given up') await patiently('a settlement', () => settle([taken.outcome]), batch)
      }
      const rows = await claimPendingWebhooks(db, tables, { integrationId, claim, limit })
      const ran = await runBatch({ ...batch, rows })
      // Rows that went back are pending again: the lane must come for them.
      return { ...tally, claimed: ran < rows.length ? limit : rows.length }
    },
  }
}

/** Takes up a row whose worker died with it, or gives it up after too many. Null: somebody else has moved it since. */
async function takeUp(
  { db, tables, logger }: Framework,
  held: WebhookRow,
  claim: string,
): Promise<{ kind: 'again'; row: WebhookRow } | { kind: 'given up'; outcome: WebhookOutcome } | null> {
  const taken = await takeUpWebhook(db, tables, held, claim)
  if (taken === null) return null
  const { row, losses } = taken
  logger.warn(
    { event: 'webhook.worker_lost', integration: row.integrationId, webhook: row.id, losses },
    'the worker of a webhook was lost; it is taken up again',
  )
  if (losses < MAX_LOST_WORKERS) return { kind: 'again', row }
  return {
    kind: 'given up',
    outcome: {
      id: row.id,
      attempts: row.attempts,
      claim: row.claim ?? '',
      status: 'failed',
      error: `worker lost ${losses} times`,
      result: null,
      durationMs: 0,
    },
  }
}
