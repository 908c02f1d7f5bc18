/** The handlers of stored webhooks. Rule: docs/behaviour/webhooks.md, "The inbox". */
import { performance } from 'node:perf_hooks'
import { START_WINDOW_MS } from '../claims/batch.ts'
import type { Ending } from '../claims/ending.ts'
import type { Pumped, PumpInput } from '../claims/pump-jobs.ts'
import { WEBHOOK_INBOX } from '../claims/pump-jobs.ts'
import { pumpedWebhooks } from '../claims/pump-queries.ts'
import { MAX_LOST_WORKERS } from '../claims/rules.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { patiently } from '../framework/patiently.ts'
import { IntegrationContexts } from '../integrations/integration-contexts.ts'
import { claimNextWebhooks, leftApart } from '../webhooks/claim-queries.ts'
import { guardedBy, runWebhook } from '../webhooks/handling.ts'
import type { WebhookOutcome } from '../webhooks/queries.ts'
import { handBackWebhooks, settledBefore, settleWebhooks, takeUpWebhook } from '../webhooks/queries.ts'
import { webhookState } from '../webhooks/recovery-queries.ts'
import { HandledVersions } from '../webhooks/stale-guard.ts'
import type { HandlingOf, LostRows, Pumping } from './pumping.ts'
import { pumpUntilRelieved } from './pumping.ts'
import { temporalSurroundings } from './surroundings.ts'

const MS_PER_SECOND = 1_000
/** Rows that were set apart and have no workflow yet. */
const LEFT_SECONDS = 20
const JOBS_AT_ONCE = 50

export function webhookActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Handles pending webhooks of all integrations, for ten minutes or until none is left and the promise to look is kept.
     *
     * May be run twice: each try has a claim of its own. Rows of one that has died are set apart by any pump.
     */
    pumpWebhooks: (input: PumpInput): Promise<Pumped> =>
      pumpUntilRelieved(framework, webhookPumping(framework), surroundings(), input),
  }
}

export function webhookPumping(framework: Framework): Pumping<WebhookRow, WebhookOutcome> {
  const { tables, config } = framework
  return {
    queue: WEBHOOK_INBOX,
    rows: pumpedWebhooks(tables),
    concurrency: config.webhook.concurrency,
    isPatient: true,
    workOf(claim, begun) {
      const work = new WebhookWork(framework, begun)
      return { tally: work.tally, ...handling(framework, work, claim) }
    },
    afterLosses: (lost) => jobsForLost(framework, lost),
    nextDueInMs: async () => null,
  }
}

function handling(
  { db, tables, config }: Framework,
  work: WebhookWork,
  claim: string,
): HandlingOf<WebhookRow, WebhookOutcome> {
  const windowMs = startWindowMs(config)
  return {
    async claim(room) {
      const seenAt = performance.now()
      const { rows, versions, ...walk } = await claimNextWebhooks(db, tables, claim, room)
      // Each is read again where it is needed: no claimed row is lost to a read that fails.
      if (rows.length > 0) await work.contexts.refresh(versions, seenAt).catch(() => {})
      const startBy = performance.now() + windowMs
      const queued = rows.map((row) => ({
        row,
        queue: row.integrationId,
        bytes: row.payload.length,
        startBy,
        guarded: work.guardOf(row),
      }))
      return { rows: queued, ...walk }
    },
    run: (row, lost) => work.run(row, lost),
    settle: (outcomes) => work.settle(outcomes),
    handBack: (rows) => work.handBack(rows),
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

/** Those that can't be started now are asked for again. */
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

/** Runs handlers and stores what became of their rows: for a pump, and for a row on its own. */
export class WebhookWork {
  readonly tally = { processed: 0, failed: 0, handedBack: 0 }
  readonly contexts: IntegrationContexts
  readonly #framework: Framework
  readonly #begun: AbortSignal
  readonly #handled = new HandledVersions()

  /** @param begun aborted when the worker stops: what a row needs is not waited for any more */
  constructor(framework: Framework, begun: AbortSignal) {
    this.#framework = framework
    this.#begun = begun
    this.contexts = new IntegrationContexts(framework)
  }

  guardOf(row: WebhookRow) {
    const integration = this.contexts.known(row.integrationId)
    const guarded = integration === null ? null : guardedBy(this.#framework, row, integration.row)
    return guarded === null ? null : { key: guarded.keyHash, version: guarded.version }
  }

  /** Null: it was not handled, or is another one's by now. @param enough aborted when its handler is given up */
  async run(row: WebhookRow, enough: AbortSignal): Promise<WebhookOutcome | null> {
    try {
      const integration = await patiently('reading what a row needs', () => this.contexts.read(row.integrationId), {
        signal: this.#begun,
        logger: this.#framework.logger,
      })
      return await runWebhook(this.#framework, row, integration, { handled: this.#handled, enough })
    } catch {
      // The database was away until the worker stopped. It has not started, and is logged.
      return null
    }
  }

  async handBack(rows: readonly WebhookRow[]): Promise<void> {
    const { db, tables } = this.#framework
    this.tally.handedBack += await handBackWebhooks(db, tables, rows)
  }

  async settle(outcomes: readonly WebhookOutcome[], how: 'ran' | 'given up' = 'ran'): Promise<void> {
    const { db, tables } = this.#framework
    const settled = await settleWebhooks(db, tables, outcomes)
    const left = outcomes.filter(({ id }) => !settled.has(id))
    for (const id of await settledBefore(db, tables, left)) settled.add(id)
    for (const outcome of outcomes) this.#report(outcome, settled.has(outcome.id), how)
  }

  /**
   * Takes up a row whose worker died, or gives it up after too many: then it is settled.
   *
   * @returns null: it is settled, or somebody has moved it since
   */
  async takeUp(held: WebhookRow): Promise<WebhookRow | null> {
    const { db, tables, logger } = this.#framework
    const row = await takeUpWebhook(db, tables, held)
    if (row === null) return null
    await this.contexts.read(row.integrationId).catch(() => null)
    const { provider } = this.contexts.subject(row.integrationId)
    logger.warn(
      {
        event: 'webhook.worker_lost',
        integration: row.integrationId,
        provider,
        webhook: row.id,
        losses: row.lostWorkers,
      },
      'the worker of a webhook was lost; it is taken up again',
    )
    return this.unlessLostTooOften(row)
  }

  /** Null: it has lost too many workers, and is settled as failed. */
  async unlessLostTooOften(row: WebhookRow): Promise<WebhookRow | null> {
    if (row.lostWorkers < MAX_LOST_WORKERS) return row
    const error = `worker lost ${row.lostWorkers} times`
    const outcome: WebhookOutcome = {
      id: row.id,
      integrationId: row.integrationId,
      attempts: row.attempts,
      claim: row.claim ?? '',
      status: 'failed',
      error,
      loggedError: error,
      result: null,
      durationMs: 0,
    }
    await patiently('a settlement', () => this.settle([outcome], 'given up'), {
      signal: this.#begun,
      logger: this.#framework.logger,
    })
    return null
  }

  #report(outcome: WebhookOutcome, settled: boolean, how: 'ran' | 'given up'): void {
    const { id, integrationId, status, attempts, durationMs, loggedError } = outcome
    const { logger, metrics } = this.#framework
    const subject = this.contexts.subject(integrationId)
    const fields = { integration: subject.id, provider: subject.provider, webhook: id, attempt: attempts }
    if (!settled) {
      logger.warn({ event: 'webhook.superseded', ...fields }, 'a later attempt holds this webhook; its outcome counts')
      return
    }
    this.tally[status] += 1
    metrics.webhookSettled(subject, status, how === 'ran' ? durationMs / MS_PER_SECOND : null)
    const ended = { event: `webhook.${status}`, ...fields, duration_ms: durationMs }
    if (status === 'processed') logger.info(ended, 'webhook processed')
    else logger.warn({ ...ended, error: loggedError }, 'webhook failed')
  }
}

/** Those of a row on its own: nothing claims it meanwhile. @throws the last error when the worker stopped before it was stored */
export async function runOne(framework: Framework, work: WebhookWork, row: WebhookRow, ending: Ending): Promise<void> {
  const patience = { signal: ending.begun, logger: framework.logger }
  const outcome = ending.begun.aborted ? null : await work.run(row, ending.signal)
  if (outcome === null) await patiently('handing a row back', () => work.handBack([row]), patience)
  else await patiently('a settlement', () => work.settle([outcome]), patience)
}

/**
 * A row that starts last of its claim has its whole time before recovery counts its worker as lost. Half of what is left over
 * is for its settlement.
 */
function startWindowMs(config: Framework['config']): number {
  const { processing_timeout, handler_timeout } = config.webhook
  return Math.min(START_WINDOW_MS, ((processing_timeout - handler_timeout) * MS_PER_SECOND) / 2)
}
