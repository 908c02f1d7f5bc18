/** The queue of stored webhooks: how a claimed row is run, and what is said of its outcome. Rule: docs/behaviour/webhooks.md, "The pump". */
import { START_WINDOW_MS } from '../claims/batch.ts'
import { settle, settleAround } from '../claims/claimed-rows.ts'
import type { LossRule, PumpedQueue } from '../claims/claimed-work.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { IntegrationContext } from '../integrations/integration-contexts.ts'
import { IntegrationContexts } from '../integrations/integration-contexts.ts'
import { guardedBy, runWebhook } from './handling.ts'
import type { OrderedKey } from './order.ts'
import { keysOfRows, lockingKeys, passedTurns, passingTurns, passTurnsBehind } from './order.ts'
import type { WebhookOutcome } from './queries.ts'
import { claimedWebhooks, claimNextWebhooks, WEBHOOK_LOSS, webhookOutcome } from './queries.ts'
import { HandledVersions } from './stale-guard.ts'

const MS_PER_SECOND = 1_000

/** A webhook whose attempt has ended. */
export interface EndedWebhook {
  readonly row: WebhookRow
  readonly settlement: WebhookOutcome
  /** False: it lost too many workers, and was given up without another run. */
  readonly hasRun: boolean
}

export type WebhookQueue = PumpedQueue<WebhookRow, EndedWebhook, IntegrationContext> & {
  readonly losses: LossRule<WebhookRow, EndedWebhook>
}

/** One for each pump, or job: it remembers integrations, and versions that were handled. */
export function webhookQueue(framework: Framework): WebhookQueue {
  const { db, tables, config, metrics } = framework
  const contexts = new IntegrationContexts(framework)
  const handled = new HandledVersions()
  return {
    rows: claimedWebhooks(tables),
    named: { event: 'webhook', field: 'webhook', row: 'webhook' },
    contexts,
    startWindowMs: startWindowMs(config),
    providerOf: (id) => contexts.subject(id).provider,
    claimNext: (claim, room) => claimNextWebhooks(db, tables, claim, room),
    place(row) {
      const integration = contexts.known(row.integrationId)
      const guarded = integration === null ? null : guardedBy(framework, row, integration.row)
      return {
        queue: row.integrationId,
        bytes: row.payload.length,
        guarded: guarded === null ? null : { key: guarded.keyHash, version: guarded.version },
        isOrdered: row.orderingKey !== null,
      }
    },
    async run(row, integration, enough) {
      const settlement = await runWebhook(framework, row, integration, { handled, enough })
      return settlement === null ? null : { row, settlement, hasRun: true }
    },
    failed: (row, error) => ({
      row,
      hasRun: true,
      settlement: webhookOutcome(row, { status: 'failed', error }, 0),
    }),
    // Without ordering keys, which a pump's lanes keep apart, it is the one statement of every settlement.
    store: (outcomes) => {
      const settlements = outcomes.map(({ row, settlement }) =>
        row.orderingKey === null ? settlement : { ...settlement, keepsTurn: isTriedAgain(settlement, config) },
      )
      const keys = keysOfRows(outcomes.map(({ row }) => row))
      return keys.length === 0
        ? settle(db, claimedWebhooks(tables), settlements)
        : settleInOrder(framework, settlements, keys)
    },
    report({ settlement: { id, integrationId, status, attempts, durationMs, loggedError }, hasRun }) {
      const subject = contexts.subject(integrationId)
      metrics.webhookSettled(subject, status, hasRun ? durationMs / MS_PER_SECOND : null)
      const logger = integrationLogger(framework, { id: integrationId, provider: subject.provider })
      const fields = { event: `webhook.${status}`, webhook: id, attempt: attempts, duration_ms: durationMs }
      if (status === 'processed') logger.info(fields, 'webhook processed')
      else logger.warn({ ...fields, error: loggedError }, 'webhook failed')
      return status
    },
    losses: {
      count: ({ lostWorkers }) => lostWorkers,
      oneMore: () => WEBHOOK_LOSS,
      note: (id) => contexts.read(id).catch(() => null),
      givenUp: (row, error) => ({
        row,
        hasRun: false,
        settlement: webhookOutcome(row, { status: 'failed', error }, 0),
      }),
    },
  }
}

const isTriedAgain = ({ status, attempts }: WebhookOutcome, { webhook }: Framework['config']): boolean =>
  status === 'failed' && attempts < webhook.max_attempts

/** The turn goes on in the statement that settles the row. */
async function settleInOrder(
  framework: Framework,
  settlements: readonly WebhookOutcome[],
  keys: readonly OrderedKey[],
): Promise<Set<number>> {
  const { db, tables, workflows } = framework
  const { settled, after } = await despiteDeadlocks(() =>
    settleAround(db, claimedWebhooks(tables), settlements, {
      before: lockingKeys(tables, keys),
      after: passingTurns(tables, keys),
    }),
  )
  const { passed, isMore } = passedTurns(after)
  // No pump may look where a workflow of its own ran the row.
  if (passed > 0) workflows.wakeInbox()
  // The rows are settled: should this fail, the settlement is repeated, finds that, and goes on here.
  if (isMore)
    await passTurnsBehind(
      framework,
      keys.map(({ integrationId, key }) => ({ integrationId, orderingKey: key })),
    )
  return settled
}

/**
 * A row that starts last of its claim has its whole time before recovery counts its worker as lost. Half of what is left over
 * is for its settlement.
 */
function startWindowMs(config: Framework['config']): number {
  const { processing_timeout, handler_timeout } = config.webhook
  return Math.min(START_WINDOW_MS, ((processing_timeout - handler_timeout) * MS_PER_SECOND) / 2)
}
