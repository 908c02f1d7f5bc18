/** What becomes of a call to Stripe that goes wrong: what is thrown, what is logged, and what it means for the account. */
import type { RequestListener } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import { callStripe } from '../../../src/adapters/stripe/stripe-call.ts'
import { checkIntegrationHealth } from '../../../src/integrations/health-check.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { runActivity } from '../../support/activities.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { HttpServer } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../../support/integrations.ts'
import { syncProvider, ThingSynced } from '../../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

const CREDENTIALS = { api_key: 'sk_test_4eC39HqLyjWDarjtT1zdp7dc' }
const SUPPRESSION_SECONDS = 60

let server: HttpServer
let database: TestDatabase
let provider: StripeProvider
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  ;[server, database] = await Promise.all([startHttpServer(), createTestDatabase()])
  provider = new StripeProvider({ baseUrl: server.url })
  // The adapter but for its waits: what names none would be waited for by the framework's own rule, for seconds.
  const hasty = Object.assign(new StripeProvider({ baseUrl: server.url }), { retryDelayMs: () => 0 })
  test = testIntegrations(database.url, {
    providers: { stripe: provider, hasty, acme: syncProvider(async () => {}) },
    egress: { allow: ['127.0.0.1'] },
    config: { rate_limiting: { max_wait_seconds: 1 } },
  })
})

afterAll(async () => {
  await test.close()
  await Promise.all([server.close(), database.drop()])
})

beforeEach(async () => {
  server.received.length = 0
  integration = await makeIntegration(test, 'stripe', { credentials: CREDENTIALS })
})

/** As Stripe says it: https://docs.stripe.com/api/errors */
function stripeError(status: number, type: string, headers: Record<string, string> = {}): RequestListener {
  return json(status, saidBy(type), headers)
}

const saidBy = (type: string) => ({ error: { type, message: `as asked for: ${type}` } })

function json(status: number, body: unknown, headers: Record<string, string> = {}): RequestListener {
  return (_request, response) => {
    const sent = { 'content-type': 'application/json', 'request-id': 'req_of_the_test', ...headers }
    response.writeHead(status, sent).end(JSON.stringify(body))
  }
}

const PAGE = '<h1>Something is in between</h1>'

function html(status: number): RequestListener {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html' }).end(PAGE)
  }
}

const dropped: RequestListener = (request) => request.socket.destroy()

const cut: RequestListener = (request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
  response.write('{"id":"pi_1","object":', () => request.socket.destroy())
}

const answered = json(200, { id: 'pi_1', object: 'payment_intent' })

describe('a write that fails is made once', () => {
  const ID = 'req_of_the_test'

  it.each<[string, RequestListener, [number | null, string, string | null], object]>([
    ['400', stripeError(400, 'invalid_request_error'), [400, 'client', ID], { type: 'StripeInvalidRequestError' }],
    ['401', stripeError(401, 'invalid_request_error'), [401, 'client', ID], { type: 'StripeAuthenticationError' }],
    ['402', stripeError(402, 'card_error'), [402, 'client', ID], { type: 'StripeCardError' }],
    ['403', stripeError(403, 'invalid_request_error'), [403, 'client', ID], { type: 'StripePermissionError' }],
    ['404', stripeError(404, 'invalid_request_error'), [404, 'client', ID], { type: 'StripeInvalidRequestError' }],
    ['a key of before', stripeError(400, 'idempotency_error'), [400, 'client', ID], { type: 'StripeIdempotencyError' }],
    ['429', stripeError(429, 'invalid_request_error'), [429, 'throttle', ID], { type: 'StripeRateLimitError' }],
    ['500', stripeError(500, 'api_error'), [500, 'upstream', ID], { type: 'StripeAPIError' }],
    ['503', stripeError(503, 'api_error'), [503, 'upstream', ID], { type: 'StripeAPIError' }],
    ['a page of a proxy', html(502), [502, 'upstream', null], { code: 'http_error', status: 502 }],
    ['a page in the place of an answer', html(200), [null, 'unknown', null], { code: 'schema_drift' }],
    ['a dropped connection', dropped, [null, 'upstream', null], { name: 'TypeError', message: 'fetch failed' }],
    ['a cut body', cut, [null, 'upstream', null], { name: 'TypeError', message: 'terminated' }],
  ])('%s', async (_, answer, [status, failureClass, requestId], thrown) => {
    server.answer = answer
    const intent = { amount: 100, currency: 'eur', idempotencyKey: 'of-the-test' }
    await expect(provider.client(integration).paymentIntents.create(intent)).rejects.toMatchObject(thrown)
    expect(server.received).toHaveLength(1)
    expect(await rows()).toEqual([['POST', 'payment_intents', status, failureClass, requestId, null]])
    // Stripe's own faults alone count against the account's health.
    expect(await consecutiveFailures()).toBe(failureClass === 'upstream' ? 1 : 0)
  })
})

describe('of a write that fails the row keeps', () => {
  const said = (type: string) => JSON.stringify(saidBy(type))

  it.each<[string, RequestListener, string | RegExp, string | null]>([
    [
      'the error of the SDK by its name, and what Stripe answered',
      stripeError(402, 'card_error'),
      'StripeCardError: as asked for: card_error',
      said('card_error'),
    ],
    [
      'that of a limit',
      stripeError(429, 'invalid_request_error'),
      'StripeRateLimitError: as asked for: invalid_request_error',
      said('invalid_request_error'),
    ],
    [
      'that of Stripe‘s own fault',
      stripeError(500, 'api_error'),
      'StripeAPIError: as asked for: api_error',
      said('api_error'),
    ],
    ['the page of a proxy', html(502), /^HttpError: .*502/, PAGE],
    ['no answer that is none', html(200), /^SchemaDrift: /, null],
    ['nothing of a dropped connection', dropped, 'TypeError: fetch failed', null],
    ['nothing of a cut body', cut, 'TypeError: terminated', null],
  ])('%s', async (_, answer, error, kept) => {
    server.answer = answer
    const intent = { amount: 100, currency: 'eur', idempotencyKey: 'of-the-test' }
    await expect(provider.client(integration).paymentIntents.create(intent)).rejects.toThrow()
    const found = await test.sql`
      select error, response_data from integration_requests where integration_id = ${integration.id}`
    const line = typeof error === 'string' ? error : expect.stringMatching(error)
    expect(found.map((row) => [row.error, row.response_data])).toEqual([[line, kept]])
  })
})

describe('a read is made again after', () => {
  it.each([
    ['429', stripeError(429, 'invalid_request_error', { 'retry-after': '0' }), 429, 'throttle', 'stripe'],
    ['429 that names no wait', stripeError(429, 'invalid_request_error'), 429, 'throttle', 'hasty'],
    ['500', stripeError(500, 'api_error', { 'retry-after': '0' }), 500, 'upstream', 'stripe'],
    ['a dropped connection', dropped, null, 'upstream', 'hasty'],
  ])('%s, and then has its answer', async (_, fault, status, failureClass, key) => {
    integration = await makeIntegration(test, key, { credentials: CREDENTIALS })
    server.answer = (request, response) => (server.received.length === 1 ? fault : answered)(request, response)
    const intent = await provider.client(integration).paymentIntents.retrieve({ id: 'pi_1' })
    expect(intent).toMatchObject({ id: 'pi_1', lastResponse: { statusCode: 200 } })
    const [first, second, ...more] = await rowsWithIds()
    expect(first?.facts.slice(2, 4)).toEqual([status, failureClass])
    expect(second?.facts).toEqual(['GET', 'payment_intents/pi_1', 200, null, 'req_of_the_test', first?.id])
    expect(more).toEqual([])
    expect(await consecutiveFailures()).toBe(0)
  })

  it.each([
    ['400', stripeError(400, 'invalid_request_error')],
    ['403', stripeError(403, 'invalid_request_error')],
    ['501', stripeError(501, 'api_error')],
  ])('nothing like a %s', async (_, fault) => {
    server.answer = fault
    await expect(provider.client(integration).balance()).rejects.toThrow('as asked for')
    expect(server.received).toHaveLength(1)
  })

  it('three 500s at most', async () => {
    server.answer = stripeError(500, 'api_error', { 'retry-after': '0' })
    await expect(provider.client(integration).balance()).rejects.toMatchObject({ type: 'StripeAPIError' })
    expect((await rows()).map((row) => row[3])).toEqual(['upstream', 'upstream', 'upstream'])
  })
})

describe('an answer that does not come', () => {
  it('in time is a deadline: an upstream failure, and the connection is given up', async () => {
    // Its time passes once Stripe was asked, not while a machine that stands still has not got there.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const asked = occasion()
    const givenUp = new Promise<void>((resolve) => {
      server.answer = (request) => {
        request.socket.once('close', resolve)
        asked.happen()
      }
    })
    const call = callStripe(
      { integration, baseUrl: server.url },
      { endpoint: 'balance', method: 'GET', attempts: 1, timeoutMs: 200, send: (stripe) => stripe.balance.retrieve() },
    )
    const failed = expect(call).rejects.toMatchObject({ name: 'TimeoutError' })
    await asked.happened
    vi.advanceTimersByTime(200)
    vi.useRealTimers()
    await failed
    await givenUp
    expect(await rows()).toEqual([['GET', 'balance', null, 'upstream', null, null]])
    expect(await consecutiveFailures()).toBe(1)
  })

  it('before the caller gives up is nobody‘s failure', async () => {
    const controller = new AbortController()
    server.answer = () => controller.abort()
    const window = { since: new Date('2026-03-01'), until: new Date('2026-03-02'), signal: controller.signal }
    const asked = provider.missedWebhooks(integration, window)[Symbol.asyncIterator]().next()
    await expect(asked).rejects.toMatchObject({ name: 'AbortError' })
    expect((await rows()).map((row) => row[3])).toEqual(['unknown'])
    expect(await consecutiveFailures()).toBe(0)
  })
})

it(`a 429 that names ${SUPPRESSION_SECONDS} seconds keeps everything else back for as long, and nothing is sent`, async () => {
  server.answer = stripeError(429, 'invalid_request_error', { 'retry-after': String(SUPPRESSION_SECONDS) })
  const client = provider.client(integration)
  await expect(client.customers.create({ name: 'A' })).rejects.toMatchObject({ type: 'StripeRateLimitError' })
  server.answer = answered
  const refused = await client.customers.create({ name: 'A' }).catch((error: unknown) => error)
  expect(refused).toMatchObject({ code: 'rate_limit_exceeded' })
  const { retryAfterSeconds } = refused as { retryAfterSeconds: number }
  expect(retryAfterSeconds).toBeGreaterThan(SUPPRESSION_SECONDS / 2)
  expect(retryAfterSeconds).toBeLessThanOrEqual(SUPPRESSION_SECONDS)
  expect(server.received).toHaveLength(1)
  expect(await rows()).toHaveLength(1)
})

it('a 429 to a write inside a sync item puts the item off, however long Stripe asks for, and fails nothing', async () => {
  server.answer = stripeError(429, 'invalid_request_error', { 'retry-after': '25000' })
  const synced = await makeIntegration(test, 'acme')
  const run = await makeRun(test, synced.id)
  const item = await makeItem(test, run)
  listen(test, ThingSynced, async () => {
    await provider.client(integration).refunds.create({ charge: 'ch_1', idempotencyKey: 'of-the-item' })
  })
  const result = await runActivity(test.activities.processSyncItems, {
    syncLogId: run.id,
    claim: 'claim-1',
    take: { kind: 'pending', limit: 10 },
  })
  // As long as a Retry-After is obeyed at most, well within the item's retry window.
  expect(result).toMatchObject({ deferredSeconds: 600, waiting: [{ id: item.id, seconds: 600 }] })
  expect(await itemOf(test, item.id)).toMatchObject({ status: 'processing', attempts: 0, error: null })
  expect(server.received).toHaveLength(1)
  expect(await integration.idempotencyRecord('of-the-item')).toBeNull()
})

it('an address that the rules of egress refuse is refused as itself, and nothing is sent', async () => {
  const closed = testIntegrations(database.url, { providers: { stripe: provider } })
  try {
    const refusedOne = await makeIntegration(closed, 'stripe', { credentials: CREDENTIALS })
    await expect(provider.client(refusedOne).balance()).rejects.toMatchObject({ code: 'egress_refused' })
    expect(server.received).toEqual([])
  } finally {
    await closed.close()
  }
})

describe('a health check', () => {
  beforeEach(async () => {
    integration = await makeIntegration(test, 'hasty', { credentials: CREDENTIALS })
  })
  const balance = json(200, { object: 'balance', available: [], pending: [] })

  it.each<[string, RequestListener, boolean, number]>([
    ['the balance', balance, true, 1],
    ['401', stripeError(401, 'invalid_request_error'), false, 1],
    ['429', stripeError(429, 'invalid_request_error'), false, 3],
    ['500', stripeError(500, 'api_error'), false, 3],
    ['a page', html(200), false, 1],
    ['nothing at all', (_request, response) => void response.end(), false, 1],
    ['a list', json(200, []), false, 1],
    ['a dropped connection', dropped, false, 3],
    ['a cut body', cut, false, 3],
  ])('that gets %s', async (_, answer, healthy, attempts) => {
    server.answer = answer
    expect(await provider.healthCheck(integration)).toBe(healthy)
    expect(server.received).toHaveLength(attempts)
    expect(await rows()).toHaveLength(attempts)
  })

  it('is true where a later attempt gets the balance', async () => {
    server.answer = (request, response) =>
      (server.received.length < 3 ? stripeError(500, 'api_error') : balance)(request, response)
    expect(await provider.healthCheck(integration)).toBe(true)
    expect(server.received).toHaveLength(3)
  })

  it('ends before its caller gives it up, and so says what Stripe answered: the wait after a 429 is longer', async () => {
    integration = await makeIntegration(test, 'stripe', { credentials: CREDENTIALS })
    server.answer = stripeError(429, 'invalid_request_error')
    const limit = new AbortController()
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(limit.signal)
    onTestFinished(() => timeout.mockRestore())
    const checked = checkIntegrationHealth(test.framework, integration.id)
    await expect.poll(rows, SOON).toHaveLength(1)
    limit.abort()
    expect(await checked).toMatchObject({ ok: false, error: expect.stringContaining('StripeRateLimitError') })
    expect(timeout).toHaveBeenCalledWith(28_000)
    expect(server.received).toHaveLength(1)
  })
})

/** Method, endpoint, status, class, request id, retry of. */
async function rows(): Promise<unknown[][]> {
  return (await rowsWithIds()).map(({ facts }) => facts)
}

async function rowsWithIds(): Promise<{ id: unknown; facts: unknown[] }[]> {
  const found = await test.sql`
    select id, method, endpoint, status_code, failure_class, provider_request_id, retry_of from integration_requests
    where integration_id = ${integration.id} order by id`
  return found.map(({ id, ...row }) => ({ id, facts: Object.values(row) }))
}

async function consecutiveFailures(): Promise<unknown> {
  const [row] = await test.sql`select consecutive_failures from integrations where id = ${integration.id}`
  return row?.consecutive_failures
}
