/** Statements over the webhooks table. A claim is one statement; its docstring names the race it wins. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import { afterLoss, claimAndItsLosses, lossesOf } from '../../core/claim.ts'
import type { Json } from '../../core/json.ts'
import type { Database } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { Tables, WebhookRow } from '../schema/tables.ts'

export interface NewWebhook {
  readonly integrationId: number
  readonly deliveryId: string
  readonly eventType: string | null
  readonly payload: string
  readonly headers: Record<string, string[]>
}

/** Stores a delivery as `pending`. Null: the same delivery id is stored already, whoever came first. */
export async function insertWebhook(db: Database, { webhooks }: Tables, webhook: NewWebhook): Promise<number | null> {
  const [row] = await db
    .insert(webhooks)
    .values(webhook)
    .onConflictDoNothing({ target: [webhooks.integrationId, webhooks.deliveryId] })
    .returning({ id: webhooks.id })
  return row?.id ?? null
}

/**
 * Moves the next `pending` rows of an integration to `processing` under this claim and counts the attempt. Rows that
 * another batch is taking at the same moment are passed over. Rows of an integration that its health disabled stay.
 */
export async function claimPendingWebhooks(
  db: Database,
  { webhooks, integrations }: Tables,
  { integrationId, claim, limit }: { integrationId: number; claim: string; limit: number },
): Promise<WebhookRow[]> {
  // A CTE is read once; a subquery in the condition may be read again by a nested loop, and claim more than the limit.
  const next = db.$with('next').as(
    db
      .select({ id: webhooks.id })
      .from(webhooks)
      .where(
        and(
          eq(webhooks.integrationId, integrationId),
          eq(webhooks.status, 'pending'),
          sql`not exists (select 1 from ${integrations} i where i.id = ${integrationId} and i.health_status = 'disabled')`,
        ),
      )
      .orderBy(asc(webhooks.id))
      .limit(limit)
      .for('update', { skipLocked: true }),
  )
  const rows = await db
    .with(next)
    .update(webhooks)
    .set({
      status: 'processing',
      attempts: sql`${webhooks.attempts} + 1`,
      error: null,
      processedAt: null,
      claim,
    })
    .where(inArray(webhooks.id, db.select({ id: next.id }).from(next)))
    .returning()
  return rows.sort((a, b) => a.id - b.id)
}

/** Rows that an earlier try of the same batch still holds: its worker died, or it could not settle them. */
export async function webhooksHeldBy(db: Database, { webhooks }: Tables, claim: string): Promise<WebhookRow[]> {
  return db
    .select()
    .from(webhooks)
    .where(and(eq(webhooks.status, 'processing'), inArray(webhooks.claim, claimAndItsLosses(claim))))
    .orderBy(asc(webhooks.id))
}

/** Takes up a row whose worker died: counts the attempt and the loss. Null when somebody else has moved it since. */
export async function takeUpWebhook(
  db: Database,
  { webhooks }: Tables,
  row: WebhookRow,
  claim: string,
): Promise<{ row: WebhookRow; losses: number } | null> {
  const losses = lossesOf(row.claim ?? claim, claim) + 1
  const [taken] = await db
    .update(webhooks)
    .set({ attempts: sql`${webhooks.attempts} + 1`, claim: afterLoss(claim, losses) })
    .where(and(eq(webhooks.id, row.id), ...stillHeldAs(webhooks, row)))
    .returning()
  return taken === undefined ? null : { row: taken, losses }
}

/** What became of one attempt. */
export interface WebhookOutcome {
  readonly id: number
  readonly attempts: number
  readonly claim: string
  readonly status: 'processed' | 'failed'
  readonly error: string | null
  readonly result: Json
  readonly durationMs: number
}

/**
 * Ends attempts and writes a log line for each, in one statement: all of it is stored, or nothing.
 *
 * @returns the ids that were settled. A row that was claimed anew since (`attempts` or `claim` differ) is not among them:
 *   the later attempt's outcome counts.
 */
export async function settleWebhooks(
  db: Database,
  { webhooks, logs }: Tables,
  operation: 'webhook' | 'webhook_replay',
  outcomes: readonly WebhookOutcome[],
): Promise<Set<number>> {
  if (outcomes.length === 0) return new Set()
  const rows = await db.execute<{ id: string }>(sql`
    with outcome as (
      select * from jsonb_to_recordset(${jsonText(outcomes)}::jsonb) as o
        (id bigint, attempts int, claim text, status text, error text, result jsonb, "durationMs" int)
    ), settled as (
      update ${webhooks} w
      set status = o.status, error = o.error, claim = null,
          processed_at = clock_timestamp(), updated_at = clock_timestamp()
      from outcome o
      where w.id = o.id and w.status = 'processing' and w.attempts = o.attempts and w.claim = o.claim
      returning w.id, w.integration_id, w.delivery_id, o.status, o.error, o.result, o."durationMs"
    ), logged as (
      insert into ${logs} (integration_id, operation, direction, status, external_id, result_data, error, duration_ms)
      select integration_id, ${operation}, 'inbound',
             case status when 'processed' then 'success' else 'failed' end,
             delivery_id, result, error, "durationMs"
      from settled order by id
    )
    select id from settled`)
  return new Set(rows.map((row) => Number(row.id)))
}

/** Gives claimed rows back that no handler has seen; the attempt does not count. */
export async function handBackWebhooks(
  db: Database,
  { webhooks }: Tables,
  claim: string,
  ids: readonly number[],
): Promise<void> {
  if (ids.length === 0) return
  await db
    .update(webhooks)
    .set({ status: 'pending', attempts: sql`${webhooks.attempts} - 1`, claim: null })
    .where(
      and(
        inArray(webhooks.id, [...ids]),
        eq(webhooks.status, 'processing'),
        inArray(webhooks.claim, claimAndItsLosses(claim)),
      ),
    )
}

/** Integrations that have `pending` rows, each once. */
export async function integrationsWithPendingWebhooks(db: Database, { webhooks }: Tables): Promise<number[]> {
  const rows = await db
    .selectDistinct({ id: webhooks.integrationId })
    .from(webhooks)
    .where(eq(webhooks.status, 'pending'))
  return rows.map((row) => row.id)
}

function stillHeldAs(webhooks: Tables['webhooks'], row: WebhookRow): SQL[] {
  return [eq(webhooks.status, 'processing'), eq(webhooks.attempts, row.attempts), sql`${webhooks.claim} = ${row.claim}`]
}
