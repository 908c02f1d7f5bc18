import { z } from 'zod'
import { table } from '../cli/table.ts'
import { command } from '../command.ts'
import { flag, id } from '../fields.ts'
import { rowId } from '../shapes.ts'

const Erased = z.object({ id: rowId, erased: z.record(z.string(), z.int()) }).describe('Blanked rows by table.')

export const erase = command({
  name: 'erase',
  topic: 'Integrations',
  summary: 'Blanks payloads, bodies, results and credentials of an integration; counts and times stay.',
  examples: ['integrations erase 7', 'integrations erase 7 --yes --json'],
  places: ['id'],
  fields: { id: id('of the integration'), force: flag('end a living sync run first') },
  reach: 'integration',
  output: Erased,
  routes: [{ method: 'post', path: '/integrations/:id/erase' }],
  async confirm({ integrations }, { id }) {
    const { name, provider } = await integrations.get(id)
    return `Blank all that integration ${id} ("${name}", ${provider}) holds?`
  },
  async run({ integrations, by, from }, { id, force }) {
    return { id, erased: { ...(await integrations.admin.erase(id, { by, from, force })) } }
  },
  show: ({ id, erased }) => `Erased integration ${id}.\n${table(['Table', 'Rows'], Object.entries(erased))}`,
})
