/** A database at its first migration, with rows of each table as a host at work has them, and the later migrations one by one. */
import { readdir, readFile } from 'node:fs/promises'
import type { Sql } from 'postgres'
import { PREFIX_TOKEN, SCHEMA_TOKEN } from '../../src/db/schema/columns.ts'

const DRIZZLE = new URL('../../drizzle/', import.meta.url)
const LATER_RELEASE = '999.0.0'

const namesIn = async (folder: string): Promise<string[]> =>
  (await readdir(new URL(folder, DRIZZLE)))
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => `${folder}${file.replace('.sql', '')}`)

/** Makes the tables of the first migration, and notes all later files as applied. @returns names of the later migrations of the tables */
export async function makeFirstTables(sql: Sql): Promise<string[]> {
  const [first = '', ...later] = await namesIn('')
  const text = await readFile(new URL(`${first}.sql`, DRIZZLE), 'utf8')
  const statements = text.replaceAll(PREFIX_TOKEN, 'integration').replaceAll(SCHEMA_TOKEN, 'public')
  for (const statement of statements.split('--> statement-breakpoint')) await sql.unsafe(statement)
  await note(sql, [first, ...later, ...(await namesIn('functions/'))])
  return later
}

async function note(sql: Sql, names: readonly string[]): Promise<void> {
  await sql`
    insert into integration_migrations (name, hash, release)
    select name, 'of later', ${LATER_RELEASE} from unnest(${names as string[]}::text[]) as name`
}

/** The next call of `migrate()` applies this file. */
export async function forget(sql: Sql, name: string): Promise<void> {
  await sql`delete from integration_migrations where name = ${name}`
}

/** The next call of `migrate()` applies all functions, as it does after the tables. */
export async function forgetFunctions(sql: Sql): Promise<void> {
  await sql`delete from integration_migrations where name like 'functions/%'`
}

export interface Rows {
  /** Of each large table; a hundredth of them is unfinished. */
  readonly each: number
  readonly credentials: string
  /** Of the host's events and items. */
  readonly provider: string
  readonly eventClass: string
}

/** What the first release left behind when it was stopped: work of each kind in each of its states. */
export async function fillFirstTables(sql: Sql, { each, credentials, provider, eventClass }: Rows): Promise<void> {
  const n = sql`generate_series(1, ${each}::int) as n`
  const open = sql`n % 100 = 0`
  const dead = 'pump:run-of-before:1'
  await sql.begin((tx) => [
    tx`
      insert into integrations (id, provider, name, credentials, sync_cursor, last_synced_at, next_sync_at)
      values (1, ${provider}, 'ours', ${credentials}, '"2026-01-01T00:00:10.000Z"', now() - interval '1 hour', now() - interval '1 minute')`,
    tx`select setval(pg_get_serial_sequence('integrations', 'id'), 1)`,
    // Done, given up, pending, or in the hands of a worker that is gone.
    tx`
      insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, status, attempts, claim, processed_at, dismissed_at, updated_at)
      select 1, 'delivery-' || n, 'thing.changed', jsonb_build_object('n', n, 'filler', repeat('x', 500))::text, '{"content-type":"application/json"}',
        case when not (${open}) then case when n % 7 = 1 then 'failed' else 'processed' end when n % 200 = 0 then 'processing' else 'pending' end,
        case when ${open} and n % 200 <> 0 then 0 else 1 end, case when n % 200 = 0 then ${dead} end,
        case when not (${open}) then now() end, case when not (${open}) and n % 7 = 1 then now() end, now() - interval '1 hour'
      from ${n}`,
    // A run whose listing is complete.
    tx`
      insert into integration_logs (id, integration_id, operation, direction, status, metadata, created_at, updated_at)
      values (1, 1, 'sync', 'inbound', 'processing', '{"run_id":"run-of-before","enumerated":true}', now() - interval '2 hours', now() - interval '2 hours')`,
    tx`select setval(pg_get_serial_sequence('integration_logs', 'id'), 1)`,
    tx`
      insert into integration_logs (integration_id, operation, direction, status, duration_ms, parent_id)
      select 1, 'webhook', 'inbound', 'success', 12, case when n % 3 = 0 then 1 end from ${n}`,
    tx`
      insert into integration_sync_items (integration_id, batch_id, sync_log_id, event_class, external_id, checkpoint_value, status, attempts, completed_at, payload, claim, created_at, updated_at)
      select 1, 'run-of-before', 1, ${eventClass}, 'entry-' || n, to_jsonb('2026-01-01T00:00:20.000Z'::text),
        case when not (${open}) then 'success' when n % 200 = 0 then 'processing' else 'pending' end,
        case when ${open} and n % 200 <> 0 then 0 else 1 end, case when not (${open}) then now() end,
        jsonb_build_object('v', 1, 'data', jsonb_build_object('n', n)), case when n % 200 = 0 then 'run-of-before:1' end, now() - interval '2 hours', now() - interval '2 hours'
      from ${n}`,
    tx`
      insert into integration_requests (integration_id, endpoint, method, status_code, response_data, idempotency_key, provider_request_id, failure_class, duration_ms, request_hash)
      select 1, '/things', 'POST', case when n % 9 = 0 then 500 else 200 end, '{"answer":"done"}', case when n % 10 = 0 then 'key-' || n end, 'req-' || n,
        case when n % 9 = 0 then 'upstream' end, 20, md5(n::text)
      from ${n}`,
    // Every tenth has its request; of the others the process died before its answer was stored.
    tx`insert into integration_idempotency_keys (integration_id, key) select 1, 'key-' || n from ${n} where n % 10 = 0 or n % 100 = 1`,
    tx`
      insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select 1, 'external-' || n, 'thing', n::text from ${n}`,
    tx`
      insert into integration_events (integration_id, name, payload, delivered_at)
      select 1, 'SyncCompleted', '{}', now() from ${n} where n % 10 = 0`,
    tx`insert into integration_cache (key, value, expires_at) select 'integration:kept:' || n, '{}', now() + interval '1 day' from ${n} where n % 10 = 0`,
    tx`
      insert into integration_incidents (integration_id, source, status, reason, peak_severity, opened_at, closed_at)
      select 1, 'health', 'closed', 'was', 'failing', now() - interval '2 days', now() - interval '1 day' from ${n} where n % 100 = 0`,
  ])
}
