/** Every operation of the Stripe adapter over a scripted wire: what goes out, what is stored, what never leaves. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { StripeClient } from '../../../src/adapters/stripe/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { createTestIntegrations, scriptedTransport } from '../../../src/testing/index.ts'
import { badInputs } from './bad-inputs.ts'
import type { StripeOperation } from './operations-table.ts'
import { operations } from './operations-table.ts'
import { API_KEY, StripeKit } from './stripe-kit.ts'

const stripe = new StripeKit()
let integration: Integration
let client: StripeClient

beforeAll(() => stripe.open(), 60_000)
afterAll(() => stripe.kit.close())
const openAccount = async (): Promise<void> => {
  integration = await stripe.account()
  client = stripe.provider.client(integration)
}

const writes = operations.filter(({ method }) => method !== 'GET')
const named = (list: readonly StripeOperation[]) => list.map((operation) => [operation.name, operation] as const)

it('is made for a provider of the host’s own that is no StripeProvider, too', async () => {
  const own = await createTestIntegrations({
    providers: { stripe: { label: 'of the host' } },
    transport: scriptedTransport([{ body: { id: 'cus_1', object: 'customer' } }, { body: { id: 'cus_1' } }]),
  })
  onTestFinished(() => own.close())
  const credentials = { api_key: API_KEY }
  const account = await own.integrations.create({ provider: 'stripe', name: 'of a test', credentials })
  const { customers } = new StripeClient(account)
  expect(await customers.create({ email: 'ada@example.com' })).toMatchObject({ id: 'cus_1' })
  expect(await customers.update({ id: 'cus_1', name: 'Ada' })).toMatchObject({ id: 'cus_1' })
})

describe('an operation', () => {
  beforeEach(openAccount)

  it.each(named(operations))('%s sends its parameters and leaves one row', async (_, operation) => {
    const { method, endpoint, params } = operation
    stripe.script({ headers: { 'request-id': 'req_1' }, body: answerOf(operation) })
    const answer = await operation.call(client, null)

    const [sent, ...further] = stripe.wire.requests
    expect(further).toEqual([])
    expect([sent?.method, sent?.url.origin, sent?.url.pathname]).toEqual([
      method,
      'https://api.stripe.com',
      `/v1/${endpoint}`,
    ])
    expect(sentParams(sent)).toEqual(flat(params ?? {}))
    expect(Object.fromEntries(sent?.headers ?? [])).toMatchObject({
      authorization: `Bearer ${API_KEY}`,
      'stripe-version': '2026-10-28.endive',
    })
    expect(sent?.headers.has('idempotency-key')).toBe(false)
    // With telemetry on the SDK tells of the machine here; of the calls before only a client that has made some.
    const about = JSON.parse(sent?.headers.get('x-stripe-client-user-agent') ?? 'null')
    expect(about).toMatchObject({ lang: 'node' })
    expect(about).not.toHaveProperty('platform')
    expect(about).not.toHaveProperty('telemetry_id')

    expect(answer).toEqual(answerOf(operation))
    expect(Reflect.get(answer as object, 'lastResponse')).toMatchObject({
      requestId: 'req_1',
      statusCode: 200,
      headers: { 'request-id': 'req_1', 'content-type': 'application/json' },
    })
    expect(await stripe.rows(integration)).toMatchObject([
      {
        endpoint,
        method,
        statusCode: 200,
        providerRequestId: 'req_1',
        // A page of events is a hundred whole ones.
        responseData:
          operation.name === 'events.list'
            ? expect.stringMatching(/^\[not logged, \d+ bytes\]$/)
            : JSON.stringify(answerOf(operation)),
        idempotencyKey: null,
        failureClass: null,
        retryOf: null,
      },
    ])
    expect(await storedParams()).toEqual([params])
  })

  it.each<[string, (given: '' | Record<string, never>) => Promise<unknown>]>([
    ['paymentIntents.update', (metadata) => client.paymentIntents.update({ id: 'pi_1', metadata })],
    ['customers.update', (metadata) => client.customers.update({ id: 'cus_1', metadata })],
    ['disputes.update', (metadata) => client.disputes.update({ id: 'du_1', metadata })],
    ['webhookEndpoints.update', (metadata) => client.webhookEndpoints.update({ id: 'we_1', metadata })],
  ])('%s clears metadata by an empty text; without a key in it there is nothing to send', async (_, update) => {
    stripe.script({ body: { id: 'x', object: 'x' } }, { body: { id: 'x', object: 'x' } })
    await update('')
    await update({})
    expect(stripe.wire.requests.map(sentParams)).toEqual([{ metadata: '' }, {}])
    expect(await storedParams()).toEqual([{ metadata: '' }, null])
  })

  it.each(named(operations))('%s sends nothing that is null', async (_, operation) => {
    stripe.script({ body: answerOf(operation) })
    await operation.callWithNulls(client)
    expect(stripe.wire.requests.map(sentParams)).toEqual([flat(operation.paramsOfNulls ?? {})])
    expect(await storedParams()).toEqual([operation.paramsOfNulls])
  })

  // Of each its method is known from above, which decides.
  const aRead = operations.find(({ method }) => method === 'GET') ?? expect.unreachable()
  it.each(named([aRead, ...writes.slice(0, 1)]))(
    '%s has 3 attempts if it reads, 1 if it writes',
    async (_, operation) => {
      const away = {
        status: 500,
        headers: { 'retry-after': '0' },
        body: { error: { type: 'api_error', message: 'away' } },
      }
      stripe.script(away, away, away)
      await expect(operation.call(client, null)).rejects.toMatchObject({ type: 'StripeAPIError', statusCode: 500 })
      const attempts = operation.method === 'GET' ? 3 : 1
      expect(stripe.wire.requests).toHaveLength(attempts)
      expect(await stripe.rows(integration)).toMatchObject(
        Array.from({ length: attempts }, () => ({ statusCode: 500, failureClass: 'upstream' })),
      )
    },
  )
})

describe('an idempotency key', () => {
  beforeEach(openAccount)

  it.each(named(writes))('of %s goes out as a header, and once', async (_, operation) => {
    stripe.script({ body: answerOf(operation) })
    await operation.call(client, 'order-6735')
    expect(stripe.wire.requests.map(({ headers }) => headers.get('idempotency-key'))).toEqual(['order-6735'])
    await expect(operation.call(client, 'order-6735')).rejects.toMatchObject({
      code: 'idempotency_conflict',
      priorState: 'recovered',
      priorResponse: answerOf(operation),
    })
    expect(stripe.wire.requests).toHaveLength(1)
    expect(await stripe.rows(integration)).toMatchObject([{ idempotencyKey: 'order-6735' }])
  })

  // That each write sends and stores no key then is seen above.
  it('of null lets a write be made again', async () => {
    const operation = writes[0] ?? expect.unreachable()
    stripe.script({ body: answerOf(operation) }, { body: answerOf(operation) })
    await operation.call(client, null)
    await operation.call(client, null)
    stripe.wire.assertDone()
  })

  it('whose first call got lost is sent again with the same header, as Stripe drops the second write', async () => {
    stripe.script('cut', { body: { id: 're_1', object: 'refund' } })
    const refund = () => client.refunds.create({ charge: 'ch_1', idempotencyKey: 'order-6735' })
    await expect(refund()).rejects.toThrow('fetch failed')
    await expect(refund()).resolves.toMatchObject({ id: 're_1' })
    expect(stripe.wire.requests.map(({ headers }) => headers.get('idempotency-key'))).toEqual([
      'order-6735',
      'order-6735',
    ])
  })

  it('of a declined card may be used again', async () => {
    const declined = { error: { type: 'card_error', code: 'card_declined', message: 'Your card was declined.' } }
    stripe.script({ status: 402, body: declined }, { body: { id: 'pi_1', object: 'payment_intent' } })
    const confirm = () => client.paymentIntents.confirm({ id: 'pi_1', idempotencyKey: 'order-6735' })
    await expect(confirm()).rejects.toMatchObject({ type: 'StripeCardError', code: 'card_declined' })
    await expect(confirm()).resolves.toMatchObject({ id: 'pi_1' })
  })
})

describe('bad input', () => {
  // One for all: nothing is stored for it.
  let untouched: Integration
  beforeAll(async () => {
    untouched = await stripe.account()
  })

  it('of each operation is refused for its argument, nothing sent and nothing stored', async () => {
    stripe.script()
    const stored = await stripe.rows(untouched)
    for (const { operation, argument, calls } of badInputs)
      for (const [value, call] of Object.entries(calls))
        await expect(
          call(stripe.provider.client(untouched)),
          `${operation} of ${argument} as ${value}`,
        ).rejects.toMatchObject({ code: 'invalid_argument', argument })
    expect(stripe.wire.requests).toEqual([])
    expect(await stripe.rows(untouched)).toEqual(stored)
  })
})

describe('an id', () => {
  beforeEach(openAccount)

  it('stands in the path as it is, its slashes escaped', async () => {
    stripe.script({ body: { id: 'pi/1?', object: 'payment_intent' } })
    await client.paymentIntents.cancel({ id: 'pi/1?' })
    expect(stripe.wire.requests.map(({ url }) => url.pathname + url.search)).toEqual([
      '/v1/payment_intents/pi%2F1%3F/cancel',
    ])
    expect(await stripe.rows(integration)).toMatchObject([{ endpoint: 'payment_intents/pi%2F1%3F/cancel' }])
  })
})

/** Of each row; null: none. */
async function storedParams(): Promise<unknown[]> {
  const rows = await stripe.rows(integration)
  return rows.map(({ requestData }) => (requestData === null ? null : JSON.parse(requestData)))
}

/** A plausible answer, its kind the operation's. */
function answerOf({ returns }: StripeOperation): object {
  if (returns === 'list')
    return { object: 'list', data: [{ id: 'obj_b', object: 'thing' }], has_more: true, url: '/v1/x' }
  return returns === 'deleted' ? { id: 'obj_1', object: 'thing', deleted: true } : { id: 'obj_1', object: returns }
}

/** Of the query, or of the form. */
function sentParams(sent: { url: URL; body: string } | undefined): Record<string, string> {
  return Object.fromEntries([...(sent?.url.searchParams ?? []), ...new URLSearchParams(sent?.body)])
}

/** As a form has it: `metadata[order]`, `types[0]`. */
function flat(params: object, prefix: string | null = null): Record<string, string> {
  return Object.assign(
    {},
    ...Object.entries(params).map(([key, value]: [string, unknown]) => {
      const name = prefix === null ? key : `${prefix}[${key}]`
      return typeof value === 'object' && value !== null ? flat(value, name) : { [name]: String(value) }
    }),
  )
}
