/** What answers are made of, for the OpenAPI document. Columns as the tables have them. */
import { z } from 'zod'

/** In JSON a text in ISO 8601. */
export const moment = z.date()
export const rowId = z.int().min(1)
/** Whatever the provider or the host stored. */
export const anything = z.unknown()
/** Columns beyond those that are named. */
const open = z.looseObject

export const WebhookRow = open({
  id: rowId,
  integration_id: rowId,
  delivery_id: z.string().nullable(),
  event_type: z.string().nullable(),
  status: z.enum(['pending', 'processing', 'processed', 'failed']),
  attempts: z.int(),
  error: z.string().nullable(),
  created_at: moment,
  updated_at: moment,
  processed_at: moment.nullable(),
  dismissed_at: moment.nullable(),
})

export const CircuitState = z.object({
  integration_id: rowId,
  override: z.enum(['forced_open', 'forced_closed', 'disabled']).nullable(),
  override_until: moment.nullable(),
  state: z.enum(['closed', 'open', 'half_open']),
  failures: z.int(),
  failure_rate: z.number().nullable(),
  opened_at: moment.nullable(),
  retry_at: moment.nullable(),
})

const health = z.enum(['healthy', 'degraded', 'failing', 'disabled'])
const lastRun = z
  .object({ id: rowId, status: z.string(), succeeded: z.int(), failed: z.int(), error: z.string().nullable() })
  .describe('The last run that has ended.')

/** An integration; of its credentials only the names. */
export const IntegrationShape = open({
  id: rowId,
  provider: z.string(),
  name: z.string(),
  credentials: z.array(z.string()).nullable().describe('Names of its credentials; null: they can not be read.'),
  metadata: anything,
  owner_type: z.string().nullable(),
  owner_id: rowId.nullable(),
  is_active: z.boolean(),
  switched_off_at: moment.nullable(),
  health_status: health,
  last_synced_at: moment.nullable(),
  next_sync_at: moment.nullable(),
  sync_interval_minutes: z.int().nullable(),
  sync_cursor: anything,
  created_at: moment,
  updated_at: moment,
  failed_items: z.int(),
  waiting_items: z.int(),
  last_run: lastRun.nullable(),
  reauth_required: z.boolean(),
})

/** How an integration stands, with the traffic of the last 24 hours. */
export const StandingShape = z.object({
  id: rowId,
  name: z.string(),
  provider: z.string(),
  registered: z.boolean().describe('Whether this process knows the provider.'),
  health_status: health,
  is_active: z.boolean(),
  switched_off_at: moment.nullable(),
  circuit: z.enum(['closed', 'open', 'half_open', 'forced_open', 'forced_closed', 'disabled']),
  stale: z.boolean(),
  reauth_required: z.boolean(),
  last_synced_at: moment.nullable(),
  failed_items: z.int(),
  waiting_items: z.int(),
  last_run: lastRun.nullable(),
  requests_24h: z.int(),
  error_rate_24h: z.number().nullable().describe('Percent; null without traffic.'),
})

/** What a provider's health check says. */
export const CheckShape = z.object({ ok: z.boolean(), duration_ms: z.int(), error: z.string().nullable() })
