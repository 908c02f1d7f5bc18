/** What a job of every peer does, in one statement each: as ours settles a webhook, with the same columns and log line. */

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
