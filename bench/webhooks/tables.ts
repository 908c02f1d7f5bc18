/** The rows of both sides: ours and their twins, filled, counted and emptied by the bench itself. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { BODY, EVENT_TYPE, ID_TOKEN } from './delivery.ts'

/** Our own tables' twins: the same columns, indexes, checks and references. */
const TWINS = `
  create table peer_webhooks (like integration_webhooks including all);
  alter table peer_webhooks add foreign key (integration_id) references integrations (id) on delete cascade;
  create table peer_logs (like integration_logs including all);
  alter table peer_logs add foreign key (integration_id) references integrations (id) on delete cascade`

const SIDES = {
  ours: { webhooks: 'integration_webhooks', logs: 'integration_logs' },
  peer: { webhooks: 'peer_webhooks', logs: 'peer_logs' },
} as const
export type Side = keyof typeof SIDES

const POLL_MS = 100
/** Nothing here takes so long, on a busy machine neither. */
const PATIENCE_MS = 120_000

/** What is kept of a delivery's headers, as they come in over HTTP. */
export const HEADERS = {
  accept: ['*/*'],
  host: ['127.0.0.1:3000'],
  'content-length': ['2048'],
  'content-type': ['application/json; charset=utf-8'],
  'user-agent': ['Bench/1.0 (+https://example.com/docs/webhooks)'],
  'x-bench-signature': ['0'.repeat(64)],
}

export interface Processed {
  readonly deliveryId: string
  readonly integrationId: number
  /** Milliseconds since 1970. */
  readonly processedAtMs: number
}

export interface Tables {
  readonly sql: Sql
  /** Empty, and as after a while of peace: what one round leaves to the next would be paid by whoever comes next. */
  clear(): Promise<void>
  /** So many `pending` rows of each integration. */
  fill(side: Side, integrationIds: readonly number[], each: number): Promise<void>
  /** Waits until so many rows are processed, each of them with its line in the log. @throws when one failed, or too late */
  untilProcessed(side: Side, rows: number): Promise<void>
  count(side: Side): Promise<{ readonly webhooks: number; readonly processed: number; readonly logs: number }>
  /** When the last row was processed, by the database's clock, which is this machine's. */
  lastProcessedAtMs(side: Side): Promise<number>
  processed(side: Side): Promise<readonly Processed[]>
  close(): Promise<void>
}

/** @param role that a meter leaves out; null: the URL's own */
export async function createTables(databaseUrl: string, role: string | null): Promise<Tables> {
  const connection = role === null ? {} : { role }
  const sql = postgres(databaseUrl, { max: 2, onnotice: () => {}, types: { bigint: AS_NUMBER }, connection })
  await sql.unsafe(TWINS)

  const count: Tables['count'] = async (side) => {
    const { webhooks, logs } = SIDES[side]
    const [row] = await sql<{ webhooks: number; processed: number; failed: number; logs: number }[]>`
      select count(*)::int as webhooks, count(*) filter (where status = 'processed')::int as processed,
             count(*) filter (where status = 'failed')::int as failed,
             (select count(*)::int from ${sql(logs)} where operation = 'webhook' and status = 'success') as logs
      from ${sql(webhooks)}`
    if (row === undefined || row.failed > 0) throw new Error(`${row?.failed} webhooks of ${webhooks} failed`)
    return row
  }

  return {
    sql,
    count,
    async clear() {
      await sql`truncate integration_webhooks, integration_logs, integration_sync_items, peer_webhooks, peer_logs`
      await sql`checkpoint`
    },
    async fill(side, integrationIds, each) {
      const { webhooks } = SIDES[side]
      await sql`
        insert into ${sql(webhooks)} (integration_id, delivery_id, event_type, payload, headers)
        select integration_id, id, ${EVENT_TYPE}, replace(${BODY}, ${ID_TOKEN}, id), ${JSON.stringify(HEADERS)}::text::jsonb
        from jsonb_array_elements_text(${JSON.stringify(integrationIds)}::text::jsonb) as i(text),
             cast(text as bigint) as integration_id,
             generate_series(1, ${each}) as n,
             cast('evt_' || lpad(n::text, ${ID_TOKEN.length - 4}, '0') as text) as id`
      await sql`analyze ${sql(webhooks)}`
      await sql`checkpoint`
    },
    async untilProcessed(side, rows) {
      const deadline = performance.now() + PATIENCE_MS
      for (;;) {
        // Of the small rows only: what looks must not take the time of what is looked at.
        const [row] = await sql<{ logs: number }[]>`select count(*)::int as logs from ${sql(SIDES[side].logs)}`
        if (row !== undefined && row.logs >= rows) break
        if (performance.now() > deadline)
          throw new Error(`${rows} webhooks should be processed; found ${JSON.stringify(await count(side))}`)
        await sleep(POLL_MS)
      }
      const found = await count(side)
      if (found.webhooks !== rows || found.processed !== rows || found.logs !== rows)
        throw new Error(`${rows} webhooks should be stored, processed and logged; found ${JSON.stringify(found)}`)
    },
    async lastProcessedAtMs(side) {
      const [row] = await sql<{ ms: number | null }[]>`
        select extract(epoch from max(processed_at))::float8 * 1000 as ms from ${sql(SIDES[side].webhooks)}`
      return row?.ms ?? Number.NaN
    },
    processed: (side) => sql<Processed[]>`
      select delivery_id as "deliveryId", integration_id as "integrationId",
             extract(epoch from processed_at)::float8 * 1000 as "processedAtMs"
      from ${sql(SIDES[side].webhooks)} where status = 'processed'`,
    close: () => sql.end({ timeout: 5 }),
  }
}

/** bigint, of which we have no large ones. */
const AS_NUMBER = { to: 20, from: [20], serialize: String, parse: Number }
