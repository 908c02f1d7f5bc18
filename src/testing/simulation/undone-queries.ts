/** What a host has left undone. */
import { sql } from 'drizzle-orm'
import type { Framework } from '../../framework/context.ts'
import { madeUpForBy } from '../../syncs/items/item-queries.ts'

/** Ids, in the order of arrival. */
export async function pendingWebhooks({ db, tables: { webhooks } }: Framework): Promise<number[]> {
  const rows = await db.execute<{ id: string }>(sql`select id from ${webhooks} where status = 'pending' order by id`)
  return rows.map(({ id }) => Number(id))
}

/** Webhooks and items that have not ended well, a line each. An item that a later copy has made up for is done. */
export async function undoneWork({ db, tables: { webhooks, syncItems } }: Framework): Promise<string[]> {
  const rows = await db.execute<{ line: string }>(sql`
    select 'webhook ' || id || ' (' || coalesce(event_type, 'no type') || ') is ' || status || coalesce(': ' || error, '') as line
    from ${webhooks} where status <> 'processed'
    union all
    select 'item ' || id || ' (' || event_class || ' ' || coalesce(external_id, 'without id') || ') is ' || status || coalesce(': ' || error, '')
    from ${syncItems}
    where status in ('pending', 'processing') or (status = 'failed' and ${madeUpForBy(syncItems)} is null)
    order by 1`)
  return rows.map(({ line }) => line)
}
