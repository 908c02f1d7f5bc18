import { z } from 'zod'
import { table } from '../cli/table.ts'
import { command } from '../command.ts'
import { flag, id } from '../fields.ts'
import { rowId } from '../shapes.ts'

const Deleted = z.object({ id: rowId, deleted: z.record(z.string(), z.int()) }).describe('Deleted rows by table.')

export const deleteIntegration = command({
  name: 'delete',
  topic: 'Integrations',
  summary: 'Deletes an integration and all its rows. Refused while a sync run of it lives.',
  examples: ['integrations delete 7', 'integrations delete 7 --force --yes'],
  places: ['id'],
  fields: { id: id('of the integration'), force: flag('end a living sync run first') },
  reach: 'integration',
  output: Deleted,
  routes: [{ method: 'delete', path: '/integrations/:id' }],
  async confirm({ integrations }, { id }) {
    const { name, provider } = await integrations.get(id)
    return `Delete integration ${id} ("${name}", ${provider}) and all its rows?`
  },
  async run({ integrations, by, from }, { id, force }) {
    return { id, deleted: await integrations.delete(id, { force, by, from }) }
  },
  show: ({ id, deleted }) => `Deleted integration ${id}.\n${table(['Table', 'Rows'], Object.entries(deleted))}`,
})
