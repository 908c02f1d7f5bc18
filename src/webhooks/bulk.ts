/** Many webhooks at once: chosen by a filter, counted beforehand, changed 500 at a time. Rule: docs/behaviour/webhook-replay.md. */
import type { SQL } from 'drizzle-orm'
import { and, asc, gt, inArray, lte, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import type { Database } from '../db/client.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { checkIds } from '../framework/list-filter.ts'
import { requireIntegration } from '../integrations/queries.ts'
import type { WebhookFilter } from './list.ts'
import { checkFilter } from './list.ts'

const DEFAULT_LIMIT = 1_000
const CHUNK_ROWS = 500
const PREVIEWED_IDS = 10

/** @returns the limit @throws InvalidArgumentException, IntegrationNotFound */
export async function checkMany(
  framework: Framework,
  { limit = DEFAULT_LIMIT, ...filter }: WebhookFilter & { readonly limit?: number | undefined },
): Promise<number> {
  checkIds({ limit })
  checkFilter(filter)
  if (filter.integration !== undefined) await requireIntegration(framework, filter.integration)
  return limit
}

/** The rows that are meant: at most `limit`, lowest id first. */
export interface Meant {
  readonly conditions: readonly SQL[]
  readonly limit: number
}

/** Of a replay, or a dismissal. */
export interface ReplayPreview {
  /** Rows that would be changed: at most the limit. */
  readonly count: number
  /** The first ten. */
  readonly ids: readonly number[]
  /** How many integrations have them. */
  readonly integrations: number
  /** Rows among them whose integration its health has disabled: replayed, they wait until it is enabled. */
  readonly waiting: number
  /** More rows are meant than the limit lets through. */
  readonly more: boolean
}

/** Changes nothing. */
export async function previewMany({ db, tables }: Framework, { conditions, limit }: Meant): Promise<ReplayPreview> {
  const { webhooks, integrations } = tables
  const [row] = await db.execute<{
    count: number
    ids: number[] | null
    of: number
    waiting: number
    more: boolean
  }>(sql`
    with meant as (
      select ${webhooks.id} as id, ${webhooks.integrationId} as integration_id from ${webhooks}
      where ${and(...conditions)} order by ${webhooks.id} limit ${limit + 1}
    ), chosen as (
      select * from meant order by id limit ${limit}
    )
    select (select count(*)::int from chosen) as count,
           (select count(distinct integration_id)::int from chosen) as of,
           (select json_agg(id order by id) from (select id from chosen order by id limit ${PREVIEWED_IDS}) first) as ids,
           (select count(*)::int from chosen c join ${integrations} i on i.id = c.integration_id
            where i.health_status = 'disabled') as waiting,
           (select count(*) from meant) > ${limit} as more`)
  const { count = 0, ids, of = 0, waiting = 0, more = false } = row ?? {}
  return { count, ids: (ids ?? []).map(Number), integrations: of, waiting, more }
}

export interface ChangedRow {
  readonly id: number
  readonly integrationId: number
}

export interface OnChangedWebhooks {
  /** Takes the webhooks that were changed, as they are. Broken off, an act on many has changed some. */
  readonly onChanged?: ((webhooks: readonly ChangedRow[]) => void) | undefined
}

type ChangedWebhook = ChangedRow & Pick<WebhookRow, 'orderingKey'>

export interface Changed {
  readonly count: number
  /** How many of each integration, by its id. */
  readonly integrations: readonly { readonly id: number; readonly count: number }[]
  /** The lowest and the highest id among them; null: none. */
  readonly span: readonly [number, number] | null
  /** Asks whether rows are left that were meant. */
  areMore(): Promise<boolean>
}

/**
 * Changes rows 500 at a time, lowest id first. It means no row that is stored after its beginning, and takes no row twice. Broken off,
 * it has changed some.
 *
 * @param onChunk called with the rows of each statement that changed any
 */
export async function changeMany(
  { db, tables }: Framework,
  { conditions, limit }: Meant,
  set: PgUpdateSetSource<Tables['webhooks']>,
  onChunk: (rows: readonly ChangedWebhook[]) => void | Promise<void> = () => {},
): Promise<Changed> {
  const { webhooks } = tables
  const [highest] = await db.select({ id: sql<string | null>`max(${webhooks.id})` }).from(webhooks)
  const highestId = Number(highest?.id ?? 0)
  const counts = new Map<number, number>()
  let afterId = 0
  let firstId: number | undefined
  let left = limit
  const meantNow = () => and(...conditions, gt(webhooks.id, afterId), lte(webhooks.id, highestId))
  for (let isOver = false; left > 0 && !isOver; ) {
    const size = Math.min(CHUNK_ROWS, left)
    const rows = await changeChunk(db, tables, { where: meantNow(), limit: size }, set)
    for (const { integrationId } of rows) counts.set(integrationId, (counts.get(integrationId) ?? 0) + 1)
    if (rows.length > 0) await onChunk(rows)
    firstId ??= rows[0]?.id
    afterId = rows.at(-1)?.id ?? afterId
    left -= rows.length
    isOver = rows.length < size
  }
  return {
    count: limit - left,
    span: firstId === undefined ? null : [firstId, afterId],
    integrations: [...counts].map(([id, count]) => ({ id, count })).sort((a, b) => a.id - b.id),
    async areMore() {
      const rows = await db.select({ id: webhooks.id }).from(webhooks).where(meantNow()).limit(1)
      return rows.length > 0
    },
  }
}

/**
 * Passes over a row that another connection is moving at the same moment, so each row has one change.
 *
 * @returns the rows by ascending id
 */
async function changeChunk(
  db: Database,
  { webhooks }: Tables,
  { where, limit }: { readonly where: SQL | undefined; readonly limit: number },
  set: PgUpdateSetSource<Tables['webhooks']>,
): Promise<ChangedWebhook[]> {
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and take more than the limit.
  const next = db
    .$with('next')
    .as(
      db
        .select({ id: webhooks.id })
        .from(webhooks)
        .where(where)
        .orderBy(asc(webhooks.id))
        .limit(limit)
        .for('update', { skipLocked: true }),
    )
  const rows = await db
    .with(next)
    .update(webhooks)
    .set(set)
    .where(inArray(webhooks.id, db.select({ id: next.id }).from(next)))
    .returning({ id: webhooks.id, integrationId: webhooks.integrationId, orderingKey: webhooks.orderingKey })
  return rows.sort((a, b) => a.id - b.id)
}
