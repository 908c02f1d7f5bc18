/** How pumps get webhooks. Rule: docs/behaviour/webhooks.md, "Claims". */
import { sql } from 'drizzle-orm'
import { functionNamed } from '../calls/admission/call-queries.ts'
import type { Claimed, ClaimRoom } from '../claims/pump-queries.ts'
import { claimedBy, columnsOf } from '../claims/pump-queries.ts'
import type { Database } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'

/**
 * Moves the next `pending` rows of many integrations to `processing` under this claim and counts the attempt. Rows that another
 * claim is taking at the same moment are passed over; rows of integrations that their health disabled stay, and so do rows that
 * have lost a worker: they get a workflow of their own.
 */
export async function claimNextWebhooks(
  db: Database,
  tables: Tables,
  claim: string,
  { after, integrations, rows, room, rooms }: ClaimRoom,
): Promise<Claimed<WebhookRow>> {
  const taken = await db
    .select({
      ...columnsOf(tables.webhooks),
      version: sql<string | null>`version`,
      walked: sql<number>`walked`,
      upto: sql<string>`upto`,
    })
    .from(
      sql`(select (c.webhook).*, c.version, c.walked, c.upto from ${functionNamed(tables, 'claim_webhooks')}(
        ${claim}::text, ${after}::bigint, ${integrations}::int, ${rows}::int, ${room}::int, ${jsonText(rooms)}::jsonb) c) as claimed`,
    )
  const { rows: claimed, ...walk } = claimedBy<WebhookRow>(taken)
  return { rows: claimed.toSorted((a, b) => a.id - b.id), ...walk }
}

/**
 * Rows that were set apart and whose workflow has not begun with them for a while: it could not be started. They are touched, so
 * that two pumps do not ask for the same ones.
 */
export async function leftApart(
  db: Database,
  { webhooks, integrations }: Tables,
  { olderThanSeconds, limit }: { olderThanSeconds: number; limit: number },
): Promise<number[]> {
  const rows = await db.execute<{ id: string }>(sql`
    with left_over as (
      select w.id from ${webhooks} w
      where w.status = 'pending' and w.lost_workers > 0
        and w.updated_at < clock_timestamp() - make_interval(secs => ${olderThanSeconds}::double precision)
        and not exists (select 1 from ${integrations} i where i.id = w.integration_id and i.health_status = 'disabled')
      order by w.id limit ${limit} for update skip locked
    )
    update ${webhooks} w set updated_at = clock_timestamp() from left_over l where w.id = l.id
    returning w.id`)
  return rows.map(({ id }) => Number(id))
}
