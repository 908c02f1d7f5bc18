/** The items of both sides: ours and their twins, filled, counted and emptied by the bench itself. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { changedAt, contact, externalIdOf } from './contact.ts'

/** Our own table's twin: the same columns, indexes, checks and references. */
const TWIN = `
  create table peer_sync_items (like integration_sync_items including all);
  alter table peer_sync_items add foreign key (integration_id) references integrations (id) on delete cascade;
  alter table peer_sync_items add foreign key (sync_log_id) references integration_logs (id) on delete set null`

const POLL_MS = 100
/** Nothing here takes so long, on a busy machine neither. */
const PATIENCE_MS = 180_000
/** Rows of an INSERT: its parameters are one array of JSON. */
const FILL_ROWS = 10_000

/** A run of ours, once it is over. */
export interface EndedRun {
  /** Milliseconds since 1970, by the database's clock, which is this machine's. */
  readonly finalisedAt: number
  readonly lastItemAt: number
}

export interface Tables {
  readonly sql: Sql
  /** Empty, and as after a while of peace: what one round leaves to the next would be paid by whoever comes next. */
  clear(): Promise<void>
  /** @returns ids of as many pending rows of the peers */
  fillPeer(integrationId: number, rows: number): Promise<number[]>
  /** Waits until so many rows of the peers have ended well. @throws when it takes too long */
  untilPeerDone(rows: number): Promise<void>
  /** Milliseconds since 1970. */
  lastPeerItemAt(): Promise<number>
  /** @throws unless the run ended `success` with exactly so many items, all of them a success, and the cursor is the last one's */
  endedRun(integrationId: number, items: number): Promise<EndedRun>
  close(): Promise<void>
}

/** @param role that a meter leaves out; null: the URL's own */
export async function createTables(databaseUrl: string, role: string | null): Promise<Tables> {
  const connection = role === null ? {} : { role }
  const sql = postgres(databaseUrl, { max: 2, onnotice: () => {}, types: { bigint: AS_NUMBER }, connection })
  await sql.unsafe(TWIN)

  return {
    sql,
    async clear() {
      await sql`truncate integration_sync_items, integration_record_hashes, integration_logs, integration_webhooks, peer_sync_items`
      await sql`checkpoint`
    },
    async fillPeer(integrationId, rows) {
      const ids: number[] = []
      for (let first = 1; first <= rows; first += FILL_ROWS) {
        const contacts = Array.from({ length: Math.min(FILL_ROWS, rows - first + 1) }, (_, at) => ({
          external_id: externalIdOf(first + at),
          checkpoint_value: changedAt(first + at),
          payload: { v: 1, data: contact(first + at) },
        }))
        const inserted = await sql<{ id: number }[]>`
          insert into peer_sync_items (integration_id, event_class, external_id, checkpoint_value, payload)
          select ${integrationId}, 'bench.contact_changed', c.external_id, c.checkpoint_value, c.payload
          from jsonb_to_recordset(${JSON.stringify(contacts)}::text::jsonb)
               as c(external_id text, checkpoint_value jsonb, payload jsonb)
          returning id`
        ids.push(...inserted.map(({ id }) => id))
      }
      await sql`analyze peer_sync_items`
      await sql`checkpoint`
      return ids
    },
    async untilPeerDone(rows) {
      const deadline = performance.now() + PATIENCE_MS
      for (;;) {
        const [row] = await sql<{ done: number; all: number }[]>`
          select count(*) filter (where status = 'success')::int as done, count(*)::int as all from peer_sync_items`
        if (row?.done === rows && row.all === rows) return
        if (performance.now() > deadline)
          throw new Error(`${rows} items of the peers should be done; found ${JSON.stringify(row)}`)
        await sleep(POLL_MS)
      }
    },
    async lastPeerItemAt() {
      const [row] = await sql<{ ms: number | null }[]>`
        select extract(epoch from max(completed_at))::float8 * 1000 as ms from peer_sync_items`
      return row?.ms ?? Number.NaN
    },
    async endedRun(integrationId, items) {
      const [run] = await sql<{ status: string; cursor: unknown; finalisedAt: number | null }[]>`
        select l.status, i.sync_cursor as cursor, extract(epoch from i.last_synced_at)::float8 * 1000 as "finalisedAt"
        from integration_logs l join integrations i on i.id = l.integration_id
        where l.integration_id = ${integrationId} and l.operation = 'sync'`
      const [counted] = await sql<{ done: number; all: number; lastItemAt: number | null }[]>`
        select count(*) filter (where status = 'success')::int as done, count(*)::int as all,
               extract(epoch from max(completed_at))::float8 * 1000 as "lastItemAt"
        from integration_sync_items where integration_id = ${integrationId}`
      const cursor = items === 0 ? null : changedAt(items)
      if (run?.status !== 'success' || run.cursor !== cursor || counted?.done !== items || counted.all !== items)
        throw new Error(`${items} items should have ended well; found ${JSON.stringify({ run, counted })}`)
      return { finalisedAt: run.finalisedAt ?? Number.NaN, lastItemAt: counted.lastItemAt ?? Number.NaN }
    },
    close: () => sql.end({ timeout: 5 }),
  }
}

/** bigint, of which we have no large ones. */
const AS_NUMBER = { to: 20, from: [20], serialize: String, parse: Number }
