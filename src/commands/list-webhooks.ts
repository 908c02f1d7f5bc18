import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'
import { choice, flag, id, instant, optional, owner, provider, text } from './fields.ts'
import { listing } from './listing.ts'
import { WebhookRow } from './shapes.ts'

/** So that a row fits a line; `show-webhook` has it whole. */
const ERROR_LENGTH = 60

export const listWebhooks = listing({
  name: 'list-webhooks',
  topic: 'Webhooks',
  summary: 'Lists webhooks, the newest first.',
  examples: [
    'integrations list-webhooks --status failed',
    'integrations list-webhooks --integration 7 --event issues --since 2026-06-01T12:00:00Z --json',
  ],
  fields: {
    integration: optional(id('only of this integration')),
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    status: optional(choice('only of this status', WEBHOOK_STATUSES, 'status')),
    dismissed: flag('failed ones that were dismissed, which are left out otherwise'),
    event: optional(text('only of this event type', 'type')),
    since: optional(instant('only those stored then or later')),
    until: optional(instant('only those stored before')),
  },
  path: '/webhooks',
  row: WebhookRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Event: 'event_type',
    Delivery: 'delivery_id',
    Status: 'status',
    Attempts: 'attempts',
    Error: ({ error }) => (error as string | null)?.slice(0, ERROR_LENGTH),
    Created: 'created_at',
  },
  none: 'No webhooks.',
  list: ({ integrations }, filter) => integrations.webhooks.list(filter),
})
