import { command } from '../command.ts'
import { id } from '../fields.ts'
import { IntegrationShape } from '../shapes.ts'
import { switched } from './enable.ts'

export const disable = command({
  name: 'disable',
  topic: 'Integrations',
  summary: 'Switches an integration off: nothing scheduled starts, no webhook is taken.',
  examples: ['integrations disable 7'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: IntegrationShape,
  routes: [{ method: 'post', path: '/integrations/:id/disable' }],
  run: (context, { id }) => switched(context, id, 'disable'),
  show: ({ id }) => `Integration ${id} is switched off.`,
})
