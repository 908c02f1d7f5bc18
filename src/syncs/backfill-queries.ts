/** Statements over the logs of backfills: one row per slice. */
import { and, asc, desc, eq, lt, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { LogRow, Tables } from '../db/schema/tables.ts'

export interface Slice {
  readonly integrationId: number
  readonly runId: string
  /** ISO 8601. */
  readonly from: string
  readonly to: string
}

/** Null: the slice is not open yet. */
export async function findSliceLog(
  db: Database | Transaction,
  { logs }: Tables,
  { integrationId, runId, from, to }: Slice,
): Promise<LogRow | null> {
  const [row] = await db
    .select()
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, integrationId),
        eq(logs.operation, 'backfill'),
        sql`${logs.metadata} ->> 'run_id' = ${runId}`,
        sql`${logs.metadata} #>> '{window,from}' = ${from}`,
        sql`${logs.metadata} #>> '{window,to}' = ${to}`,
      ),
    )
    .orderBy(desc(logs.id))
    .limit(1)
  return row ?? null
}

/**
 * Slices of other backfills that say `processing`, oldest first.
 *
 * @param before ISO 8601: only those that were opened before
 */
export async function openSlicesOfOthers(
  db: Database,
  { logs }: Tables,
  { integrationId, runId, before }: Pick<Slice, 'integrationId' | 'runId'> & { readonly before: string },
): Promise<number[]> {
  const rows = await db
    .select({ id: logs.id })
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, integrationId),
        eq(logs.operation, 'backfill'),
        eq(logs.status, 'processing'),
        lt(logs.createdAt, new Date(before)),
        sql`${logs.metadata} ->> 'run_id' is distinct from ${runId}`,
      ),
    )
    .orderBy(asc(logs.id))
  return rows.map(({ id }) => id)
}
