import { command } from '../command.ts'
import { id } from '../fields.ts'
import { act, SubscriptionShape, standingOf } from './webhook-subscription.ts'

export const removeWebhooks = command({
  name: 'remove-webhooks',
  topic: 'Webhooks',
  summary: "Removes an integration's registered webhook at its provider; it stays away until it is registered again.",
  examples: ['integrations remove-webhooks 7'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: SubscriptionShape,
  routes: [{ method: 'delete', path: '/integrations/:id/webhook-subscription' }],
  run: (context, { id }) => act(context, id, 'unregister'),
  show: standingOf,
})
