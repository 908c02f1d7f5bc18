/** Pages of Stripe's dashboard. Rule: docs/behaviour/stripe.md, "Pages". */
import { expect, it } from 'vitest'
import { pageOf } from '../../../src/adapters/stripe/stripe-pages.ts'
import type { Json } from '../../../src/framework/json.ts'
import type { Integration } from '../../../src/providers/integration.ts'

const page = (payload: Json, externalId: string | null = null) =>
  pageOf({} as Integration, { kind: 'delivery', type: null, externalId, payload })

const event = (object: Json, livemode = true): Json => ({ id: 'evt_1', livemode, data: { object } })

it.each([
  ['its object', event({ id: 'cus_1', livemode: true }), null, 'https://dashboard.stripe.com/customers/cus_1'],
  [
    'its object in test mode',
    event({ id: 'pi_1', livemode: false }),
    null,
    'https://dashboard.stripe.com/test/payments/pi_1',
  ],
  [
    'the event, where the object has no page',
    event({ id: 'card_1' }, false),
    null,
    'https://dashboard.stripe.com/test/events/evt_1',
  ],
  ['a dispute', event({ id: 'du_1', livemode: true }), null, 'https://dashboard.stripe.com/disputes/du_1'],
  ['an older dispute', null, 'dp_1', 'https://dashboard.stripe.com/disputes/dp_1'],
  ['an external id', null, 'in_9', 'https://dashboard.stripe.com/invoices/in_9'],
  ['nothing of it', { hello: 'there' }, 'thing-9', null],
  [
    'a word that every object has',
    event({ id: 'constructor_1', livemode: true }),
    null,
    'https://dashboard.stripe.com/events/evt_1',
  ],
  ['no id of Stripe', event({ id: 'cus_../../x' }), null, 'https://dashboard.stripe.com/events/evt_1'],
])('leads to %s', (_, payload, externalId, expected) => {
  expect(page(payload, externalId)).toBe(expected)
})
