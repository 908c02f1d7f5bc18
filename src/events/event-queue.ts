/** The queue of durable events: how a claimed row is told, and what is said of its outcome. Rule: docs/behaviour/events.md, "Durable events". */
import { setMaxListeners } from 'node:events'
import { START_WINDOW_MS } from '../claims/batch.ts'
import type { Contexts, PumpedQueue } from '../claims/claimed-work.ts'
import { logLoss } from '../claims/claimed-work.ts'
import { MAX_LOST_WORKERS } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs, integrationLogger } from '../framework/logger.ts'
import type { Integration } from '../providers/integration.ts'
import type { ClaimedEvent } from './queries.ts'
import { claimEvents, claimedEvents } from './queries.ts'
import type { Told, ToldEvent } from './tell-event.ts'
import { tellEvent } from './tell-event.ts'

/** Queue of rows that have lost a worker, of all integrations. Queues of integrations are 2 and more (db/schema/events-table.ts). */
const LOST_QUEUE = 1

export interface TakenEvent extends ClaimedEvent {
  /** By performance.now(), no sooner than `judgedAtMs`. */
  readonly takenAtMs: number
}

/** The integration of an event. */
interface Owner {
  readonly handle: Integration
}

export function eventQueue(
  framework: Framework,
  contexts: Contexts<Owner> & { subject(id: number): { readonly provider: string } },
): PumpedQueue<TakenEvent, ToldEvent, Owner> {
  const { db, tables } = framework
  const queue: PumpedQueue<TakenEvent, ToldEvent, Owner> = {
    rows: claimedEvents(tables),
    named: { event: 'event', field: 'id', row: 'event' },
    contexts,
    startWindowMs: START_WINDOW_MS,
    providerOf: (id) => contexts.subject(id).provider,
    async claimNext(claim, room) {
      const { rows, ...walk } = await claimEvents(db, tables, claim, room, givenNowMs(framework))
      const takenAtMs = performance.now()
      return { rows: rows.map((row) => ({ ...row, takenAtMs })), ...walk }
    },
    place: ({ queue, lostWorkers, payload }) => ({
      queue: lostWorkers > 0 ? LOST_QUEUE : queue,
      bytes: JSON.stringify(payload).length,
      guarded: null,
    }),
    async run(row, owner, enough) {
      // The rows go with an integration that is deleted.
      if (owner === null) return null
      const losses = row.lostWorkers
      if (losses > 0) logLoss(framework, queue, row, losses)
      // Each consumer that is told at this moment listens. Node takes the eleventh listener for a leak.
      setMaxListeners(0, enough)
      return tellEvent(framework, row, {
        integration: owner.handle,
        nowMs: () => givenNowMs(framework) ?? Math.round(row.judgedAtMs + performance.now() - row.takenAtMs),
        signal: enough,
        ...(losses < MAX_LOST_WORKERS ? {} : { lostWorkers: losses }),
      })
    },
    report({ row, told, settlement }) {
      const subject = { id: row.integrationId, provider: queue.providerOf(row.integrationId) }
      for (const each of told) logDelivery(framework, subject, row, each)
      return settlement.dueAt === null ? 'processed' : 'failed'
    },
  }
  return queue
}

function logDelivery(
  framework: Framework,
  subject: { readonly id: number; readonly provider: string },
  { id, name }: TakenEvent | ToldEvent['row'],
  { key, outcome, durationMs }: Told,
): void {
  const logger = integrationLogger(framework, subject)
  const fields = { id, name, to: key, attempt: outcome.attempts, duration_ms: durationMs }
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
