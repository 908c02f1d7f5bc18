/** What a host has left undone. */
import { sql } from 'drizzle-orm'
import { hasGivenUp } from '../../db/schema/events-table.ts'
import type { Framework } from '../../framework/context.ts'
import { madeUpForBy } from '../../syncs/items/item-queries.ts'

/** Ids of those that are pending, in the order of arrival; and whether others are not done that recovery may take up. */
export async function openWebhooks({
  db,
  tables: { webhooks },
}: Framework): Promise<{ readonly pending: number[]; readonly others: boolean }> {
  const rows = await db.execute<{ id: string; status: string }>(
    sql`select id, status from ${webhooks} where status <> 'processed' order by id`,
  )
  const pending = rows.filter(({ status }) => status === 'pending').map(({ id }) => Number(id))
  return { pending, others: pending.length < rows.length }
}

/** Webhooks, items and events that have not ended well, a line each. An item that a later copy has made up for is done. */
export async function unfinishedWork({ db, tables: { webhooks, syncItems, events } }: Framework): Promise<string[]> {
  const rows = await db.execute<{ line: string }>(sql`
    select 'webhook ' || id || ' (' || coalesce(event_type, 'no type') || ') is ' || status || coalesce(': ' || error, '') as line
    from ${webhooks} where status <> 'processed'
    union all
    select 'item ' || id || ' (' || event_class || ' ' || coalesce(external_id, 'without id') || ') is ' || status || coalesce(': ' || error, '')
    from ${syncItems}
    where status in ('pending', 'processing') or (status = 'failed' and ${madeUpForBy(syncItems)} is null)
    union all
    select 'event ' || id || ' (' || name || ') is not delivered' || coalesce(': ' || (
      select string_agg(o.key || ': ' || (o.value ->> 'error'), ', ' order by o.key)
      from jsonb_each(outcomes) o where o.value ? 'error'), '')
    from ${events} where delivered_at is null or ${hasGivenUp(events.outcomes)}
    order by 1`)
  return rows.map(({ line }) => line)
}
