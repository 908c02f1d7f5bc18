/**
 * Statements that take up what is stranded or may be tried again. None reads a payload.
 *
 * Rule: docs/behaviour/webhook-recovery.md.
 */
import type { SQL } from 'drizzle-orm'
import { eq, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { clockNow, jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import { isNotErased } from './queries.ts'

/** Which rows are due. */
export type Due =
  | {
      readonly status: 'processing' | 'pending'
      /** Since the row was last written; a row of exactly this age is not due. */
      readonly timeoutSeconds: number
    }
  | {
      readonly status: 'failed'
      readonly maxAttempts: number
      /** The wait after attempt N is entry N, the last one past the end. A row whose wait ends now is due. */
      readonly backoffSeconds: readonly number[]
    }

/** A row that was taken up, and what it was before. */
export interface TakenUp {
  readonly id: number
  readonly integrationId: number
  readonly attempts: number
  readonly status: WebhookRow['status']
  readonly error: string | null
  readonly processedAt: string | null
  readonly updatedAt: string
  readonly touchedAt: string
}

export interface DuePage {
  /** Default: those of all, by ascending id. */
  readonly integrationId?: number
  /** Only those of a higher id: a row that is due again within the pass waits for the next one. */
  readonly afterId?: number
  readonly limit: number
}

/**
 * Takes up the next due rows: their `updated_at` moves, and `failed` ones become `pending`, so that neither another run of
 * recovery nor the next page finds them due.
 *
 * Of several runs at once each row has one winner, since rows that another one is taking are passed over. A row that was
 * settled, claimed or touched meanwhile is looked at again once its lock is had, and is not due any more.
 */
export async function takeUpDue(db: Database, tables: Tables, due: Due, page: DuePage): Promise<TakenUp[]> {
  const { webhooks } = tables
  const { integrationId, afterId = 0, limit } = page
  // Of one integration's many no order is needed, and none is made: it would sort them all for each page. The sums keep
  // Postgres from walking whole tables or integrations in the hope that due rows come soon: it can't know how few they are.
  const next =
    integrationId === undefined
      ? sql`and id + 0 > ${afterId} order by id + 0`
      : sql`and integration_id + 0 = ${integrationId}`
  const rows = await db.execute<{ [Column in keyof TakenUp]: TakenUp[Column] }>(sql`
    with due as (
      select id, attempts, status, error, processed_at, updated_at
      from ${webhooks}
      where ${isDue(tables, due)} ${next}
      limit ${limit} for update skip locked
    )
    update ${webhooks} w
    set updated_at = clock_timestamp()
        ${due.status === 'failed' ? sql`, status = 'pending', error = null, processed_at = null` : sql``}
    from due d
    where w.id = d.id and w.status = d.status and w.attempts = d.attempts and w.updated_at = d.updated_at
    returning w.id, w.integration_id as "integrationId", w.attempts, d.status, d.error, d.processed_at as "processedAt",
              d.updated_at as "updatedAt", w.updated_at as "touchedAt"`)
  return rows
    .map((row) => ({ ...row, id: Number(row.id), integrationId: Number(row.integrationId) }))
    .sort((a, b) => a.id - b.id)
}

/** Puts rows back as they were, unless another statement has moved them since. */
export async function undoTakeUp(
  db: Database,
  { webhooks }: Tables,
  due: Due,
  rows: readonly TakenUp[],
): Promise<void> {
  if (rows.length === 0) return
  await db.execute(sql`
    with taken as (
      select * from jsonb_to_recordset(${jsonText(rows)}::jsonb) as t
        (id bigint, attempts int, status text, error text, "processedAt" timestamptz, "updatedAt" timestamptz,
         "touchedAt" timestamptz)
    )
    update ${webhooks} w
    set status = t.status, error = t.error, processed_at = t."processedAt", updated_at = t."updatedAt"
    from taken t
    where w.id = t.id and w.status = ${due.status === 'failed' ? 'pending' : due.status}
      and w.attempts = t.attempts and w.updated_at = t."touchedAt"`)
}

/** Integrations with more due rows than `above`, and how many. */
export async function crowdedIntegrations(
  db: Database,
  tables: Tables,
  due: Due,
  above: number,
): Promise<{ id: number; rows: number }[]> {
  const rows = await db.execute<{ id: string; rows: number }>(sql`
    select integration_id as id, count(*)::int as rows from ${tables.webhooks}
    where ${isDue(tables, due)}
    group by integration_id having count(*) > ${above} order by integration_id`)
  return rows.map((row) => ({ id: Number(row.id), rows: row.rows }))
}

/** The clock is read once, by a subquery: an index can't be searched by a value that may change from row to row. */
const NOW = sql`(select ${clockNow()})`

/** Of an integration that its health disabled none is: its rows wait for `enable()`. */
function isDue({ webhooks, integrations }: Tables, due: Due): SQL {
  const isServed = sql`not exists (
    select 1 from ${integrations} i where i.id = ${webhooks.integrationId} and i.health_status = 'disabled')`
  if (due.status !== 'failed') {
    const timeout = sql`make_interval(secs => ${due.timeoutSeconds}::double precision)`
    return sql`${webhooks.status} = ${due.status} and ${webhooks.updatedAt} < ${NOW} - ${timeout} and ${isServed}`
  }
  const backoff = sql`(${jsonText(due.backoffSeconds)}::jsonb ->>
    (least(${webhooks.attempts}, ${due.backoffSeconds.length}::int) - 1))::double precision`
  return sql`${webhooks.status} = 'failed' and ${webhooks.attempts} >= 1 and ${webhooks.attempts} < ${due.maxAttempts}::int
    and ${webhooks.processedAt} + make_interval(secs => ${backoff}) <= ${NOW}
    and ${webhooks.dismissedAt} is null and ${isNotErased(webhooks)} and ${isServed}`
}

/** Null: it is gone. */
export async function webhookState(
  db: Database,
  { webhooks }: Tables,
  id: number,
): Promise<Pick<WebhookRow, 'integrationId' | 'status' | 'attempts' | 'lostWorkers'> | null> {
  const [row] = await db
    .select({
      integrationId: webhooks.integrationId,
      status: webhooks.status,
      attempts: webhooks.attempts,
      lostWorkers: webhooks.lostWorkers,
    })
    .from(webhooks)
    .where(eq(webhooks.id, id))
  return row ?? null
}
