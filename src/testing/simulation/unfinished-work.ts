/** What a host has left undone. */
import { sql } from 'drizzle-orm'
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

/** Whether events wait for queued listeners. */
export async function waitingEvents({ db, tables: { events } }: Framework): Promise<boolean> {
  const rows = await db.execute(sql`select from ${events} limit 1`)
  return rows.length > 0
}

/** Webhooks and items that have not ended well, a line each. An item that a later copy has made up for is done. */
export async function unfinishedWork({ db, tables: { webhooks, syncItems } }: Framework): Promise<string[]> {
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
