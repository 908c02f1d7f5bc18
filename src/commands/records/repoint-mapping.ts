import { columns, command } from '../command.ts'
import { id, optional, text } from '../fields.ts'
import { MappingRow } from '../shapes.ts'

export const repointMapping = command({
  name: 'repoint-mapping',
  topic: 'Records',
  summary: 'Points an external id at another row of the host.',
  examples: ['integrations repoint-mapping 4711 43', 'integrations repoint-mapping 4711 43 --internal-type ticket'],
  places: ['id', 'internalId'],
  fields: {
    id: id('of the mapping'),
    internalId: text('key of the row that it stands for from now on'),
    internalType: optional(text('model of that row; default: the one of before', 'model')),
  },
  reach: 'mapping',
  output: MappingRow,
  routes: [{ method: 'put', path: '/mappings/:id' }],
  run: async ({ integrations, by, from }, { id: of, ...to }) =>
    columns(await integrations.admin.mappings.repoint(of, { ...to, by, from })),
})
