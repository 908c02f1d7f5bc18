/** Statements that remove an integration with all its rows. */
import { eq, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import { lockIntegration } from '../integrations/queries.ts'

/** The tables whose rows belong to an integration; what refers to another of them comes before it. */
export const OWNED = [
  'syncItems',
  'webhooks',
  'requests',
  'logs',
  'mappings',
  'idempotencyKeys',
  'incidents',
  'events',
] as const satisfies readonly (keyof Tables)[]
export type OwnedTable = (typeof OWNED)[number]

/** A walk over an integration's rows by ascending id. */
export interface Chunk {
  readonly integrationId: number
  readonly afterId: number
  readonly limit: number
}

/** How many rows a statement took, and where the next one goes on; null: it was the last. */
export interface Walked {
  readonly rows: number
  readonly lastId: number | null
}

/**
 * Deletes the next rows of a table. Those that somebody holds at this moment are passed over: waiting for them could end
 * in a deadlock, and {@link deleteRemainder} takes them.
 */
export async function deleteChunk(
  db: Database,
  tables: Tables,
  name: OwnedTable,
  { integrationId, afterId, limit }: Chunk,
): Promise<Walked> {
  const table = tables[name]
  const [row] = await db.execute<{ rows: number; last_id: string | null }>(sql`
    with chunk as (
      select id from ${table} where integration_id = ${integrationId} and id > ${afterId}
      order by id limit ${limit} for update skip locked
    ), gone as (
      delete from ${table} t using chunk where t.id = chunk.id returning t.id
    )
    select count(*)::int as rows, max(id) as last_id from gone`)
  return walked(row)
}

export function walked(row: { rows: number; last_id: string | null } | undefined): Walked {
  return { rows: row?.rows ?? 0, lastId: row === undefined || row.last_id === null ? null : Number(row.last_id) }
}

/** Deletes cache entries whose key begins so, at most `limit`. Locks, too, unless they are to be kept. */
export async function deleteCacheEntries(
  db: Database | Transaction,
  { cache }: Tables,
  { prefix, limit, keepLocks = false }: { prefix: string; limit: number; keepLocks?: boolean },
): Promise<number> {
  const kept = keepLocks ? sql`and owner is null` : sql``
  const rows = await db.execute(sql`
    delete from ${cache} where key in (
      select key from ${cache} where starts_with(key, ${prefix}) ${kept} limit ${limit}
    ) returning 1`)
  return rows.length
}

/**
 * The row itself, with what came in while the chunks went. The lock comes first: from then on a statement that would add a
 * row for this integration waits, and then finds that its foreign key leads nowhere.
 *
 * @returns rows that went, by table; null when somebody else has deleted the integration meanwhile
 */
export async function deleteRemainder(
  db: Database,
  tables: Tables,
  integrationId: number,
  cachePrefix: string,
): Promise<Record<OwnedTable | 'cache', number> | null> {
  return db.transaction(async (tx) => {
    if ((await lockIntegration(tx, tables, integrationId, 'update')) === null) return null
    const counts: Partial<Record<OwnedTable | 'cache', number>> = {}
    for (const name of OWNED) {
      const rows = await tx.execute(
        sql`delete from ${tables[name]} where integration_id = ${integrationId} returning 1`,
      )
      counts[name] = rows.length
    }
    counts.cache = await deleteCacheEntries(tx, tables, { prefix: cachePrefix, limit: 2 ** 31 - 1 })
    await tx.delete(tables.integrations).where(eq(tables.integrations.id, integrationId))
    return counts as Record<OwnedTable | 'cache', number>
  })
}
