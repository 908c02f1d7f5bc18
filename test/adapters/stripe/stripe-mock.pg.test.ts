/** Every operation against stripe-mock, which refuses what the published description of Stripe's API does not have. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { makeIntegration } from '../../support/rows.ts'
import { MOCK_REQUEST_ID, startStripeMock } from '../../support/stripe-mock.ts'
import type { StripePeer } from '../../support/stripe-peer.ts'
import { operations } from './operations-table.ts'

const CREDENTIALS = { api_key: 'sk_test_4eC39HqLyjWDarjtT1zdp7dc' }

/** What the SDK leaves beside each answer: https://github.com/stripe/stripe-node#examining-responses */
const Answer = z.looseObject({
  object: z.string(),
  deleted: z.boolean().optional(),
  lastResponse: z.object({
    statusCode: z.literal(200),
    requestId: z.literal(MOCK_REQUEST_ID),
    idempotencyKey: z.string().optional(),
  }),
})

let mock: StripePeer
let database: TestDatabase
let provider: StripeProvider
let test: TestIntegrations

beforeAll(async () => {
  mock = await startStripeMock()
  database = await createTestDatabase()
  provider = new StripeProvider({ baseUrl: mock.url })
  test = testIntegrations(database.url, { providers: { stripe: provider }, egress: { allow: ['127.0.0.1'] } })
})

afterAll(async () => {
  // What is there, also when the beginning broke off.
  await mock?.close()
  await test?.close()
  await database?.drop()
})

/** In the place of an answer: of a page of events the row holds the size alone. */
const NOT_LOGGED = { object: 'not logged' }

it('the stand-in refuses a parameter that the description does not have', async () => {
  const answer = await fetch(`${mock.url}/v1/payment_intents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${CREDENTIALS.api_key}` },
    body: new URLSearchParams({ amount: '5', currency: 'eur', automaticPaymentMethods: 'true' }),
  })
  expect(answer.status).toBe(400)
})

describe.each(operations)('$name', ({ name, method, endpoint, call, callWithNulls, params, returns }) => {
  it('with every parameter', async () => {
    const integration = await account()
    const answer = answered(await call(provider.client(integration), `${name}-key`), returns)
    // The stand-in sends back the key that it was sent.
    expect(answer.lastResponse.idempotencyKey).toBe(method === 'GET' ? undefined : `${name}-key`)
    expect(await rowsOf(integration)).toEqual([
      {
        endpoint,
        method,
        status_code: 200,
        provider_request_id: MOCK_REQUEST_ID,
        failure_class: null,
        sent: params,
        received: name === 'events.list' ? NOT_LOGGED : method === 'DELETE' ? { deleted: true } : { object: returns },
      },
    ])
  })

  it('with those alone that it needs', async () => {
    const integration = await account()
    const answer = answered(await callWithNulls(provider.client(integration)), returns)
    expect(answer.lastResponse.idempotencyKey).toBeUndefined()
    expect(await rowsOf(integration)).toHaveLength(1)
  })
})

it('what could not be delivered is asked for as the description has it', async () => {
  const integration = await account()
  const window = { since: new Date('2026-03-01'), until: new Date('2026-03-02'), signal: new AbortController().signal }
  const found = []
  for await (const missed of provider.missedWebhooks(integration, window)) found.push(missed)
  // It looks at the request's shape alone, and answers with one event of its own.
  expect(found).toMatchObject([{ deliveryId: expect.stringMatching(/^evt_/), eventType: 'plan.created' }])
  expect(await rowsOf(integration)).toMatchObject([
    { endpoint: 'events', method: 'GET', status_code: 200, received: NOT_LOGGED },
  ])
})

it('the account is healthy, and known by its id', async () => {
  const integration = await account()
  expect(await provider.healthCheck(integration)).toBe(true)
  expect(await integration.authenticatedUser()).toMatchObject({ id: expect.stringMatching(/^acct_/), username: null })
  expect((await rowsOf(integration)).map(({ endpoint }) => endpoint)).toEqual(['balance', 'account'])
})

function answered(value: unknown, returns: string): z.infer<typeof Answer> {
  const answer = Answer.parse(value)
  if (returns === 'deleted') expect(answer.deleted).toBe(true)
  else expect(answer.object).toBe(returns)
  return answer
}

function account(): Promise<Integration> {
  return makeIntegration(test, 'stripe', { credentials: CREDENTIALS })
}

async function rowsOf({ id }: Integration) {
  const rows = await test.sql<
    {
      endpoint: string
      method: string
      status_code: number
      provider_request_id: string
      failure_class: string | null
      request_data: string | null
      response_data: string
    }[]
  >`
    select endpoint, method, status_code, provider_request_id, failure_class, request_data, response_data
    from integration_requests where integration_id = ${id} order by id`
  return rows.map(({ request_data, response_data, ...row }) => {
    const { object, deleted } = /^\[not logged, \d+ bytes\]$/.test(response_data)
      ? NOT_LOGGED
      : JSON.parse(response_data)
    return {
      ...row,
      sent: request_data === null ? null : JSON.parse(request_data),
      received: deleted === true ? { deleted } : { object },
    }
  })
}
