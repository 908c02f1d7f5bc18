/** Deskline keeps what its page promises: sandbox/deskline/README.md. */
import { createHash, createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { DesklineOptions } from '../../sandbox/deskline/server.ts'
import { createDesklineSandbox, DESKLINE_CLIENT } from '../../sandbox/deskline/server.ts'
import type { Ticket, TicketEvent } from '../../sandbox/deskline/tickets.ts'
import { startHttpServer } from '../support/http-server.ts'

const REDIRECT_URI = 'https://host.example/callback'
const VERIFIER = 'v'.repeat(64)
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url')
const SCOPE = 'tickets:read tickets:write offline_access'

interface Tokens {
  access_token: string
  refresh_token: string
  expires_in: number
}

interface Page {
  tickets: Ticket[]
  next_cursor: string | null
}

const json = async <T>(answer: Response | Promise<Response>): Promise<T> => (await (await answer).json()) as T

function open(options: DesklineOptions = {}) {
  let now = new Date('2026-03-01T12:00:30Z')
  const app = createDesklineSandbox({ redirectUris: [REDIRECT_URI], now: () => now, tickets: 120, ...options })
  const basic = Buffer.from(`${DESKLINE_CLIENT.id}:${DESKLINE_CLIENT.secret}`).toString('base64')
  const token = (form: Record<string, string>, authorization = `Basic ${basic}`) =>
    app.request('/oauth/token', { method: 'POST', headers: { authorization }, body: new URLSearchParams(form) })
  const refresh = (refresh_token: string) => token({ grant_type: 'refresh_token', refresh_token })
  const ask = (given: Record<string, string> = {}) =>
    app.request(
      `/oauth/authorize?${new URLSearchParams({
        response_type: 'code',
        client_id: DESKLINE_CLIENT.id,
        redirect_uri: REDIRECT_URI,
        state: 'the-state',
        scope: SCOPE,
        code_challenge: CHALLENGE,
        code_challenge_method: 'S256',
        ...given,
      })}`,
    )
  const decide = async (decision: string, given: Record<string, string> = {}): Promise<URL> => {
    const page = await ask(given)
    const [, question = ''] = /name="question" value="([^"]+)"/.exec(await page.text()) ?? []
    const [cookie = ''] = (page.headers.getSetCookie()[0] ?? '').split(';')
    const body = new URLSearchParams({ question, decision })
    const back = await app.request('/oauth/authorize', { method: 'POST', headers: { cookie }, body })
    return new URL(back.headers.get('location') ?? '')
  }
  const exchange = (code: string, given: Record<string, string> = {}) =>
    token({
      grant_type: 'authorization_code',
      code,
      redirect_uri: REDIRECT_URI,
      code_verifier: VERIFIER,
      ...given,
    })
  return {
    app,
    ask,
    decide,
    token,
    exchange,
    refresh,
    pass: (seconds: number) => {
      now = new Date(now.getTime() + seconds * 1000)
    },
    code: async () => (await decide('allow')).searchParams.get('code') ?? '',
    async tokens(given: Record<string, string> = {}): Promise<Tokens> {
      const back = await decide('allow', given)
      return json(exchange(back.searchParams.get('code') ?? ''))
    },
    get: (path: string, access: string) => app.request(path, { headers: { authorization: `Bearer ${access}` } }),
    control: (method: string, path: string, body: unknown = {}) =>
      app.request(`/_sandbox${path}`, { method, body: JSON.stringify(body) }),
  }
}

describe('an authorization', () => {
  it('leads back with a code, the state and the issuer', async () => {
    const back = await open().decide('allow')
    expect(back.origin + back.pathname).toBe(REDIRECT_URI)
    expect(Object.fromEntries(back.searchParams)).toEqual({
      code: expect.stringMatching(/^dac_/),
      state: 'the-state',
      iss: 'http://localhost',
    })
  })

  it('that is denied leads back with an error', async () => {
    expect((await open().decide('deny')).searchParams.get('error')).toBe('access_denied')
  })

  it('leads nowhere for another client or another redirect URI', async () => {
    const { ask } = open()
    expect((await ask({ client_id: 'another' })).status).toBe(400)
    expect((await ask({ redirect_uri: `${REDIRECT_URI}/more` })).status).toBe(400)
  })

  it.each([
    ['without PKCE', { code_challenge: '' }, 'invalid_request'],
    ['with PKCE in plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['for a scope that there is not', { scope: 'tickets:burn' }, 'invalid_scope'],
  ])('%s is refused', async (_, given, error) => {
    const answer = await open().ask(given)
    expect(new URL(answer.headers.get('location') ?? '').searchParams.get('error')).toBe(error)
  })

  it('needs the browser that was asked', async () => {
    const { app, ask } = open()
    const [, question = ''] = /value="(q_[^"]+)"/.exec(await (await ask()).text()) ?? []
    const body = new URLSearchParams({ question, decision: 'allow' })
    expect((await app.request('/oauth/authorize', { method: 'POST', body })).status).toBe(400)
  })
})

describe('a code', () => {
  it('is good once; a second time ends what came of the first', async () => {
    const desk = open()
    const code = await desk.code()
    const { access_token } = await json<Tokens>(desk.exchange(code))
    expect((await desk.get('/v1/me', access_token)).status).toBe(200)
    expect((await desk.exchange(code)).status).toBe(400)
    expect((await desk.get('/v1/me', access_token)).status).toBe(401)
  })

  it('is good for a minute, its own verifier and its own redirect URI', async () => {
    const desk = open()
    expect((await desk.exchange(await desk.code(), { code_verifier: 'w'.repeat(64) })).status).toBe(400)
    expect((await desk.exchange(await desk.code(), { redirect_uri: 'https://evil.example' })).status).toBe(400)
    const late = await desk.code()
    desk.pass(60)
    expect(await (await desk.exchange(late)).json()).toEqual({ error: 'invalid_grant' })
  })

  it('is for the client with its secret only', async () => {
    const desk = open()
    const wrong = `Basic ${Buffer.from(`${DESKLINE_CLIENT.id}:guessed`).toString('base64')}`
    const answer = await desk.token({ grant_type: 'authorization_code', code: await desk.code() }, wrong)
    expect([answer.status, await answer.json()]).toEqual([401, { error: 'invalid_client' }])
  })
})

describe('a refresh', () => {
  it('replaces the refresh token; the old one ends everything', async () => {
    const desk = open()
    const first = await desk.tokens()
    const second = await json<Tokens>(desk.refresh(first.refresh_token))
    expect(second.refresh_token).not.toBe(first.refresh_token)
    expect((await desk.get('/v1/me', second.access_token)).status).toBe(200)
    expect(await (await desk.refresh(first.refresh_token)).json()).toEqual({ error: 'invalid_grant' })
    expect((await desk.get('/v1/me', second.access_token)).status).toBe(401)
    expect((await desk.refresh(second.refresh_token)).status).toBe(400)
  })

  it('is not there without offline_access', async () => {
    expect(await open().tokens({ scope: 'tickets:read' })).not.toHaveProperty('refresh_token')
  })
})

describe('the API', () => {
  it('gives every ticket once, page after page, oldest change first, while tickets change', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens()
    const found: Ticket[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: string = cursor === '' ? '' : `&cursor=${cursor}`
      const page: Page = await json(desk.get(`/v1/tickets?limit=25${query}`, access))
      found.push(...page.tickets)
      cursor = page.next_cursor
      if (found.length === 25) await desk.control('PATCH', '/tickets/tkt_3', { status: 'solved' })
    }
    expect(new Set(found.map(({ id }) => id)).size).toBe(120)
    // The one that changed is seen again at the end.
    expect(found).toHaveLength(121)
    expect(found.at(-1)).toMatchObject({ id: 'tkt_3', status: 'solved' })
  })

  it('takes updated_since inclusive and updated_before exclusive', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens()
    const { tickets } = await json<Page>(desk.get('/v1/tickets?limit=100', access))
    const [from = '', to = ''] = [tickets[6]?.updated_at, tickets[9]?.updated_at]
    const asked = await json<Page>(desk.get(`/v1/tickets?updated_since=${from}&updated_before=${to}`, access))
    expect(asked.tickets.map(({ updated_at }) => updated_at >= from && updated_at < to)).not.toContain(false)
    expect(asked.tickets[0]?.id).toBe(tickets[6]?.id)
    expect(asked.tickets.map(({ id }) => id)).not.toContain(tickets[9]?.id)
  })

  it.each(['limit=101', 'limit=0', 'cursor=zzz', 'updated_since=yesterday'])('refuses %s', async (query) => {
    const desk = open()
    const answer = await desk.get(`/v1/tickets?${query}`, (await desk.tokens()).access_token)
    const { error } = await json<{ error: { code: string } }>(answer)
    expect([answer.status, error.code]).toEqual([400, 'invalid_parameter'])
  })

  it('knows a key again for a day, and refuses another body under it', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens()
    const post = (subject: string) =>
      desk.app.request('/v1/tickets', {
        method: 'POST',
        headers: { authorization: `Bearer ${access}`, 'idempotency-key': 'order-7' },
        body: JSON.stringify({ subject, requester_email: 'ada@example.com' }),
      })
    const first = await (await post('Fire')).json()
    expect(await (await post('Fire')).json()).toEqual(first)
    expect((await post('Water')).status).toBe(409)
  })

  it('counts requests by the minute', async () => {
    const desk = open({ rateLimit: 2 })
    const { access_token: access } = await desk.tokens()
    const answers = [
      await desk.get('/v1/me', access),
      await desk.get('/v1/me', access),
      await desk.get('/v1/me', access),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(answers[2]?.headers.get('retry-after')).toBe('30')
    desk.pass(30)
    expect((await desk.get('/v1/me', access)).status).toBe(200)
  })

  it('does not write with a token that may only read', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens({ scope: 'tickets:read' })
    const headers = { authorization: `Bearer ${access}` }
    expect((await desk.app.request('/v1/tickets', { method: 'POST', headers, body: '{}' })).status).toBe(403)
  })

  it('fails where a fault was ordered, as often as ordered', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens()
    await desk.control('POST', '/faults', { match: 'GET /v1/me', status: 503, headers: { 'retry-after': '7' } })
    const struck = await desk.get('/v1/me', access)
    expect([struck.status, struck.headers.get('retry-after')]).toEqual([503, '7'])
    expect((await desk.get('/v1/me', access)).status).toBe(200)
  })
})

describe('a webhook', () => {
  it('is signed over its time and its body, sent once, and again on demand', async () => {
    const desk = open()
    const receiver = await startHttpServer()
    const target = { url: `${receiver.url}/in`, secret: 'the-secret' }
    await desk.control('POST', '/tickets', { count: 1 })
    expect(await (await desk.control('POST', '/webhooks', target)).json()).toMatchObject({
      deliveries: [{ id: 'evt_1', type: 'ticket.created', status: 200 }],
    })
    expect(await (await desk.control('POST', '/webhooks', target)).json()).toEqual({ deliveries: [] })
    await desk.control('POST', '/webhooks', { ...target, again: true })
    const [first, second] = receiver.received
    await receiver.close()
    const time = Date.parse('2026-03-01T12:00:30Z') / 1000
    const digest = createHmac('sha256', 'the-secret').update(`${time}.${first?.body}`).digest('hex')
    expect(first?.headers['deskline-signature']).toBe(`t=${time},v1=${digest}`)
    expect(second?.body).toBe(first?.body)
  })

  it('is listed word for word', async () => {
    const desk = open()
    const { access_token: access } = await desk.tokens()
    await desk.control('POST', '/tickets', { count: 1 })
    await desk.control('DELETE', '/tickets/tkt_121')
    const { events } = await json<{ events: TicketEvent[] }>(desk.get('/v1/events?since=2026-03-01T12:00:00Z', access))
    expect(events.map(({ id, type }) => [id, type])).toEqual([
      ['evt_1', 'ticket.created'],
      ['evt_2', 'ticket.deleted'],
    ])
  })
})
