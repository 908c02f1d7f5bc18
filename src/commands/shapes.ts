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
