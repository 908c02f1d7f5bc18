/** What Stripe could not deliver, asked for: in which pages, and in which order it comes. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { webhookActivities } from '../../../src/activities/webhook-activities.ts'
import { StripeProvider, StripeWebhookReceived } from '../../../src/adapters/stripe/index.ts'
import { partsOf } from '../../../src/create-integrations.ts'
import type { MissedWebhook } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { ScriptedTransport, TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations, scriptedTransport, signedWebhook, stripeSigner } from '../../../src/testing/index.ts'

const NOW = new Date('2026-03-01T12:00:00Z')
const SECRET = 'whsec_of_the_tests'
const since = new Date('2026-02-20T00:00:00Z')
const until = new Date('2026-03-01T00:00:00Z')

const provider = new StripeProvider()
/** Newest first, as Stripe lists them. */
let events: { id: string; object: 'event'; type: string; created: number; data: object }[]
let asked: URLSearchParams[]
let answer: (query: URLSearchParams) => unknown
let kit: TestIntegrations
let integration: Integration

beforeAll(async () => {
  const wire: ScriptedTransport = {
    ...scriptedTransport([]),
    async fetch(input, init) {
      const request = new Request(input, init)
      request.signal.throwIfAborted()
      const { pathname, searchParams } = new URL(request.url)
      expect([request.method, pathname]).toEqual(['GET', '/v1/events'])
      asked.push(searchParams)
      return Response.json(answer(searchParams), { headers: { 'request-id': `req_${asked.length}` } })
    },
  }
  kit = await createTestIntegrations({ providers: { stripe: provider }, transport: wire, now: NOW })
})

afterAll(() => kit.close())

beforeEach(async () => {
  asked = []
  events = []
  answer = pageOf
  kit.events.clear()
  integration = await kit.integrations.create({
    provider: 'stripe',
    name: 'of a test',
    credentials: { api_key: 'sk_test_4eC39HqLyjWDarjtT1zdp7dc', webhook_secret: SECRET },
  })
})

describe('what is asked for', () => {
  it('is what was not delivered between the two moments, a page of 100', async () => {
    await listed()
    expect(asked.map((query) => Object.fromEntries(query))).toEqual([
      {
        delivery_success: 'false',
        'created[gte]': String(since.getTime() / 1_000),
        'created[lt]': String(until.getTime() / 1_000),
        limit: '100',
      },
    ])
  })

  it('begins and ends with whole seconds, none of them before the beginning or at the end', async () => {
    await listed({ since: new Date(since.getTime() + 1), until: new Date(until.getTime() + 1) })
    expect(asked[0]?.get('created[gte]')).toBe(String(since.getTime() / 1_000 + 1))
    // An event of the very second at which it ends has a time before it.
    expect(asked[0]?.get('created[lt]')).toBe(String(until.getTime() / 1_000 + 1))
  })

  it.each([
    ['none', 0, 1],
    ['less than a page', 99, 1],
    ['exactly a page', 100, 1],
    ['a page and one', 101, 2],
    ['ten pages, all of them kept', 1_000, 10],
    ['ten pages and one: the newest is asked for again', 1_001, 12],
  ])('of %s comes oldest first, each once', async (_, count, requests) => {
    events = undelivered(count)
    const found = await listed()
    expect(found.map(({ deliveryId }) => deliveryId)).toEqual(events.map(({ id }) => id).reverse())
    expect(asked).toHaveLength(requests)
    const cursors = asked.slice(0, Math.max(1, Math.ceil(count / 100))).map((query) => query.get('starting_after'))
    expect(cursors).toEqual(cursors.map((_unused, page) => (page === 0 ? null : events[page * 100 - 1]?.id)))
  })

  it('leaves a row a page, with its request id and without its hundred events', async () => {
    events = undelivered(150)
    await listed()
    const rows = await kit.sql`
      select endpoint, method, status_code, provider_request_id, response_data from integration_requests
      where integration_id = ${integration.id} order by id`
    expect(JSON.stringify(rows)).not.toContain('secret_of-the-test')
    for (const { response_data } of rows) expect(response_data).toMatch(/^\[not logged, \d+ bytes\]$/)
    expect(rows.map(({ response_data: _, ...row }) => Object.values(row))).toEqual([
      ['events', 'GET', 200, 'req_1'],
      ['events', 'GET', 200, 'req_2'],
    ])
  })

  it('is not asked for further once it is aborted', async () => {
    events = undelivered(300)
    const controller = new AbortController()
    answer = (query) => {
      controller.abort()
      return pageOf(query)
    }
    await expect(listed({ signal: controller.signal })).rejects.toMatchObject({ name: 'AbortError' })
    expect(asked).toHaveLength(1)
  })

  it.each([
    ['no list', { object: 'list', data: {}, has_more: false }],
    ['an event without an id', { object: 'list', data: [{ type: 'a', created: 1 }], has_more: false }],
    ['no word on whether there is more', { object: 'list', data: [] }],
    ['nothing in it, and more to come,', { object: 'list', data: [], has_more: true }],
  ])('with %s in the answer is drift', async (_, body) => {
    answer = () => body
    await expect(listed()).rejects.toMatchObject({ code: 'schema_drift', endpoint: 'events' })
    expect(asked).toHaveLength(1)
  })
})

it('a page that leads back to itself is drift, instead of the same question for ever', async () => {
  events = undelivered(300)
  answer = () => pageOf(new URLSearchParams({ limit: '100' }))
  await expect(listed()).rejects.toMatchObject({ code: 'schema_drift', endpoint: 'events' })
  expect(asked.map((query) => query.get('starting_after'))).toEqual([null, events[99]?.id])
  const rows = await kit.sql`
    select failure_class from integration_requests where integration_id = ${integration.id} order by id`
  expect(rows.map(({ failure_class: failureClass }) => failureClass)).toEqual([null, 'unknown'])
})

describe('a reconciliation', () => {
  it('stores what has not arrived, told as if it had; what has is known by its id', async () => {
    events = undelivered(3)
    const [newest] = events
    const delivered = signedWebhook(stripeSigner, newest, { secret: SECRET, at: NOW })
    expect((await kit.deliver(delivered, integration)).status).toBe(200)
    expect(await reconcile()).toMatchObject({ seen: 3, known: 1, inserted: 2 })
    expect(await reconcile()).toMatchObject({ inserted: 0 })
    await kit.processWebhooks()
    const told = kit.events.of(StripeWebhookReceived)
    // The newest had arrived before the others were asked for.
    expect(told.map(({ payload }) => payload)).toEqual([newest, events[2], events[1]])
    expect(told.map(({ id, type }) => [id, type])).toEqual([
      ['evt_2', 'charge.succeeded'],
      ['evt_0', 'charge.succeeded'],
      ['evt_1', 'charge.succeeded'],
    ])
  })

  it('looks back 30 days', async () => {
    await reconcile()
    const from = Number(asked[0]?.get('created[gte]'))
    expect(from).toBe(NOW.getTime() / 1_000 - 30 * 86_400)
  })
})

function undelivered(count: number): typeof events {
  const oldest = since.getTime() / 1_000
  return Array.from({ length: count }, (_, n) => ({
    id: `evt_${n}`,
    object: 'event' as const,
    type: 'charge.succeeded',
    created: oldest + n,
    data: { object: { id: `pi_${n}`, client_secret: `pi_${n}_secret_of-the-test` } },
  })).reverse()
}

function pageOf(query: URLSearchParams): unknown {
  const after = query.get('starting_after')
  const start = after === null ? 0 : events.findIndex(({ id }) => id === after) + 1
  const end = start + Number(query.get('limit'))
  return { object: 'list', url: '/v1/events', data: events.slice(start, end), has_more: end < events.length }
}

async function listed({
  signal = new AbortController().signal,
  ...window
}: {
  since?: Date
  until?: Date
  signal?: AbortSignal
} = {}): Promise<MissedWebhook[]> {
  const found: MissedWebhook[] = []
  for await (const missed of provider.missedWebhooks(integration, { since, until, ...window, signal }))
    found.push(missed)
  return found
}

function reconcile() {
  const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
  const { framework } = partsOf(kit.integrations)
  return webhookActivities(framework, surroundings).reconcileIntegration({
    integrationId: integration.id,
  })
}
