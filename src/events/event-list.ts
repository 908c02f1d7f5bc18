/** Stored events: what waits in the outbox, and what became of the rest. Rule: docs/behaviour/events.md, "Looking". */

import type { SQL } from 'drizzle-orm'
import { and, desc, eq, gte, isNotNull, lt, not, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem } from '../db/integrations-of.ts'
import { hasGivenUp } from '../db/schema/events-table.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { StoredEventNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import type { ConsumerOutcome } from './delivery-rules.ts'
import { DURABLE_EVENTS, STORED_EVENT_STATUSES } from './durable-event-rules.ts'
import { readOutcomes } from './event-queue.ts'
import { isRetried } from './outbox.ts'

/**
 * `given_up`: at least one listener or target was given up for it. Of the others: `delivered`, to all; `retrying`: at least one waits
 * for another try; `waiting`: none has failed yet.
 */
export type StoredEventStatus = (typeof STORED_EVENT_STATUSES)[number]

/** Selects events; all that is given must hold. */
export interface StoredEventFilter extends IntegrationSelection {
  /** Such as `IncidentOpened`. */
  readonly name?: string | undefined
  /** A listener or target that was tried, by its key: `listener:pager`, `target:…`. */
  readonly consumer?: string | undefined
  readonly status?: StoredEventStatus | undefined
  /** Stored at this moment or after it. */
  readonly since?: Date | undefined
  /** Stored before this moment. */
  readonly until?: Date | undefined
}

export interface ListStoredEvents extends StoredEventFilter {
  /** Stored before the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

/** What became of an event at one listener or target. */
export interface StoredDelivery {
  /** `listener:pager`, `target:…` */
  readonly consumer: string
  readonly status: ConsumerOutcome['status']
  readonly attempts: number
  /** Of the last try. */
  readonly at: Date
  /** Of the next try; null: there is none. */
  readonly dueAt: Date | null
  readonly error: string | null
}

/** Without its payload. */
export interface StoredEventSummary {
  readonly id: number
  readonly integrationId: number
  readonly provider: IntegrationRow['provider']
  readonly integrationName: IntegrationRow['name']
  readonly name: string
  readonly status: StoredEventStatus
  readonly createdAt: Date
  /** How often a worker has taken it. */
  readonly attempts: number
  /** Workers lost with it since it was settled last. */
  readonly lostWorkers: number
  /** A worker has it at this moment. */
  readonly isBeingDelivered: boolean
  /** Not taken earlier; null once every listener and target had it, was given up or is silenced. */
  readonly dueAt: Date | null
  readonly deliveredAt: Date | null
  /** Of the listeners and targets that were tried, by their keys. */
  readonly deliveries: readonly StoredDelivery[]
}

export interface StoredEventDetail extends StoredEventSummary {
  /** As JSON; blank once it has been erased. */
  readonly payload: unknown
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listStoredEvents(
  { db, tables }: Framework,
  given: ListStoredEvents = {},
): AsyncIterable<StoredEventSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, name, consumer, status, since, until } = filter
  checkIds({ integrationId, after, limit })
  checkTexts({ provider, consumer })
  checkOwnerFilter(owner)
  checkChoice('name', name, DURABLE_EVENTS)
  checkChoice('status', status, STORED_EVENT_STATUSES)
  checkPeriod(since, until)
  const read = async (page: Page) => (await pageOfEvents(db, tables, filter, page)).map(summaryOf)
  return newestFirst(read, { after, limit })
}

/** @throws StoredEventNotFound */
export async function getStoredEvent({ db, tables }: Framework, id: number): Promise<StoredEventDetail> {
  const { events, integrations } = tables
  const [row] = isId(id)
    ? await db
        .select({ ...summaryColumns(tables), payload: events.payload })
        .from(events)
        .innerJoin(integrations, eq(integrations.id, events.integrationId))
        .where(eq(events.id, id))
    : []
  if (row === undefined) throw new StoredEventNotFound(id)
  const { payload, ...summary } = row
  return { ...summaryOf(summary), payload }
}

/** With the record that it tells of; null: there is no such event. */
export async function findStoredEvent(
  { db, tables }: Framework,
  id: number,
): Promise<(StoredEventSummary & { readonly origin: string | null }) | null> {
  const { events, integrations } = tables
  const [row] = await db
    .select({ ...summaryColumns(tables), origin: events.origin })
    .from(events)
    .innerJoin(integrations, eq(integrations.id, events.integrationId))
    .where(eq(events.id, id))
  if (row === undefined) return null
  const { origin, ...summary } = row
  return { ...summaryOf(summary), origin }
}

/** Delivered rows are kept for seven days, which is what a question without an index of its own looks through. */
function pageOfEvents(db: Database, tables: Tables, filter: StoredEventFilter, { below, limit }: Page) {
  const { events, integrations } = tables
  const { name, consumer, status, since, until } = filter
  return db
    .select(summaryColumns(tables))
    .from(events)
    .innerJoin(integrations, eq(integrations.id, events.integrationId))
    .where(
      and(
        belongsToThem(tables, sql`${events.integrationId}`, filter),
        name === undefined ? undefined : eq(events.name, name),
        consumer === undefined ? undefined : sql`jsonb_exists(${events.outcomes}, ${consumer})`,
        status === undefined ? undefined : hasStatus(events, status),
        since === undefined ? undefined : gte(events.createdAt, since),
        until === undefined ? undefined : lt(events.createdAt, until),
        below === undefined ? undefined : lt(events.id, below),
      ),
    )
    .orderBy(desc(events.id))
    .limit(limit)
}

function hasStatus(events: Tables['events'], status: StoredEventStatus): SQL | undefined {
  const { outcomes, deliveredAt } = events
  if (status === 'given_up') return hasGivenUp(outcomes)
  const isNotGivenUp = not(hasGivenUp(outcomes))
  if (status === 'delivered') return and(isNotNull(deliveredAt), isNotGivenUp)
  return and(isUnsettled(events), isNotGivenUp, status === 'retrying' ? isRetried(events) : not(isRetried(events)))
}

/** In two halves, rows that wait and rows that are held: an index holds each, however many rows are delivered. */
function isUnsettled(events: Tables['events']): SQL {
  const half = (claim: SQL): SQL => sql`select id from ${events} where delivered_at is null and ${claim}`
  return sql`${events.id} in (${half(sql`claim is null`)} union all ${half(sql`claim is not null`)})`
}

function summaryColumns({ events, integrations }: Tables) {
  return {
    id: events.id,
    integrationId: events.integrationId,
    provider: integrations.provider,
    integrationName: integrations.name,
    name: events.name,
    createdAt: events.createdAt,
    attempts: events.attempts,
    lostWorkers: events.lostWorkers,
    isBeingDelivered: sql<boolean>`${events.claim} is not null`,
    dueAt: events.dueAt,
    deliveredAt: events.deliveredAt,
    isGivenUp: sql<boolean>`coalesce(${hasGivenUp(events.outcomes)}, false)`,
    isRetried: sql<boolean>`coalesce(${isRetried(events)}, false)`,
    outcomes: events.outcomes,
  }
}

function summaryOf({
  isGivenUp,
  isRetried: retried,
  outcomes,
  ...row
}: Awaited<ReturnType<typeof pageOfEvents>>[number]): StoredEventSummary {
  const unsettled = retried ? 'retrying' : 'waiting'
  return {
    ...row,
    status: isGivenUp ? 'given_up' : row.deliveredAt === null ? unsettled : 'delivered',
    dueAt: row.deliveredAt === null ? row.dueAt : null,
    deliveries: Object.entries(readOutcomes(outcomes))
      .map(([consumer, outcome]) => ({
        consumer,
        status: outcome.status,
        attempts: outcome.attempts,
        at: new Date(outcome.at),
        dueAt: outcome.status === 'waiting' ? new Date(outcome.dueAt) : null,
        error: 'error' in outcome ? outcome.error : null,
      }))
      .sort((a, b) => (a.consumer < b.consumer ? -1 : 1)),
  }
}
