/**
 * Statements that set and clear the marker of failed webhooks that somebody has given up. `updated_at` stays: a mark is no
 * change of what the webhook is, and one that is taken back has not failed anew.
 */
import { and, asc, eq, gt, lte, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { ReplayChunk } from './replay-queries.ts'
import type { WebhookFilter } from './webhook-list-queries.ts'
import { selected } from './webhook-list-queries.ts'

/** Failed ones: those that are dismissed, or those that are not. */
export type DismissalFilter = WebhookFilter & { readonly status: 'failed'; readonly dismissed: boolean }

/**
 * Marks a failed webhook, or takes the mark back; one that is as asked already stays as it is.
 *
 * @returns when it was dismissed, null without a mark; `not failed` where it is in another state, or gone
 */
export async function markDismissed(
  db: Database,
  { webhooks }: Tables,
  id: number,
  isDismissed: boolean,
): Promise<{ dismissedAt: Date | null } | 'not failed'> {
  const [row] = await db
    .update(webhooks)
    .set({ dismissedAt: markOf(isDismissed), updatedAt: sql`${webhooks.updatedAt}` })
    .where(and(eq(webhooks.id, id), eq(webhooks.status, 'failed')))
    .returning({ dismissedAt: webhooks.dismissedAt })
  return row ?? 'not failed'
}

/** How many are meant, at most the limit, and the first of them. Changes nothing. */
export async function previewDismissal(
  db: Database,
  tables: Tables,
  filter: DismissalFilter,
  { limit, ids }: { limit: number; ids: number },
): Promise<{ count: number; ids: number[]; more: boolean }> {
  const { webhooks } = tables
  const [row] = await db.execute<{ count: number; ids: number[] | null }>(sql`
    with meant as (
      select ${webhooks.id} as id from ${webhooks}
      where ${and(...selected(tables, filter))} order by ${webhooks.id} limit ${limit + 1}
    )
    select (select count(*)::int from meant) as count,
           (select json_agg(id order by id) from (select id from meant order by id limit ${Math.min(ids, limit)}) first) as ids`)
  const count = row?.count ?? 0
  return { count: Math.min(count, limit), ids: (row?.ids ?? []).map(Number), more: count > limit }
}

/**
 * Marks the next failed webhooks, or takes their mark back. A row that somebody else is moving at the same moment is passed
 * over.
 *
 * @returns the rows by ascending id
 */
export async function dismissChunk(
  db: Database,
  tables: Tables,
  filter: DismissalFilter,
  { afterId, highestId, limit }: ReplayChunk,
): Promise<{ id: number; integrationId: number }[]> {
  const { webhooks } = tables
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and take more than the limit.
  const next = db.$with('next').as(
    db
      .select({ id: webhooks.id })
      .from(webhooks)
      .where(and(...selected(tables, filter), gt(webhooks.id, afterId), lte(webhooks.id, highestId)))
      .orderBy(asc(webhooks.id))
      .limit(limit)
      .for('update', { skipLocked: true }),
  )
  const rows = await db
    .with(next)
    .update(webhooks)
    .set({ dismissedAt: markOf(!filter.dismissed), updatedAt: sql`${webhooks.updatedAt}` })
    .where(sql`${webhooks.id} in (select ${next.id} from ${next})`)
    .returning({ id: webhooks.id, integrationId: webhooks.integrationId })
  return rows.sort((a, b) => a.id - b.id)
}

/** The first mark counts. Unqualified: `set` names columns of the row itself. */
const markOf = (isDismissed: boolean) => (isDismissed ? sql`coalesce(dismissed_at, clock_timestamp())` : null)
