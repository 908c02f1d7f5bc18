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
  created_at: moment,
  updated_at: moment,
})

export const IdempotencyKeyRow = z.object({
  id: rowId,
  ...ofIntegration,
  key: z.string(),
  reserved_at: moment,
  state: z.enum(['answered', 'unknown']),
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
