/** Statements that compare full listings with the mappings. Rule: docs/behaviour/sync-backfills.md, "Deletions". */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, lt, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { LogRow, Tables } from '../../db/schema/tables.ts'

/** The last run before this one that listed everything of the same kind, whatever became of it. */
export async function fullListingBefore(
  db: Database,
  { logs }: Tables,
  run: { integrationId: number; id: number },
  internalType: string | null,
): Promise<LogRow | null> {
  const [row] = await db
    .select()
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, run.integrationId),
        eq(logs.operation, 'sync'),
        lt(logs.id, run.id),
        sql`jsonb_typeof(${logs.metadata} -> 'full_listing') = 'object'`,
        sql`${logs.metadata} #>> '{full_listing,internal_type}' is not distinct from ${internalType}::text`,
      ),
    )
    .orderBy(desc(logs.id))
    .limit(1)
  return row ?? null
}

/** Rows of a run, and the lowest id among them; null: it has none any more. */
export async function itemsLeft(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<{ count: number; firstId: number | null }> {
  const [row] = await db
    .select({ count: sql<string>`count(*)`, firstId: sql<string | null>`min(${syncItems.id})` })
    .from(syncItems)
    .where(eq(syncItems.syncLogId, syncLogId))
  return { count: Number(row?.count ?? 0), firstId: row?.firstId == null ? null : Number(row.firstId) }
}

/** Two full listings, and what is asked about them. */
export interface TwoListings {
  readonly integrationId: number
  /** Null: all of the integration. */
  readonly internalType: string | null
  readonly syncLogIds: readonly [number, number]
  /** When the earlier one began: what was mapped later, it could not know. */
  readonly mappedBy: Date
  /** The lowest id of their items: a year of earlier ones lies below it. */
  readonly fromItemId: number
}

export interface MappedPage {
  /** In order; what neither listing named. */
  readonly missing: readonly string[]
  readonly mapped: number
  /** Where to go on; null: this was the last page. */
  readonly last: string | null
}

/**
 * One page of an integration's mapped external ids, in order, and which of them are missing. An id that several models are
 * mapped to counts once.
 */
export async function mappedPage(
  db: Database,
  tables: Tables,
  listings: TwoListings,
  after: string | null,
  limit: number,
): Promise<MappedPage> {
  const { mappings } = tables
  const { integrationId, internalType, mappedBy } = listings
  const [row] = await db.execute<{ mapped: number; last: string | null; missing: string[] | null }>(sql`
    with page as (
      select m.external_id, min(m.created_at) as created_at
      from ${mappings} m
      where m.integration_id = ${integrationId}
        and (${internalType}::text is null or m.internal_type = ${internalType})
        and (${after}::text is null or m.external_id > ${after})
      group by m.external_id
      order by m.external_id
      limit ${limit}
    ), judged as (
      select page.external_id, page.created_at <= ${mappedBy.toISOString()}::timestamptz
        and ${itemOfEither(tables, listings, sql`page.external_id`)} is null as is_missing
      from page
    )
    select count(*)::int as mapped, max(external_id) as last,
           jsonb_agg(external_id order by external_id) filter (where is_missing) as missing
    from judged`)
  const { mapped = 0, last = null, missing = null } = row ?? {}
  return { missing: missing ?? [], mapped, last: mapped < limit ? null : last }
}

/**
 * A scalar query with a limit is asked once per row, by the index over the external ids. As `not exists` it would become a
 * join, which reads all items of both runs again for every page.
 */
function itemOfEither({ syncItems }: Tables, listings: TwoListings, externalId: SQL): SQL {
  const [earlier, later] = listings.syncLogIds
  return sql`(
    select i.id from ${syncItems} i
    where i.integration_id = ${listings.integrationId} and i.external_id = ${externalId} and i.id >= ${listings.fromItemId}
      and i.sync_log_id in (${earlier}, ${later})
    limit 1)`
}
