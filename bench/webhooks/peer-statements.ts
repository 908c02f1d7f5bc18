/** What a job of every peer does, in one statement each: as ours settles a webhook, with the same columns and log line. */
import type { Sql } from 'postgres'
import type { DeliveredJob, StoredJob } from './jobs.ts'

/** $1 id of a pending row, $2 duration in milliseconds. One row of the log says that it was settled. */
export const SETTLE = `
  with settled as (
    update peer_webhooks
    set status = 'processed', attempts = attempts + 1, processed_at = clock_timestamp(), updated_at = clock_timestamp()
    where id = $1 and status = 'pending'
    returning integration_id, delivery_id
  )
  insert into peer_logs (integration_id, operation, direction, status, external_id, duration_ms)
  select integration_id, 'webhook', 'inbound', 'success', delivery_id, $2 from settled`

/** $1 integration, $2 delivery id, $3 type, $4 body, $5 headers, $6 duration. A repeated delivery writes nothing. */
export const STORE_AS_PROCESSED = `
  with stored as (
    insert into peer_webhooks (integration_id, delivery_id, event_type, payload, headers, status, attempts, processed_at)
    values ($1, $2, $3, $4, $5, 'processed', 1, clock_timestamp())
    on conflict (integration_id, delivery_id) do nothing
    returning integration_id, delivery_id
  )
  insert into peer_logs (integration_id, operation, direction, status, external_id, duration_ms)
  select integration_id, 'webhook', 'inbound', 'success', delivery_id, $6 from stored`

/** By postgres.js, as the peers without a pool of their own do it. */
export async function settle(pool: Sql, { webhookId }: Pick<StoredJob, 'webhookId'>, startedAt: number): Promise<void> {
  const { count } = await pool.unsafe(SETTLE, [webhookId, tookMs(startedAt)], { prepare: true })
  if (count !== 1) throw new Error(`webhook ${webhookId} was not pending`)
}

export async function store(pool: Sql, job: DeliveredJob, startedAt: number): Promise<void> {
  const { integrationId, deliveryId, eventType, body, headers } = job
  const values = [integrationId, deliveryId, eventType, body, headers, tookMs(startedAt)]
  await pool.unsafe(STORE_AS_PROCESSED, values as never[], { prepare: true })
}

const tookMs = (startedAt: number): number => Math.round(performance.now() - startedAt)
