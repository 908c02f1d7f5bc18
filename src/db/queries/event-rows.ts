/** Writing rows of events down; what becomes of them: events.ts. */
import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { Tables } from '../schema/tables.ts'

export interface NewEventRow {
  readonly integrationId: number
  readonly name: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** In this order, however many: one statement with one parameter. */
export async function insertEvents(
  db: Database | Transaction,
  { events }: Tables,
  rows: readonly NewEventRow[],
): Promise<void> {
  if (rows.length === 0) return
  const given = rows.map(({ integrationId, name, payload }) => ({ integration_id: integrationId, name, payload }))
  await db.execute(sql`
    insert into ${events} (integration_id, name, payload)
    select integration_id, name, payload
    from rows from (
      jsonb_to_recordset(${jsonText(given)}::jsonb) as (integration_id bigint, name text, payload jsonb)
    ) with ordinality as given (integration_id, name, payload, position)
    order by position`)
}
