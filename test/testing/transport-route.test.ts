/** A transport stands below the guard: what a provider sees is what it sees in production. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { partsOf } from '../../src/create-integrations.ts'
import type { Integration, RequestContext } from '../../src/providers/integration.ts'
import type { PlayedApi, TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations, playedTransport } from '../../src/testing/index.ts'

const API = 'https://api.example.com'
const TOKEN = 'a-token-of-a-test'
const MIB = 1024 * 1024

const healthy: PlayedApi = () => Response.json({ ok: true })
let api = healthy
const transport = playedTransport((request) => api(request))
let kit: TestIntegrations
let integration: Integration
let forgotten = 0

beforeAll(async () => {
  kit = await createTestIntegrations({
    providers: { tickets: {} },
    transport,
    egress: { allow: ['10.1.0.0/16'], deny: ['denied.example.com'] },
    config: { notifications: { targets: [{ url: 'https://hooks.example.com/us', format: 'slack' }] } },
  })
  integration = await kit.integrations.create({
    provider: 'tickets',
    name: 'of a test',
    credentials: { access_token: TOKEN },
  })
}, 60_000)
afterAll(() => kit.close())
afterEach(() => {
  api = healthy
  forgotten = transport.requests.length
})

const ask = <T>(call: (context: RequestContext) => Promise<T>, idempotencyKey?: string): Promise<T> =>
  integration.request('things', 'POST', call, {
    attempts: 1,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  }) as Promise<T>
const sent = () => transport.requests.slice(forgotten)

describe('over a transport', () => {
  it('a redirect is followed, without the secrets where it leads to another origin', async () => {
    api = ({ url }) =>
      url.startsWith(API)
        ? new Response(null, { status: 302, headers: { location: 'https://files.example.com/7' } })
        : Response.json({ id: 7 })
    const answer = await ask(async ({ fetch }) => {
      const response = await fetch(`${API}/files/7`, { headers: { authorization: `Bearer ${TOKEN}`, 'x-key': TOKEN } })
      return [response.url, response.redirected, await response.json()]
    })
    expect(answer).toEqual(['https://files.example.com/7', true, { id: 7 }])
    expect(sent().map(({ headers }) => [headers.get('authorization'), headers.get('x-key')])).toEqual([
      [`Bearer ${TOKEN}`, TOKEN],
      [null, null],
    ])
  })

  it('a keyed write follows no redirect', async () => {
    api = () => new Response(null, { status: 307, headers: { location: `${API}/elsewhere` } })
    const status = await ask(async ({ fetch }) => {
      const response = await fetch(API, { method: 'POST', body: '{}' })
      return { status: response.status }
    }, 'order-7')
    expect([status, sent().length]).toEqual([{ status: 307 }, 1])
  })

  it('a body of more than 10 MiB breaks off, unless the call allows more', async () => {
    api = () => new Response(new Uint8Array(11 * MIB))
    await expect(ask(async ({ fetch }) => (await (await fetch(API)).arrayBuffer()).byteLength)).rejects.toMatchObject({
      code: 'response_too_large',
    })
    const length = await ask(async ({ fetchUpTo }) => (await (await fetchUpTo(12 * MIB)(API)).arrayBuffer()).byteLength)
    expect(length).toBe(11 * MIB)
  })

  it.each([
    ['an address that is not public', 'http://127.0.0.1/me', '127.0.0.1'],
    ['a host that is denied', 'https://denied.example.com/me', 'denied.example.com'],
    ['user info in the URL', 'https://ada:secret@api.example.com/me', 'api.example.com'],
  ])('%s is refused', async (_, url, host) => {
    await expect(ask(({ fetch }) => fetch(url))).rejects.toMatchObject({ code: 'egress_refused', host })
    expect(sent()).toEqual([])
  })

  it('a redirect to an address that is not public is refused', async () => {
    api = () => new Response(null, { status: 302, headers: { location: 'https://169.254.169.254/latest' } })
    await expect(ask(({ fetch }) => fetch(API))).rejects.toMatchObject({ code: 'egress_refused' })
    expect(sent()).toHaveLength(1)
  })

  it('an address that is allowed is reached', async () => {
    expect(await ask(async ({ fetch }) => (await fetch('http://10.1.2.3/me')).json())).toEqual({ ok: true })
  })

  it('the signal of a Request ends the call', async () => {
    const reason = new Error('of a test')
    const caller = new AbortController()
    api = () => {
      caller.abort(reason)
      return new Promise(() => {})
    }
    await expect(ask(({ fetch }) => fetch(new Request(API, { signal: caller.signal })))).rejects.toBe(reason)
  })

  it('a stream is sent as it comes', async () => {
    const body = () => new Response('streamed').body
    await ask(({ fetch }) => fetch(API, { method: 'POST', body: body(), duplex: 'half' }))
    expect(sent().map(({ method, body: text }) => [method, text])).toEqual([['POST', 'streamed']])
  })

  it('a notification arrives', async () => {
    expect(await kit.integrations.admin.notifications.test()).toMatchObject([{ status: 200 }])
    expect(sent().map(({ method, url }) => `${method} ${url.href}`)).toEqual(['POST https://hooks.example.com/us'])
  })

  it('nothing goes out once the kit is closed', async () => {
    const own = await createTestIntegrations({ providers: { tickets: {} }, transport })
    const { egress } = partsOf(own.integrations).framework
    await own.close()
    await expect(egress.fetch()(API)).rejects.toThrow('fetch failed')
    expect(sent()).toEqual([])
  })
})
