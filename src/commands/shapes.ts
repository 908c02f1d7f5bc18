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
/** The stream that a record is of, or that was named. */
export const streamName = z.string().nullable().describe('A stream of its provider; null: its own, or none was named.')
/** Whatever the provider or the host stored. */
export const anything = z.unknown()
/** Columns of one kind. */
export const all = <const Name extends string, Schema extends z.ZodType>(schema: Schema, ...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, schema])) as { [Each in Name]: Schema }
/** Columns beyond those that are named. */
const open = z.looseObject

/** Which integration a row is of. */
const ofIntegration = { integration_id: rowId, provider: z.string(), integration_name: z.string() }

export const WebhookRow = open({
  id: rowId,
  ...ofIntegration,
  ...all(z.string().nullable(), 'delivery_id', 'event_type', 'error'),
  status: z.enum(WEBHOOK_STATUSES),
  attempts: z.int(),
  part_of: rowId.nullable().describe('The delivery that brought it beside other events; null: its own.'),
  part: z.int().nullable().describe('Which event of that delivery, from 1.'),
  ordering_key: z.string().nullable().describe('Webhooks of one key run one after the other; null: in any order.'),
  has_payload: z
    .boolean()
    .describe('False: what was delivered has been erased or pruned; it is not replayed any more.'),
  key_turn: z.boolean().nullable().describe('False: it waits for an earlier one of its key. True: it is its turn.'),
  ...all(moment, 'created_at', 'updated_at'),
  ...all(moment.nullable(), 'processed_at', 'dismissed_at'),
})

export const CircuitState = z.object({
  integration_id: rowId,
  override: z.enum(['forced_open', 'forced_closed', 'disabled']).nullable(),
  ...all(moment.nullable(), 'override_until', 'opened_at', 'retry_at'),
  state: z.enum(['closed', 'open', 'half_open']),
  failures: z.int(),
  failure_rate: z.number().nullable(),
})

export const RequestRow = open({
  id: rowId,
  ...ofIntegration,
  ...all(z.string(), 'endpoint', 'method'),
  ...all(z.int().nullable(), 'status_code', 'duration_ms'),
  ...all(z.string().nullable(), 'failure_class', 'error', 'idempotency_key', 'provider_request_id'),
  retry_of: z.union([z.string(), rowId]).nullable(),
  created_at: moment,
})

export const LogRow = open({
  id: rowId,
  ...ofIntegration,
  ...all(z.string(), 'operation', 'status'),
  ...all(z.string().nullable(), 'summary', 'error'),
  has_parts: z.boolean(),
  created_at: moment,
})

export const MappingRow = z.object({
  id: rowId,
  ...ofIntegration,
  ...all(z.string(), 'external_id', 'internal_type', 'internal_id'),
  origin: z.string().nullable().describe('What made it, as `explain` takes it; null: the host.'),
  ...all(moment, 'created_at', 'updated_at'),
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
  ...all(z.string(), 'name', 'status'),
  created_at: moment,
  ...all(z.int(), 'attempts', 'lost_workers'),
  is_being_delivered: z.boolean(),
  ...all(moment.nullable(), 'due_at', 'delivered_at'),
  deliveries: z.array(
    z.object({
      ...all(z.string(), 'consumer', 'status'),
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
  ...all(rowId, 'id', 'integration_id'),
  ...all(z.string(), 'provider', 'integration_name', 'reason'),
  status: z.enum(INCIDENT_STATUSES),
  source: z.enum(INCIDENT_SOURCES),
  peak_severity: z.enum(HealthStatus),
  opened_at: moment,
  ...all(moment.nullable(), 'last_error_at', 'closed_at', 'acknowledged_at', 'snoozed_until'),
  ...all(z.string().nullable(), 'acknowledged_by', 'snoozed_by'),
  annotations: z.array(z.object({ at: moment, by: z.string(), text: z.string() })),
})

export const TokenRow = z.object({
  id: rowId,
  ...all(z.string(), 'name', 'created_by'),
  scope: z.enum(SCOPES),
  provider: z.string().nullable(),
  owner: z.object({ type: z.string(), id: rowId }).nullable(),
  state: z.enum(TOKEN_STATES),
  ...all(moment.nullable(), 'expires_at', 'revoked_at', 'last_used_at'),
  created_at: moment,
})

const count = z.int().min(0)

export const SyncRunRow = open({
  id: rowId,
  ...ofIntegration,
  stream: streamName,
  operation: z.enum(['sync', 'backfill']),
  status: z.enum(RUN_STATUSES),
  ...all(count.nullable(), 'listed', 'succeeded', 'failed', 'skipped'),
  ...all(anything, 'cursor_before', 'cursor_after', 'metadata'),
  error: z.string().nullable(),
  duration_ms: z.int().nullable(),
  ...all(moment, 'created_at', 'updated_at'),
})

export const SyncRun = SyncRunRow.extend({
  items: z.object(Object.fromEntries(SYNC_ITEM_STATUSES.map((status) => [status, count]))),
  waiting: count,
  next_attempt_at: moment.nullable(),
  errors: z.array(z.object({ error: z.string(), items: count })),
})

/** Cursors are whatever the provider's checkpoints are. */
export const ChangedCursor = z.object({ integration_id: rowId, stream: streamName, from: anything, to: anything })
export const AdvancedCursor = z.object({ runs: count, from: anything, to: anything, reclaimed: count })

export const SyncItemRow = open({
  id: rowId,
  ...ofIntegration,
  stream: streamName,
  ...all(rowId.nullable(), 'sync_log_id', 'made_up_for_by'),
  event_class: z.string(),
  ...all(z.string().nullable(), 'external_id', 'error', 'last_error'),
  status: z.enum(SYNC_ITEM_STATUSES),
  attempts: count,
  ...all(moment.nullable(), 'next_attempt_at', 'completed_at'),
  holds_cursor: z.boolean(),
  ...all(moment, 'created_at', 'updated_at'),
})

const health = z.enum(HealthStatus)
const lastRun = z
  .object({ id: rowId, status: z.string(), succeeded: z.int(), failed: z.int(), error: z.string().nullable() })
  .describe('The last run that has ended.')

const openRun = z
  .object({ id: rowId, stream: z.string().nullable(), since: moment })
  .describe('The run that is under way.')

const pause = z
  .object({ by: z.string(), since: moment })
  .nullable()
  .describe('Who has paused its syncs, and since when; null: no pause that the audit knows.')

/** An integration; of its credentials only the names. */
export const IntegrationShape = open({
  id: rowId,
  ...all(z.string(), 'provider', 'name'),
  credentials: z.array(z.string()).nullable().describe('Names of its credentials; null: they can not be read.'),
  ...all(anything, 'metadata', 'sync_cursor'),
  owner_type: z.string().nullable(),
  owner_id: rowId.nullable(),
  ...all(z.boolean(), 'is_active', 'reauth_required'),
  ...all(moment.nullable(), 'switched_off_at', 'last_synced_at', 'next_sync_at'),
  health_status: health,
  sync_interval_minutes: z.int().nullable(),
  ...all(moment, 'created_at', 'updated_at'),
  ...all(z.int(), 'failed_items', 'waiting_items'),
  last_run: lastRun.nullable(),
  open_run: openRun.nullable(),
  pause,
})

/** Where one stream of an integration stands. */
export const StreamShape = z.object({
  stream: z.string(),
  sync_cursor: anything,
  last_synced_at: moment.nullable().describe('The end of its last clean run.'),
  ...all(moment.nullable(), 'last_run_at', 'next_sync_at', 'stale_since'),
  interval: z
    .object({
      ...all(z.number(), 'seconds', 'least', 'most'),
      reason: z.string().describe('What decided about it; `set`: it is fixed.'),
      age: z.string().describe('How old the data may be, in words.'),
    })
    .nullable()
    .describe('Between runs, as it is in force; null: only by hand.'),
  sync_interval_seconds: z.int().nullable().describe('Of its own; null: as its integration or its provider says.'),
  waits_for: z.string().nullable().describe('The stream whose first run has to end before its first one.'),
  ...all(z.int(), 'consecutive_sync_failures', 'failed_items', 'waiting_items'),
  pause,
})

/** The streams of an integration; none where its provider has one `sync()`. */
export const streams = z.array(StreamShape)

/** How an integration stands, with the traffic of the last 24 hours. */
export const StandingShape = z.object({
  id: rowId,
  ...all(z.string(), 'name', 'provider'),
  registered: z.boolean().describe('Whether this process knows the provider.'),
  health_status: health,
  ...all(z.boolean(), 'is_active', 'stale', 'reauth_required'),
  ...all(moment.nullable(), 'switched_off_at', 'last_synced_at'),
  circuit: z.enum(['closed', 'open', 'half_open', 'forced_open', 'forced_closed', 'disabled']),
  ...all(z.int(), 'failed_items', 'waiting_items'),
  requests_24h: z.int().nullable().describe('Null with `traffic=false`.'),
  last_run: lastRun.nullable(),
  open_run: openRun.nullable(),
  pause,
  error_rate_24h: z.number().nullable().describe('Percent; null without traffic.'),
})

/** What a provider's health check says. */
export const CheckShape = z.object({ ok: z.boolean(), duration_ms: z.int(), error: z.string().nullable() })
