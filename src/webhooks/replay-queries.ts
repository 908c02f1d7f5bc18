/** Statements that choose webhooks to run again, and put many of them back into the queue. */
import type { SQL } from 'drizzle-orm'
import { and, asc, gt, inArray, lte, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import { isNotErased, oneMore } from './queries.ts'
import type { WebhookFilter } from './webhook-list-queries.ts'
import { selected } from './webhook-list-queries.ts'

/** What has been settled, and is there still. */
export type ReplayFilter = WebhookFilter & { readonly status: 'processed' | 'failed' }

export interface ReplayPreview {
  /** Rows that would be replayed: at most the limit. */
  readonly count: number
  /** The first of them, lowest first. */
  readonly ids: readonly number[]
  /** Those of them whose integration its health has disabled: they wait until it is enabled. */
  readonly waiting: number
  /** More rows are meant than the limit lets through. */
  readonly more: boolean
}

/** Changes nothing. */
export async function previewReplay(
  db: Database,
  tables: Tables,
  filter: ReplayFilter,
  { limit, ids }: { limit: number; ids: number },
): Promise<ReplayPreview> {
  const { webhooks, integrations } = tables
  const [row] = await db.execute<{ count: number; ids: number[] | null; waiting: number; more: boolean }>(sql`
    with meant as (
      select ${webhooks.id} as id, ${webhooks.integrationId} as integration_id from ${webhooks}
      where ${and(...replayable(tables, filter))} order by ${webhooks.id} limit ${limit + 1}
    ), chosen as (
      select * from meant order by id limit ${limit}
    )
    select (select count(*)::int from chosen) as count,
           (select json_agg(id order by id) from (select id from chosen order by id limit ${ids}) first) as ids,
           (select count(*)::int from chosen c join ${integrations} i on i.id = c.integration_id
            where i.health_status = 'disabled') as waiting,
           (select count(*) from meant) > ${limit} as more`)
  return {
    count: row?.count ?? 0,
    ids: (row?.ids ?? []).map(Number),
    waiting: row?.waiting ?? 0,
    more: row?.more ?? false,
  }
}

/** The highest id so far. What is stored later is not meant by a replay that begins now. */
export async function highestWebhookId(db: Database, { webhooks }: Tables): Promise<number> {
  const [row] = await db.select({ id: sql<string | null>`max(${webhooks.id})` }).from(webhooks)
  return Number(row?.id ?? 0)
}

/** Part of a walk by ascending id. */
export interface ReplayChunk {
  readonly afterId: number
  readonly highestId: number
  readonly limit: number
}

/**
 * Makes the next settled rows `pending`, each the beginning of a replay. A row that somebody else is moving at the same
 * moment is passed over, so of two replays at once each row has one.
 *
 * @returns the rows by ascending id
 */
export async function replayChunk(
  db: Database,
  tables: Tables,
  filter: ReplayFilter,
  { afterId, highestId, limit }: ReplayChunk,
): Promise<{ id: number; integrationId: number }[]> {
  const { webhooks } = tables
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and take more than the limit.
  const next = db.$with('next').as(
    db
      .select({ id: webhooks.id })
      .from(webhooks)
      .where(and(...replayable(tables, filter), gt(webhooks.id, afterId), lte(webhooks.id, highestId)))
      .orderBy(asc(webhooks.id))
      .limit(limit)
      .for('update', { skipLocked: true }),
  )
  const rows = await db
    .with(next)
    .update(webhooks)
    .set({
      status: 'pending',
      error: null,
      processedAt: null,
      dismissedAt: null,
      claim: null,
      replayAttempt: oneMore(webhooks),
    })
    .where(inArray(webhooks.id, db.select({ id: next.id }).from(next)))
    .returning({ id: webhooks.id, integrationId: webhooks.integrationId })
  return rows.sort((a, b) => a.id - b.id)
}

/** Whether a row is left that the filter means. */
export async function isMoreToReplay(
  db: Database,
  tables: Tables,
  filter: ReplayFilter,
  { afterId, highestId }: Omit<ReplayChunk, 'limit'>,
): Promise<boolean> {
  const { webhooks } = tables
  const rows = await db
    .select({ id: webhooks.id })
    .from(webhooks)
    .where(and(...replayable(tables, filter), gt(webhooks.id, afterId), lte(webhooks.id, highestId)))
    .limit(1)
  return rows.length > 0
}

function replayable(tables: Tables, filter: ReplayFilter): SQL[] {
  return [...selected(tables, filter), isNotErased(tables.webhooks)]
}
