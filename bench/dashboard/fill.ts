/**
 * A deployment after a busy month, written by SQL: ten thousand integrations of which a few have most of the rows, each row linked as
 * the framework links it.
 */
import type { Integrations } from 'durable-integrations'
import type { Sql } from 'postgres'
import { ERROR } from '../operator/fill.ts'

export interface Size {
  readonly integrations: number
  readonly requests: number
  readonly webhooks: number
  readonly items: number
}

export const PROVIDERS = ['p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7'] as const
/** Of one statement, so that progress is seen. */
const CHUNK_ROWS = 1_000_000
export const ITEMS_OF_A_RUN = 500
/** Integrations made at once. */
const AT_ONCE = 10
const DAYS = 30

/** Tables that are filled without indexes, which are built once they are full: a fifth of the time. */
const LARGE = ['integration_requests', 'integration_webhooks', 'integration_sync_items', 'integration_logs']

/** Rows of every table that pages read; roll-ups are made by passes. */
export async function fill(
  integrations: Integrations,
  sql: Sql,
  size: Size,
  say: (line: string) => void,
): Promise<void> {
  const runs = size.items / ITEMS_OF_A_RUN
  await makeIntegrations(integrations, size.integrations, say)
  // A crash of the bench's server loses nothing that anyone keeps; each row's integration is there.
  await sql.unsafe('set synchronous_commit = off; set session_replication_role = replica; select setseed(0.42)')
  const indexes = await sql.unsafe<{ name: string; definition: string }[]>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index i
     where indrelid = any($1::text[]::regclass[]) and not exists (select from pg_constraint c where c.conindid = i.indexrelid)`,
    [`{${LARGE.join(',')}}`],
  )
  for (const { name } of indexes) await sql.unsafe(`drop index ${name}`)

  // Over the last month, in the order of their ids.
  const at = (total: number) => `(now() - interval '${DAYS} days' * (1 - n::float8 / ${total}))::timestamptz(3)`
  // The busiest of ten thousand has a tenth of all rows, the busiest hundred have a third.
  const tenant = `1 + floor(${size.integrations} * power(random(), 4))::int`
  const insert = async (what: string, total: number, select: string): Promise<void> => {
    for (let from = 0; from < total; from += CHUNK_ROWS) {
      const to = Math.min(total, from + CHUNK_ROWS)
      say(`${what}: ${to.toLocaleString('en-US')}`)
      await sql.unsafe(`insert into integration_${select.replace('NUMBERS', `generate_series(${from + 1}, ${to}) n`)}`)
    }
  }
  await insert(
    'requests',
    size.requests,
    `requests
       (integration_id, endpoint, method, status_code, error, failure_class, duration_ms, provider_request_id, idempotency_key,
        response_data, retry_of, origin, created_at, updated_at)
     select ${tenant}, '/v1/orders/' || n, case when n % 10 = 0 then 'POST' else 'GET' end, case when n % 25 = 0 then 503 else 200 end,
       case when n % 25 = 0 then ${ERROR} end,
       case when n % 25 = 0 then (array['upstream', 'upstream', 'throttle', 'client', 'unknown'])[1 + (n / 25) % 5] end,
       floor(exp(2 + 1.6 * (random() + random() + random())))::int, 'req_' || md5(n::text),
       case when n % 20 = 7 then 'key_' || n end, '{"id":"ord_' || n || '","status":"open","lines":[]}',
       case when n % 50 = 1 and n > 1 then n - 1 end,
       case when n % 5 = 0 then 'webhook:' || 1 + n % ${size.webhooks} when n % 5 = 1 then 'item:' || 1 + n % ${size.items} end,
       ${at(size.requests)}, ${at(size.requests)}
     from NUMBERS`,
  )
  // The last hundred wait.
  const settled = size.webhooks - 100
  await insert(
    'webhooks',
    size.webhooks,
    `webhooks
       (integration_id, delivery_id, event_type, payload, headers, status, error, attempts, processed_at, created_at, updated_at)
     select ${tenant}, 'dlv_' || md5(n::text), (array['order.paid', 'order.created', 'customer.updated'])[1 + n % 3],
       '{"id":"evt_' || n || '","type":"order.paid","data":{"id":"ord_' || n || '"}}', '{"content-type":["application/json"]}',
       case when n > ${settled} then 'pending' when n % 50 = 0 then 'failed' else 'processed' end,
       case when n % 50 = 0 and n <= ${settled} then ${ERROR} end, case when n > ${settled} then 0 when n % 50 = 0 then 3 else 1 end,
       case when n <= ${settled} then ${at(size.webhooks)} + interval '1 ms' * (20 + n % 3000) end,
       ${at(size.webhooks)}, ${at(size.webhooks)} + interval '1 ms' * (20 + n % 3000)
     from NUMBERS`,
  )
  await insert(
    'sync runs',
    runs,
    `logs (integration_id, operation, direction, status, duration_ms, metadata, created_at, updated_at)
     select ${tenant}, 'sync', 'inbound', case when n % 20 = 0 then 'failed' else 'success' end, 5000,
       '{"enumerated": true, "dispatched": true}', ${at(runs)}, ${at(runs)}
     from NUMBERS`,
  )
  await insert(
    'items',
    size.items,
    `sync_items
       (integration_id, sync_log_id, event_class, external_id, status, error, attempts, completed_at, created_at, updated_at)
     select run.integration_id, run.id, 'order', 'ord_' || n % ${size.items / 2},
       case when n % 100 = 0 then 'failed' when n % 40 = 0 then 'skipped' else 'success' end, case when n % 100 = 0 then ${ERROR} end, 1,
       ${at(size.items)}, ${at(size.items)}, ${at(size.items)}
     from NUMBERS join integration_logs run on run.id = 1 + (n - 1) / ${ITEMS_OF_A_RUN}`,
  )
  await insert(
    'logs of attempts',
    size.webhooks,
    `logs (integration_id, operation, direction, status, external_id, origin, duration_ms, created_at, updated_at)
     select ${tenant}, 'webhook', 'inbound', 'success', 'dlv_' || md5(n::text), 'webhook:' || n, 12, ${at(size.webhooks)}, ${at(size.webhooks)}
     from NUMBERS`,
  )
  const few = size.webhooks / 10
  await insert(
    'mappings',
    few,
    `mappings (integration_id, external_id, internal_type, internal_id, origin)
     select ${tenant}, 'ord_' || n, 'order', n, 'webhook:' || n from NUMBERS`,
  )
  await insert(
    'events',
    few,
    `events (integration_id, name, payload, outcomes, origin, delivered_at, created_at)
     select ${tenant}, 'SyncItemFailed', '{}', '{}', 'item:' || n * 10, ${at(few)}, ${at(few)} from NUMBERS`,
  )
  await insert(
    'incidents',
    few / 5,
    `incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at, created_at)
     select ${tenant}, 'closed', (array['health', 'circuit', 'sync'])[1 + n % 3], 'health_degraded', 'degraded',
       ${at(few / 5)}, ${at(few / 5)} + interval '20 minutes', ${at(few / 5)} from NUMBERS`,
  )
  await insert(
    'open incidents',
    Math.min(40, size.integrations),
    `incidents (integration_id, status, source, reason, peak_severity, opened_at)
     select n, 'open', 'health', 'health_failing', 'failing', now() - interval '1 hour' from NUMBERS`,
  )
  await insert(
    'acts',
    few,
    `audit (actor, action, target, integration_id, provider, created_at)
     select 'ada', case when n % 500 = 0 then 'rotate-webhook-secret' else 'replay' end, 'webhook:' || n, ${tenant}, 'p0', ${at(few)}
     from NUMBERS`,
  )
  say('indexes')
  await sql.unsafe(`set maintenance_work_mem = '512MB'`)
  for (const { definition } of indexes) await sql.unsafe(definition)
  say('vacuum analyze')
  await sql.unsafe('reset session_replication_role')
  await sql.unsafe('vacuum analyze')
}

async function makeIntegrations(integrations: Integrations, total: number, say: (line: string) => void): Promise<void> {
  say(`integrations: ${total.toLocaleString('en-US')}`)
  for (let from = 0; from < total; from += AT_ONCE)
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, total - from) }, (_, at) => {
        const n = from + at
        return integrations.create({
          provider: PROVIDERS[n % PROVIDERS.length] ?? 'p0',
          name: `Tenant ${n}`,
          credentials: { token: `secret-${n}` },
          owner: { type: 'team', id: 1 + Math.floor(n / 2) },
        })
      }),
    )
}
