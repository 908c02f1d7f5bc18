/** Durable events as they are stored, and as pumps take them and give them back. Rule: docs/behaviour/events.md, "Durable events". */
import type { SQL } from 'drizzle-orm'
import { and, asc, isNull, sql } from 'drizzle-orm'
import { functionNamed } from '../calls/admission/call-queries.ts'
import type { Claimed, ClaimRoom } from '../claims/pump-queries.ts'
import { claimedBy, columnsOf, pumpClaims, pumpedEvents } from '../claims/pump-queries.ts'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Outcomes } from './delivery-rules.ts'

export type EventRow = Tables['events']['$inferSelect']

/** With the moment at which it counted as due. */
export type ClaimedEvent = EventRow & { readonly judgedAtMs: number }

/**
 * Takes the next events that are due, of many queues, under this claim. Rows that another claim is taking at the same moment are
 * passed over. Rows that have lost a worker are taken a few at a time, or alone.
 *
 * @param nowMs of a clock that stands in for the database's; null: none does. A row that nobody was told of is due then.
 */
export async function claimEvents(
  db: Database,
  tables: Tables,
  claim: string,
  { after, integrations, rows, room, rooms }: ClaimRoom,
  nowMs: number | null,
): Promise<Claimed<ClaimedEvent>> {
  const now = nowMs === null ? sql`null` : momentOf(nowMs)
  const taken = await db
    .select({
      ...columnsOf(tables.events),
      version: sql<string | null>`version`,
      judgedAtMs: sql<number>`judged_at_ms`,
      walked: sql<number>`walked`,
      upto: sql<string>`upto`,
    })
    .from(
      sql`(select (c.event).*, c.version, c.judged_at_ms, c.walked, c.upto from ${functionNamed(tables, 'claim_events')}(
        ${claim}::text, ${after}::bigint, ${integrations}::int, ${rows}::int, ${room}::int, ${jsonText(rooms)}::jsonb, ${now}) c) as claimed`,
    )
  const { rows: claimed, ...walk } = claimedBy<ClaimedEvent>(taken)
  return { rows: claimed.toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || a.id - b.id), ...walk }
}

/** A row of the log: somebody was told, or given up. */
export interface DeliveryLog {
  readonly operation: 'notification' | 'event'
  readonly status: 'success' | 'failed'
  readonly summary: string
  readonly error: string | null
  readonly durationMs: number
}

/** What became of a row under one claim. */
export interface EventSettlement {
  readonly id: number
  /** As claimed: a row that was claimed anew since is its new holder's. */
  readonly attempts: number
  readonly claim: string
  readonly outcomes: Outcomes
  /** When somebody is to be told again; null: it is done with. */
  readonly dueAt: Date | null
  readonly logs: readonly DeliveryLog[]
}

/**
 * Gives rows back with what became of them, and writes the log, in one statement: all of it is stored, or nothing.
 *
 * @returns the ids that were settled. A row that was claimed anew since (`attempts` or `claim` differ) is not among them.
 */
export async function settleEvents(
  db: Database,
  { events, logs }: Tables,
  settlements: readonly EventSettlement[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    with settlement as (
      select * from jsonb_to_recordset(${jsonText(settlements)}::jsonb) as s
        (id bigint, attempts int, claim text, outcomes jsonb, "dueAt" timestamptz, logs jsonb)
    ), settled as (
      update ${events} e
      set outcomes = s.outcomes, claim = null, lost_workers = 0, due_at = coalesce(s."dueAt", e.due_at),
          delivered_at = case when s."dueAt" is null then clock_timestamp() end, updated_at = clock_timestamp()
      from settlement s
      where e.id = s.id and e.delivered_at is null and e.attempts = s.attempts and e.claim = s.claim
      returning e.id, e.integration_id, s.logs
    ), logged as (
      insert into ${logs} (integration_id, operation, direction, status, external_id, summary, error, duration_ms)
      select integration_id, operation, 'outbound', status, 'evt_' || id, summary, error, "durationMs"
      from settled, jsonb_to_recordset(settled.logs) as l
        (operation text, status text, summary text, error text, "durationMs" int)
      order by id
    )
    select id from settled`)
  return new Set(rows.map((row) => Number(row.id)))
}

/**
 * Of settlements that a statement left out, those that are in the row: the statement before it was committed, and its
 * answer was lost on the way.
 */
export async function eventsSettledBefore(
  db: Database,
  { events }: Tables,
  settlements: readonly EventSettlement[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  const given = settlements.map(({ id, attempts, outcomes }) => ({ id, attempts, outcomes }))
  const rows = await db.execute<{ id: string }>(sql`
    select e.id
    from ${events} e
    join jsonb_to_recordset(${jsonText(given)}::jsonb) as s (id bigint, attempts int, outcomes jsonb)
      on e.id = s.id and e.attempts = s.attempts and e.outcomes = s.outcomes and e.claim is null`)
  return new Set(rows.map((row) => Number(row.id)))
}

/**
 * Gives claimed rows back of which nobody was told. One that a later try has taken up meanwhile is that one's.
 *
 * @returns how many went back
 */
export async function handBackEvents(
  db: Database,
  { events }: Tables,
  rows: readonly Pick<EventRow, 'id' | 'attempts' | 'claim'>[],
): Promise<number> {
  if (rows.length === 0) return 0
  const given = rows.map(({ id, attempts, claim }) => ({ id, attempts, claim }))
  const back = await db.execute(sql`
    update ${events} e
    set attempts = e.attempts - 1, claim = null, updated_at = clock_timestamp()
    from jsonb_to_recordset(${jsonText(given)}::jsonb) as r (id bigint, attempts int, claim text)
    where e.id = r.id and e.delivered_at is null and e.attempts = r.attempts and e.claim = r.claim
    returning e.id`)
  return back.length
}

/** Until the next row that nobody holds is due, at least 0; null: there is none. */
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
    row?.found === true || (await pumpClaims(db, tables, pumpedEvents(tables), prefix)).some(({ served }) => !served)
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
  { events }: Tables,
  rows: readonly NewEventRow[],
): Promise<void> {
  if (rows.length === 0) return
  const given = rows.map(({ integrationId, name, payload }) => ({ integration_id: integrationId, name, payload }))
  await db.execute(sql`
    insert into ${events} (integration_id, name, payload)
    select integration_id, name, payload
    from rows from (
      jsonb_to_recordset(${jsonText(given)}::jsonb) as (integration_id bigint, name text, payload jsonb)
    ) with ordinality as given (integration_id, name, payload, position)
    order by position`)
}
