import { command } from '../command.ts'
import { id } from '../fields.ts'
import { act, SubscriptionShape, standingOf } from './webhook-subscription.ts'

export const registerWebhooks = command({
  name: 'register-webhooks',
  topic: 'Webhooks',
  summary: "Registers an integration's webhook at its provider, and keeps it registered.",
  examples: ['integrations register-webhooks 7'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: SubscriptionShape,
  routes: [{ method: 'post', path: '/integrations/:id/webhook-subscription' }],
  run: (context, { id }) => act(context, id, 'register'),
  show: standingOf,
})
