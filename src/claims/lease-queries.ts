/**
 * The promise of the inbox, or of the outbox, to a process that stores a row: "I look at least once after this moment". While it holds, nothing has to be woken.
 *
 * Rule: docs/behaviour/webhooks.md, "The promise".
 */
import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'

const keyOf = (prefix: string, inbox: string): string => `${prefix}:${inbox}`

/** Of one of them, by its name. `prefix` is config `cache_prefix`. */
export interface InboxName {
  readonly prefix: string
  readonly inbox: string
}

/** Promises to look once more, `ms` milliseconds from now. A later promise of another pump stays. @param by the pump's claim */
export async function promiseToLook(
  db: Database,
  { cache }: Tables,
  { prefix, inbox }: InboxName,
  by: string,
  ms: number,
): Promise<void> {
  await db.execute(sql`
    insert into ${cache} as c (key, value, expires_at)
    values (${keyOf(prefix, inbox)}, jsonb_build_object('ended', false, 'by', ${by}::text), clock_timestamp() + make_interval(secs => ${ms / 1_000}::double precision))
    on conflict (key) do update
    set expires_at = greatest(c.expires_at, excluded.expires_at), updated_at = clock_timestamp(),
        value = case when c.expires_at > excluded.expires_at then c.value else excluded.value end`)
}

/** Says that the promise was kept, unless another pump has made it: that one's end may have come after this one's look. */
export async function endPromise(
  db: Database,
  { cache }: Tables,
  { prefix, inbox }: InboxName,
  by: string,
): Promise<void> {
  await db
    .update(cache)
    .set({ value: { ended: true, by } })
    .where(
      and(
        eq(cache.key, keyOf(prefix, inbox)),
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

/** With the claim of the pump that has made it. Null: there was never one, or it is pruned. */
export async function readPromise(
  db: Database,
  { cache }: Tables,
  { prefix, inbox }: InboxName,
): Promise<(Promised & { readonly by: string }) | null> {
  const [row] = await db.execute<{ remaining: number; ended: boolean | null; by: string }>(sql`
    select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as remaining, (value ->> 'ended')::boolean as ended,
      value ->> 'by' as by
    from ${cache} where key = ${keyOf(prefix, inbox)}`)
  return row === undefined ? null : { remainingMs: row.remaining, hasEnded: row.ended === true, by: row.by }
}
