/** The outbox as an operator sees it. Rule: docs/behaviour/events.md, "Looking". */

import type { SQL } from 'drizzle-orm'
import { eq, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { hasGivenUp } from '../db/schema/events-table.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, StoredEventNotFound } from '../framework/errors.ts'
import { givenNowMs } from '../framework/logger.ts'
import { hasDueEvents, momentOf } from './queries.ts'

/** For this time a delivery that was given up is shown and can be tried again. Pruning takes its row afterwards. */
const KEPT_DAYS = 7
const DEFAULT_LIMIT = 20
const MAX_LIMIT = 1_000

export interface OutboxStatus {
  /** Rows that are not delivered yet. */
  readonly waiting: number
  /** Of them: rows that wait for another try. */
  readonly retrying: number
  readonly oldestAt: Date | null
  /** Deliveries to one listener or target that were given up in the last seven days. */
  readonly givenUp: readonly {
    readonly eventId: number
    readonly name: string
    readonly integrationId: number
    readonly listener: string
    readonly error: string
    readonly createdAt: Date
  }[]
}

/** @param options `limit`: of the deliveries that were given up, newest first; default 20 */
export async function outboxStatus(
  { db, tables }: Framework,
  { limit = DEFAULT_LIMIT }: { readonly limit?: number } = {},
): Promise<OutboxStatus> {
  if (!Number.isInteger(limit) || limit < 0 || limit > MAX_LIMIT)
    throw new InvalidArgumentException('limit', `whole numbers from 0 to ${MAX_LIMIT} are allowed, ${limit} was given`)
  return { ...(await countOutbox(db, tables)), givenUp: await listGivenUp(db, tables, limit) }
}

/** Gives what was given up in the last seven days another ten tries. @returns rows @throws StoredEventNotFound */
export async function retryGivenUp(
  { db, tables, clock, workflows }: Framework,
  { eventId }: { readonly eventId?: number } = {},
): Promise<number> {
  if (eventId !== undefined && (!Number.isSafeInteger(eventId) || eventId < 1))
    throw new InvalidArgumentException('eventId', `the id of an event is allowed, ${eventId} was given`)
  const retried = await db.execute(forgetting(tables, { eventId: eventId ?? null, nowMs: givenNowMs({ clock }) }))
  if (retried.length > 0) workflows.wakeOutbox()
  else if (eventId !== undefined) await requireEvent(db, tables, eventId)
  return retried.length
}

async function requireEvent(db: Database, { events }: Tables, id: number): Promise<void> {
  const [row] = await db.select({ id: events.id }).from(events).where(eq(events.id, id))
  if (row === undefined) throw new StoredEventNotFound(id)
}

/** Wakes the outbox if rows are due: a process that died had no time to do so. @returns whether rows are due */
export async function wakePendingOutbox({ db, tables, clock, config, workflows }: Framework): Promise<boolean> {
  const isWoken = await hasDueEvents(db, tables, { prefix: config.cache_prefix, nowMs: givenNowMs({ clock }) })
  if (isWoken) workflows.wakeOutbox()
  return isWoken
}

async function countOutbox(db: Database, tables: Tables): Promise<Omit<OutboxStatus, 'givenUp'>> {
  const [row] = await db.execute<{ waiting: number; retrying: number; oldest_ms: string | null }>(outboxCounts(tables))
  const oldestMs = row?.oldest_ms ?? null
  return {
    waiting: row?.waiting ?? 0,
    retrying: row?.retrying ?? 0,
    oldestAt: oldestMs === null ? null : new Date(Math.round(Number(oldestMs))),
  }
}

/** In two halves, rows that wait and rows that are held: an index holds each, however many rows are delivered. */
export function outboxCounts({ events }: Tables): SQL {
  const half = (claim: SQL): SQL => sql`
    select count(*) as waiting, count(*) filter (where ${isRetried(events)}) as retrying, min(created_at) as oldest_at
    from ${events} where delivered_at is null and ${claim}`
  return sql`
    select sum(waiting)::int as waiting, sum(retrying)::int as retrying,
           extract(epoch from min(oldest_at))::float8 * 1000 as oldest_ms
    from (${half(sql`claim is null`)} union all ${half(sql`claim is not null`)}) halves`
}

/** Newest event first. */
async function listGivenUp(db: Database, tables: Tables, limit: number): Promise<OutboxStatus['givenUp']> {
  const rows = await db.execute<{
    id: string
    name: string
    integration_id: string
    listener: string
    error: string
    created_ms: string
  }>(givenUpDeliveries(tables, limit))
  return rows.map((row) => ({
    eventId: Number(row.id),
    name: row.name,
    integrationId: Number(row.integration_id),
    listener: row.listener,
    error: row.error,
    createdAt: new Date(Math.round(Number(row.created_ms))),
  }))
}

export function givenUpDeliveries({ events }: Tables, limit: number): SQL {
  return sql`
    select ${events}.id, name, integration_id, o.key as listener, o.value ->> 'error' as error,
           extract(epoch from created_at)::float8 * 1000 as created_ms
    from ${events}, jsonb_each(outcomes) o
    where ${isKept(events)} and ${hasGivenUp(events.outcomes)} and o.value ->> 'status' = 'given_up'
    order by ${events}.id desc, o.key limit ${limit}`
}

/**
 * Forgets which consumers were given up, so that they are told again, from the first try on. A row that is being delivered at this
 * moment stays as it is.
 *
 * @param which `eventId`: null: all events; `nowMs`: of a clock that stands in for the database's; null: no clock does
 */
export function forgetting(
  { events }: Tables,
  { eventId, nowMs }: { readonly eventId: number | null; readonly nowMs: number | null },
): SQL {
  const one = eventId === null ? sql`true` : sql`id = ${eventId}`
  return sql`
    update ${events}
    set delivered_at = null, due_at = ${momentOf(nowMs)}, updated_at = clock_timestamp(), outcomes = coalesce((
      select jsonb_object_agg(o.key, o.value) from jsonb_each(outcomes) o where o.value ->> 'status' <> 'given_up'), '{}')
    where claim is null and ${isKept(events)} and ${hasGivenUp(events.outcomes)} and ${one}
    returning id`
}

function isKept(events: Tables['events']): SQL {
  return sql`(${events.deliveredAt} is null or ${events.deliveredAt} > now() - ${`${KEPT_DAYS} days`}::interval)`
}

/** A consumer waits for another try. */
export function isRetried(events: Tables['events']): SQL {
  return sql`${events.outcomes} @? '$.* ? (@.status == "waiting")'`
}
