/** Which events of Stripe are a version of an object. Rule: docs/behaviour/stripe.md, "Echoes". */
import { expect, it } from 'vitest'
import { toldRecord } from '../../../src/adapters/stripe/stripe-webhooks.ts'
import { storedWebhookRequest } from '../../../src/providers/webhook-request.ts'

const CUSTOMER = { id: 'cus_1', object: 'customer', name: 'Ada', metadata: {} }

function event(type: string, object: object = CUSTOMER) {
  const payload = JSON.stringify({ id: 'evt_1', object: 'event', type, data: { object } })
  const request = storedWebhookRequest({ payload, headers: {}, receivedAt: new Date(), toleranceSeconds: 300 })
  return toldRecord({ kind: 'delivery', request })
}

it('takes an object whole, from an answer and from an event alike', () => {
  const told = toldRecord({ kind: 'answer', body: CUSTOMER })
  expect(told).toEqual({ key: 'cus_1', content: CUSTOMER })
  expect(event('customer.updated')).toEqual(told)
})

it.each(['payment_intent.succeeded', 'customer.deleted', 'invoice.upcoming'])('does not judge %s', (type) => {
  expect(event(type)).toBeNull()
})

it('knows no record in an answer without an id', () => {
  expect(toldRecord({ kind: 'answer', body: { object: 'balance' } })).toBeNull()
})
