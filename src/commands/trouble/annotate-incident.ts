import { columns, command, fieldLines } from '../command.ts'
import { id, text } from '../fields.ts'
import { IncidentRow, MAX_REMARK } from '../shapes.ts'

export const annotateIncident = command({
  name: 'annotate-incident',
  topic: 'Trouble',
  summary: 'Writes a line beside an incident, open or closed.',
  examples: [
    'integrations annotate-incident 4711 "the provider is down, see their status page"',
    'integrations annotate-incident 4711 down --json',
  ],
  places: ['id', 'text'],
  fields: { id: id('of the incident'), text: text('the line', 'text', MAX_REMARK) },
  reach: 'incident',
  output: IncidentRow,
  routes: [{ method: 'post', path: '/incidents/:id/annotations' }],
  run: async ({ integrations, by, from }, { id, text }) =>
    columns(await integrations.admin.incidents.annotate(id, { text, by, from })),
  show: fieldLines,
})
