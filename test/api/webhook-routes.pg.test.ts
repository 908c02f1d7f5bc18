/** The answers of the webhook routes, and what each leaves behind. Real rows, and a real HTTP server for raw bytes. */
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { serve } from '@hono/node-server'
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { keepClaim } from '../../src/claims/lease-queries.ts'
import { partsOf } from '../../src/create-integrations.ts'
import type { WebhookRow } from '../../src/db/schema/tables.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { HandshakeAnswer, WebhookDoor } from '../../src/providers/webhook-door.ts'
import { storedWebhookRequest } from '../../src/providers/webhook-request.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, occasion, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, SECRET, sign, TOKEN, webhookProvider } from '../support/providers.ts'
import { makeWebhook } from '../support/rows.ts'

const MAX_BYTES = 1_000
const config = { webhook: { max_payload_bytes: MAX_BYTES } }
/** Of no matter where only bytes are read. */
const TIME = { receivedAt: new Date(), toleranceSeconds: 300 }

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let server: Server
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = { acme: webhookProvider(), other: webhookProvider(), silent: {} }
  test = testIntegrations(database.url, { providers, config })
  api = createApi(test.integrations)
  server = serve({ fetch: api.fetch, port: 0, hostname: '127.0.0.1' }) as Server
  integration = await create('acme')
})

afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await test.close()
  await database.drop()
})

it('keeps repeated headers apart, as they were sent', async () => {
  const delivery = randomUUID()
  const headers = { 'x-signature': sign('x'), 'x-delivery': delivery, 'X-Trace': ['one', 'two'], cookie: 'a=b' }
  const path = `/integrations/acme/${integration.id}/webhook`
  expect((await overHttp({ path, headers, body: 'x' })).status).toBe(200)
  expect((await rowOf(delivery)).headers).toMatchObject({ 'x-trace': ['one', 'two'], cookie: ['[REDACTED]'] })
})

describe('an answer', () => {
  it('to a signed delivery is 200 queued, with one pending row and one wake-up', async () => {
    const delivery = randomUUID()
    const wakesBefore = test.starts.wakes.length
    const response = await deliver({ delivery, event: 'thing.made', body: '{"n":1}' })
    expect([response.status, await response.json()]).toEqual([200, { status: 'queued' }])
    expect(await rowOf(delivery)).toMatchObject({
      integration_id: String(integration.id),
      event_type: 'thing.made',
      payload: '{"n":1}',
      status: 'pending',
      attempts: 0,
      error: null,
      processed_at: null,
      claim: null,
    })
    expect(test.starts.wakes.slice(wakesBefore)).toEqual(['arrived'])
  })

  it('to a delivery id seen before is 200 duplicate: the first copy stays, the inbox is woken again', async () => {
    const delivery = randomUUID()
    await deliver({ delivery, body: 'first' })
    const wakesBefore = test.starts.wakes.length
    const response = await deliver({ delivery, body: 'second' })
    expect([response.status, await response.json()]).toEqual([200, { status: 'duplicate' }])
    expect((await rowOf(delivery)).payload).toBe('first')
    expect(test.starts.wakes.slice(wakesBefore)).toEqual(['arrived'])
  })

  it('takes the same delivery id of two integrations for two deliveries', async () => {
    const delivery = randomUUID()
    const second = await create('acme')
    await deliver({ delivery })
    expect(await (await deliver({ delivery, to: second })).json()).toEqual({ status: 'queued' })
  })

  it('to 50 identical deliveries at once is one queued and 49 duplicates, with one row', async () => {
    const delivery = randomUUID()
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => (await deliver({ delivery })).json() as Promise<{ status: string }>),
    )
    expect(answers.filter(({ status }) => status === 'queued')).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 'duplicate')).toHaveLength(49)
    const rows = await test.sql`select 1 from integration_webhooks where delivery_id = ${delivery}`
    expect(rows).toHaveLength(1)
  })

  it.each([
    ['an unknown provider', 404, () => '/integrations/nobody/1/webhook'],
    ['an unknown provider on the generic route', 404, () => '/integrations/nobody/webhook'],
    ['the provider `constructor`', 404, () => '/integrations/constructor/webhook'],
    ['a provider without webhooks', 400, () => '/integrations/silent/1/webhook'],
    ['a provider without webhooks, id ill-formed', 400, () => '/integrations/silent/x/webhook'],
    ['a provider without webhooks on the generic route', 400, () => '/integrations/silent/webhook'],
    ['an unknown integration', 404, () => '/integrations/acme/999999/webhook'],
    ["another provider's integration", 404, () => `/integrations/other/${integration.id}/webhook`],
    ['a provider without an integration on the generic route', 404, () => '/integrations/other/webhook'],
    ['the id 0', 404, () => '/integrations/acme/0/webhook'],
    ['an id with a leading zero', 404, () => `/integrations/acme/0${integration.id}/webhook`],
    ['a negative id', 404, () => '/integrations/acme/-1/webhook'],
    ['a fraction', 404, () => `/integrations/acme/${integration.id}.0/webhook`],
    ['an id in exponent form', 404, () => '/integrations/acme/1e3/webhook'],
    ['an id with a space', 404, () => `/integrations/acme/%20${integration.id}/webhook`],
    ['an id above 2^53-1', 404, () => '/integrations/acme/9007199254740992/webhook'],
    ['an id above bigint', 404, () => '/integrations/acme/99999999999999999999/webhook'],
  ])('to %s is %i, one sentence, and nothing is stored', async (_, status, path) => {
    await storesNothing(async () => {
      const response = await api.request(path(), { method: 'POST', body: '{}', headers: signed('{}') })
      expect(response.status).toBe(status)
      expect(await response.json()).toEqual({ error: expect.stringMatching(/^[A-Z].*\.$/) })
    })
  })

  it('to an integration that an operator switched off is 404', async () => {
    const off = await create('acme')
    await off.disable()
    await storesNothing(async () => expect((await deliver({ to: off })).status).toBe(404))
  })

  it('to an integration that its health disabled is 200: nothing is lost until an operator enables it', async () => {
    const ill = await create('acme')
    await test.sql`update integrations set is_active = false, health_status = 'disabled' where id = ${ill.id}`
    expect(await (await deliver({ to: ill })).json()).toEqual({ status: 'queued' })
  })

  it.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD'])('to %s is 405 and names what is allowed', async (method) => {
    await storesNothing(async () => {
      for (const path of ['/integrations/acme/webhook', `/integrations/acme/${integration.id}/webhook`]) {
        const response = await overHttp({ method, path, headers: signed('') })
        expect(response.status).toBe(405)
        expect(response.headers.allow).toBe('GET, POST')
      }
    })
  })

  it.each([
    ['an unknown provider', 'nobody', 404],
    ['a provider without webhooks', 'silent', 400],
  ])('tells a wrong method before %s', async (_, provider, status) => {
    for (const path of [`/integrations/${provider}/webhook`, `/integrations/${provider}/1/webhook`]) {
      for (const method of ['PUT', 'DELETE', 'OPTIONS', 'HEAD']) {
        const response = await overHttp({ method, path })
        expect([response.status, response.headers.allow]).toEqual([405, 'GET, POST'])
      }
      for (const method of ['GET', 'POST']) expect((await overHttp({ method, path })).status).toBe(status)
    }
  })

  it('tells a wrong method before an ill-formed id', async () => {
    expect((await api.request('/integrations/acme/x/webhook', { method: 'PUT' })).status).toBe(405)
  })

  it('is 503 with Retry-After when Postgres is down', async () => {
    const apart = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', { providers: { acme: webhookProvider() } })
    const response = await createApi(apart.integrations).request('/integrations/acme/1/webhook', {
      method: 'POST',
      body: '{}',
      headers: signed('{}'),
    })
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after')).toBe('30')
    expect(await response.json()).toEqual({ error: expect.any(String) })
    await apart.close()
  })

  it.each([
    ['written with a key that is gone', async (id: number) => foreignCredentials(id)],
    ['damaged', async () => 'v1.test.AAAA'],
    ['plain text', async () => JSON.stringify(CREDENTIALS)],
  ])('is 503 when the credentials are %s', async (_, text) => {
    const locked = await create('acme')
    await test.sql`update integrations set credentials = ${await text(locked.id)} where id = ${locked.id}`
    await storesNothing(async () => {
      const response = await deliver({ to: locked })
      expect(response.status).toBe(503)
      expect(response.headers.get('retry-after')).toBe('30')
    })
  })

  it('is 200 while Temporal is away: the row is the queue', async () => {
    const apart = testIntegrations(database.url, { providers: { apart: webhookProvider() }, recordStarts: false })
    const { happened: refused, happen: refuse } = occasion()
    vi.spyOn(partsOf(apart.integrations).client().workflow, 'signalWithStart').mockImplementation(async () => {
      await refused
      throw new Error('14 UNAVAILABLE: No connection established')
    })
    const { id } = await apart.integrations.create({ provider: 'apart', name: 'apart', credentials: CREDENTIALS })
    const response = await createApi(apart.integrations).request(`/integrations/apart/${id}/webhook`, {
      method: 'POST',
      body: '{}',
      headers: signed('{}'),
    })
    expect(await response.json()).toEqual({ status: 'queued' })
    // The wake-up is still under way, as it is where nothing answers.
    refuse()
    await apart.close()
  })

  it('is 404 as JSON for a route that is none', async () => {
    expect((await api.request('/integrations/acme/1/2/webhook', { method: 'POST' })).status).toBe(404)
  })
})

describe('a signature', () => {
  const body = '{"a": 1}'
  it.each([
    ['absent', {}],
    ['empty', { 'x-signature': '' }],
    ['too short', { 'x-signature': sign(body).slice(0, 62) }],
    ['too long', { 'x-signature': `${sign(body)}00` }],
    ['not hex', { 'x-signature': `${sign(body).slice(0, 63)}g` }],
    ['made with another secret', { 'x-signature': sign(body, 'another secret') }],
    ['made with an empty secret', { 'x-signature': sign(body, '0').replace(/./g, '0') }],
    ['of another body', { 'x-signature': sign('{"a": 2}') }],
    ['of the same JSON written anew', { 'x-signature': sign(JSON.stringify(JSON.parse(body))) }],
    ['given twice', { 'x-signature': [sign(body), sign(body)] }],
    ['with a prefix that is not declared', { 'x-signature': `sha256=${sign(body)}` }],
  ])('that is %s is 403, and nothing is stored or told', async (_, headers) => {
    const told = vi.fn()
    listen(test, 'WebhookReceived', told)
    await storesNothing(async () => {
      const response = await overHttp({
        path: `/integrations/acme/${integration.id}/webhook`,
        headers: { ...headers, 'x-delivery': randomUUID() } as Record<string, string | string[]>,
        body,
      })
      expect(response.status).toBe(403)
      expect(JSON.parse(response.text)).toEqual({ error: expect.any(String) })
    })
    expect(told).not.toHaveBeenCalled()
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('no')
      },
      403,
    ],
    [
      'rejects',
      async () => {
        throw new Error('no')
      },
      403,
    ],
    ['returns a text', () => 'yes', 403],
    ['returns 1', () => 1, 403],
    ['returns nothing', () => undefined, 403],
    ['returns false', () => false, 403],
    ['returns a promise of true', async () => true, 200],
  ])('of a provider that %s', async (_, verify, status) => {
    const to = await createWith({ verifyWebhookSignature: verify as () => boolean })
    expect((await deliver({ to })).status).toBe(status)
  })

  it('never shows a credential in a log line', async () => {
    const to = await createWith({
      verifyWebhookSignature: () => {
        throw new Error(`wrong secret: ${SECRET}`)
      },
    })
    await deliver({ to, body: 'body-of-a-refused-delivery' })
    expect(JSON.stringify(test.lines)).not.toContain(SECRET)
    expect(JSON.stringify(test.lines)).not.toContain('body-of-a-refused-delivery')
  })
})

describe('the size of a body', () => {
  it.each([
    ['declared', { 'content-length': String(MAX_BYTES + 1) }],
    ['declared, unsigned', { 'content-length': String(MAX_BYTES + 1), 'x-signature': '' }],
  ])('that is %s as too large is 413 before a byte of it comes in', async (_, headers) => {
    const response = await api.request(`/integrations/acme/${integration.id}/webhook`, {
      method: 'POST',
      headers,
      body: new ReadableStream({}, { highWaterMark: 0 }),
      duplex: 'half',
    } as RequestInit)
    expect(response.status).toBe(413)
    await response.body?.cancel()
  })

  it.each(['declared', 'streamed'])(
    'that is too large and %s is read on, so that a client gets the 413 that looks for it only once it has sent all',
    async (how) => {
      await storesNothing(async () => {
        const answer = await sentFirst(5_000_000, how === 'declared')
        expect(answer).toMatch(/^HTTP\/1\.1 413 .*connection: close.*larger than/is)
      })
    },
  )

  it('is read on for 16 MiB at most', async () => {
    await expect(sentFirst(64_000_000, true)).rejects.toMatchObject({
      code: expect.stringMatching(/^(EPIPE|ECONNRESET)$/),
    })
  })

  it('is counted while it streams in: the first byte too many is 413, and the connection ends', async () => {
    await storesNothing(async () => {
      const response = await overHttp({
        path: `/integrations/acme/${integration.id}/webhook`,
        headers: { 'transfer-encoding': 'chunked' },
        // The request never ends: only a server that stops reading can answer.
        write: (request) => {
          request.write(Buffer.alloc(MAX_BYTES))
          request.write(Buffer.alloc(1))
        },
      })
      expect(response.status).toBe(413)
      expect(response.headers.connection).toBe('close')
    })
  })

  it('counts bytes, not characters', async () => {
    const body = '€'.repeat(Math.ceil((MAX_BYTES + 1) / 3))
    expect(body.length).toBeLessThan(MAX_BYTES)
    expect((await overHttp({ path: route(), headers: signed(body), body })).status).toBe(413)
  })

  it.each([
    ['exactly the most allowed', MAX_BYTES, 200],
    ['one byte more', MAX_BYTES + 1, 413],
  ])('of %s', async (_, bytes, status) => {
    const body = 'x'.repeat(bytes)
    const declared = await overHttp({ path: route(), headers: signed(body), body })
    const streamed = await overHttp({
      path: route(),
      headers: { ...signed(body), 'transfer-encoding': 'chunked' },
      write: (request) => request.end(body),
    })
    expect([declared.status, streamed.status]).toEqual([status, status])
  })

  it('precedes the signature: too large and unsigned is 413', async () => {
    const response = await overHttp({ path: route(), body: 'x'.repeat(MAX_BYTES + 1) })
    expect(response.status).toBe(413)
  })

  it('is 413 for an integration that exists, else 404 comes first', async () => {
    const response = await overHttp({ path: '/integrations/acme/999999/webhook', body: 'x'.repeat(MAX_BYTES + 1) })
    expect(response.status).toBe(404)
  })
})

describe('a body that does not come in', () => {
  it('is given up with 408 after 15 seconds', async () => {
    const reading = occasion()
    const body = new ReadableStream({ pull: () => reading.happen() }, { highWaterMark: 0 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const answer = api.request(route(), { method: 'POST', body, duplex: 'half' } as RequestInit)
      await reading.happened
      vi.advanceTimersByTime(14_999)
      expect(await Promise.race([answer, Promise.resolve('still waiting')])).toBe('still waiting')
      vi.advanceTimersByTime(1)
      const response = await answer
      expect(response.status).toBe(408)
      expect(await response.json()).toEqual({ error: expect.stringContaining('15 seconds') })
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('what is stored', () => {
  it.each([
    ['text', Buffer.from('{"ä": "€"}'), '{"ä": "€"}', undefined],
    ['nothing', Buffer.alloc(0), '', undefined],
    ['broken JSON', Buffer.from('{"a": '), '{"a": ', undefined],
    ['a byte-order mark before JSON', Buffer.from('\uFEFF{}'), '\uFEFF{}', undefined],
    ['invalid UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'e/99', ['base64']],
    ['U+0000', Buffer.from('a\0b'), 'YQBi', ['base64']],
    ['CR LF and spaces', Buffer.from(' a\r\n\t '), ' a\r\n\t ', undefined],
    ['a surrogate in UTF-8', Buffer.from([0xed, 0xa0, 0x80]), '7aCA', ['base64']],
  ])('keeps the very bytes of %s', async (_, body, payload, encoding) => {
    const delivery = randomUUID()
    const response = await overHttp({
      path: route(),
      headers: { ...signed(body), 'x-delivery': delivery, 'content-type': 'text/plain; charset=iso-8859-1' },
      body,
    })
    expect(response.text).toBe('{"status":"queued"}')
    const row = await rowOf(delivery)
    expect(row.payload).toBe(payload)
    expect(row.headers[':encoding']).toEqual(encoding)
    expect(Buffer.from(storedWebhookRequest({ ...row, ...TIME }).rawBody)).toEqual(body)
  })

  it('holds the query of a GET, its method, and an empty body', async () => {
    const response = await overHttp({ method: 'GET', path: `${route()}?b=2&a=%20&b=1`, headers: signed('') })
    expect(response.text).toBe('{"status":"queued"}')
    // Without an id of the provider's, a delivery without a body is known by its query.
    const row = await rowOf(sha256('b=2&a=%20&b=1'))
    expect(row.payload).toBe('')
    expect(row.headers[':method']).toEqual(['GET'])
    expect(row.headers[':query']).toEqual(['b=2&a=%20&b=1'])
    const request = storedWebhookRequest({ ...row, ...TIME })
    expect([request.method, request.query.getAll('b')]).toEqual(['GET', ['2', '1']])
  })

  it('holds headers in lower case, without what authenticates the sender', async () => {
    const delivery = randomUUID()
    await overHttp({
      path: route(),
      headers: {
        ...signed('{}'),
        'X-Delivery': delivery,
        'X-Mixed-Case': 'kept',
        Authorization: 'Bearer its-word',
        'Proxy-Authorization': 'Basic its-word',
        Cookie: 'session=its-word',
      },
      body: '{}',
    })
    const { headers } = await rowOf(delivery)
    expect(headers['x-mixed-case']).toEqual(['kept'])
    expect(headers.authorization).toEqual(['[REDACTED]'])
    expect(headers['proxy-authorization']).toEqual(['[REDACTED]'])
    expect(headers.cookie).toEqual(['[REDACTED]'])
    expect(headers[':method']).toBeUndefined()
    expect(JSON.stringify(headers)).not.toContain('its-word')
  })

  it('holds no secret of the integration in a header or in the query', async () => {
    const delivery = randomUUID()
    const encoded = Buffer.from(`user:${SECRET}`).toString('base64')
    const response = await overHttp({
      path: `${route()}?kind=push&token=${encodeURIComponent(SECRET)}`,
      headers: { ...signed('{}'), 'x-delivery': delivery, 'x-token': SECRET, 'x-basic': encoded },
      body: '{}',
    })
    expect(response.text).toBe('{"status":"queued"}')
    const { headers, ...row } = await rowOf(delivery)
    expect(headers).toMatchObject({ 'x-token': ['[REDACTED]'], ':query': ['kind=push&token=[REDACTED]'] })
    expect(headers['x-basic']?.[0]).toContain('[REDACTED]')
    // What handles it, or replays it, finds everything else where it was.
    const request = storedWebhookRequest({ ...row, headers, ...TIME })
    expect([request.query.get('kind'), request.query.get('token')]).toEqual(['push', '[REDACTED]'])
  })

  it.each([
    ['255 characters', 'd'.repeat(255), 'd'.repeat(255)],
    ['255 characters of two code units', '😀'.repeat(255), '😀'.repeat(255)],
    ['256 characters', 'd'.repeat(256), sha256('d'.repeat(256))],
    ['U+0000 in it', 'a\0b', sha256('a\0b')],
    ['no character', '', sha256('{"an":"own body"}')],
  ])('is keyed by a delivery id of %s', async (_, id, key) => {
    const to = await createWith({ webhookDeliveryId: () => id })
    await deliver({ to, body: '{"an":"own body"}' })
    const [row] = await test.sql`select delivery_id from integration_webhooks where integration_id = ${to.id}`
    expect(row?.delivery_id).toBe(key)
  })

  it.each([
    ['255 characters', 't'.repeat(255), 't'.repeat(255)],
    ['256 characters', 't'.repeat(256), null],
    ['U+0000 in it', 'a\0b', null],
    ['no character', '', null],
    ['the name `__proto__`', '__proto__', '__proto__'],
  ])('has for an event type of %s that or null', async (_, type, stored) => {
    const to = await createWith({ resolveWebhookEvent: () => type })
    await deliver({ to })
    const [row] = await test.sql`select event_type from integration_webhooks where integration_id = ${to.id}`
    expect(row?.event_type).toBe(stored)
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('unreadable')
      },
    ],
    ['returns no text', () => 5 as unknown as string],
    ['returns null', () => null],
  ])('is never lost to a provider whose reading of type and id %s', async (_, read) => {
    const to = await createWith({ resolveWebhookEvent: read, webhookDeliveryId: read })
    expect(await (await deliver({ to, body: 'verified' })).json()).toEqual({ status: 'queued' })
    const rows =
      await test.sql`select delivery_id, event_type from integration_webhooks where integration_id = ${to.id}`
    expect([...rows]).toEqual([{ delivery_id: sha256('verified'), event_type: null }])
  })
})

describe('the generic route', () => {
  it('gives a delivery to the verifying integration with the lowest id', async () => {
    const provider = newProvider({})
    const [strange, first, second] = [
      await create(provider, { webhook_secret: 'the secret of another' }),
      await create(provider),
      await create(provider),
    ]
    const response = await deliver({ path: `/integrations/${provider}/webhook` })
    expect(await response.json()).toEqual({ status: 'queued' })
    const rows = await test.sql`
      select integration_id from integration_webhooks where integration_id in ${test.sql([strange.id, first.id, second.id])}`
    expect(rows.map((row) => Number(row.integration_id))).toEqual([first.id])
  })

  it('passes over inactive ones, asks those that health disabled, and is 403 when none verifies', async () => {
    const provider = newProvider({})
    const off = await create(provider)
    await off.disable()
    const path = `/integrations/${provider}/webhook`
    expect((await deliver({ path })).status).toBe(404)
    const strange = await create(provider, { webhook_secret: 'the secret of another' })
    expect((await deliver({ path })).status).toBe(403)
    await test.sql`update integrations set is_active = false, health_status = 'disabled' where id = ${strange.id}`
    const byStrange = await api.request(path, {
      method: 'POST',
      body: '{}',
      headers: signed('{}', 'the secret of another'),
    })
    expect(byStrange.status).toBe(200)
  })

  it('is 503 when nobody verifies and the credentials of one could not be read, 200 when another verifies', async () => {
    const provider = newProvider({})
    const locked = await create(provider)
    await test.sql`update integrations set credentials = ${await foreignCredentials(locked.id)} where id = ${locked.id}`
    const path = `/integrations/${provider}/webhook`
    expect((await deliver({ path })).status).toBe(503)
    await create(provider)
    expect((await deliver({ path })).status).toBe(200)
  })
})

describe('a handshake', () => {
  const door = (handshake: NonNullable<WebhookDoor['handshake']>) => createWith({ webhookDoor: { handshake } })

  it('is answered before the signature; nothing is stored, told or woken', async () => {
    const to = await door(() => ({ text: 'echo' }))
    const wakesBefore = test.starts.wakes.length
    await storesNothing(async () => {
      const response = await api.request(route(to), { method: 'GET' })
      expect([response.status, await response.text()]).toEqual([200, 'echo'])
      expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
      expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    })
    expect(test.starts.wakes).toHaveLength(wakesBefore)
  })

  it('goes to the lowest id on the generic route', async () => {
    const provider = newProvider({ webhookDoor: { handshake: ({ id }) => ({ text: String(id) }) } })
    const lowest = await create(provider)
    await create(provider)
    const response = await api.request(`/integrations/${provider}/webhook`)
    expect(await response.text()).toBe(String(lowest.id))
  })

  it.each<[string, HandshakeAnswer | null, number]>([
    ['of 4096 bytes', { text: 'x'.repeat(4_096) }, 200],
    ['of 4097 bytes', { text: 'x'.repeat(4_097) }, 403],
    ['as JSON', { json: { challenge: 'é' } }, 200],
    ['with a tag in its text', { text: '<b>' }, 403],
    ['with a line break in a header', { headers: { 'x-echo': 'a\r\nset-cookie: b=c' } }, 403],
    ['with a tag in a header', { headers: { 'x-echo': '<script>' } }, 403],
    ['with a cookie', { headers: { 'set-cookie': 'a=b' } }, 403],
    ['with a header that a proxy obeys', { headers: { 'x-accel-redirect': '/etc' } }, 403],
    ['that leads elsewhere', { status: 302, headers: { location: 'https://evil.example' } }, 403],
    ['with two bodies', { text: 'a', json: {} }, 403],
    ['with a token of the integration', { text: `token: ${TOKEN}` }, 403],
    ['with its secret in base64', { json: { s: Buffer.from(SECRET).toString('base64') } }, 403],
    ['with its secret in a header', { headers: { 'x-echo': encodeURIComponent(SECRET) } }, 403],
    ['that is null: an ordinary, unsigned delivery', null, 403],
  ])('with an answer %s', async (_, answer, status) => {
    const response = await api.request(route(await door(() => answer)))
    expect(response.status).toBe(status)
    if (status === 403) expect(await response.text()).not.toContain('token')
  })

  it('sends JSON in which no tag begins, whatever the request brought', async () => {
    const to = await door((_integration, { query }) => ({ json: { challenge: query.get('challenge') } }))
    const response = await api.request(`${route(to)}?challenge=${encodeURIComponent('<script>&')}`)
    const text = await response.text()
    expect(text).not.toMatch(/[<>&]/)
    expect(JSON.parse(text)).toEqual({ challenge: '<script>&' })
  })

  it('that throws is 503, and a line a minute that has nothing of what was sent', async () => {
    const to = await door((_integration, request) => {
      throw new SyntaxError(`unexpected token: ${request.text()}`)
    })
    const before = test.lines.length
    for (let times = 0; times < 3; times += 1) {
      const response = await api.request(route(to), { method: 'POST', body: 'words of a stranger' })
      expect(response.status).toBe(503)
    }
    const lines = test.lines.slice(before).filter(({ fields }) => fields.integration === to.id)
    expect(lines).toMatchObject([
      {
        level: 'warn',
        fields: { event: 'webhook.handshake_failed', error: 'SyntaxError', times: 1 },
        message: 'handshake() or answerWebhookChallenge() of a provider threw',
      },
    ])
    expect(JSON.stringify(test.lines.slice(before))).not.toContain('words of a stranger')
  })

  it('that throws costs no signed delivery', async () => {
    const to = await door(() => {
      throw new SyntaxError('no JSON')
    })
    const response = await deliver({ to })
    expect([response.status, await response.json()]).toEqual([200, { status: 'queued' }])
  })

  it('may repeat a secret that the request itself brought', async () => {
    const to = await door((_integration, { headers }) => ({ headers: { 'x-echo': headers.get('x-echo') ?? '' } }))
    expect((await api.request(route(to), { headers: { 'x-echo': SECRET } })).headers.get('x-echo')).toBe(SECRET)
  })

  it.each(['HEAD', 'OPTIONS'])('alone answers %s: a signed one of that method is no delivery', async (method) => {
    const to = await createWith({
      webhookDoor: { methods: ['POST', method as 'HEAD'], handshake: (_, { query }) => (query.has('ask') ? {} : null) },
    })
    await storesNothing(async () => {
      expect((await overHttp({ method, path: `${route(to)}?ask` })).status).toBe(200)
      const refused = await overHttp({ method, path: route(to), headers: signed('') })
      expect([refused.status, refused.headers.allow]).toEqual([405, `POST, ${method}`])
    })
  })
})

describe('a challenge', () => {
  const challenged = (answerWebhookChallenge: NonNullable<HandlesWebhooks['answerWebhookChallenge']>) =>
    createWith({ answerWebhookChallenge })
  const text = (body: string) => ({ status: 200, contentType: 'text/plain', body }) as const
  const json = (body: string) => ({ status: 200, contentType: 'application/json', body }) as const

  it('is answered before the signature; nothing is stored, told or woken', async () => {
    const to = await challenged((_integration, { query }) => text(query.get('challenge') ?? ''))
    const wakesBefore = test.starts.wakes.length
    await storesNothing(async () => {
      const response = await api.request(`${route(to)}?challenge=x`, { method: 'GET' })
      expect([response.status, await response.text()]).toEqual([200, 'x'])
      expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
      expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    })
    expect(test.starts.wakes).toHaveLength(wakesBefore)
  })

  it('goes to the lowest id on the generic route', async () => {
    const provider = newProvider({ answerWebhookChallenge: ({ id }) => text(String(id)) })
    const lowest = await create(provider)
    await create(provider)
    const response = await api.request(`/integrations/${provider}/webhook`)
    expect(await response.text()).toBe(String(lowest.id))
  })

  it.each<[string, unknown, number]>([
    ['of 4096 bytes', text('x'.repeat(4_096)), 200],
    ['of 4097 bytes', text('x'.repeat(4_097)), 403],
    ['of 4096 bytes of JSON', json(`"${'é'.repeat(2_047)}"`), 200],
    ['of 4097 bytes of JSON', json(` "${'é'.repeat(2_047)}"`), 403],
    ['of another status', { ...text('no'), status: 400 }, 400],
    ['that leads elsewhere', { ...text(''), status: 302 }, 403],
    ['as HTML', { ...text('b'), contentType: 'text/html' }, 403],
    ['of no content type', { status: 200, body: 'b' }, 403],
    ['that is no text', { ...text(''), body: 5 }, 403],
    ['as JSON that is none', json('{'), 403],
    ['with a tag in its text', text('<b>'), 403],
    ['with a token of the integration', text(`token: ${TOKEN}`), 403],
    ['that is null: an ordinary, unsigned delivery', null, 403],
  ])('with an answer %s', async (_, answer, status) => {
    const response = await api.request(route(await challenged(() => answer as never)))
    expect(response.status).toBe(status)
    if (status === 403) expect(await response.text()).not.toContain('token')
  })

  it('in JSON keeps its own text, in which no tag begins', async () => {
    const body = '{ "n": 12345678901234567890, "challenge": "<script>&" }'
    const response = await api.request(route(await challenged(() => json(body))))
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.text()).toBe('{ "n": 12345678901234567890, "challenge": "\\u003cscript\\u003e\\u0026" }')
  })

  it('is asked after handshake(), and a signed delivery for which both give null is stored', async () => {
    const to = await createWith({
      webhookDoor: { handshake: (_, { query }) => (query.has('ask') ? { text: 'handshake' } : null) },
      answerWebhookChallenge: async (_, { query }) => (query.has('challenge') ? text('challenge') : null),
    })
    const answers = await Promise.all(
      ['ask', 'challenge', 'ask&challenge'].map(async (query) => (await api.request(`${route(to)}?${query}`)).text()),
    )
    expect(answers).toEqual(['handshake', 'challenge', 'handshake'])
    expect(await (await deliver({ to })).json()).toEqual({ status: 'queued' })
  })

  it('that throws is 503', async () => {
    const to = await challenged(() => {
      throw new Error('the provider broke')
    })
    await storesNothing(async () => expect((await api.request(route(to))).status).toBe(503))
  })

  it('is refused at registration where it is not a function', () => {
    expect(() => newProvider({ answerWebhookChallenge: 'x' as never })).toThrow(
      'answerWebhookChallenge must be a function',
    )
  })
})

describe("a provider's own answers", () => {
  it('take the place of 200 and 403, as they were declared', async () => {
    const to = await createWith({
      webhookDoor: {
        methods: ['PUT'],
        accepted: { status: 202, text: '[accepted]' },
        duplicate: { status: 208 },
        badSignature: { status: 401, headers: { 'x-why': 'signature' } },
      },
    })
    const put = (headers: Record<string, string>) =>
      overHttp({ method: 'PUT', path: route(to), headers: { 'x-delivery': 'one', ...headers }, body: '{}' })
    const [first, again, forged] = [await put(signed('{}')), await put(signed('{}')), await put({})]
    expect([first.status, first.text, first.headers['content-type']]).toEqual([
      202,
      '[accepted]',
      'text/plain; charset=utf-8',
    ])
    expect([again.status, again.text, again.headers['content-type']]).toEqual([208, '', undefined])
    expect([forged.status, forged.text, forged.headers['x-why']]).toEqual([401, '', 'signature'])
    expect((await overHttp({ path: route(to), headers: signed('{}'), body: '{}' })).headers.allow).toBe('PUT')
  })

  it('are not sent where one holds something of the credentials: the default is', async () => {
    const to = await createWith({ webhookDoor: { accepted: { text: `for ${SECRET}` }, badSignature: { text: TOKEN } } })
    expect(await (await deliver({ to })).json()).toEqual({ status: 'queued' })
    const forged = await api.request(route(to), { method: 'POST', body: '{}' })
    expect([forged.status, await forged.text()]).toEqual([403, expect.not.stringContaining(TOKEN)])
  })

  it.each<[string, unknown, string]>([
    ['accepted with 302', { accepted: { status: 302 } }, 'webhookDoor.accepted: its status must be'],
    ['badSignature with 200', { badSignature: { status: 200 } }, 'webhookDoor.badSignature: its status must be'],
    ['an unknown method', { methods: ['TRACE'] }, 'webhookDoor.methods must be a list of'],
    ['OPTIONS without a handshake', { methods: ['POST', 'OPTIONS'] }, 'which only a handshake() answers'],
    [
      'no method for deliveries',
      { methods: ['HEAD'], handshake: () => null },
      'must have one that can bring a delivery',
    ],
    ['a handshake that is not a function', { handshake: 'ok' }, 'webhookDoor.handshake must be a function'],
  ])('that cannot be sent are refused at registration: %s', (_, webhookDoor, why) => {
    expect(() => newProvider({ webhookDoor: webhookDoor as WebhookDoor })).toThrow(why)
  })
})

describe('a secret that a handshake brings', () => {
  const BROUGHT = 'b537207f20cbfa02357cf448134da559'
  const shaking = () =>
    createWith({
      webhookDoor: {
        handshake(_integration, { headers }) {
          const storeSecret = headers.get('x-hook-secret')
          return storeSecret === null ? null : { headers: { 'x-hook-secret': storeSecret }, storeSecret }
        },
      },
    })
  const shake = (path: string, secret = BROUGHT) =>
    api.request(path, { method: 'POST', headers: { 'x-hook-secret': secret } })

  it('is stored while it is expected, and signs from then on', async () => {
    const to = await shaking()
    await test.integrations.webhooks.expectHandshake(to.id)
    const answer = await shake(route(to))
    expect([answer.status, answer.headers.get('x-hook-secret')]).toEqual([200, BROUGHT])
    const signedByIt = { method: 'POST', headers: signed('{}', BROUGHT), body: '{}' }
    expect((await api.request(route(to), signedByIt)).status).toBe(200)
    // The answer was lost, and the provider asks again.
    expect((await shake(route(to))).status).toBe(200)
    expect((await shake(route(to), 'another-secret-of-a-stranger')).status).toBe(403)
  })

  it('is answered as before when it comes again, also where a moment ago the integration was read without it', async () => {
    const to = await shaking()
    await test.integrations.webhooks.expectHandshake(to.id)
    const answers = [await shake(route(to)), await shake(route(to))]
    expect(answers.map(({ status, headers }) => [status, headers.get('x-hook-secret')])).toEqual([
      [200, BROUGHT],
      [200, BROUGHT],
    ])
  })

  it('is refused while none is expected, on the generic route, and after the time', async () => {
    const to = await shaking()
    expect((await shake(route(to))).status).toBe(403)
    await test.integrations.webhooks.expectHandshake(to.id, { forSeconds: 1 })
    expect((await shake(`/integrations/${to.provider}/webhook`)).status).toBe(403)
    await test.sql`update integration_cache set expires_at = clock_timestamp() where key like ${`%:${to.id}:webhook-handshake`}`
    expect((await shake(route(to))).status).toBe(403)
    expect((await deliver({ to })).status).toBe(200)
  })

  it('of two at once is one', async () => {
    const to = await shaking()
    await test.integrations.webhooks.expectHandshake(to.id)
    const answers = await Promise.all(
      ['one-of-two-secrets', 'two-of-two-secrets'].map((each) => shake(route(to), each)),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403])
  })

  it('of a stranger costs a line a minute, and those at once share their statements', async () => {
    const to = await shaking()
    const take = vi.spyOn(test.framework.cache, 'take')
    onTestFinished(() => take.mockRestore())
    const before = test.lines.length
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) => shake(route(to), `secret-of-a-stranger-${at}`)),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(403))
    // At most ten a second.
    expect(take.mock.calls.length).toBeLessThan(25)
    const lines = test.lines.slice(before).filter(({ fields }) => fields.integration === to.id)
    expect(lines).toMatchObject([{ fields: { event: 'webhook.answer_refused', provider: to.provider, times: 1 } }])
  })
})

describe('WebhookReceived', () => {
  it('is told once per stored row, after its commit', async () => {
    const delivery = randomUUID()
    const told = occasion<{ event: unknown; committed: number }>()
    const listener = vi.fn(async (event: { webhookId: number }) => {
      const rows = await test.sql`select 1 from integration_webhooks where id = ${event.webhookId}`
      told.happen({ event, committed: rows.length })
    })
    listen(test, 'WebhookReceived', listener)
    await deliver({ delivery, event: 'thing.made' })
    await deliver({ delivery, event: 'thing.made' })
    const { event, committed } = await told.happened
    expect(committed).toBe(1)
    expect(event).toMatchObject({ provider: 'acme', deliveryId: delivery, eventType: 'thing.made' })
    expect(JSON.stringify(event)).not.toContain(SECRET)
    expect(listener).toHaveBeenCalledTimes(1)
  })

  it('with a listener that throws changes nothing: 200, stored, one log line', async () => {
    listen(test, 'WebhookReceived', () => {
      throw new Error('the listener broke')
    })
    const delivery = randomUUID()
    expect(await (await deliver({ delivery })).json()).toEqual({ status: 'queued' })
    expect((await rowOf(delivery)).status).toBe('pending')
    const lines = test.lines.filter(({ fields }) => String(fields.error).includes('the listener broke'))
    expect(lines.map(({ level }) => level)).toEqual(['error'])
  })

  it('with a listener that never ends does not hold the answer', async () => {
    listen(test, 'WebhookReceived', () => new Promise(() => {}))
    expect((await deliver({})).status).toBe(200)
  })
})

describe('a start', () => {
  const wakesOf = async (start: () => Promise<unknown>): Promise<unknown[]> => {
    const before = test.starts.wakes.length
    await start()
    return test.starts.wakes.slice(before)
  }
  const wakePending = () => test.integrations.webhooks.wakePending()

  it('wakes the inbox once, whatever it has promised, and says of how many integrations rows wait', async () => {
    await test.sql`delete from integration_webhooks`
    for (const to of [await create('acme'), await create('acme')]) {
      await deliver({ to })
      await deliver({ to })
    }
    let waiting = 0
    expect(
      await wakesOf(async () => {
        waiting = await wakePending()
      }),
    ).toEqual(['arrived'])
    expect(waiting).toBe(2)
  })

  it('wakes it for rows that a pump holds which nobody serves, and not for those of a living one', async () => {
    await test.sql`delete from integration_webhooks`
    expect(await wakesOf(wakePending)).toEqual([])
    const { db, tables, config } = test.framework
    await makeWebhook(test, integration.id, { status: 'processing', attempts: 1, claim: 'pump:a-run:1:1' })
    expect(await wakesOf(wakePending)).toEqual(['arrived'])
    await keepClaim(db, tables, { prefix: config.cache_prefix, claim: 'pump:a-run:1:1' }, 60)
    expect(await wakesOf(wakePending)).toEqual([])
  })
})

let providers = 0

function newProvider(overrides: Partial<HandlesWebhooks>): string {
  providers += 1
  const key = `scripted-${providers}`
  test.integrations.register(key, webhookProvider(overrides))
  return key
}

function create(provider: string, credentials: Record<string, unknown> = CREDENTIALS): Promise<Integration> {
  return test.integrations.create({ provider, name: 'of a test', credentials })
}

const createWith = (overrides: Partial<HandlesWebhooks>): Promise<Integration> => create(newProvider(overrides))

/** Credentials as another deployment's key would have written them. */
async function foreignCredentials(id: number): Promise<string> {
  const other = testIntegrations(database.url, { encryptionKeys: encryptionKey('gone') })
  await other.close()
  return other.framework.encryption.encrypt(id, CREDENTIALS)
}

function route({ provider, id }: { provider: string; id: number } = integration): string {
  return `/integrations/${provider}/${id}/webhook`
}

function signed(body: string | Uint8Array, secret = SECRET): Record<string, string> {
  return { 'x-signature': sign(body, secret) }
}

/** A signed delivery through the app, without a socket. */
async function deliver({
  to = integration,
  path = route(to),
  body = '{}',
  delivery,
  event,
}: {
  to?: Integration
  path?: string
  body?: string
  delivery?: string
  event?: string
}): Promise<Response> {
  const headers = {
    ...signed(body),
    ...(delivery !== undefined && { 'x-delivery': delivery }),
    ...(event !== undefined && { 'x-event': event }),
  }
  return api.request(path, { method: 'POST', headers, body })
}

async function overHttp({
  method = 'POST',
  path,
  headers = {},
  body,
  write,
}: {
  method?: string
  path: string
  headers?: Record<string, string | string[]>
  body?: string | Uint8Array
  write?: (request: ReturnType<typeof httpRequest>) => void
}): Promise<{ status: number; headers: IncomingMessage['headers']; text: string }> {
  const { port } = server.address() as AddressInfo
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', method, path, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        request.destroy()
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: Buffer.concat(chunks).toString() })
      })
      response.on('error', reject)
    })
    request.on('error', reject)
    if (write !== undefined) write(request)
    else request.end(body)
  })
}

/** Looks at the answer once all is sent. Sooner or later a connection that the server closes meanwhile is reset. */
async function sentFirst(bytes: number, isDeclared: boolean): Promise<string> {
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  const failed = once(socket, 'error').then(([error]) => Promise.reject(error))
  const sent = async (): Promise<string> => {
    const length = isDeclared ? `Content-Length: ${bytes}` : 'Transfer-Encoding: chunked'
    const chunk = Buffer.alloc(50_000, 'x')
    const piece = isDeclared ? chunk : Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, CRLF])
    socket.pause()
    socket.write(`POST ${route()} HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\r\n`)
    for (let left = bytes; left > 0; left -= chunk.length) if (!socket.write(piece)) await once(socket, 'drain')
    if (!isDeclared) socket.write('0\r\n\r\n')
    let answer = ''
    for await (const part of socket) answer += String(part)
    return answer
  }
  try {
    return await Promise.race([sent(), failed])
  } finally {
    failed.catch(() => {})
    socket.destroy()
  }
}

const CRLF = Buffer.from('\r\n')

async function rowOf(delivery: string) {
  const [row] = await test.sql`select * from integration_webhooks where delivery_id = ${delivery}`
  return row as unknown as Record<string, unknown> & Pick<WebhookRow, 'payload' | 'headers' | 'status'>
}

async function storesNothing(work: () => Promise<void>): Promise<void> {
  const count = async () => Number((await test.sql`select count(*) as n from integration_webhooks`)[0]?.n)
  const before = await count()
  await work()
  expect(await count()).toBe(before)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
