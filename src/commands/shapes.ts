/** What answers are made of, for the OpenAPI document. Columns as the tables have them. */
import { z } from 'zod'
import { SCOPES } from '../access/rules.ts'
import { IDEMPOTENCY_STATES } from '../calls/idempotency-rules.ts'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../incidents/rules.ts'
import { HealthStatus } from '../integrations/rules.ts'
import { SYNC_ITEM_STATUSES } from '../syncs/items/item-rules.ts'
import { RUN_STATUSES } from '../syncs/run-rules.ts'
import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'

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
  status: z.enum(WEBHOOK_STATUSES),
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

/** Of which integration a row is. */
const ofIntegration = { integration_id: rowId, provider: z.string(), integration_name: z.string() }

export const RequestRow = open({
  id: rowId,
  ...ofIntegration,
  endpoint: z.string(),
  method: z.string(),
  status_code: z.int().nullable(),
  failure_class: z.string().nullable(),
  error: z.string().nullable(),
  duration_ms: z.int().nullable(),
  idempotency_key: z.string().nullable(),
  provider_request_id: z.string().nullable(),
  retry_of: z.union([z.string(), rowId]).nullable(),
  created_at: moment,
})

export const LogRow = open({
  id: rowId,
  ...ofIntegration,
  operation: z.string(),
  status: z.string(),
  summary: z.string().nullable(),
  error: z.string().nullable(),
  has_parts: z.boolean(),
  created_at: moment,
})

export const MappingRow = z.object({
  id: rowId,
  ...ofIntegration,
  external_id: z.string(),
  internal_type: z.string(),
  internal_id: z.string(),
  origin: z.string().nullable().describe('What made it, as `explain` takes it; null: the host.'),
  created_at: moment,
  updated_at: moment,
})

export const IdempotencyKeyRow = z.object({
  id: rowId,
  ...ofIntegration,
  key: z.string(),
  reserved_at: moment,
  state: z.enum(IDEMPOTENCY_STATES),
  prior_request_id: rowId.nullable(),
})

export const EventRow = z.object({
  id: rowId,
  ...ofIntegration,
  name: z.string(),
  status: z.string(),
  created_at: moment,
  attempts: z.int(),
  lost_workers: z.int(),
  is_being_delivered: z.boolean(),
  due_at: moment.nullable(),
  delivered_at: moment.nullable(),
  deliveries: z.array(
    z.object({
      consumer: z.string(),
      status: z.string(),
      attempts: z.int(),
      at: moment,
      due_at: moment.nullable(),
      error: z.string().nullable(),
    }),
  ),
})

export const TOKEN_STATES = ['good', 'expired', 'revoked'] as const

/** Characters of an incident's annotation. */
export const MAX_REMARK = 2_000

export const IncidentRow = z.object({
  id: rowId,
  integration_id: rowId,
  provider: z.string(),
  integration_name: z.string(),
  status: z.enum(INCIDENT_STATUSES),
  source: z.enum(INCIDENT_SOURCES),
  reason: z.string(),
  peak_severity: z.enum(HealthStatus),
  opened_at: moment,
  last_error_at: moment.nullable(),
  closed_at: moment.nullable(),
  acknowledged_at: moment.nullable(),
  acknowledged_by: z.string().nullable(),
  snoozed_until: moment.nullable(),
  snoozed_by: z.string().nullable(),
  annotations: z.array(z.object({ at: moment, by: z.string(), text: z.string() })),
})

export const TokenRow = z.object({
  id: rowId,
  name: z.string(),
  scope: z.enum(SCOPES),
  provider: z.string().nullable(),
  owner: z.object({ type: z.string(), id: rowId }).nullable(),
  state: z.enum(TOKEN_STATES),
  expires_at: moment.nullable(),
  created_by: z.string(),
  created_at: moment,
  revoked_at: moment.nullable(),
  last_used_at: moment.nullable(),
})

const count = z.int().min(0)

export const SyncRunRow = open({
  id: rowId,
  integration_id: rowId,
  operation: z.enum(['sync', 'backfill']),
  status: z.enum(RUN_STATUSES),
  listed: count.nullable(),
  succeeded: count.nullable(),
  failed: count.nullable(),
  skipped: count.nullable(),
  cursor_before: anything,
  cursor_after: anything,
  error: z.string().nullable(),
  metadata: anything,
  duration_ms: z.int().nullable(),
  created_at: moment,
  updated_at: moment,
})

export const SyncRun = SyncRunRow.extend({
  items: z.object(Object.fromEntries(SYNC_ITEM_STATUSES.map((status) => [status, count]))),
  waiting: count,
  next_attempt_at: moment.nullable(),
  errors: z.array(z.object({ error: z.string(), items: count })),
})

/** Cursors are whatever the provider's checkpoints are. */
export const ChangedCursor = z.object({ integration_id: rowId, from: anything, to: anything })
export const AdvancedCursor = z.object({ runs: count, from: anything, to: anything, reclaimed: count })

export const SyncItemRow = open({
  id: rowId,
  integration_id: rowId,
  sync_log_id: rowId.nullable(),
  event_class: z.string(),
  external_id: z.string().nullable(),
  status: z.enum(SYNC_ITEM_STATUSES),
  attempts: count,
  error: z.string().nullable(),
  last_error: z.string().nullable(),
  next_attempt_at: moment.nullable(),
  made_up_for_by: rowId.nullable(),
  holds_cursor: z.boolean(),
  created_at: moment,
  updated_at: moment,
  completed_at: moment.nullable(),
})

const health = z.enum(HealthStatus)
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
