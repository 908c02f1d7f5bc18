/** The only door to a provider: one row per attempt, retries by class, nothing secret stored. Waits are recorded, not slept. */
import { once } from 'node:events'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Octokit } from '@octokit/rest'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { HttpError } from '../../src/framework/errors.ts'
import type { Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

/** Waits between attempts, in milliseconds: recorded, and the clock is moved on over them. */
const { slept, moved } = vi.hoisted(() => ({ slept: [] as number[], moved: { byMs: 0 } }))
vi.mock('../../src/framework/waiting.ts', async (original) => ({
  ...(await original<object>()),
  pause: async (ms: number, caller?: AbortSignal) => {
    slept.push(Math.round(ms))
    moved.byMs += ms
    return caller?.aborted !== true
  },
}))
const clock = { now: () => new Date(Date.now() + moved.byMs) }

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let server: Server
let url: string
/** How the provider's server answers, by the test at hand. */
let answer: RequestListener
let received: string[]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    clock,
    providers: {
      plain: {},
      // Says what the test put on the error.
      opinionated: {
        classifyFailure: (error: { verdict?: never }) => error.verdict ?? null,
        isRetryable: (error: { retryable?: boolean }) => error.retryable ?? null,
        retryDelayMs: (error: { delayMs?: number }) => error.delayMs ?? null,
      } as never,
      broken: {
        classifyFailure: () => {
          throw new Error('the classifier broke')
        },
        isRetryable: () => {
          throw new Error('the opinion broke')
        },
      } as never,
    },
    config: { retry: { retry_after_max_seconds: 100 }, logging: { max_response_bytes: 1_024 } },
  })
  server = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`)
    answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  received = []
  slept.length = 0
  integration = await makeIntegration(test, 'plain')
})

describe('an attempt', () => {
  it('that succeeds leaves one row: endpoint, method, status, request id, duration, bodies', async () => {
    answers([200, '{"a":1}', { 'X-Request-Id': 'req-1' }])
    const value = await call({ method: 'post', data: { sent: true }, relatedTo: { type: 'issue', id: '7' } })
    expect(value).toEqual({ a: 1 })
    expect(await rows()).toEqual([
      expect.objectContaining({
        endpoint: 'things',
        method: 'POST',
        status_code: 200,
        failure_class: null,
        error: null,
        provider_request_id: 'req-1',
        duration_ms: expect.any(Number),
        retry_of: null,
        request_data: '{"sent":true}',
        response_data: '{"a":1}',
        related_type: 'issue',
        related_id: '7',
      }),
    ])
  })

  it('measures the call, not the wait before it', async () => {
    answers([503, '', { 'Retry-After': '60' }], [200, '{}'])
    await call()
    expect(slept).toEqual([60_000])
    for (const row of await rows()) expect(row.duration_ms).toBeLessThan(60_000)
  })

  it.each([
    ['JSON', 'application/json', '{"a":1}', { a: 1 }],
    ['JSON of a vendor', 'application/vnd.api+json; charset=utf-8', '[1]', [1]],
    ['text', 'text/plain', '{"a":1}', '{"a":1}'],
    ['an empty body', 'application/json', '', null],
    ['broken JSON', 'application/json', '{"a":', '{"a":'],
    ['the JSON null', 'application/json', 'null', null],
  ])('decodes %s', async (_, type, body, value) => {
    answers([200, body, { 'Content-Type': type }])
    expect(await call()).toEqual(value)
  })

  it('passes what an SDK returns untouched', async () => {
    const sdk = Object.assign(Object.create({ method: () => 1 }), {
      data: [1],
      status: 200,
      headers: { 'x-request-id': 'r' },
    })
    expect(await integration.request('sdk', 'list', () => sdk)).toBe(sdk)
    expect((await rows())[0]).toMatchObject({
      status_code: 200,
      provider_request_id: 'r',
      response_data: '[1]',
      method: 'list',
    })
  })

  it('reads status and request id of a Stripe-like answer, and what report() says wins', async () => {
    const stripe = { id: 'pi_1', lastResponse: { statusCode: 201, requestId: 'req_s', headers: {} } }
    await integration.request('a', 'GET', () => stripe)
    await integration.request('b', 'GET', (context) => {
      context.report({ statusCode: 299, providerRequestId: undefined })
      context.report({ statusCode: undefined, providerRequestId: 'x'.repeat(200) })
      return stripe
    })
    expect((await rows()).map((row) => [row.status_code, row.provider_request_id])).toEqual([
      [201, 'req_s'],
      [299, 'x'.repeat(128)],
    ])
  })

  it('cuts a long endpoint rather than losing the row', async () => {
    await integration.request(`things/${'é'.repeat(300)}`, 'GET', () => null)
    expect(String((await rows())[0]?.endpoint)).toHaveLength(255)
  })
})

describe('a failure', () => {
  it('of a Response of 400 or more is an HttpError with status, headers and decoded body', async () => {
    answers([422, '{"message":"no"}', { 'X-Request-Id': 'req-2' }])
    await expect(call()).rejects.toMatchObject({ code: 'http_error', status: 422, body: { message: 'no' } })
    expect((await rows())[0]).toMatchObject({
      status_code: 422,
      failure_class: 'client',
      provider_request_id: 'req-2',
      response_data: '{"message":"no"}',
      error: 'HttpError: The provider answered 422. (http_error)',
    })
  })

  it.each([
    [400, 'client', 1],
    [401, 'client', 1],
    [403, 'client', 1],
    [404, 'client', 1],
    [408, 'client', 1],
    [425, 'client', 1],
    [429, 'throttle', 3],
    [500, 'upstream', 3],
    [501, 'client', 1],
    [502, 'upstream', 3],
    [503, 'upstream', 3],
  ])('of status %i is %s: %i attempts of a GET', async (status, failureClass, attempts) => {
    answers([status, ''])
    await expect(call()).rejects.toMatchObject({ status })
    const written = await rows()
    expect(written.map((row) => [row.status_code, row.failure_class])).toEqual(
      Array.from({ length: attempts }, () => [status, failureClass]),
    )
    expect(received).toHaveLength(attempts)
    // Attempts after the first name the first.
    expect(written.map((row) => row.retry_of)).toEqual([null, ...Array(attempts - 1).fill(written[0]?.id)])
  })

  it.each([
    ['GET', 3],
    ['HEAD', 3],
    ['POST', 1],
    ['PUT', 1],
    ['PATCH', 1],
    ['DELETE', 1],
    ['list', 1],
  ])('of %s is attempted %i times unless told', async (method, attempts) => {
    await expect(integration.request('things', method, thrower(http(500)))).rejects.toThrow()
    expect(await rows()).toHaveLength(attempts)
  })

  it('of a refused connection is upstream, without a status', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as AddressInfo
    closed.close()
    await once(closed, 'close')
    const refused = () => fetch(`http://127.0.0.1:${port}/`)
    await expect(integration.request('away', 'GET', refused)).rejects.toThrow('fetch failed')
    expect((await rows()).map((row) => [row.status_code, row.failure_class])).toEqual(Array(3).fill([null, 'upstream']))
  })

  it('of a port that fetch refuses to dial is unknown: no connection was tried', async () => {
    await expect(integration.request('bad', 'GET', () => fetch('http://127.0.0.1:1/'))).rejects.toThrow('fetch failed')
    expect((await rows()).map((row) => row.failure_class)).toEqual(['unknown'])
  })

  it('of a cut connection is upstream', async () => {
    answer = (request) => void request.socket.destroy()
    await expect(call({ attempts: 1 })).rejects.toThrow()
    expect((await rows())[0]).toMatchObject({ status_code: null, failure_class: 'upstream' })
  })

  it.each([
    [
      'an answer of 503',
      () => answers([503, '{"message":"busy"}', { 'Content-Type': 'application/json', 'X-GitHub-Request-Id': 'gh-1' }]),
      503,
      'upstream',
      'gh-1',
    ],
    [
      'an answer of 404',
      () => answers([404, '{"message":"Not Found"}', { 'Content-Type': 'application/json' }]),
      404,
      'client',
      null,
    ],
    [
      'a cut connection: the 500 that Octokit invents is ignored',
      () => {
        answer = (request) => void request.socket.destroy()
      },
      null,
      'upstream',
      null,
    ],
  ])('of Octokit after %s', async (_, arrange, status, failureClass, id) => {
    arrange()
    const octokit = new Octokit({ baseUrl: url, log: silent })
    const get = () => octokit.rest.issues.get({ owner: 'o', repo: 'r', issue_number: 1 })
    await expect(integration.request('repos/o/r/issues/1', 'GET', get, { attempts: 1 })).rejects.toThrow()
    expect((await rows())[0]).toMatchObject({
      status_code: status,
      failure_class: failureClass,
      provider_request_id: id,
    })
  })

  it('of our own argument check inside the call is unknown and final', async () => {
    await expect(integration.request('a', 'GET', thrower(Object.assign(new TypeError('a bug'))))).rejects.toThrow(
      'a bug',
    )
    expect((await rows()).map((row) => row.failure_class)).toEqual(['unknown'])
  })

  it('is thrown unwrapped: the last one', async () => {
    const errors = [http(500), http(502), http(503)]
    const thrown = await integration
      .request('a', 'GET', ({ attempt }) => {
        throw errors[attempt - 1]
      })
      .catch((error) => error)
    expect(thrown).toBe(errors[2])
  })
})

describe('the wait before another attempt', () => {
  it.each([
    ['Retry-After: 0', 429, '0', [0, 0]],
    ['decimal seconds', 503, '1.5', [1_500, 1_500]],
    ['more than retry_after_max_seconds', 429, '3600', [100_000, 100_000]],
    [
      'a date in the past: ignored',
      500,
      'Wed, 21 Oct 2015 07:28:00 GMT',
      [expect.closeTo(2_200, -3), expect.closeTo(4_400, -3)],
    ],
    ['nonsense: ignored', 429, 'soon', [expect.closeTo(33_000, -4), expect.closeTo(33_000, -4)]],
  ])('is by Retry-After: %s', async (_, status, retryAfter, waits) => {
    answers([status, '', { 'Retry-After': retryAfter }])
    await expect(call()).rejects.toMatchObject({ status })
    expect(slept).toEqual(waits)
  })

  it('without one is 2 s for each upstream failure, 30 s for a throttle, with up to 20 % on top', async () => {
    answers([500, ''], [500, ''], [429, ''], [200, '{}'])
    await call({ attempts: 4 })
    const [first, second, third] = slept as [number, number, number]
    expect(within(first, 2_000) && within(second, 4_000) && within(third, 30_000)).toBe(true)
  })

  it('is the provider‘s own before all', async () => {
    integration = await makeIntegration(test, 'opinionated')
    await expect(
      integration.request('a', 'GET', thrower(Object.assign(http(503, { 'retry-after': '9' }), { delayMs: 5 }))),
    ).rejects.toThrow()
    expect(slept).toEqual([5, 5])
  })

  it('ends when the caller gives up: the last attempt‘s error is thrown', async () => {
    const caller = new AbortController()
    listen(test, 'RequestFailed', () => caller.abort())
    await expect(call({ signal: caller.signal }, [[503, '']])).rejects.toMatchObject({ status: 503 })
    expect(await rows()).toHaveLength(1)
  })
})

describe('a provider‘s opinion', () => {
  beforeEach(async () => {
    integration = await makeIntegration(test, 'opinionated')
  })

  it.each([
    ['not retryable: an upstream failure is final', http(500), { retryable: false }, 1, 'upstream'],
    ['retryable: a client failure is made again', http(404), { retryable: true, delayMs: 1 }, 3, 'client'],
    ['a class of its own', http(403), { verdict: 'throttle', delayMs: 1 }, 3, 'throttle'],
    ['a class that is none: ignored', http(404), { verdict: 'nonsense' }, 1, 'client'],
    ['a wait that is no number: ignored', http(500, { 'retry-after': '0' }), { delayMs: Number.NaN }, 3, 'upstream'],
  ])('that says %s', async (_, error, opinion, attempts, failureClass) => {
    await expect(integration.request('a', 'GET', thrower(Object.assign(error, opinion)))).rejects.toBe(error)
    expect((await rows()).map((row) => row.failure_class)).toEqual(Array(attempts).fill(failureClass))
  })

  it('that throws hides nothing: it counts as none', async () => {
    integration = await makeIntegration(test, 'broken')
    const error = http(503, { 'retry-after': '0' })
    await expect(integration.request('a', 'GET', thrower(error))).rejects.toBe(error)
    expect((await rows()).map((row) => row.failure_class)).toEqual(['upstream', 'upstream', 'upstream'])
  })
})

describe('options', () => {
  it.each<[string, RequestOptions, string]>([
    ['attempts 0', { attempts: 0 }, 'attempts'],
    ['attempts 11', { attempts: 11 }, 'attempts'],
    ['attempts 1.5', { attempts: 1.5 }, 'attempts'],
    ['attempts NaN', { attempts: Number.NaN }, 'attempts'],
    ['timeoutMs 0', { timeoutMs: 0 }, 'timeoutMs'],
    ['timeoutMs 600,001', { timeoutMs: 600_001 }, 'timeoutMs'],
    ['a related id that is no number', { relatedTo: { type: 'issue', id: 'abc' } }, 'relatedTo.id'],
  ])('with %s are refused, nothing sent or stored', async (_, options, argument) => {
    const called = vi.fn()
    await expect(integration.request('a', 'GET', called, options)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
    expect(called).not.toHaveBeenCalled()
    expect(await rows()).toEqual([])
  })

  it.each([1, 10])('with attempts %i are obeyed', async (attempts) => {
    await expect(integration.request('a', 'POST', thrower(http(500)), { attempts })).rejects.toThrow()
    expect(await rows()).toHaveLength(attempts)
  })

  it.each([
    ['endpoint', ['  ', 'GET']],
    ['method', ['a', ' ']],
  ] as const)('need a %s', async (argument, [endpoint, method]) => {
    await expect(integration.request(endpoint, method, () => 1)).rejects.toMatchObject({ argument })
  })

  it('with retryOf name that row on every attempt', async () => {
    await integration.request('first', 'GET', () => 1)
    const [first] = await rows()
    await expect(
      integration.request('again', 'GET', thrower(http(500)), { retryOf: Number(first?.id), attempts: 2 }),
    ).rejects.toThrow()
    expect((await rows()).slice(1).map((row) => row.retry_of)).toEqual([first?.id, first?.id])
  })
})

describe('a deadline', () => {
  it('aborts the call and logs it as a timeout, upstream', async () => {
    answer = () => {}
    await expect(call({ timeoutMs: 30, attempts: 1 })).rejects.toMatchObject({ code: 'request_timeout', timeoutMs: 30 })
    expect((await rows())[0]).toMatchObject({
      failure_class: 'upstream',
      status_code: null,
      error: expect.stringMatching(/^TimeoutError: things did not answer within 30 ms/),
    })
  })

  it('drops the late result of a call that ignores it', async () => {
    const late = occasion<string>()
    const request = integration.request('slow', 'GET', () => late.happened, { timeoutMs: 20, attempts: 1 })
    await expect(request).rejects.toMatchObject({ code: 'request_timeout' })
    late.happen('too late')
    await late.happened
    expect(await rows()).toHaveLength(1)
  })

  it('is each attempt‘s own', async () => {
    const signals: AbortSignal[] = []
    await expect(
      integration.request(
        'slow',
        'GET',
        ({ signal }) => {
          signals.push(signal)
          return new Promise(() => {})
        },
        { timeoutMs: 20 },
      ),
    ).rejects.toMatchObject({ code: 'request_timeout' })
    expect(signals.map((signal) => signal.aborted)).toEqual([true, true, true])
    expect(new Set(signals).size).toBe(3)
  })
})

describe('a caller that gives up', () => {
  it.each([
    ['without a reason', undefined],
    ['with an error that bears a status', http(503)],
    ['with a text', 'enough'],
  ])('%s: unknown and final, one row', async (_, reason) => {
    const caller = new AbortController()
    answer = () => caller.abort(reason)
    await expect(call({ signal: caller.signal })).rejects.toSatisfy((error) => error === caller.signal.reason)
    expect((await rows()).map((row) => row.failure_class)).toEqual(['unknown'])
  })

  it('before the call: nothing is sent or stored', async () => {
    const called = vi.fn()
    const reason = new Error('too late')
    await expect(integration.request('a', 'GET', called, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(called).not.toHaveBeenCalled()
    expect(await rows()).toEqual([])
  })
})

describe('requestAs', () => {
  const Thing = z.object({ id: z.number() })

  it('gives the parsed answer', async () => {
    answers([200, '{"id":1,"more":true}'])
    expect(await integration.requestAs(Thing, 'things', 'GET', () => fetch(url))).toEqual({ id: 1 })
  })

  it('throws SchemaDrift: row failed, unknown, not made again, no value in the message', async () => {
    answers([200, '{"id":"secret-looking-value"}'])
    const error = await integration.requestAs(Thing, 'things', 'GET', () => fetch(url)).catch((drift) => drift)
    expect(error).toMatchObject({ code: 'schema_drift', endpoint: 'things', issues: [{ path: 'id' }] })
    expect(error.message).not.toContain('secret-looking-value')
    expect(await rows()).toEqual([expect.objectContaining({ status_code: 200, failure_class: 'unknown' })])
  })
})

describe('events', () => {
  it('tell of each attempt, after its row', async () => {
    const told: unknown[] = []
    listen(test, 'RequestFailed', async ({ request, error }: IntegrationEvents['RequestFailed']) => {
      const stored = await test.sql`select 1 from integration_requests where id = ${request.id}`
      told.push(['failed', request.statusCode, request.failureClass, (error as HttpError).status, stored.length])
    })
    listen(test, 'RequestCompleted', ({ request, integration: of }: IntegrationEvents['RequestCompleted']) => {
      told.push(['completed', request.statusCode, request.failureClass, JSON.parse(JSON.stringify(of))])
    })
    answers([500, '', { 'Retry-After': '0' }], [200, '{}'])
    await call()
    const identity = { id: integration.id, provider: 'plain', name: 'of a test' }
    expect(told).toEqual([
      ['failed', 500, 'upstream', 500, 1],
      ['completed', 200, null, identity],
    ])
  })

  it('disturb nothing when their listener throws', async () => {
    listen(test, 'RequestCompleted', () => {
      throw new Error('the listener broke')
    })
    answers([200, '{"a":1}'])
    expect(await call()).toEqual({ a: 1 })
  })
})

describe('what is stored', () => {
  const encoded = encodeURIComponent(TOKEN)
  const base64 = Buffer.from(TOKEN).toString('base64')

  it.each([
    ['as it is', TOKEN],
    ['URL-encoded', encoded],
    ['in base64', base64],
  ])('holds no credential %s: not in the bodies, the endpoint or the error', async (_, secret) => {
    answers([500, JSON.stringify({ echoed: secret })])
    await expect(
      integration.request(`things?token=${secret}`, 'POST', () => fetch(url, { method: 'POST' }), { data: { secret } }),
    ).rejects.toThrow()
    await expect(integration.request('b', 'POST', thrower(new Error(`sent ${secret}`)))).rejects.toThrow()
    const written = JSON.stringify(await rows())
    expect(written).not.toContain(secret)
    expect(written.split('[REDACTED]').length - 1).toBe(4)
    // The caller gets the answer whole.
  })

  it('holds no secret by key, at any depth', async () => {
    answers([200, JSON.stringify({ a: [{ access_token: 'short', kept: 1 }], client_secret: null, id_token: 5 })])
    expect(await call({ data: { refresh_token: 'x', nested: { code_verifier: '' } } })).toMatchObject({ id_token: 5 })
    const [row] = await rows()
    expect(JSON.parse(String(row?.response_data))).toEqual({
      a: [{ access_token: '[REDACTED]', kept: 1 }],
      client_secret: '[REDACTED]',
      id_token: '[REDACTED]',
    })
    expect(JSON.parse(String(row?.request_data))).toEqual({
      refresh_token: '[REDACTED]',
      nested: { code_verifier: '[REDACTED]' },
    })
  })

  it('leaves a body without secrets as it came, spaces too', async () => {
    answers([200, '{ "a" :  1 }', { 'Content-Type': 'text/plain' }])
    await call()
    expect((await rows())[0]?.response_data).toBe('{ "a" :  1 }')
  })

  it('redacts before it cuts', async () => {
    answers([200, `${'x'.repeat(1_024 - 30 - 8)}${TOKEN}${'y'.repeat(200)}`, { 'Content-Type': 'text/plain' }])
    await call()
    expect((await rows())[0]?.response_data).not.toContain(TOKEN.slice(0, 6))
    await expect(
      integration.request('b', 'POST', thrower(new Error(`${'x'.repeat(1_985)} ${TOKEN}`))),
    ).rejects.toThrow()
    expect((await rows())[1]?.error).not.toContain(TOKEN.slice(0, 6))
  })

  it.each([
    ['exactly logging.max_response_bytes', 'x'.repeat(1_024), 'x'.repeat(1_024)],
    ['a byte more', 'x'.repeat(1_025), `${'x'.repeat(1_024 - ' ...[cut, 1025 bytes]'.length)} ...[cut, 1025 bytes]`],
  ])('is cut with a note beyond %s', async (_, body, stored) => {
    answers([200, body, { 'Content-Type': 'text/plain' }])
    await call()
    expect((await rows())[0]?.response_data).toBe(stored)
  })

  it('is cut on a character boundary, the note included', async () => {
    answers([200, '€'.repeat(400), { 'Content-Type': 'text/plain; charset=utf-8' }])
    await call({ data: '😀'.repeat(20_000) })
    const [row] = await rows()
    expect(row?.response_data).toMatch(/^€+ \.\.\.\[cut, 1200 bytes\]$/)
    expect(Buffer.byteLength(String(row?.response_data))).toBeLessThanOrEqual(1_024)
    expect(row?.request_data).toMatch(/^(😀)+ \.\.\.\[cut, 80000 bytes\]$/u)
    expect(Buffer.byteLength(String(row?.request_data))).toBeLessThanOrEqual(65_536)
  })

  it.each([
    [
      'bytes',
      new Uint8Array([1, 2, 3]),
      /^\[binary, 3 bytes, sha256 039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81\]$/,
    ],
    ['a bigint', { n: 1n }, /^\[not serialisable\]$/],
    ['U+0000', 'a\0b', /^ab$/],
    ['a text', 'raw', /^raw$/],
  ])('for %s is a note or the text', async (_, data, stored) => {
    await integration.request('a', 'POST', () => data, { data: data as never })
    const [row] = await rows()
    expect(row?.request_data).toMatch(stored)
    expect(row?.response_data).toMatch(stored)
  })

  it('survives an error whose text Postgres can not hold', async () => {
    await expect(integration.request('a\0b', 'POST', thrower('no\0pe'))).rejects.toBe('no\0pe')
    expect((await rows()).map((row) => [row.endpoint, row.error])).toEqual([['ab', 'nope']])
  })

  it('never shows a credential in a log line', () => {
    const lines = JSON.stringify(test.lines)
    for (const secret of Object.values(CREDENTIALS)) expect(lines).not.toContain(secret)
  })
})

describe('a settlement that fails', () => {
  it.each([
    ['its value', [200, '{"a":1}'] as const, { a: 1 }],
    ['its own error', [404, ''] as const, 404],
  ])('gives the caller the call‘s outcome all the same, %s, and leaves an error line', async (_, reply, outcome) => {
    await test.sql.unsafe('alter table integration_requests rename to integration_requests_away')
    const before = test.lines.length
    try {
      expect(await call({}, [reply]).catch((error: HttpError) => error.status)).toEqual(outcome)
    } finally {
      await test.sql.unsafe('alter table integration_requests_away rename to integration_requests')
    }
    expect(test.lines.slice(before).map(({ level }) => level)).toEqual(['error'])
    expect(received).toHaveLength(1)
  })
})

it('sends nothing for credentials that can not be read', async () => {
  await test.sql`update integrations set credentials = 'plain' where id = ${integration.id}`
  const called = vi.fn()
  const locked = await integration.refresh()
  await expect(locked.request('a', 'GET', called)).rejects.toMatchObject({ code: 'credentials_unreadable' })
  expect(called).not.toHaveBeenCalled()
})

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

type Answer = readonly [status: number, body: string, headers?: Record<string, string>]

/** One after the other; the last one again and again. */
function answers(...given: Answer[]): void {
  let next = 0
  answer = (_request: IncomingMessage, response) => {
    const [status, body, headers] = given[Math.min(next++, given.length - 1)] as Answer
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(body)
  }
}

function call({ method = 'GET', ...options }: RequestOptions & { method?: string } = {}, given?: Answer[]) {
  if (given !== undefined) answers(...given)
  return integration.request('things', method, ({ signal }) => fetch(`${url}/things`, { method, signal }), options)
}

async function rows() {
  return test.sql`select * from integration_requests where integration_id = ${integration.id} order by id`
}

function http(status: number, headers: Record<string, string> = {}): HttpError {
  return new HttpError(status, new Headers(headers), null)
}

function thrower(error: unknown): () => never {
  return () => {
    throw error
  }
}

function within(ms: number, base: number): boolean {
  return ms >= base && ms <= base * 1.2
}
