/** Statements over the durable events. A claim is one statement; its docstring names the race it wins. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, getTableColumns, inArray, isNull, not, sql } from 'drizzle-orm'
import { afterLoss, claimAndItsLosses, lossesOf } from '../../core/claim.ts'
import type { Outcomes } from '../../core/event-delivery.ts'
import type { Database, Transaction } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { Tables } from '../schema/tables.ts'

export type EventRow = Tables['events']['$inferSelect']

/** The greatest smallint. A row that is claimed still more often stays there; its claim tells its tries apart. */
const MAX_ATTEMPTS = 32_767
/** A batch starts nothing after 30 s, and nobody is told for longer than a minute: a claim that is older has lost its row. */
const CLAIM_HOLDS_MINUTES = 15

/**
 * Takes rows under this claim: those that their holder has lost, then the fresh ones, then those that are due again. The
 * last ones fill a quarter of it at most: those who are down are what they wait for, and fresh events don't. Rows that
 * another batch is taking at the same moment are passed over.
 *
 * @param nowMs of a clock that stands in for the database's; null: none does. A row that nobody was told of is due then.
 * @returns each with the moment by which it was judged, the fresh ones first
 */
export async function claimEvents(
  db: Database | Transaction,
  { events }: Tables,
  { claim, limit, nowMs }: { readonly claim: string; readonly limit: number; readonly nowMs: number | null },
): Promise<{ row: EventRow; judgedAtMs: number }[]> {
  const next = (where: SQL | undefined, most = limit) =>
    db
      .select({ id: events.id })
      .from(events)
      .where(where)
      .orderBy(asc(events.dueAt), asc(events.id))
      .limit(most)
      .for('update', { skipLocked: true })
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and claim more than the limit.
  const lost = db.$with('lost').as(next(isLost(events)))
  const fresh = db.$with('fresh').as(next(and(isDue(events, nowMs), isFresh(events))))
  const again = db.$with('again').as(next(and(isDue(events, nowMs), not(isFresh(events))), retriesOf(limit)))
  const taken = await db
    .with(lost, fresh, again)
    .update(events)
    .set({ claim, attempts: oneMore(events) })
    .where(
      sql`${events.id} in (
        select id from lost union all select id from fresh union all select id from again limit ${limit})`,
    )
    .returning({ ...getTableColumns(events), judgedAtMs: milliseconds(momentOf(nowMs)) })
  return taken
    .map(({ judgedAtMs, ...row }) => ({ row, judgedAtMs: Number(judgedAtMs) }))
    .sort(
      ({ row: a }, { row: b }) =>
        Number(wasTold(a)) - Number(wasTold(b)) || a.dueAt.getTime() - b.dueAt.getTime() || a.id - b.id,
    )
}

/** Whether somebody has been told of it, in vain or not. A row is fresh until then. */
export function wasTold({ outcomes }: Pick<EventRow, 'outcomes'>): boolean {
  return Object.keys(outcomes ?? {}).length > 0
}

/** Rows that an earlier try of the same batch still holds: its worker died, or it could not settle them. */
export async function eventsHeldBy(db: Database, { events }: Tables, claim: string): Promise<EventRow[]> {
  return db
    .select()
    .from(events)
    .where(and(isNull(events.deliveredAt), inArray(events.claim, claimAndItsLosses(claim))))
    .orderBy(asc(events.id))
}

/** Takes up a row whose worker died: counts the loss. Null when somebody else has moved it since. */
export async function takeUpEvent(
  db: Database,
  { events }: Tables,
  row: EventRow,
  { claim, nowMs }: { readonly claim: string; readonly nowMs: number | null },
): Promise<{ row: EventRow; judgedAtMs: number; losses: number } | null> {
  const losses = lossesOf(row.claim ?? claim, claim) + 1
  const [taken] = await db
    .update(events)
    .set({ attempts: oneMore(events), claim: afterLoss(claim, losses) })
    .where(
      and(
        eq(events.id, row.id),
        isNull(events.deliveredAt),
        eq(events.attempts, row.attempts),
        sql`${events.claim} = ${row.claim}`,
      ),
    )
    .returning({ ...getTableColumns(events), judgedAtMs: milliseconds(momentOf(nowMs)) })
  if (taken === undefined) return null
  const { judgedAtMs, ...again } = taken
  return { row: again, judgedAtMs: Number(judgedAtMs), losses }
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
      set outcomes = s.outcomes, claim = null, due_at = coalesce(s."dueAt", e.due_at),
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
    .select({ inMs: milliseconds(sql`${events.dueAt}`, momentOf(nowMs)) })
    .from(events)
    .where(and(isNull(events.deliveredAt), isNull(events.claim)))
    .orderBy(asc(events.dueAt), asc(events.id))
    .limit(1)
  return row === undefined ? null : Math.max(0, Math.ceil(Number(row.inMs)))
}

/** Whether a row is due, or was lost by its holder. */
export async function hasDueEvents(db: Database, { events }: Tables, nowMs: number | null): Promise<boolean> {
  const [row] = await db.execute<{ found: boolean }>(sql`
    select exists (select from ${events} where ${isDue(events, nowMs)})
        or exists (select from ${events} where ${isLost(events)}) as found`)
  return row?.found === true
}

function isLost(events: Tables['events']): SQL {
  return sql`(${events.deliveredAt} is null and ${events.claim} is not null
    and ${events.updatedAt} < now() - ${`${CLAIM_HOLDS_MINUTES} minutes`}::interval)`
}

/** A row's first moment is the database's, which a clock that stands in for it may not have reached. */
function isDue(events: Tables['events'], nowMs: number | null): SQL {
  const isNew = nowMs === null ? sql`` : sql` or ${isFresh(events)}`
  return sql`(${events.deliveredAt} is null and ${events.claim} is null
    and (${events.dueAt} <= ${momentOf(nowMs)}${isNew}))`
}

function isFresh(events: Tables['events']): SQL {
  return sql`${events.outcomes} = '{}'::jsonb`
}

const retriesOf = (limit: number): number => Math.max(1, Math.floor(limit / 4))

const oneMore = (events: Tables['events']): SQL => sql`least(${events.attempts} + 1, ${sql.raw(String(MAX_ATTEMPTS))})`

/**
 * Not clock_timestamp(): only what stays the same for a statement can bound its walk of the index. Rounded as `due_at` is when it is
 * stored, so that what was due before is.
 */
export function momentOf(nowMs: number | null): SQL {
  return nowMs === null ? sql`now()::timestamptz(3)` : sql`to_timestamp(${nowMs}::double precision / 1000)`
}

/** Since 1970, or since another moment. */
function milliseconds(moment: SQL, since?: SQL): SQL<string> {
  const span = since === undefined ? moment : sql`${moment} - ${since}`
  return sql<string>`extract(epoch from ${span})::float8 * 1000`
}
