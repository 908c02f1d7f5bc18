/**
 * How pumps hold rows of a table, and how others know that they live.
 *
 * Rule: docs/behaviour/webhooks.md, "Claims".
 */
import type { SQL, Table } from 'drizzle-orm'
import { and, eq, getTableColumns, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { intervalOf, jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'

export interface ClaimRoom {
  /** The walk begins behind this integration, or queue. */
  readonly after: number
  /** Walked over at most. */
  readonly integrations: number
  readonly rows: number
  /** For one that `rooms` does not name. */
  readonly room: number
  readonly rooms: Readonly<Record<string, number>>
}

export interface Claimed<Row> {
  readonly rows: readonly Row[]
  /** The `xmin` of each row's integration: an integration that has the same one is as it was. */
  readonly versions: ReadonlyMap<number, string>
  readonly walked: number
  /** The last one that was walked over; 0: none. */
  readonly upto: number
}

/** What a claim's function says beside a row. The last one has no row and no version: it says how far the walk went. */
interface Taken {
  readonly integrationId: number
  readonly version: string | null
  readonly walked: number
  readonly upto: string
}

export function claimedBy<Row>(taken: readonly (Row & Taken)[]): Claimed<Row> {
  const versions = new Map<number, string>()
  const rows: Row[] = []
  let walk = { walked: 0, upto: 0 }
  for (const { version, walked, upto, ...row } of taken)
    if (version === null) walk = { walked, upto: Number(upto) }
    else {
      rows.push(row as Row)
      versions.set(row.integrationId, version)
    }
  return { rows, versions, ...walk }
}

/** The columns of a table's row that a function gives. */
export function columnsOf<Of extends Table>(table: Of) {
  const columns = Object.entries(getTableColumns(table)).map(
    ([key, column]) => [key, sql`${sql.identifier(column.name)}`.mapWith(column)] as const,
  )
  return Object.fromEntries(columns) as { [Key in keyof Of['$inferSelect']]: SQL<Of['$inferSelect'][Key]> }
}

/** A table whose rows pumps hold. Its row is `r`. */
export interface PumpedRows {
  readonly table: Table
  readonly isHeld: SQL
  /** Who holds it no more, it waits again. */
  readonly released: SQL
}

export const pumpedWebhooks = ({ webhooks }: Tables): PumpedRows => ({
  table: webhooks,
  isHeld: sql`r.status = 'processing'`,
  released: sql`status = 'pending', claim = null, updated_at = clock_timestamp()`,
})

export const pumpedEvents = ({ events }: Tables): PumpedRows => ({
  table: events,
  isHeld: sql`r.delivered_at is null`,
  released: sql`claim = null, updated_at = clock_timestamp()`,
})

/** The cache key of a pump's lease. */
const leaseKey = (prefix: string, claim: string): string => `${prefix}:${claim}`

export interface LeaseOf {
  /** Config `cache_prefix`. */
  readonly prefix: string
  readonly claim: string
}

/**
 * Says for some more seconds that the holder of a claim lives.
 *
 * @returns whether it was not served until now, be it that this is the first time, or that it was silent for too long: then its rows
 * may be another one's
 */
export async function keepClaim(
  db: Database,
  { cache }: Tables,
  { prefix, claim }: LeaseOf,
  seconds: number,
): Promise<{ hasLapsed: boolean }> {
  const key = leaseKey(prefix, claim)
  const [row] = await db.execute<{ lapsed: boolean | null }>(sql`
    with before as (select expires_at <= clock_timestamp() as lapsed from ${cache} where key = ${key})
    insert into ${cache} (key, value, expires_at)
    values (${key}, '{}', clock_timestamp() + ${intervalOf(sql`${seconds}`)})
    on conflict (key) do update set expires_at = excluded.expires_at, updated_at = clock_timestamp()
    returning (select lapsed from before) as lapsed`)
  return { hasLapsed: row?.lapsed !== false }
}

export async function endClaim(db: Database, { cache }: Tables, { prefix, claim }: LeaseOf): Promise<void> {
  await db.delete(cache).where(eq(cache.key, leaseKey(prefix, claim)))
}

/** Whether the holder of a claim has said lately that it lives. */
export async function isServed(db: Database, { cache }: Tables, { prefix, claim }: LeaseOf): Promise<boolean> {
  const rows = await db
    .select({ key: cache.key })
    .from(cache)
    .where(and(eq(cache.key, leaseKey(prefix, claim)), sql`${cache.expiresAt} > clock_timestamp()`))
  return rows.length > 0
}

/** Claims of pumps that hold rows, and whether their holder has said lately that it lives. */
export async function pumpClaims(
  db: Database,
  { cache }: Tables,
  { table, isHeld }: PumpedRows,
  prefix: string,
): Promise<{ claim: string; served: boolean }[]> {
  return db.execute<{ claim: string; served: boolean }>(sql`
    select held.claim, c.key is not null as served
    from (select distinct r.claim from ${table} r where ${isHeld} and r.claim like 'pump:%') held
    left join ${cache} c on c.key = ${`${prefix}:`} || held.claim and c.expires_at > clock_timestamp()`)
}

/**
 * Counts the loss and takes the rows of a claim away from a holder that is still silent: they wait again, set apart from the others. A
 * holder that speaks at the same moment waits for this, and is told that it had lapsed; or this one waits, and takes nothing.
 *
 * @returns their ids
 */
export async function setApart(
  db: Database,
  { cache }: Tables,
  { table, isHeld, released }: PumpedRows,
  { prefix, claim }: LeaseOf,
): Promise<number[]> {
  const key = leaseKey(prefix, claim)
  const rows = await db.execute<{ id: string }>(sql`
    with silent as (delete from ${cache} where key = ${key} and expires_at <= clock_timestamp() returning key)
    update ${table} r set ${released}, lost_workers = r.lost_workers + 1
    where ${isHeld} and r.claim = ${claim}
      and (exists (select 1 from silent) or not exists (select 1 from ${cache} c where c.key = ${key}))
    returning r.id`)
  return rows.map(({ id }) => Number(id))
}

/** Gives the rows of a claim back that its holder does not know of. The attempt does not count: no handler has seen them. */
export async function handBackUnknown(
  db: Database,
  { table, isHeld, released }: PumpedRows,
  claim: string,
  known: ReadonlySet<number>,
): Promise<void> {
  await db.execute(sql`
    update ${table} r set ${released}, attempts = r.attempts - 1
    where ${isHeld} and r.claim = ${claim}
      and not exists (select 1 from jsonb_array_elements_text(${jsonText([...known])}::jsonb) k where k::bigint = r.id)`)
}

/** Which rows a claim still holds. */
export async function idsHeldBy(db: Database, { table, isHeld }: PumpedRows, claim: string): Promise<Set<number>> {
  const rows = await db.execute<{ id: string }>(sql`select r.id from ${table} r where ${isHeld} and r.claim = ${claim}`)
  return new Set(rows.map(({ id }) => Number(id)))
}
