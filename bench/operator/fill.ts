/** A deployment after a busy day, written by SQL: a thousand tenants, each row linked as the framework links it. */
import type { Sql } from 'postgres'

export interface Size {
  readonly integrations: number
  readonly requests: number
  readonly items: number
}

/** Of one statement, so that progress is seen. */
const CHUNK_ROWS = 100_000
const ITEMS_OF_A_RUN = 500

/** Texts as providers and handlers throw them; what varies is in them. */
export const ERROR = `(array[
  'HttpError: HTTP 503 for GET https://api.acme.test/v1/orders/' || n,
  'TypeError: Cannot read properties of undefined (reading ''name'') in order ' || n,
  'HttpError: HTTP 404: no customer "cus_' || md5(n::text) || '"',
  'Error: connect ECONNREFUSED 10.0.' || n % 250 || '.7:443',
  'ValidationError: ' || n % 40 || ' fields are missing: "a' || n || '", "b"'
])[1 + n % 5]`

/** @returns rows of every table */
export async function fill(sql: Sql, size: Size, say: (line: string) => void): Promise<void> {
  const { integrations, requests, items } = size
  const webhooks = requests / 5
  const runs = items / ITEMS_OF_A_RUN
  // Over the last two days: half of it lies in the window of failures().
  const at = (total: number) => `now() - interval '48 hours' * (1 - n::float8 / ${total})`
  const tenant = `1 + n % ${integrations}`

  // A crash of the bench's server loses nothing that anyone keeps.
  await sql.unsafe('set synchronous_commit = off')
  const insert = async (what: string, total: number, statement: string): Promise<void> => {
    say(`${total.toLocaleString('en-US')} ${what}`)
    for (let from = 0; from < total; from += CHUNK_ROWS) {
      const to = Math.min(total, from + CHUNK_ROWS)
      await sql.unsafe(`${statement} from generate_series(${from + 1}, ${to}) n`)
    }
  }
  await insert(
    'integrations',
    integrations,
    `insert into integrations (provider, name, credentials, owner_type, owner_id)
     select 'p' || n % 10, 'tenant ' || n, 'none', 'team', n`,
  )
  await insert(
    'sync runs',
    runs,
    `insert into integration_logs (integration_id, operation, direction, status, duration_ms, metadata, created_at)
     select ${tenant}, 'sync', 'inbound', 'success', 5000, '{"enumerated": true, "dispatched": true}', ${at(runs)}`,
  )
  await insert(
    'items',
    items,
    `insert into integration_sync_items
       (integration_id, sync_log_id, event_class, external_id, status, error, attempts, completed_at, created_at, payload)
     select 1 + (1 + (n - 1) / ${ITEMS_OF_A_RUN}) % ${integrations}, 1 + (n - 1) / ${ITEMS_OF_A_RUN}, 'order', 'ord_' || n % ${items / 2},
       case when n % 50 = 0 then 'failed' else 'success' end, case when n % 50 = 0 then ${ERROR} end, 1, ${at(items)}, ${at(items)}, null`,
  )
  await insert(
    'webhooks',
    webhooks,
    `insert into integration_webhooks
       (integration_id, delivery_id, event_type, payload, headers, status, error, attempts, processed_at, created_at)
     select ${tenant}, 'dlv_' || md5(n::text), 'order.paid', '{}', '{}',
       case when n % 20 = 0 then 'failed' else 'processed' end, case when n % 20 = 0 then ${ERROR} end, 1, ${at(webhooks)}, ${at(webhooks)}`,
  )
  await insert(
    'logs of their attempts',
    webhooks,
    `insert into integration_logs
       (integration_id, operation, direction, status, external_id, origin, duration_ms, created_at)
     select ${tenant}, 'webhook', 'inbound', 'success', 'dlv_' || md5(n::text), 'webhook:' || n, 12, ${at(webhooks)}`,
  )
  await insert(
    'requests',
    requests,
    `insert into integration_requests
       (integration_id, endpoint, method, status_code, error, failure_class, duration_ms, provider_request_id, idempotency_key,
        retry_of, related_type, related_id, origin, created_at)
     select case when n % 5 = 0 then 1 + (n / 5) % ${integrations} else ${tenant} end, '/v1/orders/' || n, 'GET', 200,
       case when n % 25 = 0 then ${ERROR} end, case when n % 25 = 0 then 'upstream' end, 80, 'req_' || md5(n::text),
       case when n % 20 = 7 then 'key_' || n end, case when n % 50 = 1 and n > 1 then n - 1 end,
       case when n % 4 = 2 then 'order' end, case when n % 4 = 2 then n % 50000 end,
       case when n % 5 = 0 then 'webhook:' || n / 5 when n % 5 in (1, 2) then 'item:' || 1 + n % ${items} end, ${at(requests)}`,
  )
  await insert(
    'mappings',
    webhooks,
    `insert into integration_mappings (integration_id, external_id, internal_type, internal_id, origin)
     select ${tenant}, 'ord_' || n, 'order', n, 'webhook:' || n`,
  )
  await insert(
    'events',
    webhooks / 4,
    `insert into integration_events (integration_id, name, payload, outcomes, origin, delivered_at)
     select ${tenant}, 'SyncItemFailed', '{}', '{}', 'item:' || n * 50, now()`,
  )
  await insert(
    'incidents',
    integrations,
    `insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at)
     select n, 'closed', 'health', 'health_degraded', 'degraded', now() - interval '1 hour', now()`,
  )
  await insert(
    'acts',
    webhooks / 10,
    `insert into integration_audit (actor, action, target, integration_id) select 'ada', 'replay', 'webhook:' || n, ${tenant}`,
  )
  await sql.unsafe('vacuum analyze')
}
