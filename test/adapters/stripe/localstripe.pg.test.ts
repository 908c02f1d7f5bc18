/** Payments from beginning to end against localstripe, which keeps what it is told and delivers what has happened. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { StripeClient } from '../../../src/adapters/stripe/index.ts'
import { StripeProvider, StripeWebhookReceived } from '../../../src/adapters/stripe/index.ts'
import { createApi } from '../../../src/api/app.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { Received } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, testIntegrations } from '../../support/integrations.ts'
import { startLocalstripe } from '../../support/localstripe.ts'
import { makeIntegration } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'
import type { StripePeer } from '../../support/stripe-peer.ts'
import { workOff } from '../../support/work-off.ts'

const API_KEY = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc'
const SECRET = 'whsec_of-the-flows'
/** https://docs.stripe.com/testing: taken, but declined when it is charged. */
const DECLINED_CARD = '4000000000000341'
const GOOD_CARD = '4242424242424242'

let peer: StripePeer
let database: TestDatabase
let provider: StripeProvider
let test: TestIntegrations
let integration: Integration
let client: StripeClient

beforeAll(async () => {
  peer = await startLocalstripe()
  database = await createTestDatabase()
  provider = new StripeProvider({ baseUrl: peer.url })
  test = testIntegrations(database.url, { providers: { stripe: provider }, egress: { allow: ['127.0.0.1'] } })
  integration = await makeIntegration(test, 'stripe', { credentials: { api_key: API_KEY, webhook_secret: SECRET } })
  client = provider.client(integration)
})

afterAll(async () => {
  // What is there, also when the beginning broke off.
  await peer?.close()
  await test?.close()
  await database?.drop()
})

describe('a payment', () => {
  it('is reserved, taken in part and refunded in part, each step with what the one before gave', async () => {
    const customer = await client.customers.create({ email: 'jenny@example.com', metadata: { shop: '7' } })
    const intent = await client.paymentIntents.create({
      amount: 2_000,
      currency: 'eur',
      customer: customer.id,
      receiptEmail: 'jenny@example.com',
      captureMethod: 'manual',
      metadata: { order: '6735' },
    })
    expect(intent).toMatchObject({ status: 'requires_payment_method', amount: 2_000, metadata: { order: '6735' } })

    const paymentMethod = await paymentMethodOf(GOOD_CARD)
    const confirmed = await client.paymentIntents.confirm({ id: intent.id, paymentMethod })
    expect(confirmed.status).toBe('requires_capture')
    const captured = await client.paymentIntents.capture({ id: intent.id, amountToCapture: 1_500 })
    expect(captured.status).toBe('succeeded')
    expect(await client.paymentIntents.retrieve({ id: intent.id })).toMatchObject({ status: 'succeeded' })

    const { data: charges } = await client.charges.list({ customer: customer.id })
    expect(charges).toMatchObject([{ amount: 2_000, captured: true, payment_intent: intent.id }])
    // What was reserved and not taken has been given back.
    expect(await client.charges.retrieve({ id: charges[0]?.id ?? '' })).toMatchObject({ amount_refunded: 500 })

    const refund = await client.refunds.create({ paymentIntent: intent.id, amount: 700, metadata: { why: 'torn' } })
    expect(refund).toMatchObject({ object: 'refund', amount: 700, status: 'succeeded', metadata: { why: 'torn' } })
    expect(await client.refunds.retrieve({ id: refund.id })).toMatchObject({ id: refund.id, amount: 700 })
    const { data: refunds } = await client.refunds.list({ paymentIntent: intent.id })
    expect(refunds.map(({ amount }) => amount).sort()).toEqual([500, 700])
  })

  it('is cancelled before it is confirmed, and not after', async () => {
    const { id } = await client.paymentIntents.create({ amount: 300, currency: 'eur' })
    expect((await client.paymentIntents.cancel({ id })).status).toBe('canceled')
    await expect(client.paymentIntents.confirm({ id })).rejects.toMatchObject({ statusCode: 400 })
  })

  it('of a card that is declined fails as a fault of the request, and the account stays healthy', async () => {
    const paymentMethod = await paymentMethodOf(DECLINED_CARD)
    const { id } = await client.paymentIntents.create({ amount: 400, currency: 'eur' })
    await expect(client.paymentIntents.confirm({ id, paymentMethod })).rejects.toMatchObject({
      statusCode: 402,
      code: 'card_declined',
    })
    expect(await lastRow()).toMatchObject({
      endpoint: `payment_intents/${id}/confirm`,
      status_code: 402,
      failure_class: 'client',
    })
    expect(await client.paymentIntents.retrieve({ id })).toMatchObject({ status: 'requires_payment_method' })
    expect(await consecutiveFailures()).toBe(0)
  })

  it('that does not exist is a 404 of the SDK, made once', async () => {
    await expect(client.paymentIntents.retrieve({ id: 'pi_none' })).rejects.toMatchObject({
      type: 'StripeInvalidRequestError',
      statusCode: 404,
    })
    expect(await lastRow()).toMatchObject({ endpoint: 'payment_intents/pi_none', failure_class: 'client' })
  })
})

describe('customers', () => {
  it('are made, changed, and deleted', async () => {
    const { id } = await client.customers.create({ email: 'a@example.com', name: 'A', phone: '1' })
    expect(await client.customers.update({ id, name: 'B', metadata: { n: '1' } })).toMatchObject({
      id,
      email: 'a@example.com',
      name: 'B',
      metadata: { n: '1' },
    })
    expect(await client.customers.retrieve({ id })).toMatchObject({ id, name: 'B' })
    expect(await client.customers.delete({ id })).toMatchObject({ id, deleted: true })
    await expect(client.customers.retrieve({ id })).rejects.toMatchObject({ statusCode: 404 })
  })

  it('are listed page by page, one request each, every one once', async () => {
    const email = 'pages@example.com'
    const made = []
    for (let n = 0; n < 5; n += 1) made.push((await client.customers.create({ email })).id)
    const before = await countRows()
    const pages: string[][] = []
    for (let startingAfter: string | undefined, more = true; more; ) {
      const { data, has_more } = await client.customers.list({ email, limit: 2, startingAfter })
      pages.push(data.map(({ id }) => id))
      more = has_more
      startingAfter = data.at(-1)?.id
    }
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1])
    expect(pages.flat().sort()).toEqual([...made].sort())
    expect((await countRows()) - before).toBe(3)
  })
})

describe('a keyed write', () => {
  it('made again is not sent: the conflict has what was answered', async () => {
    const asked = { amount: 900, currency: 'eur', idempotencyKey: 'order-900' }
    const { id } = await client.paymentIntents.create(asked)
    await expect(client.paymentIntents.create(asked)).rejects.toMatchObject({
      code: 'idempotency_conflict',
      key: 'order-900',
      priorResponse: { id, amount: 900, client_secret: '[REDACTED]' },
    })
    expect(await intentsOf(900)).toBe(1)
  })

  it('100 of them, each made twice at once: each is made once, and conflicts once', async () => {
    const amount = 1_001
    const keys = Array.from({ length: 100 }, (_, n) => `order-at-once-${n}`)
    const outcomes = await Promise.allSettled(
      [...keys, ...keys].map((idempotencyKey) =>
        client.paymentIntents.create({ amount, currency: 'eur', idempotencyKey }),
      ),
    )
    const made = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value.id] : []))
    const conflicts = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(new Set(made).size).toBe(100)
    expect(conflicts.map(({ code }) => code)).toEqual(Array(100).fill('idempotency_conflict'))
    expect(new Set(conflicts.map(({ key }) => key))).toEqual(new Set(keys))
    expect(await intentsOf(amount)).toBe(100)
  })
})

describe('what has happened', () => {
  it('is delivered, verified, stored once however often it comes, and told; the API has the same event', async () => {
    const server = await startHttpServer()
    try {
      await post('/_config/webhooks/ours', { url: server.url, secret: SECRET, 'events[]': 'payment_intent.succeeded' })
      const paymentMethod = await paymentMethodOf(GOOD_CARD)
      const intent = await client.paymentIntents.create({ amount: 1_200, currency: 'eur', paymentMethod })
      await client.paymentIntents.confirm({ id: intent.id })

      const told: StripeWebhookReceived[] = []
      listen(test, StripeWebhookReceived, (event: StripeWebhookReceived) => told.push(event))
      // It delivers a second after the event, so that those of the tests before may come here, too.
      const delivery = await vi.waitFor(
        () => server.received.find(({ body }) => body.includes(intent.id)) ?? expect.unreachable('not delivered'),
        SOON,
      )
      expect(await redeliver(delivery)).toBe('queued')
      expect(await redeliver(delivery)).toBe('duplicate')
      expect(await workOff(test.framework)).toMatchObject({ processed: 1 })

      const [event] = told
      expect(told).toHaveLength(1)
      expect(event?.type).toBe('payment_intent.succeeded')
      expect(event?.payload).toMatchObject({ id: event?.id, data: { object: { id: intent.id, amount: 1_200 } } })
      const stored = await client.events.retrieve({ id: event?.id ?? '' })
      expect(JSON.parse(JSON.stringify(stored))).toEqual(event?.payload)
    } finally {
      await server.close()
    }
  })
})

/** As it was delivered, byte for byte. */
async function redeliver({ method, headers, body }: Received): Promise<string> {
  const response = await createApi(test.integrations).request(`/integrations/stripe/${integration.id}/webhook`, {
    method,
    headers: {
      'content-type': String(headers['content-type']),
      'stripe-signature': String(headers['stripe-signature']),
    },
    body,
  })
  expect(response.status).toBe(200)
  return ((await response.json()) as { status: string }).status
}

/** As a browser would have it made with Stripe.js: nothing that an adapter does. */
async function paymentMethodOf(number: string): Promise<string> {
  const made = await post('/v1/payment_methods', {
    type: 'card',
    'card[number]': number,
    'card[exp_month]': '12',
    'card[exp_year]': '2050',
    'card[cvc]': '123',
  })
  return ((await made.json()) as { id: string }).id
}

async function post(path: string, form: Record<string, string>): Promise<Response> {
  const headers = { authorization: `Bearer ${API_KEY}` }
  const response = await fetch(`${peer.url}${path}`, { method: 'POST', headers, body: new URLSearchParams(form) })
  expect(response.status).toBe(200)
  return response
}

async function intentsOf(amount: number): Promise<number> {
  const { data } = await client.paymentIntents.list({ limit: 100_000 })
  return data.filter((intent) => intent.amount === amount).length
}

async function lastRow() {
  const [row] = await test.sql`
    select endpoint, method, status_code, failure_class from integration_requests
    where integration_id = ${integration.id} order by id desc limit 1`
  return row
}

async function consecutiveFailures(): Promise<number> {
  const [row] = await test.sql`select consecutive_failures from integrations where id = ${integration.id}`
  return row?.consecutive_failures
}

async function countRows(): Promise<number> {
  const [row] = await test.sql<{ count: number }[]>`
    select count(*)::int from integration_requests where integration_id = ${integration.id}`
  return row?.count ?? 0
}
