import { columns, command, fieldLines } from '../command.ts'
import { id, instant } from '../fields.ts'
import { IncidentRow } from '../shapes.ts'

export const snoozeIncident = command({
  name: 'snooze-incident',
  topic: 'Trouble',
  summary: 'Silences the repeats of an open incident until a moment, or until it gets worse.',
  examples: ['integrations snooze-incident 4711 --until 2031-06-01T12:00:00Z'],
  places: ['id'],
  fields: {
    id: id('of the incident'),
    until: instant('until when its repeats are silenced; at most 30 days from now'),
  },
  reach: 'incident',
  output: IncidentRow,
  routes: [{ method: 'post', path: '/incidents/:id/snooze' }],
  run: async ({ integrations, by, from }, { id, until }) =>
    columns(await integrations.admin.incidents.snooze(id, { until, by, from })),
  show: fieldLines,
})
