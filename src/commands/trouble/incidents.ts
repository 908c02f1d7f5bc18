import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../../incidents/rules.ts'
import { columns } from '../command.ts'
import { choice, optional, period, whose } from '../fields.ts'
import { listing } from '../listing.ts'
import { IncidentRow } from '../shapes.ts'

export const incidents = listing({
  name: 'incidents',
  topic: 'Trouble',
  summary: 'Lists incidents, the newest first, or shows one.',
  examples: [
    'integrations incidents --status open',
    'integrations incidents --integration 7 --since 2031-06-01T12:00:00Z --json',
    'integrations incidents 4711',
  ],
  fields: {
    ...whose,
    status: optional(choice('only of this status', INCIDENT_STATUSES, 'status')),
    source: optional(choice('only those that this opened', INCIDENT_SOURCES, 'source')),
    ...period('opened'),
  },
  path: '/incidents',
  row: IncidentRow,
  shows: {
    ID: 'id',
    Integration: 'integration_id',
    Name: 'integration_name',
    Provider: 'provider',
    Status: 'status',
    Peak: 'peak_severity',
    Source: 'source',
    Reason: 'reason',
    Opened: 'opened_at',
    Closed: 'closed_at',
  },
  none: 'No incidents.',
  one: {
    kind: 'incident',
    summary: 'Shows one incident.',
    output: IncidentRow,
    get: async ({ integrations }, id) => columns(await integrations.admin.incidents.get(id)),
  },
  list: ({ integrations }, filter) => integrations.admin.incidents.list(filter),
})
