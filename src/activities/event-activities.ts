/** Delivers durable events. Rule: docs/behaviour/events.md, "Durable events". */
import { setMaxListeners } from 'node:events'
import { performance } from 'node:perf_hooks'
import { START_WINDOW_MS } from '../claims/batch.ts'
import type { Looked } from '../claims/pump.ts'
import type { Pumped, PumpInput } from '../claims/pump-jobs.ts'
import { EVENT_OUTBOX } from '../claims/pump-jobs.ts'
import type { ClaimRoom } from '../claims/pump-queries.ts'
import { pumpedEvents } from '../claims/pump-queries.ts'
import { MAX_LOST_WORKERS } from '../claims/rules.ts'
import type { ClaimedEvent, EventRow } from '../events/queries.ts'
import { claimEvents, eventsSettledBefore, handBackEvents, nextEventDueInMs, settleEvents } from '../events/queries.ts'
import type { Told, ToldEvent } from '../events/tell-event.ts'
import { tellEvent } from '../events/tell-event.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { patiently } from '../framework/waiting.ts'
import { IntegrationContexts } from '../integrations/integration-contexts.ts'
import type { HandlingOf, LostRows, Pumping } from './pumping.ts'
import { pumpUntilRelieved } from './pumping.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Events of an integration that are told beside each other, and as many again of which somebody has been told. */
const CONCURRENCY = 10
/** Of all integrations: rows that have lost a worker. Those of integrations are 2 and more (db/schema/events.ts). */
const LOST_QUEUE = 1

export function eventActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Tells those who wait for the events that are due, for ten minutes or until none is and the promise to look is kept.
     *
     * May be run twice: each try has a claim of its own. Rows of one that has died are set apart, and taken up by any pump.
     */
    pumpEvents: (input: PumpInput): Promise<Pumped> =>
      pumpUntilRelieved(framework, eventPumping(framework), surroundings(), input),
  }
}

export function eventPumping(framework: Framework): Pumping<TakenEvent, ToldEvent> {
  const { db, tables, logger } = framework
  return {
    queue: EVENT_OUTBOX,
    rows: pumpedEvents(tables),
    concurrency: CONCURRENCY,
    isPatient: false,
    workOf: (claim, begun) => new EventWork(framework, claim, begun),
    async afterLosses(lost: readonly LostRows[]) {
      for (const { claim, ids } of lost)
        logger.warn({ event: 'outbox.pump_lost', claim, events: ids.length }, 'the worker of some events was lost')
      // A claim takes them up.
      return { hasMore: false }
    },
    nextDueInMs: () => nextEventDueInMs(db, tables, givenNowMs(framework)),
  }
}

interface TakenEvent extends ClaimedEvent {
  /** By performance.now(), no sooner than `judgedAtMs`. */
  readonly takenAtMs: number
}

/** Tells and settles the rows of one claim. */
class EventWork implements HandlingOf<TakenEvent, ToldEvent> {
  readonly tally = { processed: 0, failed: 0, handedBack: 0 }
  readonly #framework: Framework
  readonly #claim: string
  readonly #begun: AbortSignal
  readonly #contexts: IntegrationContexts

  constructor(framework: Framework, claim: string, begun: AbortSignal) {
    this.#framework = framework
    this.#claim = claim
    this.#begun = begun
    this.#contexts = new IntegrationContexts(framework)
  }

  async claim(room: ClaimRoom): Promise<Looked<TakenEvent>> {
    const { db, tables } = this.#framework
    const seenAt = performance.now()
    const { rows, versions, ...walk } = await claimEvents(db, tables, this.#claim, room, givenNowMs(this.#framework))
    const takenAtMs = performance.now()
    // Each is read again where it is needed: no claimed row is lost to a read that fails.
    if (rows.length > 0) await this.#contexts.refresh(versions, seenAt).catch(() => {})
    const startBy = performance.now() + START_WINDOW_MS
    return {
      rows: rows.map((row) => ({
        row: { ...row, takenAtMs },
        queue: row.lostWorkers > 0 ? LOST_QUEUE : row.queue,
        bytes: JSON.stringify(row.payload).length,
        startBy,
        guarded: null,
      })),
      ...walk,
    }
  }

  /** Null: nobody was told, and it goes back. */
  async run(row: TakenEvent, lost: AbortSignal): Promise<ToldEvent | null> {
    const { logger } = this.#framework
    const read = () => this.#contexts.read(row.integrationId)
    const context = await patiently('reading what a row needs', read, { signal: this.#begun, logger }).catch(() => null)
    // Its rows go with an integration that is deleted. Or the database was away until the worker stopped.
    if (context === null) return null
    const losses = row.lostWorkers
    if (losses > 0)
      logger.warn(
        {
          event: 'event.worker_lost',
          integration: row.integrationId,
          provider: context.row.provider,
          id: row.id,
          losses,
        },
        'the worker of an event was lost; it is taken up again',
      )
    // One listener for each that is told at this moment. Else Node takes the eleventh for a leak.
    setMaxListeners(0, lost)
    return tellEvent(this.#framework, row, {
      integration: context.handle,
      nowMs: () => givenNowMs(this.#framework) ?? Math.round(row.judgedAtMs + performance.now() - row.takenAtMs),
      signal: lost,
      ...(losses < MAX_LOST_WORKERS ? {} : { lostWorkers: losses }),
    })
  }

  async handBack(rows: readonly TakenEvent[]): Promise<void> {
    const { db, tables } = this.#framework
    this.tally.handedBack += await handBackEvents(db, tables, rows)
  }

  async settle(events: readonly ToldEvent[]): Promise<void> {
    const { db, tables, logger } = this.#framework
    const settlements = events.map(({ settlement }) => settlement)
    const settled = await settleEvents(db, tables, settlements)
    const left = settlements.filter(({ id }) => !settled.has(id))
    for (const id of await eventsSettledBefore(db, tables, left)) settled.add(id)
    for (const { row, told, settlement } of events) {
      if (!settled.has(row.id)) {
        const { provider } = this.#contexts.subject(row.integrationId)
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
    const { provider } = this.#contexts.subject(integrationId)
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
