/** The handlers of stored webhooks. Rule: docs/behaviour/webhooks.md, "The inbox". */
import { performance } from 'node:perf_hooks'
import { MAX_LOST_WORKERS } from '../core/claim.ts'
import { errorLine } from '../core/logger.ts'
import { endPromise, promiseToLook, readPromise } from '../db/queries/inbox-lease.ts'
import {
  endClaim,
  handBackUnknown,
  idsHeldBy,
  keepClaim,
  leftApart,
  pumpClaims,
  setApart,
  webhookClaims,
} from '../db/queries/webhook-claims.ts'
import type { WebhookOutcome } from '../db/queries/webhooks.ts'
import { handBackWebhooks, settledBefore, settleWebhooks, takeUpWebhook } from '../db/queries/webhooks.ts'
import type { WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { WEBHOOK_INBOX } from '../operations/inbox-promise.ts'
import { IntegrationContexts } from '../operations/integration-contexts.ts'
import { patiently } from '../operations/patiently.ts'
import { HandledVersions } from '../operations/stale-guard.ts'
import { guardedBy, runWebhook } from '../operations/webhooks.ts'
import { START_WINDOW_MS } from './batch.ts'
import { Ending } from './ending.ts'
import { notItsTurn } from './not-its-turn.ts'
import type { PumpEnd, Source, Standing } from './pump/pump.ts'
import { Pump } from './pump/pump.ts'
import type { Surroundings } from './surroundings.ts'
import { temporalSurroundings } from './surroundings.ts'

const MS_PER_SECOND = 1_000
const HEARTBEAT_EVERY_MS = 5_000
/** A claim that looks unserved is looked at again after this time: Postgres may only just be back, and its holder as well. */
const CERTAIN_MS = 2_000
/** Rows that were set apart and have no workflow yet. */
const LEFT_SECONDS = 20
const JOBS_AT_ONCE = 50

export interface PumpWebhooks {
  /** Made by the workflow; each try of the activity adds its number, so that it has a claim of its own. */
  readonly claim: string
}

export interface PumpedWebhooks {
  readonly end: PumpEnd
  readonly processed: number
  readonly failed: number
  /** Rows that are `pending` again. */
  readonly handedBack: number
}

export function webhookActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Handles pending webhooks of all integrations, for ten minutes or until none is left and the promise to look is kept.
     *
     * May be run twice: each try has a claim of its own. Rows of one that has died are set apart by any pump.
     */
    async pumpWebhooks({ claim: given }: PumpWebhooks): Promise<PumpedWebhooks> {
      const context = surroundings()
      if (context.stopping?.aborted === true) throw notItsTurn('this worker stops', '200 milliseconds')
      const claim = `${given}:${context.info.attempt}`
      return pumped(framework, context, claim, standingOf(framework, given, claim))
    },
  }
}

/** Handles what is pending, without any workflow, until nothing is. */
export function pumpUntilEmpty(
  framework: Framework,
  surroundings: Surroundings,
  claim: string,
): Promise<PumpedWebhooks> {
  return pumped(framework, surroundings, claim)
}

async function pumped(
  framework: Framework,
  { cancellationSignal, graceIsOver, stopping, heartbeat }: Surroundings,
  claim: string,
  standing?: Standing,
): Promise<PumpedWebhooks> {
  const { config, logger } = framework
  // A cancellation alone gives no handler up: Temporal may have been away, and have taken this pump for dead.
  const ending = new Ending(graceIsOver ?? cancellationSignal)
  const begun = AbortSignal.any([cancellationSignal, ending.begun])
  const work = new WebhookWork(framework, begun)
  const pump = new Pump<WebhookRow, WebhookOutcome>({
    source: sourceOf(framework, work, claim),
    concurrency: config.webhook.concurrency,
    begun,
    enough: ending.signal,
    logger,
    ...(standing === undefined ? {} : { standing }),
    ...(stopping === undefined ? {} : { stopping }),
  })
  const beat = setInterval(() => heartbeat?.(pump.figures), HEARTBEAT_EVERY_MS)
  try {
    const end = await pump.run()
    return { end, ...work.tally }
  } finally {
    clearInterval(beat)
    ending.release()
  }
}

function sourceOf(framework: Framework, work: WebhookWork, claim: string): Source<WebhookRow, WebhookOutcome> {
  const { db, tables } = framework
  const windowMs = startWindowMs(framework)
  const claimNext = webhookClaims(db, tables, claim)
  return {
    async claim({ after, integrations, rows: limit, room, rooms }) {
      const seenAt = performance.now()
      const limits = { after, integrations, rows: limit, room, rooms }
      const { rows, versions, ...walk } = await claimNext(limits)
      // Each is read again where it is needed: no claimed row is lost to a read that fails.
      if (rows.length > 0) await work.contexts.refresh(versions, seenAt).catch(() => {})
      const startBy = performance.now() + windowMs
      const queued = rows.map((row) => ({
        row,
        bytes: row.payload.length,
        startBy,
        guarded: work.guardOf(row),
      }))
      return { rows: queued, ...walk }
    },
    run: (row, lost) => work.run(row, lost),
    settle: (outcomes) => work.settle(outcomes),
    handBack: (rows) => work.handBack(rows),
    heldIds: () => idsHeldBy(db, tables, claim),
    handBackUnknown: (known) => handBackUnknown(db, tables, claim, known),
  }
}

/** A pump as other processes know it. @param given its claim, as its workflow knows it */
function standingOf(framework: Framework, given: string, claim: string): Standing {
  const { db, tables, config, workflows } = framework
  const prefix = config.cache_prefix
  const inbox = { prefix, inbox: WEBHOOK_INBOX }
  const suspects = new Map<string, number>()
  return {
    promise: (ms) => promiseToLook(db, tables, inbox, claim, ms),
    async promisedFor() {
      const promised = await readPromise(db, tables, inbox)
      return promised === null || promised.hasEnded ? 0 : Math.max(0, promised.remainingMs)
    },
    keptPromise: () => endPromise(db, tables, inbox, claim),
    serve: (seconds) => keepClaim(db, tables, { prefix, claim }, seconds),
    ended: () => endClaim(db, tables, { prefix, claim }),
    rescue: () => rescue(framework, suspects, (held) => held.startsWith(`${given}:`) && held !== claim),
    call: (needs) => workflows.callPump({ claim: given, needs }),
  }
}

/**
 * Sets the rows of dead pumps apart, and has a workflow handle each of them.
 *
 * @param suspects claims that looked unserved, and since when
 * @param isPredecessor whether a claim is of an earlier try of the same activity, which its worker's death has ended
 * @returns whether some claim may still turn out to be a dead one's
 */
async function rescue(
  framework: Framework,
  suspects: Map<string, number>,
  isPredecessor: (claim: string) => boolean,
): Promise<{ looksAgain: boolean }> {
  const { db, tables, config, logger } = framework
  const prefix = config.cache_prefix
  const claims = await pumpClaims(db, tables, prefix)
  const unserved = new Set(claims.filter(({ served }) => !served).map(({ claim }) => claim))
  for (const claim of suspects.keys()) if (!unserved.has(claim)) suspects.delete(claim)
  for (const claim of unserved) {
    const since = suspects.get(claim) ?? performance.now()
    suspects.set(claim, since)
    if (performance.now() - since < CERTAIN_MS) continue
    const rows = await setApart(db, tables, { prefix, claim })
    suspects.delete(claim)
    if (rows.length > 0)
      logger.warn(
        { event: 'inbox.pump_lost', claim, webhooks: rows.length },
        'the worker of some webhooks was lost; each is handled by a workflow of its own now',
      )
    await startJobs(
      framework,
      rows.map(({ id }) => id),
    )
  }
  const left = await leftApart(db, tables, { olderThanSeconds: LEFT_SECONDS, limit: JOBS_AT_ONCE })
  await startJobs(framework, left)
  const hasMore = left.length === JOBS_AT_ONCE
  return {
    looksAgain: hasMore || suspects.size > 0 || claims.some(({ claim, served }) => served && isPredecessor(claim)),
  }
}

/** Those that can't be started now are asked for again. */
async function startJobs({ workflows, logger }: Framework, ids: readonly number[]): Promise<void> {
  for (let at = 0; at < ids.length; at += JOBS_AT_ONCE) {
    const page = ids.slice(at, at + JOBS_AT_ONCE)
    const started = await Promise.allSettled(page.map((webhookId) => workflows.startProcessWebhook({ webhookId })))
    const failure = started.find((result) => result.status === 'rejected')
    if (failure === undefined) continue
    logger.warn(
      { event: 'webhook.job_not_started', webhooks: ids.length - at, error: errorLine(failure.reason, 300) },
      'a job could not be started; its webhook waits, and is tried again',
    )
    return
  }
}

/** What became of the rows of one claim. */
export interface Tally {
  processed: number
  failed: number
  /** `pending` again, the attempt not counted: the worker stopped, or Temporal could not be told of a handler. */
  handedBack: number
}

/** Runs handlers and stores what became of their rows: for a pump, and for a row on its own. */
export class WebhookWork {
  readonly tally: Tally = { processed: 0, failed: 0, handedBack: 0 }
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
function startWindowMs({ config }: Framework): number {
  const { processing_timeout, handler_timeout } = config.webhook
  return Math.min(START_WINDOW_MS, ((processing_timeout - handler_timeout) * MS_PER_SECOND) / 2)
}
