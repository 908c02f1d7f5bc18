import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { MappingRow } from '../shapes.ts'

export const forgetMapping = command({
  name: 'forget-mapping',
  topic: 'Records',
  summary: "Removes a mapping; the host's row stays.",
  examples: ['integrations forget-mapping 4711', 'integrations forget-mapping 4711 --yes'],
  places: ['id'],
  fields: { id: id('of the mapping') },
  reach: 'mapping',
  output: MappingRow,
  routes: [{ method: 'delete', path: '/mappings/:id' }],
  async confirm({ integrations }, { id: of }) {
    const { externalId, internalType, internalId } = await integrations.admin.mappings.get(of)
    return `Forget that "${externalId}" stands for ${internalType} ${internalId}? The next sync of it makes a new row.`
  },
  run: async ({ integrations, by, from }, { id: of }) =>
    columns(await integrations.admin.mappings.forget(of, { by, from })),
  show: ({ external_id }) => `Forgot what "${external_id}" stood for.`,
})
