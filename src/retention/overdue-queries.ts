/** The oldest row of a step that should have been pruned: what `doctor` asks. */
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { DeletingStep } from './queries.ts'
import { oldestPrunable } from './queries.ts'

/** @returns the moment from which its days are counted; null: there is none */
export async function oldestOverdue(
  db: Database,
  tables: Tables,
  step: DeletingStep,
  before: string,
): Promise<Date | null> {
  return step === 'webhooks' ? oldestSettledWebhook(db, tables, before) : oldestPrunable(db, tables, step, before)
}

/** By the index over all integrations, which has when a row was last changed: when it was settled, or later. */
async function oldestSettledWebhook(db: Database, { webhooks }: Tables, before: string): Promise<Date | null> {
  const [row] = await db.execute<{ at: string | Date | null }>(sql`
    select min(oldest.at) as at
    from unnest(array['processed', 'failed']) settled (status)
    cross join lateral (
      select w.updated_at as at from ${webhooks} w
      where w.status = settled.status and w.updated_at < ${before}::timestamptz order by w.updated_at limit 1
    ) oldest`)
  return row?.at == null ? null : new Date(row.at)
}
