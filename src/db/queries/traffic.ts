/** Figures over the request log. */
import { sql } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'

export interface Traffic {
  readonly requests: number
  readonly failed: number
}

/**
 * Rows of the last 24 hours, retries included, of these integrations: one statement for all of them, so that at worst the
 * day's rows are read once, by the index on the time. (A count for each integration read them once for each of the busy
 * ones.)
 */
export async function trafficOfLastDay(
  db: Database,
  { requests }: Tables,
  integrationIds: readonly number[],
): Promise<Map<number, Traffic>> {
  const ids = sql.join(
    integrationIds.map((id) => sql`${id}`),
    sql`, `,
  )
  const rows = await db.execute<{ integration_id: string; requests: number; failed: number }>(sql`
    select integration_id, count(*)::int as requests, count(failure_class)::int as failed
    from ${requests}
    where integration_id in (${ids}) and created_at > now() - interval '24 hours'
    group by integration_id`)
  return new Map(rows.map((row) => [Number(row.integration_id), { requests: row.requests, failed: row.failed }]))
}
