import { z } from 'zod'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../incidents/rules.ts'
import { columns, command, fieldLines, route } from './command.ts'
import { choice, id, instant, optional, owner, provider } from './fields.ts'
import { idOrOptions } from './id-or-options.ts'
import { listing } from './listing.ts'
import { IncidentRow } from './shapes.ts'

const list = listing({
  name: 'incidents',
  topic: 'Trouble',
  summary: 'Lists incidents, the newest first, or shows one.',
  examples: [
    'integrations incidents --status open',
    'integrations incidents --integration 7 --since 2031-06-01T12:00:00Z --json',
    'integrations incidents 4711',
  ],
  fields: {
    integration: optional(id('only of this integration')),
    status: optional(choice('only of this status', INCIDENT_STATUSES, 'status')),
    source: optional(choice('only those that this opened', INCIDENT_SOURCES, 'source')),
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    since: optional(instant('only those opened then or later')),
    until: optional(instant('only those opened before')),
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
  list: ({ integrations }, { integration, ...filter }) =>
    integrations.admin.incidents.list({ ...filter, integrationId: integration }),
})

const { name, topic, summary, examples } = list

export const incidents = command({
  name,
  topic,
  summary,
  examples,
  places: ['id'],
  fields: { id: optional(id('of the incident; without it the options choose')), ...list.fields },
  reach: 'filtered',
  output: z.union([z.array(IncidentRow), IncidentRow]),
  routes: [
    ...(list.routes ?? []),
    route({
      method: 'get',
      path: '/incidents/:id',
      summary: 'Shows one incident.',
      fields: { id: id('of the incident') },
      reach: 'incident',
      output: IncidentRow,
      run: async ({ integrations }, { id }) => columns(await integrations.admin.incidents.get(id)),
    }),
  ],
  check({ id, limit, ...options }) {
    idOrOptions(id, options)
    list.check?.({ limit, ...options })
  },
  async run(context, { id, ...filter }) {
    return id === undefined ? list.run(context, filter) : columns(await context.integrations.admin.incidents.get(id))
  },
  document: (result) => ('data' in result ? result.data : result),
  show: (result, context) => ('data' in result ? (list.show?.(result, context) ?? '') : fieldLines(result)),
})
