/** The outbox's rows as a queue of pumps: each claimed event is delivered to the consumers that are due. Rule: docs/behaviour/events.md, "Durable events". */

import { setMaxListeners } from 'node:events'
import { z } from 'zod'
import { START_WINDOW_MS } from '../claims/batch.ts'
import type { Contexts, PumpedQueue } from '../claims/claimed-work.ts'
import { logLoss } from '../claims/claimed-work.ts'
import { MAX_LOST_WORKERS } from '../claims/rules.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs, integrationLogger } from '../framework/logger.ts'
import { asPartOf } from '../framework/origin.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { Integration } from '../providers/integration.ts'
import type { ConsumerOutcome, Outcomes, Try } from './delivery-rules.ts'
import { isDue, nextDueMs, outcomeOf } from './delivery-rules.ts'
import { canBeDurable } from './durable-event-rules.ts'
import type { Consumer, DeliveredEvent } from './event-delivery.ts'
import { decodeEvent } from './event-payloads.ts'
import type { EventDelivery, QueuedListener } from './listeners.ts'
import { isRepeat } from './notification-rules.ts'
import { notificationConsumers } from './notify.ts'
import type { ClaimedEvent, DeliveryLog, EventRow, EventSettlement } from './queries.ts'
import { claimEvents, claimedEvents, hasSilencedIncident } from './queries.ts'

const MAX_ERROR_LENGTH = 1_000
/** Stands for all consumers of an event that this release cannot read: a newer one may have written it. */
const UNREADABLE = 'unreadable'

interface Telling {
  /** Whose event it is. */
  readonly integration: Integration
  /** By the clock that rows are judged by. */
  readonly nowMs: () => number
  /** Aborted when the worker stops: a consumer that has not answered by then is told again. */
  readonly signal: AbortSignal
  /** Given when the row has lost too many workers: no consumer is told any more. */
  readonly lostWorkers?: number
}

/** The outcome for one consumer. */
interface Told {
  readonly key: string
  readonly outcome: ConsumerOutcome
  readonly durationMs: number
}

export interface ToldEvent {
  readonly row: EventRow
  readonly told: readonly Told[]
  readonly settlement: EventSettlement
}

/** The consumers of a row, each with its try. Null: the worker stopped before an answer came. */
type Tries = ReadonlyMap<string, () => Promise<Try | null>>

/** Never throws. Null: the worker stopped before the first answer. */
async function tellEvent(framework: Framework, row: EventRow, telling: Telling): Promise<ToldEvent | null> {
  const { [UNREADABLE]: unreadable, ...known } = readOutcomes(row.outcomes)
  const tries = triesOf(framework, row, telling, await isSilenced(framework, row))
  const before: Outcomes = tries.has(UNREADABLE) && unreadable !== undefined ? { [UNREADABLE]: unreadable } : known
  const due = [...tries].filter(([key]) => isDue(before[key], telling.nowMs()))
  const ended = await Promise.all(
    due.map(async ([key, tryOnce]) => {
      const startedAt = performance.now()
      const tried = await tryOnce()
      return { key, tried, durationMs: Math.round(performance.now() - startedAt) }
    }),
  )
  const nowMs = telling.nowMs()
  const told = ended.flatMap(({ key, tried, durationMs }) =>
    tried === null ? [] : [{ key, durationMs, outcome: outcomeOf(tried, before[key], nowMs) }],
  )
  if (told.length === 0 && due.length > 0) return null
  const outcomes = { ...known, ...before, ...Object.fromEntries(told.map(({ key, outcome }) => [key, outcome])) }
  return endOf(row, told, outcomes, nextDueMs([...tries.keys()], outcomes, nowMs))
}

function endOf(row: EventRow, told: readonly Told[], outcomes: Outcomes, dueMs: number | null): ToldEvent {
  return {
    row,
    told,
    settlement: {
      id: row.id,
      attempts: row.attempts,
      claim: row.claim ?? '',
      outcomes,
      dueAt: dueMs === null ? null : new Date(dueMs),
      logs: told.flatMap((each) => logOf(row, each)),
    },
  }
}

/** An event that could not be told at all, by a fault of ours: as one that this release cannot read. */
function brokenEvent(row: EventRow, error: string, nowMs: number): ToldEvent {
  const before = readOutcomes(row.outcomes)
  const outcome = outcomeOf({ kind: 'failed', error }, before[UNREADABLE], nowMs)
  const outcomes = { ...before, [UNREADABLE]: outcome }
  return endOf(row, [{ key: UNREADABLE, outcome, durationMs: 0 }], outcomes, nextDueMs([UNREADABLE], outcomes, nowMs))
}

/** @param silenced a person has silenced the incident whose trouble the event repeats: targets are not told, now or later */
function triesOf(framework: Framework, row: EventRow, telling: Telling, silenced: boolean): Tries {
  const failed = (error: unknown): Try => ({
    kind: 'failed',
    error: redactedErrorLine(error, secretsIn(telling.integration), MAX_ERROR_LENGTH),
  })
  try {
    const event = eventOf(row, telling.integration)
    return new Map(
      consumersOf(framework, event).map((consumer) => [
        consumer.key,
        silenced && isTarget(consumer.key)
          ? async () => ({ kind: 'silenced' })
          : () => tryOnce(consumer, event, { ...telling, failed }),
      ]),
    )
  } catch (error) {
    return new Map([[UNREADABLE, async () => failed(error)]])
  }
}

const isTarget = (key: string): boolean => key.startsWith('target:')

/** @throws what this release can't read */
function eventOf({ id, name, createdAt, payload }: EventRow, integration: Integration): DeliveredEvent {
  if (!canBeDurable(name)) throw new TypeError(`this release knows no durable event "${name}"`)
  // The compiler does not see that the name and the payload belong together.
  return { id, name, createdAt, payload: { ...decodeEvent(name, payload), integration } } as DeliveredEvent
}

/** Its text ends up in the event's row and in the logs. */
class NotToldInTime extends Error {
  override readonly name = 'NotToldInTime'
  readonly code = 'not_told_in_time'
}

async function tryOnce(
  { timeoutMs, deliver }: Consumer,
  event: DeliveredEvent,
  { signal, lostWorkers = 0, failed }: Telling & { readonly failed: (error: unknown) => Try },
): Promise<Try | null> {
  if (lostWorkers > 0) return { kind: 'lost', error: 'worker lost' }
  const seconds = timeoutMs / 1_000
  try {
    const answer = await withTimeLimit(
      seconds,
      () => new NotToldInTime(`no end within ${seconds} s`),
      (limit) => deliver(event, limit),
      signal,
    )
    return answer === 'gone' ? { kind: 'gone', error: '410 Gone: it takes nothing any more' } : { kind: 'delivered' }
  } catch (error) {
    return signal.aborted ? null : failed(error)
  }
}

/** A listener is the host's own code, so only its failures are logged; a target is another party. */
function logOf({ name }: EventRow, { key, outcome, durationMs }: Told): DeliveryLog[] {
  const operation = isTarget(key) ? 'notification' : 'event'
  const summary = `${name} to ${key}`
  if (outcome.status === 'given_up') return [{ operation, status: 'failed', summary, error: outcome.error, durationMs }]
  if (outcome.status === 'delivered' && operation === 'notification')
    return [{ operation, status: 'success', summary, error: null, durationMs }]
  return []
}

/** Never throws: a message too many is better than one that is missed. */
async function isSilenced(framework: Framework, { name, integrationId }: EventRow): Promise<boolean> {
  if (framework.config.notifications.targets.length === 0 || !isRepeat(name)) return false
  const { db, tables, clock } = framework
  return hasSilencedIncident(db, tables, integrationId, clock.now()).catch(() => false)
}

const LISTENER_TIMEOUT_MS = 60_000

/** The consumers of a durable event: queued listeners of this process, and targets of its configuration. */
function consumersOf(framework: Framework, event: DeliveredEvent): readonly Consumer[] {
  return [
    ...framework.listeners.queuedFor(event.name).map((listener) => listenerConsumer(framework.tables, listener)),
    ...notificationConsumers(framework, event),
  ]
}

function listenerConsumer(tables: Tables, { name, listener }: QueuedListener): Consumer {
  return {
    key: `listener:${name}`,
    timeoutMs: LISTENER_TIMEOUT_MS,
    async deliver(event, signal) {
      const delivery: EventDelivery = { id: `evt_${event.id}`, createdAt: event.createdAt, signal }
      await asPartOf(tables, 'event', event.id, () => listener(event.payload as never, delivery as never))
      return 'delivered'
    },
  }
}

const StoredTold = z.object({ attempts: z.number(), at: z.string() })
const StoredFailed = StoredTold.extend({ error: z.string() })

const StoredOutcome = z.discriminatedUnion('status', [
  StoredTold.extend({ status: z.literal('delivered') }),
  StoredFailed.extend({ status: z.literal('waiting'), dueAt: z.iso.datetime() }),
  StoredFailed.extend({ status: z.literal('given_up') }),
  StoredTold.extend({ status: z.literal('silenced') }),
])

/**
 * What a row remembers of its consumers. An outcome that this release cannot read counts as never told: the promise is at least
 * once.
 */
export function readOutcomes(stored: unknown): Outcomes {
  const read: Record<string, ConsumerOutcome> = {}
  for (const [key, outcome] of Object.entries(stored ?? {})) {
    const { data } = StoredOutcome.safeParse(outcome)
    if (data !== undefined) read[key] = data
  }
  return read
}

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
  const nowMs = ({ judgedAtMs, takenAtMs }: TakenEvent): number =>
    givenNowMs(framework) ?? Math.round(judgedAtMs + performance.now() - takenAtMs)
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
        nowMs: () => nowMs(row),
        signal: enough,
        ...(losses < MAX_LOST_WORKERS ? {} : { lostWorkers: losses }),
      })
    },
    failed: (row, error) => brokenEvent(row, error, nowMs(row)),
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
  else if (outcome.status === 'silenced')
    logger.info({ event: 'event.silenced', ...fields }, 'a repeat was not sent: a person has silenced its incident')
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
