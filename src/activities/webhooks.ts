import { MAX_LOST_WORKERS } from '../core/claim.ts'
import type { AsksLabels, FoundBy } from '../core/search-attributes.ts'
import { compareVersions } from '../core/stale-version.ts'
import type { WebhookOutcome } from '../db/queries/webhooks.ts'
import {
  claimPendingWebhooks,
  handBackWebhooks,
  settledBefore,
  settleWebhooks,
  takeUpWebhook,
  webhooksHeldBy,
} from '../db/queries/webhooks.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import type { IntegrationContext } from '../operations/integration-context.ts'
import { integrationReader } from '../operations/integration-context.ts'
import { BatchSubjects } from '../operations/metric-subject.ts'
import { patiently } from '../operations/patiently.ts'
import type { Guarded } from '../operations/stale-guard.ts'
import { HandledVersions } from '../operations/stale-guard.ts'
import { guardedBy, runWebhook } from '../operations/webhooks.ts'
import type { Batch } from './batch.ts'
import { runBatch } from './batch.ts'
import { Ending } from './ending.ts'
import { foundBy } from './found-by.ts'
import { takenUpTogether } from './lost-rows.ts'
import type { Surroundings } from './surroundings.ts'
import { temporalSurroundings } from './surroundings.ts'

const MS_PER_SECOND = 1_000

export interface WebhookBatch extends AsksLabels {
  readonly integrationId: number
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  readonly limit: number
}

export interface WebhookBatchResult extends FoundBy {
  /** Pending rows that this batch took; equal to the limit when more may wait. */
  readonly claimed: number
  readonly processed: number
  readonly failed: number
  /** The slowest handler. */
  readonly slowestMs: number
}

export function webhookActivities(framework: Framework, surroundings = temporalSurroundings) {
  const { db, tables } = framework

  return {
    /** Takes pending webhooks of one integration and runs each one's handler. May be run twice, as {@link processRows}. */
    async processPendingWebhooks({ integrationId, claim, limit, ...asks }: WebhookBatch): Promise<WebhookBatchResult> {
      let taken = 0
      const { handedBack, processed, failed, slowestMs } = await processRows(framework, surroundings(), {
        claim,
        async take() {
          const rows = await claimPendingWebhooks(db, tables, { integrationId, claim, limit })
          taken = rows.length
          return rows
        },
      })
      // Rows that went back are pending again: the lane must come for them.
      const labels = await foundBy(framework, integrationId, asks)
      return { claimed: handedBack > 0 ? limit : taken, processed, failed, slowestMs, ...labels }
    },
  }
}

/** What became of the rows of one claim. */
export interface Tally {
  readonly processed: number
  readonly failed: number
  /** `pending` again, the attempt not counted: the worker stopped, or Temporal could not be told of a handler. */
  readonly handedBack: number
  /** The slowest handler, in milliseconds. */
  readonly slowestMs: number
}

export interface ProcessRows {
  readonly claim: string
  /** Claims rows under `claim`. @param held how many an earlier try of the same activity had left behind */
  take(held: number): Promise<readonly WebhookRow[]>
}

/**
 * Runs the handlers of claimed rows and settles them.
 *
 * May be run twice under the same claim: the rows that the first try still holds are taken up before others are claimed,
 * and the loss is counted; rows that were settled are settled.
 */
export async function processRows(
  framework: Framework,
  { cancellationSignal, graceIsOver }: Surroundings,
  { claim, take }: ProcessRows,
): Promise<Tally> {
  const ending = new Ending(cancellationSignal, graceIsOver)
  const runner = new RowRunner(framework, claim, ending)
  try {
    await runner.run(await take(await runner.takeUpHeld()))
  } finally {
    ending.release()
  }
  return runner.tally
}

/** Runs and settles the rows of one claim. */
class RowRunner {
  readonly tally = { processed: 0, failed: 0, handedBack: 0, slowestMs: 0 }
  readonly #framework: Framework
  readonly #claim: string
  readonly #subjects: BatchSubjects
  readonly #batch: Omit<Batch<WebhookRow, IntegrationContext | null, WebhookOutcome>, 'rows'>
  readonly #integrationOf = new Map<number, number>()

  /** @param ending when it begins nothing new starts; at its end handlers that still run are given up, and their rows go back */
  constructor(framework: Framework, claim: string, { begun, signal: enough }: Ending) {
    const { config, db, tables, logger } = framework
    const handled = new HandledVersions()
    this.#framework = framework
    this.#claim = claim
    this.#subjects = new BatchSubjects(integrationReader(framework))
    this.#batch = {
      concurrency: config.webhook.concurrency,
      signal: begun,
      logger,
      prepare: (row) => this.#subjects.read(row.integrationId),
      run: (row, integration) => runWebhook(framework, row, integration, { handled, enough }),
      settle: (outcomes) => this.#settle(outcomes, 'ran'),
      handBack: async (unstarted) => {
        this.tally.handedBack += await handBackWebhooks(db, tables, unstarted)
      },
    }
  }

  /**
   * Takes up what an earlier try of the same activity left behind.
   *
   * @returns how many there were
   */
  async takeUpHeld(): Promise<number> {
    const { config, db, tables } = this.#framework
    const heldRows = await webhooksHeldBy(db, tables, this.#claim)
    for (const group of takenUpTogether(heldRows, this.#claim, config.webhook.concurrency)) {
      const again: WebhookRow[] = []
      for (const held of group) {
        const taken = await this.#takeUp(held)
        if (taken?.kind === 'again') again.push(taken.row)
        if (taken?.kind === 'given up') {
          this.#integrationOf.set(held.id, held.integrationId)
          await patiently('a settlement', () => this.#settle([taken.outcome], 'given up'), this.#batch)
        }
      }
      await this.run(again)
    }
    return heldRows.length
  }

  async run(rows: readonly WebhookRow[]): Promise<void> {
    for (const row of rows) this.#integrationOf.set(row.id, row.integrationId)
    const read = (id: number) => this.#subjects.read(id)
    await runBatch({ ...this.#batch, ...(await newestFirst(this.#framework, rows, read)) })
  }

  /** Takes up a row whose worker died with it, or gives it up after too many. Null: somebody else has moved it since. */
  async #takeUp(
    held: WebhookRow,
  ): Promise<{ kind: 'again'; row: WebhookRow } | { kind: 'given up'; outcome: WebhookOutcome } | null> {
    const { db, tables, logger } = this.#framework
    const taken = await takeUpWebhook(db, tables, held, this.#claim)
    if (taken === null) return null
    const { row, losses } = taken
    await this.#subjects.note(row.integrationId)
    const { provider } = this.#subjects.of(row.integrationId)
    logger.warn(
      { event: 'webhook.worker_lost', integration: row.integrationId, provider, webhook: row.id, losses },
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

  async #settle(outcomes: readonly WebhookOutcome[], how: 'ran' | 'given up'): Promise<void> {
    const { db, tables } = this.#framework
    const settled = await settleWebhooks(db, tables, outcomes)
    const left = outcomes.filter(({ id }) => !settled.has(id))
    for (const id of await settledBefore(db, tables, left)) settled.add(id)
    for (const outcome of outcomes) {
      this.#report(outcome, settled.has(outcome.id))
      if (settled.has(outcome.id)) this.#count(outcome, how)
    }
  }

  #count({ id, status, durationMs }: WebhookOutcome, how: 'ran' | 'given up'): void {
    const of = this.#subjects.of(this.#integrationOf.get(id) ?? 0)
    this.#framework.metrics.webhookSettled(of, status, how === 'ran' ? durationMs / MS_PER_SECOND : null)
  }

  #report(outcome: WebhookOutcome, settled: boolean): void {
    const { logger } = this.#framework
    const { id: integration, provider } = this.#subjects.of(this.#integrationOf.get(outcome.id) ?? 0)
    const fields = { integration, provider, webhook: outcome.id, attempt: outcome.attempts }
    if (!settled) {
      logger.warn({ event: 'webhook.superseded', ...fields }, 'a later attempt holds this webhook; its outcome counts')
      return
    }
    this.tally[outcome.status] += 1
    this.tally.slowestMs = Math.max(this.tally.slowestMs, outcome.durationMs)
    const ended = { event: `webhook.${outcome.status}`, ...fields, duration_ms: outcome.durationMs }
    if (outcome.status === 'processed') logger.info(ended, 'webhook processed')
    else logger.warn({ ...ended, error: outcome.error }, 'webhook failed')
  }
}

/**
 * Of rows that are versions of the same thing the newest one first, one at a time: the others are stale then and cost no
 * lock, and none of them waits for the lock in the place of a row that could run. All other rows keep their places.
 */
async function newestFirst(
  framework: Framework,
  rows: readonly WebhookRow[],
  read: (integrationId: number) => Promise<IntegrationContext | null>,
): Promise<{ rows: readonly WebhookRow[]; keyOf?: (row: WebhookRow) => string | null }> {
  const guarded = new Map<number, Guarded>()
  for (const row of rows) {
    const integration = await read(row.integrationId).catch(() => undefined)
    // The database is away: no time is lost over an order, and the rows wait for it where they run.
    if (integration === undefined) return { rows }
    const verdict = integration === null ? null : guardedBy(framework, row, integration.row)
    if (verdict !== null) guarded.set(row.id, verdict)
  }
  if (guarded.size === 0) return { rows }
  const keyOf = ({ id }: WebhookRow): string | null => {
    const verdict = guarded.get(id)
    return verdict === undefined ? null : `${verdict.integrationId}:${verdict.keyHash}`
  }
  const versionOf = ({ id }: WebhookRow) => guarded.get(id)?.version ?? 0
  const byKey = new Map<string, WebhookRow[]>()
  for (const row of rows) {
    const key = keyOf(row)
    if (key !== null) byKey.set(key, [...(byKey.get(key) ?? []), row])
  }
  for (const versions of byKey.values()) versions.sort((a, b) => compareVersions(versionOf(b), versionOf(a)))
  return { rows: rows.map((row) => byKey.get(keyOf(row) ?? '')?.shift() ?? row), keyOf }
}
