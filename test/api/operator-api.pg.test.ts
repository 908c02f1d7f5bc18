/** The operator API's answers: lists, bodies, refusals, and what each change leaves behind. */
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { createApi } from '../../src/api/app.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const PATH = '/operator/api/v1/integrations'
const CANARY = 'canary-9b1f2c-secret'
const encryptionKeys = encryptionKey('shared')

let database: TestDatabase
let test: TestIntegrations
let api: Hono

beforeAll(async () => {
  database = await createTestDatabase()
  const strict = { ...webhookProvider(), credentialsSchema: z.strictObject({ token: z.string().min(20) }) }
  const providers = {
    acme: webhookProvider(),
    strict,
    synced: syncProvider(() => {}, { defaultRateLimit: () => RateLimit.perDay(1) }),
  }
  test = testIntegrations(database.url, {
    encryptionKeys,
    providers,
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  Object.assign(test.framework, { temporal: { ...test.framework.temporal, check: async () => {} } })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('the list', () => {
  const own = { type: 'list', id: 7 }
  let ids: number[]

  beforeAll(async () => {
    ids = []
    for (const provider of ['acme', 'synced', 'acme', 'acme', 'synced'])
      ids.push((await makeIntegration(test, provider, { owner: own })).id)
    await setIntegration(test, ids[1] as number, { syncStaleAlertedAt: new Date() })
    await setIntegration(test, ids[2] as number, { healthStatus: 'failing' })
    await setIntegration(test, ids[3] as number, { isActive: false })
    await makeIntegration(test, 'acme', { owner: { type: 'list', id: 8 } })
  })

  it.each([
    ['all, newest first', '', [4, 3, 2, 1, 0]],
    ['those of a provider', '&provider=synced', [4, 1]],
    ['those of a health', '&health=failing', [2]],
    ['the active ones', '&active=true', [4, 2, 1, 0]],
    ['the inactive ones', '&active=false', [3]],
    ['the stale ones', '&stale=true', [1]],
    ['those not stale', '&stale=false', [4, 3, 2, 0]],
    ['several filters at once', '&provider=acme&active=true&health=healthy', [0]],
    ['none of a provider that nobody has', '&provider=constructor', []],
  ])('gives %s', async (_, filter, expected) => {
    const { data, next } = await pageOf(`owner=list:7${filter}`)
    expect(data.map(({ id }) => id)).toEqual(expected.map((index) => ids[index]))
    expect(next).toBeNull()
  })

  it('goes on page by page after the last id, and says when it ends', async () => {
    const seen: number[][] = []
    for (let after = ''; ; ) {
      const { data, next } = await pageOf(`owner=list:7&limit=2${after}`)
      seen.push(data.map(({ id }) => id))
      if (next === null) break
      expect(next).toBe(seen.at(-1)?.at(-1))
      after = `&after=${next}`
    }
    const newestFirst = ids.toReversed()
    expect(seen).toEqual([newestFirst.slice(0, 2), newestFirst.slice(2, 4), newestFirst.slice(4)])
  })

  it.each([
    ['limit=0', 'limit'],
    ['limit=201', 'limit'],
    ['limit=1e2', 'limit'],
    ['limit=', 'limit'],
    ['after=0', 'after'],
    ['after=9007199254740993', 'after'],
    ['health=ill', 'health'],
    ['active=1', 'active'],
    ['stale=yes', 'stale'],
    ['owner=7', 'owner'],
    ['owner=a%00b:1', 'owner'],
    ['provider=a%00b', 'provider'],
    ['owner=list:x', 'owner'],
    ['limit=1&limit=2', 'limit'],
    ['nobody=knows', 'nobody'],
  ])('refuses ?%s, naming the parameter', async (query, path) => {
    const response = await get(`${PATH}?${query}`)
    expect(await problemOf(response)).toMatchObject({ status: 422, code: 'invalid_fields', fields: [{ path }] })
  })
})

describe('a new integration', () => {
  const body = { provider: 'acme', name: 'Ours', credentials: { token: CANARY, webhook_secret: 'x' } }

  it('is made from the columns’ names, and shown without its credentials', async () => {
    const given = { ...body, metadata: { repo: 'r' }, owner_type: 'team', owner_id: 3, is_active: false }
    const response = await send('POST', PATH, given)
    const made = await rowOf(response)
    expect([response.status, response.headers.get('location')]).toEqual([201, `${PATH}/${made.id}`])
    expect(made).toMatchObject({
      provider: 'acme',
      name: 'Ours',
      credentials: ['token', 'webhook_secret'],
      metadata: { repo: 'r' },
      owner_type: 'team',
      owner_id: 3,
      is_active: false,
      health_status: 'healthy',
      last_synced_at: null,
    })
    const columns = await test.sql`select * from integrations where id = ${made.id}`
    const more = ['failed_items', 'last_run', 'open_run', 'pause', 'reauth_required', 'waiting_items']
    expect(Object.keys(made).sort()).toEqual([...Object.keys(columns[0] ?? {}), ...more].sort())
    expect((await test.integrations.get(made.id)).credentialsArray()).toEqual(body.credentials)
  })

  it('with metadata of 30,000 levels is a 422 that says why, and stores nothing', async () => {
    const before = await count()
    const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
    const given = `{"provider":"acme","name":"n","credentials":{},"metadata":{"deep":${deep}}}`
    expect(await problemOf(await send('POST', PATH, given))).toMatchObject({
      status: 422,
      detail: expect.stringContaining('nested too deep'),
    })
    expect(await count()).toBe(before)
  })

  it.each([
    ['without a name', { ...body, name: undefined }, 'name'],
    ['without credentials', { ...body, credentials: undefined }, 'credentials'],
    ['with credentials that are a list', { ...body, credentials: [CANARY] }, 'credentials'],
    ['with half an owner', { ...body, owner_type: 'team' }, 'owner_id'],
    ['with an owner id of 0', { ...body, owner_type: 'team', owner_id: 0 }, 'owner_id'],
    ['with a property instead of a column', { ...body, isActive: true }, 'isActive'],
    ['with an id', { ...body, id: 7 }, 'id'],
    ['of a provider that is not registered', { ...body, provider: 'nobody' }, 'provider'],
    ['with an interval where nothing is synced', { ...body, sync_interval_minutes: 5 }, 'provider'],
    [
      'with credentials that the provider refuses',
      { ...body, provider: 'strict', credentials: { token: 'short' } },
      'credentials.token',
    ],
    ['with a blank name', { ...body, name: '  ' }, 'name'],
  ])('%s is a 422 that names the field, and stores nothing', async (_, given, path) => {
    const before = await count()
    const response = await send('POST', PATH, given)
    const text = await response.clone().text()
    expect(await problemOf(response)).toMatchObject({ status: 422, fields: [{ path, message: expect.any(String) }] })
    expect(text).not.toContain(CANARY)
    expect(await count()).toBe(before)
  })

  it.each([
    ['another content type', 'text/plain', JSON.stringify(body), 415, 'unsupported_media_type'],
    ['a form', 'application/x-www-form-urlencoded', 'name=x', 415, 'unsupported_media_type'],
    ['no JSON', 'application/json', `{"token": "${CANARY}`, 400, 'invalid_json'],
    ['nothing', 'application/json', '', 400, 'invalid_json'],
    ['1 MiB and a byte', 'application/json', 'x'.repeat(1_048_577), 413, 'body_too_large'],
  ])('from %s is refused', async (_, type, text, status, code) => {
    const response = await request('POST', PATH, { 'content-type': type }, text)
    const answer = await response.clone().text()
    expect(await problemOf(response)).toMatchObject({ status, code })
    expect(answer).not.toContain(CANARY)
  })

  it('from a body of more than 1 MiB that does not tell its length is refused', async () => {
    const chunk = new Uint8Array(300_000)
    let left = 4
    const stream = new ReadableStream({
      pull: (controller) => (left-- > 0 ? controller.enqueue(chunk) : controller.close()),
    })
    const response = await api.request(PATH, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' },
      body: stream,
      duplex: 'half',
    } as RequestInit)
    expect(response.status).toBe(413)
  })

  it('from a body of an unknown caller is refused unread', async () => {
    const pulled = vi.fn()
    const response = await sendStream(new ReadableStream({ pull: pulled }, { highWaterMark: 0 }), 'unknown')
    expect(response.status).toBe(401)
    expect(pulled).not.toHaveBeenCalled()
  })

  it('from a body that has not come in after 15 seconds is refused', async () => {
    const reading = occasion()
    const body = new ReadableStream({ pull: () => reading.happen() }, { highWaterMark: 0 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const answer = sendStream(body)
    await reading.happened
    vi.advanceTimersByTime(15_000)
    expect(await problemOf(await answer)).toMatchObject({ status: 408, code: 'body_too_slow' })
  })

  it('from a client that hangs up in the middle is no error line', async () => {
    const aborted = new ReadableStream({
      start: (controller) => controller.enqueue(Buffer.from('{')),
      pull: (controller) => controller.error(new Error('aborted')),
    })
    const before = test.lines.length
    expect((await sendStream(aborted)).status).toBe(408)
    expect(test.lines.slice(before).filter(({ level }) => level === 'error')).toEqual([])
  })

  it('of a sign-in is read up to 16 KiB', async () => {
    const login = (token: string) =>
      api.request('/operator/login', {
        method: 'POST',
        headers: { origin: BASE_URL, 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ token }),
      })
    expect((await login('x'.repeat(16_384 - 'token='.length))).status).toBe(401)
    expect((await login('x'.repeat(16_385 - 'token='.length))).status).toBe(413)
  })

  const sendStream = (body: ReadableStream, token = OPERATE_TOKEN): Promise<Response> =>
    Promise.resolve(
      api.request(PATH, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body,
        duplex: 'half',
      } as RequestInit),
    )
})

describe('a change', () => {
  it('touches what it names; of credentials null removes a key', async () => {
    const { id } = await makeIntegration(test, 'synced', { credentials: { token: 'old', extra: CANARY } })
    const given = { name: 'Renamed', sync_interval_minutes: 7, credentials: { token: CANARY, extra: null } }
    const response = await send('PATCH', `${PATH}/${id}`, given)
    expect(await response.json()).toMatchObject({
      id,
      name: 'Renamed',
      sync_interval_minutes: 7,
      credentials: ['token'],
    })
    expect((await test.integrations.get(id)).credentialsArray()).toEqual({ token: CANARY })
  })

  it('takes it from its owner by two nulls', async () => {
    const { id } = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 3 } })
    const response = await send('PATCH', `${PATH}/${id}`, { owner_type: null, owner_id: null })
    expect(await response.json()).toMatchObject({ id, owner_type: null, owner_id: null })
    expect(await problemOf(await send('PATCH', `${PATH}/${id}`, { owner_type: null, owner_id: 3 }))).toMatchObject({
      status: 422,
      fields: [{ path: 'owner_id' }],
    })
  })

  it.each([
    ['of nothing', {}, ''],
    ['of the provider', { provider: 'strict' }, 'provider'],
    ['of the health', { health_status: 'healthy' }, 'health_status'],
  ])('%s is a 422', async (_, given, path) => {
    const { id } = await makeIntegration(test, 'acme')
    expect(await problemOf(await send('PATCH', `${PATH}/${id}`, given))).toMatchObject({
      status: 422,
      fields: [{ path }],
    })
  })

  it('switches on and off', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const off = await send('POST', `${PATH}/${id}/disable`)
    expect([off.status, (await rowOf(off)).is_active]).toEqual([200, false])
    const on = await send('POST', `${PATH}/${id}/enable`)
    expect([on.status, (await rowOf(on)).is_active]).toEqual([200, true])
  })

  it('leaves a log row with token, action and target', async () => {
    const made = await rowOf(await send('POST', PATH, { provider: 'acme', name: 'n', credentials: { token: CANARY } }))
    await send('PATCH', `${PATH}/${made.id}`, { name: 'm' })
    await send('POST', `${PATH}/${made.id}/disable`)
    await send('POST', `${PATH}/${made.id}/enable`)
    const logs = await logsOf(test, made.id, 'operator')
    expect(logs.map(({ status, metadata }) => [status, metadata])).toEqual(
      ['create', 'update', 'disable', 'enable'].map((action) => [
        'success',
        { token: 'operator', action, target: `integration:${made.id}` },
      ]),
    )
  })

  it('leaves none when it is refused', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await send('PATCH', `${PATH}/${id}`, { name: '' })
    await request('POST', `${PATH}/${id}/disable`, { authorization: `Bearer ${READ_TOKEN}` })
    expect(await logsOf(test, id, 'operator')).toEqual([])
  })
})

describe('an address', () => {
  it.each([
    ['behind a proxy that ends TLS', BASE_URL, '', ''],
    ['below a path that a proxy takes off', `${BASE_URL}/hub`, '', '/hub'],
    ['below a path that a proxy leaves', `${BASE_URL}/hub`, '/hub', '/hub'],
  ])('that an answer leads to is where the caller found us, %s', async (_, baseUrl, left, base) => {
    const below = testIntegrations(database.url, {
      encryptionKeys,
      providers: { acme: webhookProvider() },
      baseUrl,
      config: { operator: { tokens: TOKENS } },
    })
    const app = new Hono().route(left === '' ? '/' : left, createApi(below.integrations))
    const headers = { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' }
    const ask = (method: string, path: string, body?: object) =>
      app.request(`http://evil.example${left}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })

    for (const path of [PATH, '/operator'])
      expect((await ask('GET', `${path}/?limit=1`)).headers.get('location')).toBe(`${base}${path}?limit=1`)
    const created = await ask('POST', PATH, { provider: 'acme', name: 'n', credentials: { token: CANARY } })
    expect(created.headers.get('location')).toMatch(new RegExp(`^${base}${PATH}/\\d+$`))
    await below.close()
  })
})

describe('a deletion', () => {
  it('takes the row, and says what went with it', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const response = await send('DELETE', `${PATH}/${id}`)
    expect([response.status, await response.json()]).toEqual([200, { id, deleted: expect.any(Object) }])
    expect(await test.integrations.find(id)).toBeNull()
    expect(JSON.stringify(test.lines)).toContain('"by":"operator"')
  })

  it('is a 409 while a run lives, unless it is forced', async () => {
    const { id } = await makeIntegration(test, 'synced')
    test.starts.running.add(id)
    expect(await problemOf(await send('DELETE', `${PATH}/${id}`))).toMatchObject({
      status: 409,
      code: 'integration_busy',
    })
    expect(await test.integrations.find(id)).not.toBeNull()
    expect((await send('DELETE', `${PATH}/${id}?force=true`)).status).toBe(200)
    expect(test.starts.cancelled).toContain(id)
  })

  it('with another word for force is a 422', async () => {
    const { id } = await makeIntegration(test, 'acme')
    expect((await send('DELETE', `${PATH}/${id}?force=yes`)).status).toBe(422)
    expect(await test.integrations.find(id)).not.toBeNull()
  })
})

it.each(['0', '01', '-1', 'x', '1.0', '999999', '9007199254740992', '99999999999999999999'])(
  'an integration of the id %s is a 404 whatever is asked of it',
  async (id) => {
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/enable'],
      ['POST', '/disable'],
    ] as const) {
      const response = await send(method, `${PATH}/${id}${path}`, method === 'PATCH' ? { name: 'n' } : undefined)
      expect(await problemOf(response)).toMatchObject({ status: 404, code: 'integration_not_found' })
    }
  },
)

it('lists a row whose credentials can not be read', async () => {
  const { id } = await makeIntegration(test, 'acme')
  await test.sql`update integrations set credentials = 'plain' where id = ${id}`
  expect(await (await get(`${PATH}/${id}`)).json()).toMatchObject({ id, credentials: null })
})

it('shows a credential in no answer', async () => {
  const credentials = { token: CANARY, webhook_secret: CANARY }
  const { id } = await makeIntegration(test, 'acme', { credentials })
  const answers = await Promise.all([
    get(`${PATH}?limit=200`),
    get(`${PATH}/${id}`),
    send('PATCH', `${PATH}/${id}`, { credentials }),
    send('POST', `${PATH}/${id}/enable`),
    get('/operator'),
  ])
  for (const answer of answers) {
    expect(answer.status).toBe(200)
    expect(await answer.text()).not.toContain(CANARY)
  }
})

it('every answer is neither kept nor guessed at', async () => {
  for (const path of [PATH, `${PATH}/0`, '/operator/api/v1/healthz', '/operator/api/v1/readyz', '/operator/nothing']) {
    const { headers } = await get(path)
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff'])
  }
})

it('a fault of ours is a 500 that tells the log and not the caller', async () => {
  const broken = testIntegrations(database.url, { baseUrl: BASE_URL, config: { operator: { tokens: TOKENS } } })
  const list = () => {
    throw new TypeError('the secret recipe')
  }
  Object.assign(broken.integrations.admin.operator, { list })
  const response = await createApi(broken.integrations).request(PATH, {
    headers: { authorization: `Bearer ${READ_TOKEN}` },
  })
  expect(await response.clone().text()).not.toContain('recipe')
  expect(await problemOf(response)).toMatchObject({ status: 500, code: 'internal' })
  // Which integration's secrets it may quote, nobody knows.
  expect(JSON.stringify(broken.lines)).not.toContain('recipe')
  expect(broken.lines).toMatchObject([
    {
      level: 'error',
      fields: { path: PATH, error: 'TypeError', stack: expect.stringContaining('operator-api.pg.test') },
    },
    { level: 'debug', fields: { event: 'api.request', status: 500 } },
  ])
  await broken.close()
})

describe('readiness', () => {
  const ready = { postgres: 'ok', migrations: 'ok', keys: 'ok', temporal: 'ok' }

  async function ask(
    change: (broken: TestIntegrations) => void,
    options: { table_prefix?: string; url?: string } = {},
  ) {
    const { url = database.url, ...config } = options
    const one = testIntegrations(url, { config, encryptionKeys })
    Object.assign(one.framework, { temporal: { ...one.framework.temporal, check: async () => {} } })
    change(one)
    const response = await createApi(one.integrations).request('/operator/api/v1/readyz')
    const text = await response.text()
    await one.close()
    return { status: response.status, text, lines: one.lines }
  }

  it('is 200 when every part answers', async () => {
    const response = await get('/operator/api/v1/readyz')
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok', parts: ready }])
  })

  it('names Temporal, and tells only the log why', async () => {
    const check = () => Promise.reject(new Error('refused at 10.0.0.7'))
    const { status, text, lines } = await ask(({ framework }) => Object.assign(framework.temporal, { check }))
    expect([status, JSON.parse(text)]).toEqual([
      503,
      { status: 'unavailable', parts: { ...ready, temporal: 'failed' } },
    ])
    expect(text).not.toContain('10.0.0.7')
    expect(lines).toMatchObject([
      { level: 'warn', fields: { part: 'temporal', error: expect.stringContaining('10.0.0.7') } },
      { level: 'debug', fields: { event: 'api.request', status: 503 } },
    ])
  })

  it('does not wait for Temporal where it is excluded, and refuses to exclude anything else', async () => {
    const one = testIntegrations(database.url, { encryptionKeys })
    Object.assign(one.framework, { temporal: { check: () => new Promise(() => {}) } })
    const { temporal: _, ...parts } = ready
    const ask = (what: string) => createApi(one.integrations).request(`/operator/api/v1/readyz?exclude=${what}`)
    const response = await ask('temporal')
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok', parts }])
    expect((await ask('postgres')).status).toBe(422)
    await one.close()
  })

  it('names the migrations, and asks no further', async () => {
    const { status, text } = await ask(() => {}, { table_prefix: 'nothing_here' })
    const parts = { ...ready, migrations: 'failed', keys: 'unknown' }
    expect([status, JSON.parse(text)]).toEqual([503, { status: 'unavailable', parts }])
  })

  it('names the keys', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await test.sql`update integrations set credentials = 'v1.lost.AAAAAAAAAAAAAAAA.AA.AAAAAAAAAAAAAAAAAAAAAA' where id = ${id}`
    const { status, text } = await ask(() => {})
    await test.sql`delete from integrations where id = ${id}`
    expect([status, JSON.parse(text)]).toEqual([503, { status: 'unavailable', parts: { ...ready, keys: 'failed' } }])
  })

  it('names Postgres, and nothing of its address', async () => {
    const { status, text } = await ask(() => {}, { url: 'postgres://who:hush@127.0.0.1:1/none' })
    const parts = { ...ready, postgres: 'failed', migrations: 'unknown', keys: 'unknown' }
    expect([status, JSON.parse(text)]).toEqual([503, { status: 'unavailable', parts }])
    expect(text).not.toMatch(/hush|127\.0/)
  })

  it('stays while the server has no connection left for a check, as long as one of its own answers', async () => {
    const role = 'crowded_out'
    await test.sql.unsafe(`drop role if exists ${role}`)
    await test.sql.unsafe(`create role ${role} login password 'x' connection limit 9`)
    await test.sql.unsafe(`grant all on all tables in schema public to ${role}`)
    let nowMs = 0
    const one = testIntegrations(Object.assign(new URL(database.url), { username: role, password: 'x' }).href, {
      encryptionKeys,
      clock: { now: () => new Date(nowMs) },
    })
    Object.assign(one.framework, { temporal: { check: async () => {} } })
    onTestFinished(async () => {
      await one.close()
      await test.sql.unsafe(`drop owned by ${role}; drop role ${role}`)
    })
    const look = async () => {
      nowMs += 2_000
      return one.integrations.admin.readiness()
    }
    expect(await look()).toEqual({ isReady: true, parts: ready })

    await test.sql.unsafe(`alter role ${role} connection limit 0`)
    expect(await look(), 'a connection of a pool answers').toEqual({ isReady: true, parts: ready })

    await test.sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`
    await vi.waitFor(async () => expect((await look()).parts.postgres).toBe('failed'), SOON)
    expect(await look(), 'none is left').toEqual({
      isReady: false,
      parts: { ...ready, postgres: 'failed', migrations: 'unknown', keys: 'unknown' },
    })
  })

  it('looks once for all who ask within 2 seconds', async () => {
    let nowMs = 0
    const looks: string[] = []
    const one = testIntegrations(database.url, { encryptionKeys, clock: { now: () => new Date(nowMs) } })
    Object.assign(one.framework, { temporal: { check: async () => void looks.push('look') } })
    const askAt = async (ms: number): Promise<number> => {
      nowMs = ms
      await Promise.all([one.integrations.admin.readiness(), one.integrations.admin.readiness()])
      return looks.length
    }
    expect([await askAt(10_000), await askAt(11_999), await askAt(12_000)]).toEqual([1, 1, 2])
    expect(await askAt(5_000), 'a clock that was set back').toBe(3)
    await one.close()
  })
})

function request(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Response> {
  const init = { method, headers: { authorization: `Bearer ${OPERATE_TOKEN}`, ...headers } }
  return Promise.resolve(api.request(path, { ...init, ...(body === undefined ? {} : { body }) }))
}

const get = (path: string): Promise<Response> => request('GET', path, { authorization: `Bearer ${READ_TOKEN}` })

const send = (method: string, path: string, body?: unknown): Promise<Response> =>
  body === undefined
    ? request(method, path, {})
    : request(
        method,
        path,
        { 'content-type': 'application/json' },
        typeof body === 'string' ? body : JSON.stringify(body),
      )

type Row = Record<string, unknown> & { readonly id: number; readonly is_active: boolean }

const rowOf = async (response: Response): Promise<Row> => (await response.json()) as Row

const pageOf = async (query: string): Promise<{ data: Row[]; next: number | null }> =>
  (await (await get(`${PATH}?${query}`)).json()) as { data: Row[]; next: number | null }

/** The body of a refusal, which says its status twice. */
async function problemOf(response: Response): Promise<Record<string, unknown>> {
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const problem = (await response.json()) as Record<string, unknown>
  expect(problem).toMatchObject({
    type: `urn:durable-integrations:problem:${String(problem.code)}`,
    title: expect.any(String),
    status: response.status,
    detail: expect.any(String),
  })
  return problem
}

async function count(): Promise<number> {
  const [row] = await test.sql`select count(*)::int as rows from integrations`
  return Number(row?.rows)
}
