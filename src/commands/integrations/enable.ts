import type { CommandContext } from '../command.ts'
import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { IntegrationShape } from '../shapes.ts'

export const enable = command({
  name: 'enable',
  topic: 'Integrations',
  summary: 'Switches an integration on: active, healthy, due at once if it is scheduled.',
  examples: ['integrations enable 7'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: IntegrationShape,
  routes: [{ method: 'post', path: '/integrations/:id/enable' }],
  run: (context, { id }) => switched(context, id, 'enable'),
  show: ({ id }) => `Integration ${id} is switched on.`,
})

/** Switches it and writes that down. @returns the integration as it is now */
export async function switched({ integrations, note }: CommandContext, id: number, action: 'enable' | 'disable') {
  await integrations[action](id)
  await note(id, action)
  return columns(await integrations.admin.operator.detail(id))
}
