/** The whole host on the testing kit: no server, no network. */
import type { Integration } from 'durable-integrations'
import type { TestIntegrations } from 'durable-integrations/testing'
import { createTestIntegrations, playedTransport, signedWebhook } from 'durable-integrations/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DesklineProvider } from '../deskline/provider.ts'
import type { TicketEvent } from '../deskline/ticket-event.ts'
import { register, ticketModel } from '../listeners.ts'
import { SCHEMA, tickets } from '../tables.ts'
import { desklineSigner } from './deskline-signer.ts'
import {
  ACCESS_TOKEN,
  BASE_URL,
  CLIENT,
  CREDENTIALS,
  playedDeskline,
  ticket,
  WEBHOOK_SECRET,
} from './played-deskline.ts'

const list = [1, 2, 3, 4, 5].map((number) => ticket(number))
const deskline = playedDeskline(list)
/** Path and query of requests that are answered 429, once each. */
const refusals: string[] = []
/** Paths that are answered 503. */
const outages = new Set<string>()
const transport = playedTransport((request) => {
  if (outages.has(new URL(request.url).pathname)) return new Response(null, { status: 503 })
  const refused = refusals.indexOf(request.url.slice(BASE_URL.length))
  if (refused === -1) return deskline(request)
  refusals.splice(refused, 1)
  return new Response(null, { status: 429, headers: { 'retry-after': '300' } })
})

let kit: TestIntegrations
let integration: Integration

beforeAll(async () => {
  kit = await createTestIntegrations({
    now: '2026-03-01T12:00:00Z',
    providers: { deskline: new DesklineProvider(CLIENT) },
    models: { ticket: ticketModel },
    transport,
  })
  await kit.sql.unsafe(SCHEMA)
  register(kit.integrations)
})
afterAll(() => kit.close())
beforeEach(async () => {
  outages.clear()
  await kit.sql`truncate tickets`
  integration = await kit.integrations.create({ provider: 'deskline', name: 'Our desk', credentials: CREDENTIALS })
})

const stored = () => kit.db.select().from(tickets).orderBy(tickets.desklineId)
/** Queries of the requests for tickets since a moment ago. */
const asked = (from: number): string[] =>
  transport.requests
    .slice(from)
    .filter(({ url }) => url.pathname === '/v1/tickets')
    .map(({ url }) => url.search)

// The first run of a process loads what a run needs: seconds on a machine that is busy.
describe('a sync of tickets', { timeout: 20_000 }, () => {
  it('asks page after page, and from the cursor on the second time', async () => {
    const first = transport.requests.length
    const { result } = await kit.sync(integration)
    expect(result).toMatchObject({ kind: 'success', successCount: 5, cursor: '2026-03-01T10:05:00.000Z' })
    expect(asked(first)).toEqual(['?limit=100', '?limit=100&cursor=2', '?limit=100&cursor=4'])
    expect((await stored()).map(({ desklineId, subject }) => [desklineId, subject])).toEqual(
      list.map(({ id, subject }) => [id, subject]),
    )
    const second = transport.requests.length
    expect((await kit.sync(await integration.refresh())).result).toMatchObject({ kind: 'success', successCount: 1 })
    expect(asked(second)).toEqual(['?limit=100&updated_since=2026-03-01T10%3A05%3A00.000Z'])
  })

  it('goes on at the page where the limit of the provider stopped it, and asks for no page twice', async () => {
    const first = transport.requests.length
    refusals.push('/v1/tickets?limit=100&cursor=2')
    const { result } = await kit.sync(integration)
    expect(result).toMatchObject({ kind: 'success', successCount: 5 })
    expect(asked(first)).toEqual(['?limit=100', '?limit=100&cursor=2', '?limit=100&cursor=2', '?limit=100&cursor=4'])
  })

  it('of a window asks for that window only', async () => {
    const from = transport.requests.length
    const session = kit.syncSession(integration, null)
    const provider = new DesklineProvider(CLIENT)
    await provider.syncWindow(integration, session, {
      from: new Date('2026-03-01T10:02:00Z'),
      to: new Date('2026-03-01T10:04:00Z'),
    })
    session.assertDispatchedCount(2)
    session.assertCheckpoints(['2026-03-01T10:02:00.000Z', '2026-03-01T10:03:00.000Z'])
    expect(asked(from)).toHaveLength(1)
  })
})

describe('a call of Deskline', () => {
  const provider = new DesklineProvider(CLIENT)
  const asksWho = (from: number) => transport.requests.slice(from).filter(({ url }) => url.pathname === '/v1/me')

  it('that asks after its health is made once: somebody waits for it', async () => {
    outages.add('/v1/me')
    const from = transport.requests.length
    expect(await provider.healthCheck(integration)).toBe(false)
    expect(asksWho(from)).toHaveLength(1)
  })

  it('is not made before there is a token: somebody has to authorize it', async () => {
    const unauthorized = await kit.integrations.create({
      provider: 'deskline',
      name: 'Nobody has allowed it yet',
      credentials: { webhook_secret: WEBHOOK_SECRET },
    })
    const from = transport.requests.length
    await expect(provider.for(unauthorized).me()).rejects.toMatchObject({ code: 'reauth_required' })
    expect(asksWho(from)).toEqual([])
  })
})

const event = (number: number, type: string, at: string, subject = 'from a webhook'): TicketEvent => ({
  id: `evt_${integration.id}_${number}`,
  type,
  occurred_at: at,
  ticket: ticket(9, { subject, updated_at: at }),
})

const deliver = (body: TicketEvent, secret = WEBHOOK_SECRET, at = kit.clock.now()): Promise<Response> =>
  kit.deliver(signedWebhook(desklineSigner, body, { secret, at }), integration)

describe('a delivery of Deskline', () => {
  it('is handled once, however often it comes', async () => {
    const created = event(1, 'ticket.created', '2026-03-01T11:00:00.000Z')
    const answers = [await deliver(created), await deliver(created)]
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
      { status: 'queued' },
      { status: 'duplicate' },
    ])
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await stored()).toMatchObject([{ desklineId: 'tkt_9', subject: 'from a webhook', deletedAt: null }])
  })

  it('with another secret, or of six minutes ago, is turned away', async () => {
    const created = event(2, 'ticket.created', '2026-03-01T11:00:00.000Z')
    expect((await deliver(created, 'another-secret-altogether')).status).toBe(403)
    const then = new Date(kit.clock.now().getTime() - 6 * 60_000)
    expect((await deliver(created, WEBHOOK_SECRET, then)).status).toBe(403)
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 0 })
  })

  it('is taken under the old secret and the new one while they change places', async () => {
    await kit.integrations.webhooks.rotateSecret(integration.id, { secret: 'whsec_the-next-webhook-secret' })
    const old = await deliver(event(3, 'ticket.created', '2026-03-01T11:00:00.000Z'))
    const next = await deliver(event(4, 'ticket.updated', '2026-03-01T11:01:00.000Z'), 'whsec_the-next-webhook-secret')
    expect([old.status, next.status]).toEqual([200, 200])
    expect(await kit.processWebhooks()).toEqual({ processed: 2, failed: 0 })
  })

  it('that is older than what was handled changes nothing, and a deleted ticket stays deleted', async () => {
    await deliver(event(5, 'ticket.deleted', '2026-03-01T11:05:00.000Z', 'the last'))
    await kit.processWebhooks()
    await deliver(event(6, 'ticket.updated', '2026-03-01T11:04:00.000Z', 'late news'))
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await stored()).toMatchObject([{ subject: 'the last', deletedAt: new Date('2026-03-01T11:05:00.000Z') }])
  })

  it('of a type that nobody knows is taken and ignored', async () => {
    expect((await deliver(event(7, 'ticket.merged', '2026-03-01T11:00:00.000Z'))).status).toBe(200)
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await stored()).toEqual([])
  })
})

describe('a ticket of ours', () => {
  const given = { subject: 'The printer is on fire', requesterEmail: 'us@example.com', idempotencyKey: 'order-7' }

  it('is made once for a key, whose answer is remembered', async () => {
    const client = new DesklineProvider(CLIENT).for(integration)
    const made = await client.createTicket(given)
    expect(made).toMatchObject({ subject: 'The printer is on fire', status: 'open' })
    expect(transport.requests.at(-1)?.headers.get('idempotency-key')).toBe('order-7')
    const sent = transport.requests.length
    await expect(client.createTicket(given)).rejects.toMatchObject({
      code: 'idempotency_conflict',
      priorState: 'recovered',
      priorResponse: made,
    })
    expect(transport.requests).toHaveLength(sent)
  })
})

describe('the account', () => {
  it('is Ada, whose token is sent and stored nowhere', async () => {
    expect(await integration.authenticatedUser()).toEqual({
      id: 'usr_1',
      name: 'Ada Lovelace',
      email: 'ada@deskline.example',
      username: null,
    })
    expect(transport.requests.at(-1)?.headers.get('authorization')).toBe(`Bearer ${ACCESS_TOKEN}`)
    const rows = await kit.sql`select * from integration_requests where integration_id = ${integration.id}`
    expect(JSON.stringify(rows)).not.toContain(ACCESS_TOKEN)
  })

  it('is not well once Deskline takes the token no longer, and nothing is thrown', async () => {
    const provider = new DesklineProvider(CLIENT)
    expect(await provider.healthCheck(integration)).toBe(true)
    await integration.updateCredentials({ access_token: 'dat_another', refresh_token: null })
    expect(await provider.healthCheck(await integration.refresh())).toBe(false)
  })
})
