/** The example's provider and host against Deskline over HTTP, on a real Postgres: docs/writing-a-provider.md, as it is lived. */
import type { AddressInfo } from 'node:net'
import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { eq } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DesklineProvider } from '../../examples/helpdesk/deskline/provider.ts'
import { register, ticketModel } from '../../examples/helpdesk/listeners.ts'
import { SCHEMA, tickets } from '../../examples/helpdesk/tables.ts'
import type { RunningDeskline } from '../../sandbox/deskline/server.ts'
import { DESKLINE_CLIENT, startDesklineSandbox } from '../../sandbox/deskline/server.ts'
import type { SeenRequest } from '../../sandbox/deskline/state.ts'
import type { Ticket } from '../../sandbox/deskline/tickets.ts'
import type { SentDelivery } from '../../sandbox/deskline/webhook-sender.ts'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { processPending } from '../../src/testing/jobs-in-process.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import type { Page } from './cookie-jar.ts'
import { CookieJar } from './cookie-jar.ts'

const WEBHOOK_SECRET = 'whsec_of-the-help-desk'
const TICKETS = 120

const clock = new ManualClock(new Date())

let database: TestDatabase
let test: TestIntegrations
let deskline: RunningDeskline
let provider: DesklineProvider
let server: ServerType
let app: Hono
let api: string

beforeAll(async () => {
  database = await createTestDatabase()
  deskline = await startDesklineSandbox({ now: () => clock.now(), tickets: TICKETS })
  server = serve({ fetch: (request, env) => app.fetch(request, env), port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  provider = new DesklineProvider({
    clientId: DESKLINE_CLIENT.id,
    clientSecret: DESKLINE_CLIENT.secret,
    baseUrl: deskline.url,
  })
  test = testIntegrations(database.url, {
    clock,
    baseUrl: api,
    providers: { deskline: provider },
    models: { ticket: ticketModel },
    egress: { allow: ['127.0.0.1'] },
  })
  await test.sql.unsafe(SCHEMA)
  register(test.integrations)
  app = createApi(test.integrations)
  await control('PUT', '/client', { redirect_uris: [`${api}/integrations/oauth/callback`] })
})

afterAll(async () => {
  await new Promise((resolve) => server.close(resolve))
  await deskline.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await control('DELETE', '/requests')
})

async function control<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${deskline.url}/_sandbox${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  const text = await answer.text()
  return (text === '' ? null : JSON.parse(text)) as T
}

const seen = async (): Promise<SeenRequest[]> =>
  (await control<{ requests: SeenRequest[] }>('GET', '/requests')).requests
const operations = async (): Promise<string[]> =>
  (await seen()).map(({ method, path, status }) => `${method} ${path} ${status}`)

const create = (): Promise<Integration> =>
  test.integrations.create({
    provider: 'deskline',
    name: 'Our help desk',
    credentials: { webhook_secret: WEBHOOK_SECRET },
  })

/** A person opens the link that an operator sent, and answers Deskline's question. */
async function authorize(integration: Integration, decision: 'allow' | 'deny'): Promise<Page> {
  const jar = new CookieJar()
  const connect = await jar.open(await test.integrations.oauth.link(integration.id, { action: 'connect' }))
  const [, href = ''] = /href="([^"]+)"/.exec(connect.text) ?? []
  const leading = await jar.open(new URL(href.replaceAll('&amp;', '&'), connect.url).href)
  const question = await jar.open(leading.location ?? '')
  const [, value = ''] = /name="question" value="([^"]+)"/.exec(question.text) ?? []
  const back = await jar.open(`${deskline.url}/oauth/authorize`, { question: value, decision })
  const end = await jar.open(back.location ?? '')
  return end.location === null ? end : jar.open(end.location)
}

async function connected(): Promise<Integration> {
  const integration = await create()
  await authorize(integration, 'allow')
  await control('DELETE', '/requests')
  return integration.refresh()
}

const rows = () => drizzle(test.sql).select().from(tickets)
const row = async (id: string) => (await drizzle(test.sql).select().from(tickets).where(eq(tickets.desklineId, id)))[0]

describe('connecting a help desk', () => {
  it('is done by a person in a browser: the tokens are stored, and it is Ada', async () => {
    const integration = await create()
    const end = await authorize(integration, 'allow')
    expect(end).toMatchObject({ status: 200, url: `${api}/integrations` })
    expect(await operations()).toEqual(['POST /oauth/token 200'])
    const { access_token, refresh_token, ...rest } = (await integration.refresh()).credentialsArray()
    expect([access_token, refresh_token]).toEqual([expect.stringMatching(/^dat_/), expect.stringMatching(/^drt_/)])
    expect(rest).toEqual({ webhook_secret: WEBHOOK_SECRET, token_expires_at: expect.any(String) })
    expect(await (await integration.refresh()).authenticatedUser()).toMatchObject({ id: 'usr_1', name: 'Ada Lovelace' })
    expect(await provider.healthCheck(await integration.refresh())).toBe(true)
  })

  it('that the person refuses stores nothing, and says so', async () => {
    const integration = await create()
    const end = await authorize(integration, 'deny')
    expect(end.status).toBe(400)
    expect(end.text).toContain('access_denied')
    expect(await operations()).toEqual([])
    expect((await integration.refresh()).credentialsArray()).toEqual({ webhook_secret: WEBHOOK_SECRET })
  })
})

describe('a sync', () => {
  it('stores every ticket, then only what changed', async () => {
    const integration = await connected()
    await runSync(test.framework, clock, { integrationId: integration.id })
    expect(await operations()).toEqual(['GET /v1/tickets 200', 'GET /v1/tickets 200'])
    expect(await rows()).toHaveLength(TICKETS)

    await control('DELETE', '/requests')
    await control('PATCH', '/tickets/tkt_7', { subject: 'The printer is on fire', status: 'pending' })
    await runSync(test.framework, clock, { integrationId: integration.id })
    const [request, ...more] = await seen()
    expect(more).toEqual([])
    expect(request?.query).toMatchObject({ limit: '100', updated_since: expect.any(String) })
    expect(await row('tkt_7')).toMatchObject({ subject: 'The printer is on fire', status: 'pending' })
  })

  it('that Deskline asks to wait goes on at the same page a minute later', async () => {
    const integration = await connected()
    await control('POST', '/faults', {
      match: 'GET /v1/tickets?*cursor=*',
      status: 429,
      headers: { 'retry-after': '60' },
    })
    const before = clock.now().getTime()
    await runSync(test.framework, clock, { integrationId: integration.id })
    expect((await operations()).map((line) => line.slice(-3))).toEqual(['200', '429', '200'])
    expect(clock.now().getTime() - before).toBeGreaterThanOrEqual(60_000)
    expect((await integration.refresh()).syncCursor).toEqual(expect.any(String))
  })
})

describe('webhooks', () => {
  const send = async (integration: Integration, secret = WEBHOOK_SECRET): Promise<SentDelivery[]> => {
    const url = `${api}/integrations/deskline/${integration.id}/webhook`
    return (await control<{ deliveries: SentDelivery[] }>('POST', '/webhooks', { url, secret })).deliveries
  }

  it('are taken, and change the host‘s tickets', async () => {
    const integration = await connected()
    await send(integration)
    await processPending(test.framework)
    const { tickets: made } = await control<{ tickets: Ticket[] }>('POST', '/tickets', { count: 2 })
    const [first = '', second = ''] = made.map(({ id }) => id)
    await control('PATCH', `/tickets/${first}`, { status: 'solved' })
    await control('DELETE', `/tickets/${second}`)
    const sent = await send(integration)
    expect(sent.map(({ type, status, body }) => [type, status, body])).toEqual(
      ['ticket.created', 'ticket.created', 'ticket.updated', 'ticket.deleted'].map((type) => [
        type,
        200,
        '{"status":"queued"}',
      ]),
    )
    expect(await processPending(test.framework)).toEqual({ processed: 4, failed: 0 })
    expect(await row(first)).toMatchObject({ status: 'solved', deletedAt: null })
    expect((await row(second))?.deletedAt).toBeInstanceOf(Date)
  })

  it('under another secret are refused', async () => {
    const integration = await connected()
    await control('POST', '/tickets')
    expect((await send(integration, 'another-secret-altogether')).map(({ status }) => status)).toEqual([403])
  })

  it('that never came are asked for', async () => {
    const integration = await connected()
    const { tickets: made } = await control<{ tickets: Ticket[] }>('POST', '/tickets', { count: 1 })
    clock.advance({ minutes: 10 })
    const reconciled = await runActivity(test.activities.reconcileIntegration, { integrationId: integration.id })
    expect(reconciled.inserted).toBeGreaterThan(0)
    expect((await processPending(test.framework)).failed).toBe(0)
    expect(await row(made[0]?.id ?? '')).toMatchObject({ subject: 'New ticket 1' })
  })
})

describe('tokens', () => {
  it('that Deskline takes no longer are replaced once, however many find out', async () => {
    const integration = await connected()
    const before = integration.credentialsArray()
    await control('POST', '/tokens/expire')
    const client = provider.for(integration)
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.me()))
    expect(answers.map(({ id }) => id)).toEqual(Array.from({ length: 5 }, () => 'usr_1'))
    expect((await operations()).filter((line) => line.startsWith('POST /oauth/token'))).toEqual([
      'POST /oauth/token 200',
    ])
    const after = (await integration.refresh()).credentialsArray()
    expect(after.access_token).not.toBe(before.access_token)
    expect(after.refresh_token).not.toBe(before.refresh_token)
  })

  it('that Ada has ended need her again, and say so once', async () => {
    const integration = await connected()
    const asked: number[] = []
    listen(test, 'ReauthRequired', (event: { integration: Integration }) => asked.push(event.integration.id))
    await control('POST', '/tokens/revoke')
    await expect(provider.for(integration).me()).rejects.toMatchObject({ code: 'http_error', status: 401 })
    await expect(provider.for(await integration.refresh()).me()).rejects.toMatchObject({ status: 401 })
    expect(asked).toEqual([integration.id])
    expect((await operations()).filter((line) => line.startsWith('POST /oauth/token'))).toEqual([
      'POST /oauth/token 400',
    ])
    expect((await test.integrations.oauth.status(integration.id)).reauth).not.toBeNull()
    await authorize(integration, 'allow')
    expect((await test.integrations.oauth.status(integration.id)).reauth).toBeNull()
    expect(await provider.for(await integration.refresh()).me()).toMatchObject({ id: 'usr_1' })
  })

  it('that an operator revokes are good for nothing at Deskline; the webhook secret stays', async () => {
    const integration = await connected()
    const { access_token: token } = integration.credentialsArray()
    await test.integrations.oauth.revoke(integration.id)
    expect(await operations()).toEqual(['POST /oauth/revoke 200'])
    expect((await integration.refresh()).credentialsArray()).toEqual({ webhook_secret: WEBHOOK_SECRET })
    const answer = await fetch(`${deskline.url}/v1/me`, { headers: { authorization: `Bearer ${token}` } })
    expect(answer.status).toBe(401)
  })
})

describe('a ticket that we make', () => {
  it('is made once, also when its answer was lost and the call is made again', async () => {
    const integration = await connected()
    const client = provider.for(integration)
    const given = { subject: 'Made by us', requesterEmail: 'us@example.com', idempotencyKey: 'order-7' }
    await control('POST', '/faults', { match: 'POST /v1/tickets', drop: 'after' })
    await expect(client.createTicket(given)).rejects.toThrow('fetch failed')
    const made = await client.createTicket(given)
    expect(made).toMatchObject({ subject: 'Made by us' })
    await expect(client.createTicket(given)).rejects.toMatchObject({
      code: 'idempotency_conflict',
      priorResponse: made,
    })
    expect((await operations()).filter((line) => line.startsWith('POST /v1/tickets'))).toEqual([
      'POST /v1/tickets null',
      'POST /v1/tickets 201',
    ])
  })
})

it('no token and no secret of all this is in any table or log line', async () => {
  const secrets = new Set([DESKLINE_CLIENT.secret, WEBHOOK_SECRET])
  for await (const integration of test.integrations.list()) {
    for (const value of Object.values(integration.credentialsArray())) secrets.add(String(value))
  }
  expect(secrets.size).toBeGreaterThan(10)
  const tables = await test.sql`select tablename from pg_tables where schemaname = 'public'`
  const texts = [JSON.stringify(test.lines)]
  for (const { tablename } of tables) {
    const found = await test.sql`select t::text as row from ${test.sql(tablename)} t`
    texts.push(...found.map(({ row: text }) => String(text)))
  }
  expect(texts.filter((text) => text.includes('Our help desk')).length).toBeGreaterThan(10)
  // The expiry of a token is no secret.
  const leaks = [...secrets].filter((secret) => !/^\d{4}-/.test(secret) && texts.some((text) => text.includes(secret)))
  expect(leaks).toEqual([])
})
