/** What real clients throw of real faults, classified on its way through `request()`. One attempt each; its row says it. */
import { get } from 'node:http'
import { Octokit } from '@octokit/rest'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { Agent, fetch as undiciFetch } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import { isNeverConnected } from '../../src/calls/retry-rules.ts'
import type { RequestContext, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { FailingServer } from '../support/failing-server.ts'
import { failingServer, refusedUrl, selfSignedServer, silentServer } from '../support/failing-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { ODD_ERRORS } from '../support/odd-errors.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let server: FailingServer
let silent: FailingServer
let tls: FailingServer
let refused: string
/** Each impatient in one way only: on a machine that stands still another of its timers would be as late. */
const hasty = {
  connection: new Agent({ connectTimeout: 200 }),
  headers: new Agent({ connectTimeout: 0, headersTimeout: 200 }),
  body: new Agent({ connectTimeout: 0, headersTimeout: 0, bodyTimeout: 200 }),
}

beforeAll(async () => {
  database = await createTestDatabase()
  server = await failingServer()
  silent = await silentServer()
  tls = await selfSignedServer()
  refused = await refusedUrl()
  test = testIntegrations(database.url, { providers: { plain: {} }, egress: { allow: ['127.0.0.1', 'localhost'] } })
})

afterAll(async () => {
  await Promise.all(Object.values(hasty).map((agent) => agent.destroy()))
  await server.close()
  await silent.close()
  await tls.close()
  await test.close()
  await database.drop()
})

type Call = (context: RequestContext) => unknown
/** Reads the whole answer, as `json()` of an SDK does. */
const reading = async (fetching: Promise<{ text(): Promise<string> }>) => (await fetching).text()

describe.each<[string, (context: RequestContext) => typeof fetch]>([
  ["the platform's fetch", () => fetch],
  ['context.fetch', (context) => context.fetch],
])('%s', (_, fetchOf) => {
  it.each<[string, () => string, FailureClass, RegExp, boolean]>([
    ['a refused port', () => refused, 'upstream', /ECONNREFUSED/, true],
    ['an unknown host', () => 'http://nowhere.invalid', 'upstream', /ENOTFOUND|EAI_AGAIN/, true],
    ['a reset before the answer', () => `${server.url}/reset`, 'upstream', /ECONNRESET/, false],
    ['a reset in the middle of a body', () => `${server.url}/half-then-reset`, 'upstream', /ECONNRESET/, false],
    ['an end before the answer', () => `${server.url}/close`, 'upstream', /UND_ERR_SOCKET/, false],
    ['an end in the middle of a body', () => `${server.url}/half-then-close`, 'upstream', /UND_ERR_SOCKET/, false],
    ['an answer that is no HTTP', () => `${server.url}/no-http`, 'upstream', /HTTP/, false],
    ['headers beyond measure', () => `${server.url}/big-headers`, 'upstream', /UND_ERR_HEADERS_OVERFLOW/, false],
    ['a certificate that nobody signed', () => tls.url, 'upstream', /DEPTH_ZERO_SELF_SIGNED_CERT/, false],
    [
      'TLS where there is none',
      () => server.url.replace('http', 'https'),
      'upstream',
      /ERR_SSL|EPROTO|ECONNRESET/,
      false,
    ],
  ])('%s', async (_name, url, failureClass, code, neverConnected) => {
    const { row, error } = await failureOf((context) => reading(fetchOf(context)(url())))
    expect(row).toMatchObject({ failure_class: failureClass, status_code: null })
    expect(codesOf(error)).toMatch(code)
    expect(isNeverConnected(error)).toBe(neverConnected)
  })

  it.each([
    ['a URL that is none', 'http://[bad'],
    ['a port that is none', 'http://127.0.0.1:99999'],
    ['a port that fetch blocks', 'http://127.0.0.1:1'],
    ['an unknown scheme', 'ftp://127.0.0.1'],
  ])('%s: unknown', async (_name, url) => {
    const { row, error } = await failureOf((context) => reading(fetchOf(context)(url)))
    expect(row).toMatchObject({ failure_class: 'unknown', status_code: null })
    expect(isNeverConnected(error)).toBe(false)
  })

  it.each<[number, FailureClass]>([
    [400, 'client'],
    [404, 'client'],
    [408, 'client'],
    [425, 'client'],
    [429, 'throttle'],
    [500, 'upstream'],
    [501, 'client'],
    [503, 'upstream'],
  ])('the status %i: %s', async (status, failureClass) => {
    const { row, error } = await failureOf((context) => fetchOf(context)(`${server.url}/status/${status}`))
    expect(row).toMatchObject({ failure_class: failureClass, status_code: status })
    expect(error).toMatchObject({ code: 'http_error', status })
  })
})

describe('timers', () => {
  it.each<[string, string, Agent, RegExp, boolean]>([
    ['no answer in time', '/silent', hasty.headers, /UND_ERR_HEADERS_TIMEOUT/, false],
    ['no rest of the body in time', '/half-then-silent', hasty.body, /UND_ERR_BODY_TIMEOUT/, false],
  ])("undici's own, %s: upstream", async (_, path, dispatcher, code, neverConnected) => {
    const { row, error } = await failureOf(() => reading(undiciFetch(server.url + path, { dispatcher })))
    expect(row?.failure_class).toBe('upstream')
    expect(codesOf(error)).toMatch(code)
    expect(isNeverConnected(error)).toBe(neverConnected)
  })

  it("undici's own, no connection in time: upstream, and never connected", async () => {
    // The peer never says hello: the connection, which begins with TLS, does not come to stand.
    const url = silent.url.replace('http', 'https')
    const { row, error } = await failureOf(() => reading(undiciFetch(url, { dispatcher: hasty.connection })))
    expect(row?.failure_class).toBe('upstream')
    expect(codesOf(error)).toMatch(/UND_ERR_CONNECT_TIMEOUT/)
    expect(isNeverConnected(error)).toBe(true)
  })

  it("the call's own AbortSignal.timeout(): upstream", async () => {
    const { row, error } = await failureOf(() => fetch(`${server.url}/silent`, { signal: AbortSignal.timeout(20) }))
    expect(row).toMatchObject({ failure_class: 'upstream', status_code: null })
    expect(error).toMatchObject({ name: 'TimeoutError' })
  })

  it("of node:http, the call's own signal: upstream", async () => {
    const { row, error } = await failureOf(
      () =>
        new Promise((_, reject) => {
          get(`${server.url}/silent`, { signal: AbortSignal.timeout(20) }).on('error', reject)
        }),
    )
    expect(row?.failure_class).toBe('upstream')
    expect(error).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' })
  })

  it('our deadline: upstream', async () => {
    const { row, error } = await failureOf(({ signal }) => fetch(`${server.url}/silent`, { signal }), { timeoutMs: 20 })
    expect(row).toMatchObject({ failure_class: 'upstream', status_code: null })
    expect(error).toMatchObject({ code: 'request_timeout' })
  })
})

describe('the caller gives up', () => {
  it.each<[string, unknown]>([
    ['without a reason', undefined],
    ['with a reason of its own', new Error('shutting down')],
    ['with one that looks like a fault', Object.assign(new Error('x'), { status: 503, code: 'ECONNRESET' })],
  ])('%s: unknown', async (_, reason) => {
    const caller = new AbortController()
    const { row } = await failureOf(
      (context) => {
        const sent = context.fetch(`${server.url}/silent`, { signal: context.signal })
        caller.abort(reason)
        return sent
      },
      { signal: caller.signal },
    )
    expect(row?.failure_class).toBe('unknown')
  })
})

it('several addresses of one name, all refused: upstream, and never connected', async () => {
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }))
  const lookup = (_host: string, _options: unknown, found: (error: null, addresses: object[]) => void) =>
    found(null, addresses)
  const { row, error } = await failureOf(
    () =>
      new Promise((_, reject) => {
        const options = { lookup: lookup as never, autoSelectFamily: true }
        get(refused.replace('127.0.0.1', 'several.example'), options).on('error', reject)
      }),
  )
  expect(error).toBeInstanceOf(AggregateError)
  expect(row?.failure_class).toBe('upstream')
  expect(isNeverConnected(error)).toBe(true)
})

describe('Octokit', () => {
  const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const asked = (path: string, request: { signal?: AbortSignal } = {}, baseUrl = server.url) =>
    new Octokit({ baseUrl, log: quiet }).request(`GET ${path}`, { request })

  it.each<[number, FailureClass]>([
    [404, 'client'],
    [403, 'client'],
    [429, 'throttle'],
    [500, 'upstream'],
    [501, 'client'],
    [503, 'upstream'],
  ])('answered with %i: %s', async (status, failureClass) => {
    const { row } = await failureOf(() => asked(`/status/${status}`))
    expect(row).toMatchObject({ failure_class: failureClass, status_code: status })
  })

  it.each<[string, () => Promise<unknown>, FailureClass, boolean]>([
    ['a refused port', () => asked('/user', {}, refused), 'upstream', true],
    ['a reset', () => asked('/reset'), 'upstream', false],
    ['a URL that is none', () => asked('/user', {}, 'http://[bad'), 'unknown', false],
    ["the call's own timer", () => asked('/silent', { signal: AbortSignal.timeout(20) }), 'upstream', false],
    ["the call's own abort", () => asked('/silent', { signal: AbortSignal.abort() }), 'upstream', false],
  ])('%s: the 500 that it invents counts for nothing', async (_, call, failureClass, neverConnected) => {
    const { row, error } = await failureOf(call)
    expect(row).toMatchObject({ failure_class: failureClass, status_code: null })
    expect(isNeverConnected(error)).toBe(neverConnected)
  })

  it("the caller's abort: unknown", async () => {
    const caller = new AbortController()
    const { row } = await failureOf(
      ({ signal }) => {
        const sent = asked('/silent', { signal })
        caller.abort()
        return sent
      },
      { signal: caller.signal },
    )
    expect(row).toMatchObject({ failure_class: 'unknown', status_code: null })
  })
})

/** As these clients document their errors; they are no dependencies of ours. */
describe('other clients', () => {
  const thrown = (fields: Record<string, unknown>) => Object.assign(new Error('as the client says'), fields)
  const socketFault = (code: string) => Object.assign(new Error(`socket ${code}`), { code })

  it.each<[string, object, FailureClass, number | null]>([
    // https://docs.stripe.com/error-handling?lang=node: no cause, the name Error, the socket's error in `detail`.
    [
      'Stripe: connection',
      { type: 'StripeConnectionError', raw: {}, detail: socketFault('ECONNREFUSED') },
      'upstream',
      null,
    ],
    [
      'Stripe: its own timer',
      { type: 'StripeConnectionError', raw: {}, detail: socketFault('ETIMEDOUT') },
      'upstream',
      null,
    ],
    ['Stripe: connection without detail', { type: 'StripeConnectionError', raw: {} }, 'upstream', null],
    ['Stripe: its server', { type: 'StripeAPIError', rawType: 'api_error', statusCode: 500 }, 'upstream', 500],
    [
      'Stripe: a lock, which is a throttle',
      { type: 'StripeRateLimitError', rawType: 'invalid_request_error', code: 'lock_timeout', statusCode: 429 },
      'throttle',
      429,
    ],
    [
      'Stripe: a card',
      { type: 'StripeCardError', rawType: 'card_error', code: 'card_declined', statusCode: 402 },
      'client',
      402,
    ],
    [
      'Stripe: a key used for something else',
      { type: 'StripeIdempotencyError', rawType: 'idempotency_error', statusCode: 400 },
      'client',
      400,
    ],
    // https://docs.aws.amazon.com/AWSJavaScriptSDK/v3/latest/Package/-smithy-smithy-client/Class/ServiceException/
    [
      'AWS: throttled',
      { name: 'ThrottlingException', $fault: 'client', $metadata: { httpStatusCode: 429 } },
      'throttle',
      429,
    ],
    [
      'AWS: its server',
      { name: 'InternalError', $fault: 'server', $metadata: { httpStatusCode: 500 } },
      'upstream',
      500,
    ],
    ['AWS: its own timer', { name: 'TimeoutError', $metadata: { attempts: 1 } }, 'upstream', null],
    // https://axios-http.com/docs/handling_errors
    [
      'axios: an answer',
      { code: 'ERR_BAD_RESPONSE', response: { status: 502, headers: {}, data: '' } },
      'upstream',
      502,
    ],
    [
      'axios: a request fault',
      { code: 'ERR_BAD_REQUEST', response: { status: 422, headers: {}, data: '' } },
      'client',
      422,
    ],
    ['axios: its own timer', { code: 'ECONNABORTED', request: {} }, 'upstream', null],
    [
      'axios: a refused port',
      { code: 'ECONNREFUSED', request: {}, cause: socketFault('ECONNREFUSED') },
      'upstream',
      null,
    ],
    // https://github.com/sindresorhus/got/blob/main/documentation/8-errors.md
    [
      'got: an answer',
      { name: 'HTTPError', code: 'ERR_NON_2XX_3XX_RESPONSE', response: { statusCode: 503 } },
      'upstream',
      503,
    ],
    ['got: its own timer', { name: 'TimeoutError', code: 'ETIMEDOUT' }, 'upstream', null],
    // https://github.com/googleapis/gaxios: the status as text in `code`, the number in `status`.
    ['gaxios: an answer', { code: '404', status: 404, response: { status: 404, headers: {} } }, 'client', 404],
    // https://grpc.github.io/grpc/core/md_doc_statuscodes.html: 14 is no HTTP status.
    ['gRPC: unavailable', { code: 14, details: 'No connection established' }, 'unknown', null],
  ])('%s', async (_, fields, failureClass, status) => {
    const { row } = await failureOf(() => Promise.reject(thrown(fields as Record<string, unknown>)))
    expect(row).toMatchObject({ failure_class: failureClass, status_code: status })
  })
})

describe('an error that can not be read', () => {
  it.each(ODD_ERRORS)('%s: unknown, with its row, and thrown as it is', async (_, { make, line }) => {
    const thrown = make()
    const { row, error } = await failureOf(() => Promise.reject(thrown))
    expect(row).toMatchObject({ failure_class: 'unknown', status_code: null, error: line })
    // No matcher: it would read the error.
    expect(error === thrown).toBe(true)
  })

  it('says what it says in fields that can be read', async () => {
    const thrown = Object.defineProperty(Object.assign(new Error('as the client says'), { status: 503 }), 'code', {
      get() {
        throw new TypeError('no answer')
      },
    })
    const { row } = await failureOf(() => Promise.reject(thrown))
    expect(row).toMatchObject({ failure_class: 'upstream', status_code: 503 })
  })
})

describe("the host's own database, asked within a call, is not the provider", () => {
  it.each<[string, () => Promise<unknown>]>([
    ['a fault that it reports', () => test.sql`select 1 / 0`],
    ['a constraint', () => test.sql`insert into integrations (provider) values (null)`],
    ['the same by Drizzle', () => drizzle(test.sql).execute('select 1 / 0')],
    ['its port refused', () => elsewhere(refused)`select 1`],
    ['its port refused, by Drizzle', () => drizzle(elsewhere(refused)).execute('select 1')],
    ['its port refused, in a transaction', () => elsewhere(refused).begin((sql) => sql`select 1`)],
    ['its host unknown', () => elsewhere('http://nowhere.invalid:5432')`select 1`],
    ['no answer in time', () => elsewhere(silent.url)`select 1`],
  ])('%s: unknown', async (_, call) => {
    const { row, error } = await failureOf(call)
    expect(row).toMatchObject({ failure_class: 'unknown', status_code: null })
    expect(isNeverConnected(error)).toBe(false)
  })

  function elsewhere(url: string): postgres.Sql {
    const { hostname, port } = new URL(url)
    return postgres({ host: hostname, port: Number(port), max: 1, connect_timeout: 1, fetch_types: false })
  }
})

interface Row {
  readonly failure_class: string | null
  readonly status_code: number | null
  readonly error: string | null
}

/** An integration of its own each: a breaker that opens would refuse the next test's call. */
async function failureOf(call: Call, options: RequestOptions = {}): Promise<{ row: Row | undefined; error: unknown }> {
  const integration = await makeIntegration(test, 'plain')
  const ended = integration.request('things', 'GET', call as never, { attempts: 1, ...options })
  let error: unknown
  await ended.then(
    () => {
      throw new Error('the call was to fail')
    },
    // Not returned: a promise asks what it is given for its `then`, and one of the odd errors refuses every question.
    (fault: unknown) => {
      error = fault
    },
  )
  const rows = await test.sql<Row[]>`
    select failure_class, status_code, error from integration_requests where integration_id = ${integration.id}`
  expect(rows).toHaveLength(1)
  return { row: rows[0], error }
}

/** Codes, names and messages of the error and its causes. */
function codesOf(error: unknown): string {
  const { name, message, code, cause } = error as { name?: string; message?: string; code?: string; cause?: unknown }
  return `${name} ${message} ${code} ${cause === undefined ? '' : codesOf(cause)}`
}
