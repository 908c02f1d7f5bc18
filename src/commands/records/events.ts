import { z } from 'zod'
import { DURABLE_EVENTS, STORED_EVENT_STATUSES } from '../../events/durable-event-rules.ts'
import { columns } from '../command.ts'
import { choice, optional, period, text, whose } from '../fields.ts'
import { listing } from '../listing.ts'
import { EventRow } from '../shapes.ts'

const Event = EventRow.extend({ payload: z.unknown() })

export const events = listing({
  name: 'events',
  topic: 'Records',
  workflow: { none: 'a record holds the request and its answer, which must not be copied into a workflow history' },
  summary: 'Lists durable events and what became of each at its listeners and targets, or shows one.',
  examples: [
    'integrations events --status given_up',
    'integrations events --name IncidentOpened --consumer listener:pager --json',
    'integrations events 4711',
  ],
  fields: {
    ...whose,
    name: optional(choice('only of this name', DURABLE_EVENTS, 'event')),
    consumer: optional(text('only those that this listener or target was given, such as listener:pager', 'key')),
    status: optional(choice('only of this status', STORED_EVENT_STATUSES)),
    ...period('stored'),
  },
  path: '/events',
  row: EventRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Event: 'name',
    Status: 'status',
    Attempts: 'attempts',
    Due: 'due_at',
    Stored: 'created_at',
  },
  none: 'No events.',
  list: ({ integrations }, filter) => integrations.admin.storedEvents.list(filter),
  toRow: ({ deliveries, ...row }) => ({ ...columns(row), deliveries: deliveries.map(columns) }),
  one: {
    kind: 'event',
    summary: 'Shows a durable event with its payload and its deliveries.',
    output: Event,
    async get({ integrations }, of) {
      const { deliveries, ...event } = await integrations.admin.storedEvents.get(of)
      return { ...columns(event), deliveries: deliveries.map(columns) }
    },
  },
})
