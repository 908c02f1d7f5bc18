/** What is stored of a call: redacted by the provider's paths, cut, or noted; and what its answer asks of the calls after it. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { REDACTOR } from '../../src/framework/redaction.ts'
import type { IntegrationProvider } from '../../src/providers/contracts.ts'
import type { Call, Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const NOW = Date.UTC(2026, 0, 1)
const MAX_RESPONSE_BYTES = 1_024
const FILE = new Uint8Array([1, 2, 0, 255])
const FILE_NOTE = `[binary, 4 bytes, sha256 ${createHash('sha256').update(FILE).digest('hex')}]`

const PROVIDERS: Record<string, IntegrationProvider & Record<string, unknown>> = {
  plain: {},
  redacting: {
    redactedRequestPaths: () => ['card.number', 'list.*.pin'],
    redactedResponsePaths: () => ['client', 'data.*.client'],
  },
  brief: { unloggedResponses: () => ['files/*', 'GET:exports/*/rows'] },
  broken: {
    redactedRequestPaths: () => {
      throw new Error(`no paths for ${TOKEN}`)
    },
    redactedResponsePaths: () => 'client',
  },
  'broken-limits': { unloggedResponses: () => [7] },
}

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: PROVIDERS as never,
    clock: { now: () => new Date(NOW) },
    config: {
      logging: { max_response_bytes: MAX_RESPONSE_BYTES },
      retry: { retry_after_max_seconds: 300 },
      rate_limiting: { max_wait_seconds: 0 },
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'plain')
})

describe('a body with what its provider redacts', () => {
  beforeEach(async () => {
    integration = await makeIntegration(test, 'redacting')
  })

  it('loses it in the request and in the answer, each by its own paths', async () => {
    await made(() => json('{"client":"a","id":12345678901234567890,"data":[{"client":null,"card":{"number":2}}]}'), {
      data: { card: { number: '4242', client: 'kept' }, list: [{ pin: 0 }], client: 'kept' },
    })
    expect(await row()).toMatchObject({
      request_data: '{"card":{"number":"[REDACTED]","client":"kept"},"list":[{"pin":"[REDACTED]"}],"client":"kept"}',
      response_data:
        '{"client":"[REDACTED]","id":12345678901234567000,"data":[{"client":"[REDACTED]","card":{"number":2}}]}',
    })
  })

  it('keeps the digits and the spaces of a text that was given as one', async () => {
    await made(() => 'no JSON: client', { data: '{ "card" : {"number":1, "id": 12345678901234567890} }' })
    expect(await row()).toMatchObject({
      request_data: '{ "card" : {"number":"[REDACTED]", "id": 12345678901234567890} }',
      response_data: 'no JSON: client',
    })
  })

  it('loses it in an error answer, and in one that does not fit the schema', async () => {
    await failed(() => json('{"client":"a"}', { status: 422 }))
    expect((await row()).response_data).toBe('{"client":"[REDACTED]"}')
    const drift = integration.requestAs(z.object({ a: z.string() }), 'x', 'GET', () => json('{"client":"b"}'))
    await expect(drift).rejects.toMatchObject({ code: 'schema_drift' })
    expect(await row()).toMatchObject({ response_data: '{"client":"[REDACTED]"}', failure_class: 'unknown' })
  })

  it('loses it before it is cut', async () => {
    await made(() => json(JSON.stringify({ client: 'c'.repeat(2_000), rest: 1 })))
    expect((await row()).response_data).toBe('{"client":"[REDACTED]","rest":1}')
  })

  it('is not stored when the provider can not say what to redact', async () => {
    integration = await makeIntegration(test, 'broken')
    expect(await made(() => json('{"client":"a"}'), { data: { a: 'é' } })).toEqual({ client: 'a' })
    expect(await row()).toMatchObject({
      request_data: '[not logged, 10 bytes]',
      response_data: '[not logged, 14 bytes]',
      failure_class: null,
    })
    const warnings = test.lines.filter(({ fields }) => fields.integration === integration.id)
    expect(warnings.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'redactedRequestPaths() threw; the body is not stored'],
      ['warn', 'redactedResponsePaths() gave no list of texts; the body is not stored'],
    ])
    expect(JSON.stringify(warnings)).not.toContain(TOKEN)
  })
})

describe('an answer that its provider does not want to be logged', () => {
  it.each<[string, string, string]>([
    ['files/7', 'POST', '[not logged, 8 bytes]'],
    ['exports/7/rows', 'GET', '[not logged, 8 bytes]'],
    ['exports/7/rows', 'POST', '{"a":"é"}'],
    ['files/7/name', 'GET', '{"a":"é"}'],
  ])('%s %s is stored as %s', async (endpoint, method, stored) => {
    integration = await makeIntegration(test, 'brief')
    await integration.request(endpoint, method, () => json(stored.startsWith('[') ? '{"a":12}' : '{"a":"é"}'))
    expect((await row()).response_data).toBe(stored)
  })

  it.each<[string, RequestOptions, Call<unknown>, string | null]>([
    ['bytes too', {}, () => FILE, '[not logged, 4 bytes]'],
    ['what is none', {}, () => json('', { status: 204, body: null }), null],
    ['what is no JSON', {}, () => 1n, '[not serialisable]'],
    ['but a cached one', { cacheFor: 60 }, () => json('{"a":1}'), '{"a":1}'],
    ['but a keyed one', { idempotencyKey: 'unlogged' }, () => json('{"a":1}'), '{"a":1}'],
  ])('%s', async (_, options, call, stored) => {
    integration = await makeIntegration(test, 'brief')
    await integration.request('files/1', 'GET', call, options)
    expect((await row()).response_data).toBe(stored)
  })

  it('is not stored when the provider can not say which', async () => {
    integration = await makeIntegration(test, 'broken-limits')
    await made(() => json('{"a":1}'))
    expect((await row()).response_data).toBe('[not logged, 7 bytes]')
  })
})

describe('a body', () => {
  it.each<[string, unknown, string | null]>([
    ['bytes', FILE, FILE_NOTE],
    ['an array buffer', FILE.buffer, FILE_NOTE],
    ['bytes of a part of a buffer', new Uint8Array(new Uint8Array([9, ...FILE, 9]).buffer, 1, 4), FILE_NOTE],
    ['a big integer', { a: 1n }, '[not serialisable]'],
    ['a cycle', circular(), '[not serialisable]'],
    ['a function', () => 1, '[not serialisable]'],
    ['nothing', undefined, null],
    ['null', null, null],
    ['an empty text', '', ''],
    ['false', false, 'false'],
    ['NUL characters', 'a\u0000b', 'ab'],
    ['half a surrogate pair', 'a\ud83db', 'a\ufffdb'],
    ['a secret with a NUL in it', `${TOKEN.slice(0, 4)}\u0000${TOKEN.slice(4)}`, '[REDACTED]'],
  ])('that is %s is stored as such or as a note', async (_, body, stored) => {
    await made(() => body, { data: body as never })
    expect(await row()).toMatchObject({ request_data: stored, response_data: stored })
  })

  it.each<[string, RequestOptions, boolean]>([
    ['is cut', {}, true],
    ['of a cached call is whole', { cacheFor: 60 }, false],
    ['of a keyed call is whole', { idempotencyKey: 'whole' }, false],
  ])('of the answer %s', async (_, options, isCut) => {
    // One byte, then characters of four: the cut falls into one of them.
    const body = `x${'😀'.repeat(300)}`
    await made(() => body, options)
    const { response_data } = await row()
    const stored = options.cacheFor === undefined ? response_data : JSON.parse(response_data ?? '')
    expect(stored).toBe(isCut ? `x${'😀'.repeat(250)} ...[cut, 1201 bytes]` : body)
    expect(Buffer.byteLength(`x${'😀'.repeat(250)} ...[cut, 1201 bytes]`)).toBeLessThanOrEqual(MAX_RESPONSE_BYTES)
  })

  it.each([
    ['at the limit is whole', 65_536, 65_536],
    ['above it is cut on a character, whatever the call', 65_537, 65_535],
  ])('of the request %s', async (_, bytes, stored) => {
    const data = 'x'.repeat(bytes % 2) + 'é'.repeat(Math.floor(bytes / 2))
    await made(() => null, { data, idempotencyKey: `request-${bytes}` })
    const { request_data } = await row()
    expect(Buffer.byteLength(request_data ?? '')).toBe(stored)
    expect(request_data).not.toContain('\ufffd')
    expect(request_data?.endsWith(' ...[cut, 65537 bytes]')).toBe(bytes > 65_536)
  })
})

describe('a large answer', () => {
  const large = JSON.stringify({ client: 'c', echoed: Array.from({ length: 60_000 }, () => TOKEN) }, null, 1)

  it('is redacted as any other, and stored as a decoded one is', async () => {
    integration = await makeIntegration(test, 'redacting')
    await made(() => json(large), { idempotencyKey: 'large' })
    const marks = Array.from({ length: 60_000 }, () => '[REDACTED]')
    expect((await row()).response_data === JSON.stringify({ client: '[REDACTED]', echoed: marks })).toBe(true)
  })

  it('is cached when nothing in it is redacted', async () => {
    const clean = large.replaceAll(TOKEN, 'some other text')
    await made(() => json(clean), { cacheFor: 60 })
    expect((await row()).response_data === JSON.stringify(JSON.parse(clean))).toBe(true)
    const again = await integration.request('x', 'POST', () => json('{}'), { cacheFor: 60 })
    expect(again).toEqual(JSON.parse(clean))
  })

  it.each(['$', "'", '\\', '$t', '"'])('is stored as it is, whatever it ends in: %s', async (end) => {
    const body = `${'a\'b\\c$$d"e$t$\u0001é'.repeat(80_000)}${end}`
    await made(() => body, { idempotencyKey: `ends in ${end}` })
    expect((await row()).response_data === body).toBe(true)
  })

  it('that can not be redacted has its row all the same, with its size, and counts as any other', async () => {
    vi.spyOn(REDACTOR, 'redactStored').mockImplementation(() => {
      throw new RangeError(`no memory for ${TOKEN}`)
    })
    await failed(() => json('{"a":"é"}', { status: 500 }))
    expect(await row()).toMatchObject({ response_data: '[not redacted, 10 bytes]', failure_class: 'upstream' })
    const [{ failures }] = await test.sql<[{ failures: number }]>`
      select consecutive_failures as failures from integrations where id = ${integration.id}`
    expect(failures).toBe(1)
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({ event: 'request.body_not_redacted', error: 'RangeError' }),
      }),
    )
  })
})

describe('the other columns', () => {
  it('hold what fits: names cut, statuses that are some, secrets redacted', async () => {
    await integration.request(
      `${'😀'.repeat(300)}${TOKEN}`,
      'm'.repeat(255),
      ({ report }) => report({ statusCode: 1e9, providerRequestId: 'r\u0000\ud83d' }),
      { relatedTo: { type: 't'.repeat(255), id: 7 } },
    )
    expect(await row()).toMatchObject({
      endpoint: '😀'.repeat(255),
      method: 'm'.repeat(255),
      status_code: null,
      provider_request_id: 'r\ufffd',
      related_type: 't'.repeat(255),
      related_id: '7',
    })
  })

  it('hold the error as a line without secrets and without half characters', async () => {
    const error = Object.assign(new Error(`${TOKEN}\u0000 ${'😀'.repeat(2_000)}`), { code: 'E_X' })
    await failed(() => Promise.reject(error))
    const { error: line } = await row()
    expect(line).toMatch(/^Error: \[REDACTED\] 😀+\ufffd? \(E_X\)$/u)
    expect(line?.length).toBeLessThanOrEqual(2_000)
    expect(error.message).toContain(TOKEN)
  })

  it('hold no credential that was given to the integration since its handle was made', async () => {
    await integration.updateCredentials({ token: 'renewed-token-1' })
    await made(() => json('{"token":"renewed-token-1"}'), { data: { token: 'renewed-token-1', before: TOKEN } })
    expect(await row()).toMatchObject({
      request_data: '{"token":"[REDACTED]","before":"[REDACTED]"}',
      response_data: '{"token":"[REDACTED]"}',
    })
  })

  it('hold no credential that the call itself has given to the integration', async () => {
    const call = async () => {
      await integration.updateCredentials({ token: 'renewed-token-2' })
      throw new Error('what is renewed-token-2?')
    }
    await expect(made(call)).rejects.toThrow('renewed-token-2')
    expect(await row()).toMatchObject({ error: 'Error: what is [REDACTED]?' })
  })

  it('hold a moment and a hash only where the answer may be served again', async () => {
    await made(() => ({ a: 1 }))
    expect(await row()).toMatchObject({ expires_at: null, request_hash: null })
    await made(() => ({ a: 1 }), { cacheFor: 60 })
    expect(await row()).toMatchObject({
      expires_at: new Date(NOW + 60_000),
      // Signed by the ring.
      request_hash: expect.stringMatching(/^[\w-]{43}$/),
    })
  })

  it.each<[string, Call<unknown>]>([
    ['failed', () => Promise.reject(new Error('no'))],
    ['was no UTF-8', () => new Response(new Uint8Array([0x22, 0xff, 0x22]))],
    ['is bytes', () => FILE],
    ['holds bytes', () => ({ data: FILE.buffer, status: 200, headers: {} })],
    ['is no JSON', () => ({ a: 1n })],
    ['is nothing at all', () => undefined],
    ['holds a credential', () => `x ${TOKEN}`],
    ['holds a token beside the body', () => ({ data: { a: 1 }, status: 200, headers: { 'x-a': TOKEN } })],
    ['holds a secret key', () => ({ refresh_token: 'x' })],
  ])('hold neither for an answer that %s', async (_, call) => {
    await integration.request('x', 'POST', call, { cacheFor: 60 }).catch(() => {})
    expect(await row()).toMatchObject({ expires_at: null, request_hash: null })
  })

  it('hold neither for an answer with a redacted path', async () => {
    integration = await makeIntegration(test, 'redacting')
    await made(() => ({ data: { client: 1 }, status: 200, headers: {} }), { cacheFor: 60 })
    expect(await row()).toMatchObject({ expires_at: null, response_data: '{"client":"[REDACTED]"}' })
  })
})

describe('an answer keeps later calls away', () => {
  it.each<[string, ResponseInit, number | null]>([
    ['for a throttle by Retry-After', { status: 429, headers: { 'Retry-After': '7' } }, 7_000],
    ['not longer than the cap', { status: 429, headers: { 'Retry-After': '700' } }, 300_000],
    ['not by Retry-After of another failure', { status: 503, headers: { 'Retry-After': '7' } }, null],
    ['not for a throttle that names no time', { status: 429 }, null],
    ['until the reset of a spent quota', quota('0', 50), 50_000],
    ['not with quota left', quota('1', 50), null],
    ['not until a reset that is past', quota('0', -50), null],
    ['until the later of both', { ...quota('0', 50), status: 429 }, 50_000],
  ])('%s', async (_, init, ms) => {
    await integration.request('x', 'POST', () => json('{}', init)).catch(() => {})
    const [state] = await test.sql<{ until: string | null }[]>`
      select value ->> 'suppressedUntil' as until from integration_cache
      where key = ${`integrations:integration:${integration.id}:calls`}`
    expect(state?.until ?? null).toBe(ms === null ? null : String(NOW + ms))
  })
})

function quota(remaining: string, resetInSeconds: number): ResponseInit {
  return {
    headers: { 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': String(NOW / 1_000 + resetInSeconds) },
  }
}

function circular(): unknown {
  const value: { self?: unknown } = {}
  value.self = value
  return value
}

function json(body: string, { status = 200, headers = {}, ...rest }: ResponseInit & { body?: null } = {}): Response {
  return new Response(rest.body === null ? null : body, {
    status,
    headers: { 'Content-Type': 'application/json', ...(headers as Record<string, string>) },
  })
}

function made(call: Call<unknown>, options: RequestOptions = {}): Promise<unknown> {
  return integration.request('x', 'POST', call, options)
}

async function failed(call: Call<unknown>): Promise<void> {
  await expect(made(call)).rejects.toThrow()
}

interface Row {
  readonly request_data: string | null
  readonly response_data: string | null
  readonly error: string | null
}

/** The newest of the integration. */
async function row(): Promise<Row> {
  const [found] = await test.sql<Row[]>`
    select * from integration_requests where integration_id = ${integration.id} order by id desc limit 1`
  if (found === undefined) throw new Error('the call left no row')
  return found
}
