/** Delivers durable events. Rule: docs/behaviour/events.md, "Durable events". */
import { setMaxListeners } from 'node:events'
import { MAX_LOST_WORKERS } from '../core/claim.ts'
import type { EventRow } from '../db/queries/events.ts'
import {
  claimEvents,
  eventsHeldBy,
  eventsSettledBefore,
  handBackEvents,
  nextEventDueInMs,
  settleEvents,
  takeUpEvent,
  wasTold,
} from '../db/queries/events.ts'
import type { Framework } from '../framework.ts'
import { givenNowMs } from '../operations/given-clock.ts'
import type { IntegrationContext } from '../operations/integration-context.ts'
import { integrationReader } from '../operations/integration-context.ts'
import { BatchSubjects } from '../operations/metric-subject.ts'
import type { Told, ToldEvent } from '../operations/tell-event.ts'
import { tellEvent } from '../operations/tell-event.ts'
import type { Batch } from './batch.ts'
import { runBatch, START_WINDOW_MS } from './batch.ts'
import { takenUpTogether } from './lost-rows.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Events that are told beside each other: one whose target is dead holds up a tenth of its batch. */
const CONCURRENCY = 10

export interface EventBatch {
  /** Made by the workflow, so that a second try of this very activity carries the same one. */
  readonly claim: string
  readonly limit: number
}

export interface EventBatchResult {
  /** Due rows that this batch took; equal to the limit when more fresh ones may wait. */
  readonly claimed: number
  /** Rows that are done with: everybody had them, or was given up. */
  readonly processed: number
  /** Rows that are tried again later. */
  readonly failed: number
  /** The slowest delivery. */
  readonly slowestMs: number
  /** Until the next row is due, at least 0; null: none waits. */
  readonly nextDueInMs: number | null
}

export function eventActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Takes the events that are due and tells those who wait for them. May be run twice under the same claim: the rows that
     * the first try still holds are taken up before others are claimed, and the loss is counted.
     */
    async deliverEvents({ claim, limit }: EventBatch): Promise<EventBatchResult> {
      const { db, tables } = framework
      const runner = new EventRunner(framework, claim, surroundings().cancellationSignal)
      await runner.takeUpHeld()
      const taken = await claimEvents(db, tables, { claim, limit, nowMs: givenNowMs(framework) })
      await runner.run(taken)
      const { leavesFresh, ...tally } = runner.tally
      return {
        ...tally,
        // Fresh rows that went back are due: the lane must come for them. Others wait for those who are slow or down, which
        // should not fill further lanes; when they are due is said below.
        claimed: leavesFresh ? limit : taken.length,
        nextDueInMs: await nextEventDueInMs(db, tables, givenNowMs(framework)),
      }
    },
  }
}

interface Claimed {
  readonly row: EventRow
  readonly judgedAtMs: number
  readonly lostWorkers?: number
}

interface Started extends Claimed {
  /** By performance.now(), the moment by which it was judged. */
  readonly takenAtMs: number
}

/** Tells and settles the rows of one claim. */
class EventRunner {
  readonly tally = { processed: 0, failed: 0, leavesFresh: false, slowestMs: 0 }
  readonly #framework: Framework
  readonly #claim: string
  readonly #subjects: BatchSubjects
  readonly #batch: Omit<Batch<Started, IntegrationContext | null, ToldEvent>, 'rows' | 'startBy'>

  constructor(framework: Framework, claim: string, signal: AbortSignal) {
    const { db, tables, logger } = framework
    // One listener for each that is told at this moment. Else Node takes the eleventh for a leak.
    setMaxListeners(0, signal)
    this.#framework = framework
    this.#claim = claim
    this.#subjects = new BatchSubjects(integrationReader(framework))
    this.#batch = {
      concurrency: CONCURRENCY,
      signal,
      logger,
      prepare: ({ row }) => this.#subjects.read(row.integrationId),
      // Its rows go with an integration that is deleted.
      run: async (claimed, integration) => (integration === null ? null : this.#tell(claimed, integration)),
      settle: (events) => this.#settle(events),
      handBack: async (unstarted) => {
        const rows = unstarted.map(({ row }) => row)
        await handBackEvents(db, tables, rows)
        if (!rows.every(wasTold)) this.tally.leavesFresh = true
      },
    }
  }

  /** Takes up what an earlier try of the same activity left behind. */
  async takeUpHeld(): Promise<void> {
    const { db, tables, logger } = this.#framework
    const held = await eventsHeldBy(db, tables, this.#claim)
    for (const group of takenUpTogether(held, this.#claim, CONCURRENCY)) {
      const again: Claimed[] = []
      for (const row of group) {
        const nowMs = givenNowMs(this.#framework)
        const taken = await takeUpEvent(db, tables, row, { claim: this.#claim, nowMs })
        if (taken === null) continue
        const { losses, ...claimed } = taken
        await this.#subjects.note(row.integrationId)
        const { provider } = this.#subjects.of(row.integrationId)
        logger.warn(
          { event: 'event.worker_lost', integration: row.integrationId, provider, id: row.id, losses },
          'the worker of an event was lost; it is taken up again',
        )
        again.push(losses < MAX_LOST_WORKERS ? claimed : { ...claimed, lostWorkers: losses })
      }
      await this.run(again)
    }
  }

  async run(rows: readonly Claimed[]): Promise<void> {
    const takenAtMs = performance.now()
    const startBy = takenAtMs + START_WINDOW_MS
    await runBatch({ ...this.#batch, startBy, rows: rows.map((row) => ({ ...row, takenAtMs })) })
  }

  #tell(
    { row, judgedAtMs, takenAtMs, lostWorkers }: Started,
    { handle }: IntegrationContext,
  ): Promise<ToldEvent | null> {
    const framework = this.#framework
    return tellEvent(framework, row, {
      integration: handle,
      nowMs: () => givenNowMs(framework) ?? Math.round(judgedAtMs + performance.now() - takenAtMs),
      signal: this.#batch.signal,
      ...(lostWorkers === undefined ? {} : { lostWorkers }),
    })
  }

  async #settle(events: readonly ToldEvent[]): Promise<void> {
    const { db, tables, logger } = this.#framework
    const settlements = events.map(({ settlement }) => settlement)
    const settled = await settleEvents(db, tables, settlements)
    const left = settlements.filter(({ id }) => !settled.has(id))
    for (const id of await eventsSettledBefore(db, tables, left)) settled.add(id)
    for (const { row, told, settlement } of events) {
      if (!settled.has(row.id)) {
        const { provider } = this.#subjects.of(row.integrationId)
        logger.warn(
          { event: 'event.superseded', integration: row.integrationId, provider, id: row.id },
          'a later try holds this event; its outcome counts',
        )
        continue
      }
      this.tally[settlement.dueAt === null ? 'processed' : 'failed'] += 1
      for (const each of told) this.#report(row, each)
    }
  }

  #report({ id, integrationId, name }: EventRow, { key, outcome, durationMs }: Told): void {
    const { logger } = this.#framework
    this.tally.slowestMs = Math.max(this.tally.slowestMs, durationMs)
    const { provider } = this.#subjects.of(integrationId)
    const fields = {
      integration: integrationId,
      provider,
      id,
      name,
      to: key,
      attempt: outcome.attempts,
      duration_ms: durationMs,
    }
    if (outcome.status === 'delivered') logger.info({ event: 'event.delivered', ...fields }, 'an event was delivered')
    else if (outcome.status === 'waiting')
      logger.warn(
        { event: 'event.failed', ...fields, error: outcome.error, due_at: outcome.dueAt },
        'an event could not be delivered; it is tried again',
      )
    else
      logger.error(
        { event: 'event.given_up', ...fields, error: outcome.error },
        'an event could not be delivered and is given up; `integrations notifications retry` tries again',
      )
  }
}
