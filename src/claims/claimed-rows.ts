/**
 * The statements of a claim, for any table whose rows workers claim: take, hold, take up, settle, hand back. A concept describes its
 * table ({@link ClaimedRows}).
 *
 * The promise of all of them: a row is settled once, and a worker whose claim was lost settles nothing. A statement names the claim and
 * the attempt, and leaves a row alone that another worker has claimed since.
 * Rule: docs/behaviour/webhooks.md, "Claims". Proof: test/claims/claimed-rows.pg.test.ts.
 */
import type { SQL, Table } from 'drizzle-orm'
import { and, getTableColumns, inArray, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { alias } from 'drizzle-orm/pg-core'
import { keptCheckPlans } from '../db/check-plans.ts'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'

/** A row that was claimed. `attempts` counts its claims, so the two tell this claim from a later one. */
export interface ClaimedRow {
  readonly id: number
  readonly integrationId: number
  readonly attempts: number
  readonly claim: string | null
  /** Of an arrival: see echoes/arrivals.ts. */
  readonly isOwn?: boolean | null
}

/** The outcome of one claim of a row. What else it holds is the concept's. */
export interface Settlement {
  readonly id: number
  readonly attempts: number
  readonly claim: string
}

/** A table whose rows workers claim. In its texts the row is `r`, and a settlement is `s`. */
export interface ClaimedRows<Of extends PgTable = PgTable> {
  readonly table: Of
  /** A claim holds the row. */
  readonly isHeld: SQL
  /** What is set when the row goes back and waits again. */
  readonly released: SQL
  /** The column that keeps the `isOwn` of a row that goes back. Left out: the table has none. */
  readonly judgement?: SQL
  readonly settling: {
    /** The fields of a settlement beside `id`, `attempts` and `claim`: names and types. */
    readonly fields: SQL
    /** What is set. */
    readonly writes: SQL
    /** The columns of `settled` that `logs` and `keeps` read. */
    readonly returns: SQL
    /** An `insert` that writes log rows from `settled`. */
    readonly logs: SQL
    /** A statement that writes more from `settled`. */
    readonly keeps?: SQL
    /** The row is as this settlement has left it. */
    readonly isStored: SQL
  }
}

/** How many rows the next claim may take. */
export interface ClaimRoom {
  /** The walk begins behind this integration, or queue. */
  readonly after: number
  /** Integrations that the walk passes at most. */
  readonly integrations: number
  readonly rows: number
  /** For an integration that `rooms` does not name. */
  readonly room: number
  readonly rooms: Readonly<Record<string, number>>
}

export interface Claimed<Row> {
  readonly rows: readonly Row[]
  /** The `xmin` of each row's integration: an integration with the same one is unchanged. */
  readonly versions: ReadonlyMap<number, string>
  readonly walked: number
  /** The last integration of the walk; 0: there was none. */
  readonly upto: number
}

/** The columns that a claim's function adds to a row. Its last row has no version: it says how far the walk went. */
interface Taken {
  readonly version: string | null
  readonly walked: number
  readonly upto: string
}

/** The arguments that the functions of all tables begin with. */
export const claimArguments = (claim: string, { after, integrations, rows, room, rooms }: ClaimRoom): SQL =>
  sql`${claim}::text, ${after}::bigint, ${integrations}::int, ${rows}::int, ${room}::int, ${jsonText(rooms)}::jsonb`

/**
 * Claims the next rows of many integrations, by the table's own function (drizzle/functions/). It counts the attempt, and passes over
 * rows that another claim is taking at the same moment.
 *
 * @param from `call`: the function with its arguments; `row`: its column that holds the row; `more`: further columns of the result
 */
export async function claimNext<Row extends Pick<ClaimedRow, 'integrationId'>>(
  db: Database,
  table: Table,
  {
    call,
    row: column,
    more = {},
  }: { readonly call: SQL; readonly row: string; readonly more?: Readonly<Record<string, SQL>> },
): Promise<Claimed<Row>> {
  const columns = Object.entries(getTableColumns(table)).map(
    ([key, column]) => [key, sql`${sql.identifier(column.name)}`.mapWith(column)] as const,
  )
  const selected = {
    ...Object.fromEntries(columns),
    ...more,
    version: sql`version`,
    walked: sql`walked`,
    upto: sql`upto`,
  }
  const taken = await db
    .select(selected)
    .from(sql`(select (c.${sql.identifier(column)}).*, c.* from ${call} c) as claimed`)
  const versions = new Map<number, string>()
  const rows: Row[] = []
  let walk = { walked: 0, upto: 0 }
  for (const { version, walked, upto, ...claimed } of taken as unknown as (Row & Taken)[])
    if (version === null) walk = { walked, upto: Number(upto) }
    else {
      const row = claimed as unknown as Row
      rows.push(row)
      versions.set(row.integrationId, version)
    }
  return { rows, versions, ...walk }
}

/** The rows that one of these claims still holds, by id. */
export async function heldBy<Of extends PgTable>(
  db: Database,
  { table, isHeld }: ClaimedRows<Of>,
  claims: readonly string[],
): Promise<Of['$inferSelect'][]> {
  const r = alias(table as PgTable, 'r')
  const rows = await db
    .select()
    .from(r)
    .where(and(isHeld, inArray(sql`r.claim`, [...claims])))
    .orderBy(sql`r.id`)
  return rows as Of['$inferSelect'][]
}

/** The ids of the rows that a claim still holds. */
export async function idsHeldBy(db: Database, { table, isHeld }: ClaimedRows, claim: string): Promise<Set<number>> {
  return idsOf(await db.execute<Id>(sql`select r.id from ${table} r where ${isHeld} and r.claim = ${claim}`))
}

/**
 * Takes up a row whose worker died, under the claim that holds it.
 *
 * @param writes what counts the loss
 * @returns null: another worker has moved the row since
 */
export async function takeUp<Row extends ClaimedRow>(
  db: Database,
  { table, isHeld }: ClaimedRows,
  { id, attempts, claim }: Row,
  writes: Readonly<Record<string, unknown>>,
): Promise<Row | null> {
  const [taken] = await db
    .update(alias(table, 'r'))
    .set(writes)
    .where(and(sql`r.id = ${id} and r.attempts = ${attempts} and r.claim = ${claim}`, isHeld))
    .returning()
  return (taken as Row | undefined) ?? null
}

/**
 * Stores outcomes and writes their log rows, in one statement: all of it is stored, or nothing.
 *
 * @returns the ids that were settled. A row that was claimed again since is not among them: the later claim's outcome counts.
 */
export async function settle<Given extends Settlement>(
  db: Database | Transaction,
  rows: ClaimedRows,
  settlements: readonly Given[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  return idsOf(
    await db.execute<Id>(sql`${settlingStatement(rows, settlements)} select id, ${keptCheckPlans} from settled`),
  )
}

/** Calls of functions that the statement makes around a settlement. */
export interface Around {
  /** Made before a row is settled, such as a lock. */
  readonly before: SQL
  /** Made once all are: a function that sees what the statement has written (manual, 38.7 "Function Volatility"). Gives an int. */
  readonly after: SQL
}

/** The same with calls before and after it. `after`: what the second one gave. */
export async function settleAround<Given extends Settlement>(
  db: Database | Transaction,
  rows: ClaimedRows,
  settlements: readonly Given[],
  { before, after }: Around,
): Promise<{ settled: Set<number>; after: number }> {
  const found = await db.execute<{ id: string | null; after: number }>(sql`
    ${settlingStatement(rows, settlements, before)}
    select id, 0 as after, null as check_plans from settled
    union all
    select null, ${after}, ${keptCheckPlans} from (select count(*) from settled) as done`)
  const settled = new Set<number>()
  let given = 0
  for (const { id, after } of found)
    if (id === null) given = after
    else settled.add(Number(id))
  return { settled, after: given }
}

/** Its rows are `settled`. */
function settlingStatement<Given extends Settlement>(
  { table, isHeld, settling }: ClaimedRows,
  settlements: readonly Given[],
  before?: SQL,
): SQL {
  const { fields, writes, returns, logs, keeps } = settling
  return sql`
      with ${before === undefined ? sql`` : sql`first as materialized (select ${before}), `}given as (
        select s.* from jsonb_to_recordset(${jsonText(settlements)}::jsonb) as s
          (id bigint, attempts int, claim text, ${fields})${before === undefined ? sql`` : sql` cross join first`}
      ), settled as (
        update ${table} r set ${writes}, updated_at = clock_timestamp()
        from given s where r.id = s.id and ${stillHeld(isHeld)}
        returning r.id, r.integration_id, ${returns}
      ), logged as (${logs})${keeps === undefined ? sql`` : sql`, kept as (${keeps})`}`
}

/**
 * Finds settlements that {@link settle} left out although they are stored: an earlier statement was committed, and its answer was lost.
 *
 * @returns their ids
 */
export async function alreadySettled<Given extends Settlement>(
  db: Database,
  { table, settling }: ClaimedRows,
  settlements: readonly Given[],
): Promise<Set<number>> {
  if (settlements.length === 0) return new Set()
  return idsOf(
    await db.execute<Id>(sql`
      select r.id from ${table} r
      join jsonb_to_recordset(${jsonText(settlements)}::jsonb) as s (id bigint, attempts int, claim text, ${settling.fields})
        on r.id = s.id and ${settling.isStored}`),
  )
}

/**
 * Gives claimed rows back that no handler has ended; the attempt does not count. A row that another worker has taken up since stays there.
 *
 * @returns the ids that went back
 */
export async function handBack(
  db: Database | Transaction,
  { table, isHeld, released, judgement }: ClaimedRows,
  rows: readonly Omit<ClaimedRow, 'integrationId'>[],
): Promise<Set<number>> {
  if (rows.length === 0) return new Set()
  const given = rows.map(({ id, attempts, claim, isOwn = null }) => ({ id, attempts, claim, isOwn }))
  const judged = judgement === undefined ? sql`` : sql`, ${judgement} = coalesce(s."isOwn", r.${judgement})`
  return idsOf(
    await db.execute<Id>(sql`
      update ${table} r set ${released}${judged}, attempts = r.attempts - 1, updated_at = clock_timestamp()
      from jsonb_to_recordset(${jsonText(given)}::jsonb) as s (id bigint, attempts int, claim text, "isOwn" boolean)
      where r.id = s.id and ${stillHeld(isHeld)}
      returning r.id`),
  )
}

/** Gives rows of a claim back that its holder does not know: a claim was stored, and its answer was lost. The attempt does not count. */
export async function handBackUnknown(
  db: Database,
  { table, isHeld, released }: ClaimedRows,
  claim: string,
  known: ReadonlySet<number>,
): Promise<void> {
  await db.execute(sql`
    update ${table} r set ${released}, attempts = r.attempts - 1, updated_at = clock_timestamp()
    where ${isHeld} and r.claim = ${claim}
      and not exists (select 1 from jsonb_array_elements_text(${jsonText([...known])}::jsonb) k where k::bigint = r.id)`)
}

interface Id extends Record<string, unknown> {
  readonly id: string
}

const idsOf = (rows: readonly Id[]): Set<number> => new Set(rows.map(({ id }) => Number(id)))

/** coalesce() keeps the planner to the primary key: after a long run the index of held rows is full of dead entries. */
const stillHeld = (isHeld: SQL): SQL =>
  sql`coalesce(${isHeld}, false) and r.attempts = s.attempts and r.claim = s.claim`
