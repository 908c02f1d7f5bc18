/** Durable events as they are stored, and as pumps take them and give them back. Rule: docs/behaviour/events.md, "Durable events". */
import type { SQL } from 'drizzle-orm'
import { and, asc, isNull, sql } from 'drizzle-orm'
import type { Claimed, ClaimedRows, ClaimRoom, Settlement } from '../claims/claimed-rows.ts'
import { claimArguments, claimNext } from '../claims/claimed-rows.ts'
import { pumpClaims } from '../claims/lease-queries.ts'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import { currentOrigin } from '../framework/origin.ts'
import type { Outcomes } from './delivery-rules.ts'

export type EventRow = Tables['events']['$inferSelect']

/** An event, and the moment at which it counted as due. */
export type ClaimedEvent = EventRow & { readonly judgedAtMs: number }

/**
 * Claims the next events that are due, of many queues, the longest due first. Rows that have lost a worker are taken a few at a time, or
 * alone.
 *
 * @param nowMs of a clock that stands in for the database's; null: no clock does. A row that no consumer has got is due then.
 */
export async function claimEvents(
  db: Database,
  tables: Tables,
  claim: string,
  room: ClaimRoom,
  nowMs: number | null,
): Promise<Claimed<ClaimedEvent>> {
  const now = nowMs === null ? sql`null` : momentOf(nowMs)
  const call = sql`${functionNamed(tables, 'claim_events')}(${claimArguments(claim, room)}, ${now})`
  const more = { judgedAtMs: sql<number>`judged_at_ms` }
  const { rows, ...walk } = await claimNext<ClaimedEvent>(db, tables.events, { call, row: 'event', more })
  return { rows: rows.toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || a.id - b.id), ...walk }
}

/** A log row: a consumer was told, or given up. */
export interface DeliveryLog {
  readonly operation: 'notification' | 'event'
  readonly status: 'success' | 'failed'
  readonly summary: string
  readonly error: string | null
  readonly durationMs: number
}

/** The outcome of a row under one claim. */
export interface EventSettlement extends Settlement {
  readonly outcomes: Outcomes
  /** When a consumer is to be told again; null: the row is done with. */
  readonly dueAt: Date | null
  readonly logs: readonly DeliveryLog[]
}

export const claimedEvents = ({ events, logs }: Tables): ClaimedRows<Tables['events']> => ({
  table: events,
  isHeld: sql`r.delivered_at is null`,
  released: sql`claim = null`,
  settling: {
    fields: sql`outcomes jsonb, "dueAt" timestamptz, logs jsonb`,
    writes: sql`
      outcomes = s.outcomes, claim = null, lost_workers = 0, due_at = coalesce(s."dueAt", r.due_at),
      delivered_at = case when s."dueAt" is null then clock_timestamp() end`,
    returns: sql`s.logs`,
    logs: sql`
      insert into ${logs} (integration_id, operation, direction, status, external_id, summary, error, duration_ms, origin)
      select integration_id, operation, 'outbound', status, 'evt_' || id, summary, error, "durationMs", 'event:' || id
      from settled, jsonb_to_recordset(settled.logs) as l
        (operation text, status text, summary text, error text, "durationMs" int)
      order by id`,
    isStored: sql`r.attempts = s.attempts and r.outcomes = s.outcomes and r.claim is null`,
  },
})

/** Milliseconds until the next unclaimed row is due, at least 0; null: no row waits. */
export async function nextEventDueInMs(db: Database, { events }: Tables, nowMs: number | null): Promise<number | null> {
  const [row] = await db
    .select({ inMs: sql<string>`extract(epoch from ${events.dueAt} - ${momentOf(nowMs)})::float8 * 1000` })
    .from(events)
    .where(and(isNull(events.deliveredAt), isNull(events.claim)))
    .orderBy(asc(events.dueAt), asc(events.id))
    .limit(1)
  return row === undefined ? null : Math.max(0, Math.ceil(Number(row.inMs)))
}

/** Whether a row is due, or is held by a claim whose pump has died. */
export async function hasDueEvents(
  db: Database,
  tables: Tables,
  { prefix, nowMs }: { readonly prefix: string; readonly nowMs: number | null },
): Promise<boolean> {
  const { events } = tables
  // A row's first moment is the database's, which a clock that stands in for it may not have reached.
  const isNew = nowMs === null ? sql`` : sql` or ${events.outcomes} = '{}'::jsonb`
  const [row] = await db.execute<{ found: boolean }>(sql`
    select exists (select from ${events}
      where delivered_at is null and claim is null and (due_at <= ${momentOf(nowMs)}${isNew})) as found`)
  return (
    row?.found === true || (await pumpClaims(db, tables, claimedEvents(tables), prefix)).some(({ served }) => !served)
  )
}

/**
 * Not clock_timestamp(): only what stays the same for a statement can bound its walk of the index. Rounded as `due_at` is when it is
 * stored, so that what was due before is.
 */
export function momentOf(nowMs: number | null): SQL {
  return nowMs === null ? sql`now()::timestamptz(3)` : sql`to_timestamp(${nowMs}::double precision / 1000)`
}

interface NewEventRow {
  readonly integrationId: number
  readonly name: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** Stores rows in this order: one statement with one parameter, however many there are. */
export async function insertEvents(
  db: Database | Transaction,
  tables: Tables,
  rows: readonly NewEventRow[],
): Promise<void> {
  if (rows.length === 0) return
  const given = rows.map(({ integrationId, name, payload }) => ({
    integration_id: integrationId,
    name,
    payload,
    origin: recordIn(payload) ?? currentOrigin(tables),
  }))
  await db.execute(sql`
    insert into ${tables.events} (integration_id, name, payload, origin)
    select integration_id, name, payload, origin
    from rows from (
      jsonb_to_recordset(${jsonText(given)}::jsonb) as (integration_id bigint, name text, payload jsonb, origin text)
    ) with ordinality as given (integration_id, name, payload, origin, position)
    order by position`)
}

/** The item or the incident that an event tells of, as an origin. */
function recordIn(payload: NewEventRow['payload']): string | null {
  for (const kind of ['item', 'incident'] as const) {
    const { id } = (payload[kind] ?? {}) as { readonly id?: unknown }
    if (typeof id === 'number') return `${kind}:${id}`
  }
  return null
}

/** Whether an integration's open incident is acknowledged, or snoozed at this moment. */
export async function hasSilencedIncident(
  db: Database,
  { incidents }: Tables,
  integrationId: number,
  now: Date,
): Promise<boolean> {
  const rows = await db.execute(sql`
    select 1 from ${incidents}
    where integration_id = ${integrationId} and status = 'open'
      and (acknowledged_at is not null or snoozed_until > ${now.toISOString()}::timestamptz)`)
  return rows.length > 0
}
