/** Answers in the request log that may be served again. */
import type { AnyColumn, SQL } from 'drizzle-orm'
import { and, desc, eq, isNotNull, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { clockNow, MAX_INTEGER } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'

export interface CachedCall {
  readonly integrationId: number
  /** Of method, endpoint and data. */
  readonly requestHash: string
}

export interface CachedAnswer {
  readonly id: number
  readonly body: string | null
}

/** How an answer is served: `stale` ones are taken however old. */
export type Serving = 'fresh' | 'stale'

/**
 * The newest answer of the same call, counted as served.
 *
 * @param now null: the database's clock
 */
export async function serveAnswer(
  db: Database,
  { requests }: Tables,
  { integrationId, requestHash }: CachedCall,
  serving: Serving,
  now: Date | null,
): Promise<CachedAnswer | null> {
  const moment = now === null ? clockNow() : sql`${now.toISOString()}::timestamptz`
  const newest = db
    .select({ id: requests.id })
    .from(requests)
    .where(
      and(
        eq(requests.integrationId, integrationId),
        eq(requests.requestHash, requestHash),
        // Only the answer of a success that may be served again has such a moment, past or to come.
        isNotNull(requests.expiresAt),
        serving === 'fresh' ? sql`${requests.expiresAt} > ${moment}` : undefined,
      ),
    )
    .orderBy(desc(requests.id))
    .limit(1)
  const [row] = await db
    .update(requests)
    .set(hits(requests, serving, 1))
    .where(eq(requests.id, sql`(${newest})`))
    .returning({ id: requests.id, body: requests.responseData })
  return row ?? null
}

/** An answer that turned out to be unusable was not served. */
export async function uncountServing(db: Database, { requests }: Tables, id: number, serving: Serving): Promise<void> {
  await db
    .update(requests)
    .set(hits(requests, serving, -1))
    .where(eq(requests.id, id))
}

function hits(requests: Tables['requests'], serving: Serving, by: 1 | -1): Record<string, SQL> {
  const counted = (hitsSoFar: AnyColumn): SQL =>
    sql`least(${hitsSoFar}::bigint + ${by}::int, ${sql.raw(String(MAX_INTEGER))})`
  return serving === 'fresh' ? { cacheHits: counted(requests.cacheHits) } : { staleHits: counted(requests.staleHits) }
}
