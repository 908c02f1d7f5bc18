/** `integration.at(endpoint)`: steps, and calls by URL through the guarded fetch. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Integration, RequestBuilder } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let server: HttpServer

beforeAll(async () => {
  database = await createTestDatabase()
  const idempotent = { supportsIdempotency: true, idempotencyWindowSeconds: 60 } as const
  test = testIntegrations(database.url, {
    egress: { allow: ['127.0.0.1'] },
    providers: { plain: {}, idempotent, renamed: { ...idempotent, idempotencyHeader: 'X-Once' } as never },
  })
  server = await startHttpServer()
})

afterAll(async () => {
  await server.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  server.received.length = 0
  server.answer = (_request, response) => void response.setHeader('Content-Type', 'application/json').end('{"id":1}')
  integration = await makeIntegration(test, 'plain')
})

describe('a builder', () => {
  it('is never changed by a step', async () => {
    const plain = integration.at('things')
    const withData = plain.withData({ a: 1 }).withAttempts(2)
    await plain.post(() => null)
    await withData.post(() => null)
    expect((await rows()).map((row) => row.request_data)).toEqual([null, '{"a":1}'])
  })

  it('passes each step on', async () => {
    const seen: unknown[] = []
    await integration
      .at('things')
      .withData({ a: 1 })
      .relatedTo('issue', 7)
      .retryOf(12)
      .withIdempotencyKey('key-1')
      .withAttempts(2)
      .withTimeout(5_000)
      .put(({ idempotencyKey, attempt }) => void seen.push([idempotencyKey, attempt]))
    expect(seen).toEqual([['key-1', 1]])
    expect(await rows()).toEqual([
      expect.objectContaining({
        endpoint: 'things',
        method: 'PUT',
        request_data: '{"a":1}',
        related_type: 'issue',
        related_id: '7',
        retry_of: '12',
        idempotency_key: 'key-1',
      }),
    ])
  })

  it.each<[string, (builder: RequestBuilder) => Promise<unknown>]>([
    ['GET', (builder) => builder.get(() => 1)],
    ['POST', (builder) => builder.post(() => 1)],
    ['PUT', (builder) => builder.put(() => 1)],
    ['PATCH', (builder) => builder.patch(() => 1)],
    ['DELETE', (builder) => builder.delete(() => 1)],
    ['list', (builder) => builder.execute('list', () => 1)],
  ])('ends with %s', async (method, end) => {
    expect(await end(integration.at('things'))).toBe(1)
    expect((await rows()).map((row) => row.method)).toEqual([method])
  })

  it('parses the answer by its schema', async () => {
    const thing = integration.at('things').as(z.object({ id: z.number() }))
    const { id }: { id: number } = await thing.get(`${server.url}/things`)
    expect(id).toBe(1)
    await expect(thing.get(() => ({ id: 'x' }))).rejects.toMatchObject({ code: 'schema_drift' })
  })

  it('serves from the cache: by URL, the query tells calls apart', async () => {
    const cached = integration.at('/things').withCache(60)
    for (const page of [1, 2, 1]) await cached.get(`${server.url}/things?page=${page}`)
    for (const page of [3, 3]) await cached.withData({ page }).get(`${server.url}/things`)
    expect(server.received.map(({ url }) => url)).toEqual(['/things?page=1', '/things?page=2', '/things?page=3'])
  })

  it('serves from the cache whatever the order of names in data and URL, but not of the values of one', async () => {
    const cached = integration.at('/things').withCache(60)
    await cached.withData({ a: 1, b: [2, 3] }).get(`${server.url}/things`)
    await cached.withData({ b: [2, 3], a: 1 }).get(`${server.url}/things`)
    await cached.withData({ b: [3, 2], a: 1 }).get(`${server.url}/things`)
    await cached.get(`${server.url}/things?y=1&x=2`)
    await cached.get(`${server.url}/things?x=2&y=1#z`)
    expect(server.received.map(({ url }) => url)).toEqual([
      '/things?a=1&b=2&b=3',
      '/things?b=3&b=2&a=1',
      '/things?y=1&x=2',
    ])
  })
})

describe('a call by URL', () => {
  it('takes the endpoint itself for the URL when no other is given', async () => {
    expect(await integration.at(`${server.url}/things?page=3`).get()).toEqual({ id: 1 })
    expect(server.received.map(({ method, url }) => [method, url])).toEqual([['GET', '/things?page=3']])
    await expect(integration.at('/things').get()).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('sends the data, and stores the path only', async () => {
    await integration.at('/things?token=x#y').withData({ page: 2 }).get(`${server.url}/things`)
    await integration
      .at(`${server.url}/things?q=1`)
      .withData({ a: [1] })
      .post(new URL(`${server.url}/things?q=1`))
    expect(server.received).toMatchObject([
      { method: 'GET', url: '/things?page=2', body: '' },
      { method: 'POST', url: '/things?q=1', body: '{"a":[1]}', headers: { 'content-type': 'application/json' } },
    ])
    expect((await rows()).map((row) => [row.endpoint, row.status_code, row.request_data])).toEqual([
      ['/things', 200, '{"page":2}'],
      ['/things', 200, '{"a":[1]}'],
    ])
  })

  it.each([
    ['plain', undefined, undefined],
    ['idempotent', 'key-1', undefined],
    ['renamed', undefined, 'key-1'],
  ])('of the provider "%s" sends its key under the header that it knows', async (provider, usual, renamed) => {
    integration = await makeIntegration(test, provider)
    await integration.at('things').withIdempotencyKey('key-1').post(`${server.url}/things`)
    expect(server.received[0]?.headers['idempotency-key']).toBe(usual)
    expect(server.received[0]?.headers['x-once']).toBe(renamed)
  })

  it('judges the answer by its status, again and again as told', async () => {
    server.answer = (_request, response) => void response.writeHead(503, { 'Retry-After': '0' }).end('busy')
    await expect(integration.at('things').withAttempts(2).get(server.url)).rejects.toMatchObject({
      code: 'http_error',
      status: 503,
      body: 'busy',
    })
    expect(await rows()).toHaveLength(2)
  })

  it('ends at its deadline', async () => {
    server.answer = () => {}
    await expect(integration.at('things').withTimeout(50).withAttempts(1).get(server.url)).rejects.toMatchObject({
      code: 'request_timeout',
    })
  })

  it.each<[string, string, (builder: RequestBuilder) => RequestBuilder]>([
    ['a URL that is none', 'things', (builder) => builder],
    ['another scheme', 'ftp://127.0.0.1/', (builder) => builder],
    ['user info', 'http://me:secret@127.0.0.1/', (builder) => builder],
    ['a text as the data', 'http://127.0.0.1/', (builder) => builder.withData('raw')],
    ['attempts 11', 'http://127.0.0.1/', (builder) => builder.withAttempts(11)],
    ['a lifetime with a key', 'http://127.0.0.1/', (builder) => builder.withCache(60).withIdempotencyKey('k')],
  ])('with %s is refused, nothing sent or stored', async (_, url, step) => {
    await expect(step(integration.at('things')).get(url)).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await rows()).toEqual([])
    expect(await integration.idempotencyRecord('k')).toBeNull()
  })

  it('to an address that must not be reached is refused: final, with its row', async () => {
    await expect(integration.at('things').get('http://127.0.0.2/')).rejects.toMatchObject({ code: 'egress_refused' })
    expect((await rows()).map((row) => row.failure_class)).toEqual(['unknown'])
  })
})

async function rows() {
  return test.sql`select * from integration_requests where integration_id = ${integration.id} order by id`
}
