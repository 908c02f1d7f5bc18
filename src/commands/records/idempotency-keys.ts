import { z } from 'zod'
import { IDEMPOTENCY_STATES } from '../../calls/idempotency-rules.ts'
import { columns } from '../command.ts'
import { choice, optional, period, text, whose } from '../fields.ts'
import { listing } from '../listing.ts'
import { IdempotencyKeyRow } from '../shapes.ts'

const IdempotencyKey = IdempotencyKeyRow.extend({ prior_state: z.unknown(), prior_response: z.unknown() })

export const idempotencyKeys = listing({
  name: 'idempotency-keys',
  topic: 'Records',
  workflow: { none: 'a record holds the request and its answer, which must not be copied into a workflow history' },
  summary: 'Lists the ledger of keyed writes, the newest first, or shows one key with its answer.',
  examples: [
    'integrations idempotency-keys --state unknown',
    'integrations idempotency-keys --integration 7 --key order-17 --json',
  ],
  fields: {
    ...whose,
    key: optional(text('with --integration: only this key')),
    state: optional(choice('only of this state', IDEMPOTENCY_STATES)),
    ...period('spent'),
  },
  path: '/idempotency-keys',
  row: IdempotencyKeyRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Key: 'key',
    State: 'state',
    Request: 'prior_request_id',
    Spent: 'reserved_at',
  },
  none: 'No idempotency keys.',
  list: ({ integrations }, filter) => integrations.admin.idempotencyKeys.list(filter),
  one: {
    kind: 'idempotency-key',
    summary: 'Shows a key of the ledger with what its call was answered.',
    output: IdempotencyKey,
    get: async ({ integrations }, of) => columns(await integrations.admin.idempotencyKeys.get(of)),
  },
})
