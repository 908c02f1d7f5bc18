import { WEBHOOK_STATUSES } from '../../webhooks/rules.ts'
import { choice, flag, id, optional, period, text, whose } from '../fields.ts'
import { listing, shortError } from '../listing.ts'
import { WebhookRow } from '../shapes.ts'

export const listWebhooks = listing({
  name: 'list-webhooks',
  topic: 'Webhooks',
  summary: 'Lists webhooks, the newest first.',
  examples: [
    'integrations list-webhooks --status failed',
    'integrations list-webhooks --integration 7 --event issues --since 2026-06-01T12:00:00Z --json',
  ],
  fields: {
    ...whose,
    status: optional(choice('only of this status', WEBHOOK_STATUSES, 'status')),
    dismissed: flag('failed ones that were dismissed, which are left out otherwise'),
    delivery: optional(id('only the events of this delivery, as `part_of` names it')),
    event: optional(
      text('only of this event type; over all integrations in the last 24 hours, unless a time is given', 'type'),
    ),
    ...period('stored'),
  },
  path: '/webhooks',
  row: WebhookRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Event: 'event_type',
    Delivery: 'delivery_id',
    Part: ({ part_of, part }) => (part_of === null ? null : `${part} of ${part_of}`),
    Status: 'status',
    Attempts: 'attempts',
    Error: ({ error }) => shortError(error as string | null),
    Created: 'created_at',
  },
  none: 'No webhooks.',
  list: ({ integrations }, filter) => integrations.webhooks.list(filter),
})
