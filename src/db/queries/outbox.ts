/** The durable events as an operator sees them. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'

/** For so long what was given up is shown and can be tried again; pruning takes a row after it. */
const KEPT_DAYS = 7

interface OutboxCounts {
  readonly waiting: number
  readonly retrying: number
  readonly oldestAt: Date | null
}

export async function countOutbox(db: Database, { events }: Tables): Promise<OutboxCounts> {
  const [row] = await db.execute<{ waiting: number; retrying: number; oldest_ms: string | null }>(sql`
    select count(*)::int as waiting, (count(*) filter (where ${has(events, 'waiting')}))::int as retrying,
           extract(epoch from min(created_at))::float8 * 1000 as oldest_ms
    from ${events} where delivered_at is null`)
  const oldestMs = row?.oldest_ms ?? null
  return {
    waiting: row?.waiting ?? 0,
    retrying: row?.retrying ?? 0,
    oldestAt: oldestMs === null ? null : new Date(Math.round(Number(oldestMs))),
  }
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
export async function listGivenUp(db: Database, { events }: Tables, limit: number): Promise<GivenUp[]> {
  const rows = await db.execute<{
    id: string
    name: string
    integration_id: string
    listener: string
    error: string
    created_ms: string
  }>(sql`
    select ${events}.id, name, integration_id, o.key as listener, o.value ->> 'error' as error,
           extract(epoch from created_at)::float8 * 1000 as created_ms
    from ${events}, jsonb_each(outcomes) o
    where ${isKept(events)} and ${has(events, 'given_up')} and o.value ->> 'status' = 'given_up'
    order by ${events}.id desc, o.key limit ${limit}`)
  return rows.map((row) => ({
    eventId: Number(row.id),
    name: row.name,
    integrationId: Number(row.integration_id),
    listener: row.listener,
    error: row.error,
    createdAt: new Date(Math.round(Number(row.created_ms))),
  }))
}

/**
 * Forgets that somebody was given up, so that these are told again from the first try on. A row that is being delivered at
 * this moment stays as it is.
 *
 * @param eventId of this one only; null: of all
 * @returns rows
 */
export async function forgetGivenUp(db: Database, { events }: Tables, eventId: number | null): Promise<number> {
  const one = eventId === null ? sql`true` : sql`id = ${eventId}`
  const rows = await db.execute(sql`
    update ${events} set delivered_at = null, due_at = now(), updated_at = clock_timestamp(), outcomes = coalesce((
      select jsonb_object_agg(o.key, o.value) from jsonb_each(outcomes) o where o.value ->> 'status' <> 'given_up'), '{}')
    where claim is null and ${isKept(events)} and ${has(events, 'given_up')} and ${one}
    returning id`)
  return rows.length
}

function isKept(events: Tables['events']): SQL {
  return sql`(${events.deliveredAt} is null or ${events.deliveredAt} > now() - ${`${KEPT_DAYS} days`}::interval)`
}

/** Whether it is so for one of those who are told. */
function has(events: Tables['events'], status: 'waiting' | 'given_up'): SQL {
  return sql`exists (select from jsonb_each(${events.outcomes}) told where told.value ->> 'status' = ${status})`
}
