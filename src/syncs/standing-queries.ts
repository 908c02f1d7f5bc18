/** How the syncs of integrations stand: what is left to do of their items, and how their last run ended. */
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'

export interface SyncStanding {
  /** Items that failed, and that no later run made up for. */
  readonly failedItems: number
  /** Items between two attempts. */
  readonly waitingItems: number
  /** The last sync run that has ended, backfills left out; null: none has. */
  readonly lastRun: LastRun | null
}

export interface LastRun {
  /** The run's row in the operation logs. */
  readonly id: number
  readonly status: string
  readonly succeeded: number
  readonly failed: number
  /** Why its listing failed; null: it did not. */
  readonly error: string | null
}

type Row = Pick<SyncStanding, 'failedItems' | 'waitingItems'> & { id: string; lastRun: LastRun | null }

/** One statement for all of them; those of a page are asked for together. */
export async function syncStandings(
  db: Database,
  { syncItems, logs }: Tables,
  integrationIds: readonly number[],
): Promise<Map<number, SyncStanding>> {
  if (integrationIds.length === 0) return new Map()
  const ids = sql.join(
    integrationIds.map((id) => sql`(${id}::bigint)`),
    sql`, `,
  )
  const rows = await db.execute<Row>(sql`
    select i.id, failed.items as "failedItems", waiting.items as "waitingItems", last_run.run as "lastRun"
    from (values ${ids}) as i (id)
    cross join lateral (
      select count(*)::int as items from ${syncItems} f
      where f.integration_id = i.id and f.status = 'failed' and not exists (
        select 1 from ${syncItems} later
        where later.integration_id = f.integration_id and later.external_id = f.external_id
          and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped'))
    ) failed
    cross join lateral (
      select count(*)::int as items from ${syncItems} w
      where w.integration_id = i.id and w.status = 'processing' and w.next_attempt_at is not null
    ) waiting
    left join lateral (
      select jsonb_build_object('id', l.id, 'status', l.status, 'error', l.error,
               'succeeded', coalesce((l.metadata ->> 'success_count')::int, 0),
               'failed', coalesce((l.metadata ->> 'failure_count')::int, 0)) as run
      from ${logs} l
      where l.integration_id = i.id and l.operation = 'sync' and l.status <> 'processing'
      order by l.id desc limit 1
    ) last_run on true`)
  return new Map(rows.map(({ id, ...standing }) => [Number(id), standing]))
}
