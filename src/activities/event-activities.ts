/** Delivers durable events. Rule: docs/behaviour/events.md, "Durable events". */
import { PumpedWork } from '../claims/claimed-work.ts'
import type { Pumped, PumpInput } from '../claims/pump-jobs.ts'
import { EVENT_OUTBOX } from '../claims/pump-jobs.ts'
import type { TakenEvent, ToldEvent } from '../events/event-queue.ts'
import { eventQueue } from '../events/event-queue.ts'
import { nextEventDueInMs } from '../events/queries.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { IntegrationContexts } from '../integrations/integration-contexts.ts'
import type { Pumping } from './pumping.ts'
import { pumpUntilRelieved } from './pumping.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Events of an integration that are told beside each other: new ones, and as many again that a consumer has already had. */
const CONCURRENCY = 10

export function eventActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Delivers the events that are due, for ten minutes or until none is and the promise to look is kept.
     *
     * May be run twice: each try has a claim of its own. Rows of a dead pump are set apart, and any other pump takes them up.
     */
    pumpEvents: (input: PumpInput): Promise<Pumped> =>
      pumpUntilRelieved(framework, eventPumping(framework), surroundings(), input),
  }
}

export function eventPumping(framework: Framework): Pumping<TakenEvent, ToldEvent> {
  const { db, tables, logger } = framework
  const queue = eventQueue(framework, new IntegrationContexts(framework))
  return {
    queue: EVENT_OUTBOX,
    rows: queue.rows,
    concurrency: CONCURRENCY,
    isPatient: false,
    workOf: (worker, claim) => new PumpedWork(worker, queue, claim),
    async afterLosses(lost) {
      for (const { claim, ids } of lost)
        logger.warn({ event: 'outbox.pump_lost', claim, events: ids.length }, 'the worker of some events was lost')
      // A claim takes them up.
      return { hasMore: false }
    },
    nextDueInMs: () => nextEventDueInMs(db, tables, givenNowMs(framework)),
  }
}
