import { columns, command, route } from '../command.ts'
import { id } from '../fields.ts'
import { act, SubscriptionShape, standingOf } from './webhook-subscription.ts'

const fields = { id: id('of the integration') }

export const checkWebhooks = command({
  name: 'check-webhooks',
  topic: 'Webhooks',
  summary: "Compares an integration's registered webhook with its provider, and puts it right.",
  examples: ['integrations check-webhooks 7'],
  places: ['id'],
  fields,
  reach: 'integration',
  output: SubscriptionShape,
  routes: [
    { method: 'post', path: '/integrations/:id/webhook-subscription/check' },
    route({
      method: 'get',
      path: '/integrations/:id/webhook-subscription',
      summary: 'Shows what is known of the registered webhook of an integration; asks no provider.',
      fields,
      output: SubscriptionShape,
      run: async ({ integrations }, { id }) => columns(await integrations.webhooks.subscription(id)),
    }),
  ],
  run: (context, { id }) => act(context, id, 'checkSubscription'),
  show: standingOf,
})
