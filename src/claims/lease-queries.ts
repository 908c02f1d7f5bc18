/**
 * What pumps say in the cache table, each with its end: that a claim is served, and that a pump looks again.
 *
 * Rules: docs/behaviour/webhooks.md, "Claims" and "The promise".
 */
import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { intervalOf } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { ClaimedRows } from './claimed-rows.ts'

/** The claim of a pump. Its cache key is `<prefix>:<claim>`. */
export interface LeaseOf {
  /** Config `cache_prefix`. */
  readonly prefix: string
  readonly claim: string
}

const leaseKey = ({ prefix, claim }: LeaseOf): string => `${prefix}:${claim}`

/**
 * Says for some more seconds that the holder of a claim lives.
 *
 * @returns whether the claim was not served until now: this is the first time, or the holder was silent for too long. Then another
 * worker may have its rows.
 */
export async function keepClaim(
  db: Database,
  { cache }: Tables,
  lease: LeaseOf,
  seconds: number,
): Promise<{ hasLapsed: boolean }> {
  const key = leaseKey(lease)
  const [row] = await db.execute<{ lapsed: boolean | null }>(sql`
    with before as (select expires_at <= clock_timestamp() as lapsed from ${cache} where key = ${key})
    insert into ${cache} (key, value, expires_at)
    values (${key}, '{}', clock_timestamp() + ${intervalOf(sql`${seconds}`)})
    on conflict (key) do update set expires_at = excluded.expires_at, updated_at = clock_timestamp()
    returning (select lapsed from before) as lapsed`)
  return { hasLapsed: row?.lapsed !== false }
}

export async function endClaim(db: Database, { cache }: Tables, lease: LeaseOf): Promise<void> {
  await db.delete(cache).where(eq(cache.key, leaseKey(lease)))
}

/** Claims of pumps that hold rows, and whether their holder has said lately that it lives. */
export async function pumpClaims(
  db: Database,
  { cache }: Tables,
  { table, isHeld }: ClaimedRows,
  prefix: string,
): Promise<{ claim: string; served: boolean }[]> {
  return db.execute<{ claim: string; served: boolean }>(sql`
    select held.claim, c.key is not null as served
    from (select distinct r.claim from ${table} r where ${isHeld} and r.claim like 'pump:%') held
    left join ${cache} c on c.key = ${`${prefix}:`} || held.claim and c.expires_at > clock_timestamp()`)
}

/**
 * Counts the loss and takes the rows of a claim away from a holder that is still silent. They wait again, set apart from the others.
 *
 * A holder that speaks at the same moment waits for this statement, and learns that its claim had lapsed; or this statement waits for
 * the holder, and takes nothing.
 *
 * @returns the ids of the rows
 */
export async function setApart(
  db: Database,
  { cache }: Tables,
  { table, isHeld, released }: ClaimedRows,
  lease: LeaseOf,
): Promise<number[]> {
  const key = leaseKey(lease)
  const rows = await db.execute<{ id: string }>(sql`
    with silent as (delete from ${cache} where key = ${key} and expires_at <= clock_timestamp() returning key)
    update ${table} r set ${released}, lost_workers = r.lost_workers + 1, updated_at = clock_timestamp()
    where ${isHeld} and r.claim = ${lease.claim}
      and (exists (select 1 from silent) or not exists (select 1 from ${cache} c where c.key = ${key}))
    returning r.id`)
  return rows.map(({ id }) => Number(id))
}

/** The inbox, or the outbox, by its name. `prefix` is config `cache_prefix`. */
export interface InboxName {
  readonly prefix: string
  readonly inbox: string
}

const promiseKey = ({ prefix, inbox }: InboxName): string => `${prefix}:${inbox}`

/**
 * Promises to look once more, `ms` milliseconds from now: until then a process that stores a row wakes nothing. A later promise of
 * another pump stays.
 *
 * @param by the pump's claim
 */
export async function promiseToLook(
  db: Database,
  { cache }: Tables,
  name: InboxName,
  by: string,
  ms: number,
): Promise<void> {
  await db.execute(sql`
    insert into ${cache} as c (key, value, expires_at)
    values (${promiseKey(name)}, jsonb_build_object('ended', false, 'by', ${by}::text), clock_timestamp() + make_interval(secs => ${ms / 1_000}::double precision))
    on conflict (key) do update
    set expires_at = greatest(c.expires_at, excluded.expires_at), updated_at = clock_timestamp(),
        value = case when c.expires_at > excluded.expires_at then c.value else excluded.value end`)
}

/** Says that the promise was kept, unless another pump has made it: that promise may have ended after this pump's last look. */
export async function endPromise(db: Database, { cache }: Tables, name: InboxName, by: string): Promise<void> {
  await db
    .update(cache)
    .set({ value: { ended: true, by } })
    .where(
      and(
        eq(cache.key, promiseKey(name)),
        sql`${cache.expiresAt} <= clock_timestamp() and ${cache.value} ->> 'by' = ${by}`,
      ),
    )
}

export interface Promised {
  /** Until the promise ends; 0 or less: it is over. */
  readonly remainingMs: number
  /** Its last look has been made. */
  readonly hasEnded: boolean
}

/** The promise, and the claim of the pump that has made it. Null: there was never one, or it is pruned. */
export async function readPromise(
  db: Database,
  { cache }: Tables,
  name: InboxName,
): Promise<(Promised & { readonly by: string }) | null> {
  const [row] = await db.execute<{ remaining: number; ended: boolean | null; by: string }>(sql`
    select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as remaining, (value ->> 'ended')::boolean as ended,
      value ->> 'by' as by
    from ${cache} where key = ${promiseKey(name)}`)
  return row === undefined ? null : { remainingMs: row.remaining, hasEnded: row.ended === true, by: row.by }
}
