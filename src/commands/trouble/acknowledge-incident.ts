import { columns, command, fieldLines } from '../command.ts'
import { id, optional, text } from '../fields.ts'
import { IncidentRow, MAX_REMARK } from '../shapes.ts'

export const acknowledgeIncident = command({
  name: 'acknowledge-incident',
  topic: 'Trouble',
  summary: 'Says that a person has seen an open incident, until it gets worse.',
  examples: ['integrations acknowledge-incident 4711', 'integrations acknowledge-incident 4711 --note "on it"'],
  places: ['id'],
  fields: { id: id('of the incident'), note: optional(text('a line to write beside it', 'text', MAX_REMARK)) },
  reach: 'incident',
  output: IncidentRow,
  routes: [{ method: 'post', path: '/incidents/:id/acknowledge' }],
  run: async ({ integrations, by, from }, { id, note }) =>
    columns(await integrations.admin.incidents.acknowledge(id, { note, by, from })),
  show: fieldLines,
})
