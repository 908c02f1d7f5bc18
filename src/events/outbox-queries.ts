/** The durable events as an operator sees them. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { hasGivenUp } from '../db/schema/events-table.ts'
import type { Tables } from '../db/schema/tables.ts'
import { momentOf } from './queries.ts'

/** For so long what was given up is shown and can be tried again; pruning takes a row after it. */
const KEPT_DAYS = 7

interface OutboxCounts {
  readonly waiting: number
  readonly retrying: number
  readonly oldestAt: Date | null
}

export async function countOutbox(db: Database, tables: Tables): Promise<OutboxCounts> {
  const [row] = await db.execute<{ waiting: number; retrying: number; oldest_ms: string | null }>(outboxCounts(tables))
  const oldestMs = row?.oldest_ms ?? null
  return {
    waiting: row?.waiting ?? 0,
    retrying: row?.retrying ?? 0,
    oldestAt: oldestMs === null ? null : new Date(Math.round(Number(oldestMs))),
  }
}

/** In two halves, those that wait and those that are held: each is what an index holds, however many are done with. */
export function outboxCounts({ events }: Tables): SQL {
  const half = (claim: SQL): SQL => sql`
    select count(*) as waiting, count(*) filter (where ${isRetried(events)}) as retrying, min(created_at) as oldest_at
    from ${events} where delivered_at is null and ${claim}`
  return sql`
    select sum(waiting)::int as waiting, sum(retrying)::int as retrying,
           extract(epoch from min(oldest_at))::float8 * 1000 as oldest_ms
    from (${half(sql`claim is null`)} union all ${half(sql`claim is not null`)}) halves`
}

interface GivenUp {
  readonly eventId: number
  readonly name: string
  readonly integrationId: number
  readonly listener: string
  readonly error: string
  readonly createdAt: Date
}

/** Newest event first. */
export async function listGivenUp(db: Database, tables: Tables, limit: number): Promise<GivenUp[]> {
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
 * Forgets that somebody was given up, so that these are told again from the first try on. A row that is being delivered at
 * this moment stays as it is.
 *
 * @returns rows
 */
export async function forgetGivenUp(db: Database, tables: Tables, which: Forgotten): Promise<number> {
  return (await db.execute(forgetting(tables, which))).length
}

interface Forgotten {
  /** Of this one only; null: of all. */
  readonly eventId: number | null
  /** Of a clock that stands in for the database's; null: none does. */
  readonly nowMs: number | null
}

export function forgetting({ events }: Tables, { eventId, nowMs }: Forgotten): SQL {
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

/** Whether one of those who are told waits for another try. */
function isRetried(events: Tables['events']): SQL {
  return sql`${events.outcomes} @? '$.* ? (@.status == "waiting")'`
}
