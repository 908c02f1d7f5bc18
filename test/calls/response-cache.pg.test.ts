/** Answers served from the request log: when, how often, and which ones never. The clock is the test's. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import type { Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const KEY = encryptionKey('test')
let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let nowMs = Date.UTC(2026, 0, 1)
/** What the provider answers next; how often it was asked. */
let next: () => unknown
let asked: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: KEY,
    providers: { plain: {} },
    clock: { now: () => new Date(nowMs) },
    config: { rate_limiting: { max_wait_seconds: 0 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  nowMs = Date.UTC(2026, 0, 1)
  asked = 0
  next = () => ({ n: asked })
  integration = await makeIntegration(test, 'plain')
})

describe('a call that asks for the cache', () => {
  it('is answered once by the provider, then by the row, which counts it', async () => {
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    expect(asked).toBe(1)
    expect(await rows()).toEqual([expect.objectContaining({ cache_hits: 2, stale_hits: 0, response_data: '{"n":1}' })])
  })

  it.each([
    ['before its end is served', 59_999, 1],
    ['at its end is not', 60_000, 2],
  ])('%s', async (_, laterMs, calls) => {
    await call({ cacheFor: 60 })
    nowMs += laterMs
    expect(await call({ cacheFor: 1 })).toEqual({ n: calls })
    expect(asked).toBe(calls)
  })

  it('may name the moment of its end', async () => {
    await call({ cacheFor: new Date(nowMs + 1_500) })
    nowMs += 1_499
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    nowMs += 1
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
  })

  it('ends at its moment, however long the call took', async () => {
    const until = nowMs + 1_500
    next = () => {
      nowMs += 1_000
      return { n: asked }
    }
    await call({ cacheFor: new Date(until) })
    nowMs = until - 1
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    nowMs = until
    expect(await call({ cacheFor: new Date(until + 500) })).toEqual({ n: 2 })
    // That one was answered after its moment: it is no source.
    expect(await call({ cacheFor: 60 })).toEqual({ n: 3 })
  })

  it('may be kept for longer than Postgres has moments, and counts no further than its column', async () => {
    await call({ cacheFor: 2 ** 52 })
    await test.sql`
      update integration_requests set cache_hits = 2147483647 where integration_id = ${integration.id}`
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    expect(await rows()).toEqual([expect.objectContaining({ cache_hits: 2_147_483_647 })])
  })

  it('gets the newest answer that still holds', async () => {
    // Neither is answered before the other has asked.
    const both = occasion()
    next = async () => {
      const n = asked
      if (n === 2) both.happen()
      await both.happened
      return { n }
    }
    await Promise.all([call({ cacheFor: 60 }), call({ cacheFor: 60 })])
    expect(await call({ cacheFor: 60 })).toEqual(JSON.parse((await rows())[1]?.response_data ?? ''))
    expect((await rows()).map(({ cache_hits }) => cache_hits)).toEqual([0, 1])
  })

  it.each<[string, RequestOptions, string, string]>([
    ['another endpoint', {}, 'GET', 'y'],
    ['another method', {}, 'POST', 'x'],
    ['other data', { data: { a: 2, b: [1, 2] } }, 'GET', 'x'],
    ['data in another order', { data: { a: 1, b: [2, 1] } }, 'GET', 'x'],
    ['no data', {}, 'GET', 'x'],
    ['the same as text', { data: '{"a":1,"b":[1,2]}' }, 'GET', 'x'],
  ])('asks the provider for %s', async (_, options, method, endpoint) => {
    await call({ cacheFor: 60, data: { a: 1, b: [1, 2] } })
    expect(await call({ cacheFor: 60, ...options }, method, endpoint)).toEqual({ n: 2 })
  })

  it('is found by a hash under a key of the ring: with another key the same call has another hash', async () => {
    const encryptionKeys = [encryptionKey('new'), KEY]
    const later = testIntegrations(database.url, { providers: { plain: {} }, encryptionKeys })
    onTestFinished(() => later.close())
    for (const { integrations } of [test, later]) {
      const handle = await integrations.get(integration.id)
      await handle.request('things', 'GET', () => ({ n: 1 }), { cacheFor: 60, data: { card: '4111111111111111' } })
    }
    const rows = await test.sql`select request_hash from integration_requests where integration_id = ${integration.id}`
    expect(new Set(rows.map((row) => row.request_hash)).size).toBe(2)
  })

  it('asks the provider for another integration', async () => {
    await call({ cacheFor: 60 })
    integration = await makeIntegration(test, 'plain')
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
  })

  it('takes keys in any order for the same', async () => {
    await call({ cacheFor: 60, data: { a: 1, b: { c: 1, d: 2 } } })
    expect(await call({ cacheFor: 60, data: { b: { d: 2, c: 1 }, a: 1 } })).toEqual({ n: 1 })
  })

  it('is not answered by a call that did not ask', async () => {
    await call({})
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
    expect(await call({})).toEqual({ n: 3 })
  })

  it('is not answered by a failure', async () => {
    next = () => new Response('{"n":0}', { status: 404, headers: { 'Content-Type': 'application/json' } })
    await expect(call({ cacheFor: 60 })).rejects.toMatchObject({ code: 'http_error' })
    next = () => ({ n: asked })
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
  })

  it('takes no admission: it is answered while the breaker is open', async () => {
    await call({ cacheFor: 60 })
    await setIntegration(test, integration.id, { circuitOverride: 'forced_open' })
    expect(await call({ cacheFor: 60 })).toEqual({ n: 1 })
    await expect(call({ cacheFor: 60, data: 'other' })).rejects.toMatchObject({ code: 'circuit_open' })
  })

  it('asks the provider when the stored body is no JSON, and gives the count back', async () => {
    await call({ cacheFor: 60 })
    await test.sql`update integration_requests set response_data = '{"n":' where integration_id = ${integration.id}`
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
    expect((await rows()).map(({ cache_hits }) => cache_hits)).toEqual([0, 0])
  })

  it('asks the provider after the bodies were erased', async () => {
    await call({ cacheFor: 60 })
    await test.integrations.admin.erase(integration.id)
    expect(await call({ cacheFor: 60 })).toEqual({ n: 2 })
  })
})

describe('a cached answer is the live one', () => {
  it.each<[string, () => unknown, string]>([
    ['JSON', () => response('application/json', '{"a":[1,"é"]}'), '{"a":[1,"é"]}'],
    ['a JSON text', () => response('application/json', '"a"'), '"a"'],
    ['JSON null', () => response('application/json', 'null'), 'null'],
    ['false', () => response('application/json', 'false'), 'false'],
    ['an empty answer', () => response('application/json', ''), 'null'],
    ['text', () => response('text/plain', 'a\n"b"'), '"a\\n\\"b\\""'],
    ['text that looks like JSON', () => response('text/plain', '{"a":1}'), '"{\\"a\\":1}"'],
    ['broken JSON', () => response('application/json', '{"a":'), '"{\\"a\\":"'],
    ['text with a NUL', () => response('text/plain', 'a\u0000b'), '"a\\u0000b"'],
    [
      'an SDK answer',
      () => ({ data: [1], status: 200, headers: { a: 'b' } }),
      '{"data":[1],"status":200,"headers":{"a":"b"}}',
    ],
  ])('be it %s', async (_, answer, stored) => {
    next = answer
    const live = await call({ cacheFor: 60 })
    expect(await call({ cacheFor: 60 })).toEqual(live)
    expect(asked).toBe(1)
    expect((await rows())[0]?.response_data).toBe(stored)
  })

  it('also after a schema has made something else of it', async () => {
    const schema = z.object({ at: z.string().transform((at) => new Date(at)) })
    next = () => ({ at: '2026-01-01T00:00:00.000Z' })
    const askTyped = () => integration.requestAs(schema, 'x', 'GET', ask, { cacheFor: 60 })
    expect(await askTyped()).toEqual({ at: new Date('2026-01-01') })
    expect(await askTyped()).toEqual({ at: new Date('2026-01-01') })
    expect(asked).toBe(1)
    expect(await call({ cacheFor: 60 })).toEqual({ at: '2026-01-01T00:00:00.000Z' })
  })

  it('unless it does not fit the schema: then the provider is asked', async () => {
    next = () => ({ n: 'no number' })
    await call({ cacheFor: 60 })
    next = () => ({ n: asked })
    const askTyped = () => integration.requestAs(z.object({ n: z.number() }), 'x', 'GET', ask, { cacheFor: 60 })
    expect(await askTyped()).toEqual({ n: 2 })
    expect((await rows()).map(({ cache_hits }) => cache_hits)).toEqual([0, 0])
    expect(await askTyped()).toEqual({ n: 2 })
  })

  it('unless the schema throws over it: then the provider is asked', async () => {
    next = () => ({ n: 'no JSON' })
    await call({ cacheFor: 60 })
    next = () => ({ n: '2' })
    const schema = z.object({ n: z.string().transform((text) => JSON.parse(text) as unknown) })
    expect(await integration.requestAs(schema, 'x', 'GET', ask, { cacheFor: 60 })).toEqual({ n: 2 })
    expect((await rows()).map(({ cache_hits }) => cache_hits)).toEqual([0, 0])
  })
})

describe('an older answer', () => {
  const OPTIONS: RequestOptions = { cacheFor: 60, serveStale: true, attempts: 1 }

  it.each<[string, () => unknown]>([
    ['an upstream failure', () => response('text/plain', 'away', 503)],
    ['a throttle', () => response('text/plain', 'slow', 429)],
  ])('is served after %s, however old it is; the failure counts', async (_, failure) => {
    await call(OPTIONS)
    nowMs += 86_400_000 * 400
    next = failure
    expect(await call(OPTIONS)).toEqual({ n: 1 })
    expect(asked).toBe(2)
    expect(await rows()).toEqual([
      expect.objectContaining({ cache_hits: 0, stale_hits: 1 }),
      expect.objectContaining({ stale_hits: 0, failure_class: expect.stringMatching(/^(upstream|throttle)$/) }),
    ])
  })

  it('is served after the last attempt only', async () => {
    await call(OPTIONS)
    nowMs += 60_000
    next = () => (asked === 2 ? response('text/plain', 'away', 503, { 'Retry-After': '0.001' }) : { n: asked })
    expect(await call({ ...OPTIONS, attempts: 2 })).toEqual({ n: 3 })
  })

  it.each<[string, () => unknown]>([
    ['a client fault', () => response('text/plain', 'no', 404)],
    ['an unknown fault', () => Promise.reject(new TypeError('a bug'))],
  ])('is not served after %s', async (_, failure) => {
    await call(OPTIONS)
    nowMs += 60_000
    next = failure
    await expect(call(OPTIONS)).rejects.toThrow()
  })

  it('is served on a refusal by the breaker, without a row', async () => {
    await call(OPTIONS)
    nowMs += 60_000
    await setIntegration(test, integration.id, { circuitOverride: 'forced_open' })
    expect(await call(OPTIONS)).toEqual({ n: 1 })
    expect(await rows()).toEqual([expect.objectContaining({ stale_hits: 1 })])
  })

  it('is served on a refusal by the rate limiter', async () => {
    await call(OPTIONS)
    nowMs += 60_000
    next = () => response('text/plain', 'slow', 429, { 'Retry-After': '60' })
    await expect(call({ attempts: 1 })).rejects.toThrow()
    expect(await call(OPTIONS)).toEqual({ n: 1 })
    expect(asked).toBe(2)
  })

  it('is not served to a call that did not ask, nor made by one that is not cached', async () => {
    await call({ attempts: 1, serveStale: true })
    next = () => response('text/plain', 'away', 503)
    await expect(call(OPTIONS)).rejects.toMatchObject({ status: 503 })
    next = () => ({ n: asked })
    await call(OPTIONS)
    next = () => response('text/plain', 'away', 503)
    nowMs += 60_000
    await expect(call({ cacheFor: 60, attempts: 1 })).rejects.toMatchObject({ status: 503 })
    expect(await call({ serveStale: true, attempts: 1 })).toEqual({ n: 3 })
  })

  it('is not served when it does not fit the schema', async () => {
    await call(OPTIONS)
    nowMs += 60_000
    next = () => response('text/plain', 'away', 503)
    const schema = z.object({ n: z.string() })
    await expect(integration.requestAs(schema, 'x', 'GET', ask, OPTIONS)).rejects.toMatchObject({ status: 503 })
    expect((await rows())[0]).toMatchObject({ stale_hits: 0 })
  })

  it('is not served to a caller that has given up', async () => {
    await call(OPTIONS)
    nowMs += 60_000
    const caller = new AbortController()
    next = () => {
      caller.abort(new Error('enough'))
      return response('text/plain', 'away', 503)
    }
    await expect(call({ ...OPTIONS, signal: caller.signal })).rejects.toThrow()
  })
})

function response(type: string, body: string, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(body, { status, headers: { 'Content-Type': type, ...headers } })
}

function ask(): unknown {
  asked += 1
  return next()
}

function call(options: RequestOptions, method = 'GET', endpoint = 'x'): Promise<unknown> {
  return integration.request(endpoint, method, ask, options)
}

interface Row {
  readonly response_data: string | null
  readonly cache_hits: number
  readonly stale_hits: number
}

function rows(): Promise<Row[]> {
  return test.sql<Row[]>`select * from integration_requests where integration_id = ${integration.id} order by id`
}
