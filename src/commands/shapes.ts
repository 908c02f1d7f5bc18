/** What answers are made of, for the OpenAPI document. Columns as the tables have them. */
import { z } from 'zod'
import { SYNC_ITEM_STATUSES } from '../syncs/items/item-rules.ts'
import { RUN_STATUSES } from '../syncs/run-rules.ts'

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
