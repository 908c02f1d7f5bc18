/** Deliveries and items that the host handles outside of our worker: by HTTP, against a real door, and by workflows as they are asked for. */
import { once } from 'node:events'
import type { IncomingHttpHeaders, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { HandledBy, HandlingTargetSource } from '../../src/forwarding/target.ts'
import { checkHandledBy } from '../../src/forwarding/target.ts'
import type { Integration } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/provider.ts'
import type { TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations } from '../../src/testing/index.ts'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const OLD_SECRET = `whsec_${Buffer.alloc(32, 8).toString('base64')}`

interface Arrived {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

class ContactSynced extends SyncItemEvent<{ name: string }> {
  static override readonly type = 'acme.contact'
}

let server: Server
let url: string
let arrived: Arrived[] = []
let answer: (response: ServerResponse, arrived: Arrived) => void
const ok = (response: ServerResponse) => response.writeHead(204).end()
const kits: TestIntegrations[] = []

beforeAll(async () => {
  server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const one = { headers: request.headers, body: Buffer.concat(pieces).toString() }
      arrived.push(one)
      answer(response, one)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`
})
afterEach(async () => {
  await Promise.all(kits.splice(0).map((kit) => kit.close()))
  arrived = []
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

async function open(handledBy: HandledBy, listed: readonly string[] = [], allowRequests = true) {
  const kit = await createTestIntegrations({
    handledBy,
    allowRequests,
    egress: { allow: ['127.0.0.1'] },
    providers: {
      acme: {
        verifyWebhookSignature: () => true,
        handleWebhook: () => 'handled here',
        resolveWebhookEvent: () => 'contact.updated',
        defaultRateLimit: () => null,
        reduceCheckpoints: (checkpoints) => checkpoints.at(-1) ?? null,
        syncItemEvents: () => [ContactSynced],
        async sync(integration, session) {
          for (const name of listed) await session.dispatch(new ContactSynced(integration, { name }), null, name)
        },
      },
    },
    config: { sync: { item_tries: 2, item_backoff: [1] } },
  })
  kits.push(kit)
  kit.integrations.on(ContactSynced, () => {
    throw new Error('handled here')
  })
  const integration = await kit.integrations.create({
    provider: 'acme',
    name: 'Ours',
    credentials: {},
    owner: { type: 'team', id: 4 },
  })
  return { kit, integration }
}

async function deliver(kit: TestIntegrations, integration: Integration, body = '{"contact":1}') {
  const request = new Request('https://host.example/', {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
  expect((await kit.deliver(request, integration)).ok).toBe(true)
  await kit.processWebhooks()
  const [row] = await kit.sql`select status, attempts, error from integration_webhooks order by id desc limit 1`
  return row
}

const to = (source: HandlingTargetSource): HandledBy => ({ acme: { webhooks: source, items: source } })
const forwards = (more: object = {}): HandledBy => to({ url, secrets: [SECRET], ...more })

/** The maker's own judge. */
const judged = ({ body, headers }: Arrived, secret = SECRET) =>
  new Webhook(secret).verify(body, headers as Record<string, string>) as { type: string; data: Record<string, unknown> }

describe('a delivery that is forwarded', () => {
  it('comes whole and signed, in place of the handler in our worker', async () => {
    answer = ok
    const { kit, integration } = await open(forwards())
    expect(await deliver(kit, integration)).toMatchObject({ status: 'processed', attempts: 1 })
    expect(judged(arrived[0] as Arrived)).toMatchObject({
      type: 'webhook',
      data: {
        ...{ webhookId: 1, eventType: 'contact.updated', attempt: 1, integrationId: integration.id, provider: 'acme' },
        ...{ owner: { type: 'team', id: 4 }, body: '{"contact":1}', isOwn: false },
      },
    })
    expect(arrived[0]?.headers['webhook-id']).toBe('webhook_1')
  })

  it('of bytes that are no text comes as base64', async () => {
    answer = ok
    const { kit, integration } = await open(forwards())
    const bytes = new Uint8Array([0xff, 0xfe, 0, 1])
    await kit.deliver(new Request('https://host.example/', { method: 'POST', body: bytes }), integration)
    await kit.processWebhooks()
    expect(judged(arrived[0] as Arrived).data).toMatchObject({ bodyBase64: Buffer.from(bytes).toString('base64') })
  })

  it('is signed by each secret, so that a host may know the old one or the new one', async () => {
    answer = ok
    const { kit, integration } = await open(forwards({ secrets: [SECRET, OLD_SECRET] }))
    await deliver(kit, integration)
    const [one] = arrived as [Arrived]
    expect(judged(one, SECRET)).toEqual(judged(one, OLD_SECRET))
    expect(() => judged(one, `whsec_${Buffer.alloc(32, 9).toString('base64')}`)).toThrow()
  })

  it.each([
    ['a 500', (r: ServerResponse) => r.writeHead(500).end(), 'answered 500'],
    [
      'a redirect, which is not followed',
      (r: ServerResponse) => r.writeHead(307, { location: '/else' }).end(),
      'redirects are not followed',
    ],
    ['a 410', (r: ServerResponse) => r.writeHead(410).end(), 'does not take this message any more'],
    ['a connection that breaks', (r: ServerResponse) => r.socket?.destroy(), 'could not be reached'],
  ])('fails its attempt by %s', async (_, reply, error) => {
    answer = reply
    const { kit, integration } = await open(forwards())
    const row = await deliver(kit, integration)
    expect(row).toMatchObject({ status: 'failed', attempts: 1, error: expect.stringContaining(error) })
    expect(JSON.stringify(row)).not.toContain(SECRET)
    expect(arrived).toHaveLength(1)
  })

  it('fails when no answer comes in time', async () => {
    answer = () => {}
    const { kit, integration } = await open(forwards({ timeoutSeconds: 1 }))
    expect(await deliver(kit, integration)).toMatchObject({ error: expect.stringContaining('no answer within 1 s') })
  })

  it('does not leave for an address that egress refuses', async () => {
    const { kit, integration } = await open(forwards({ url: 'http://10.0.0.1/hooks' }))
    expect(await deliver(kit, integration)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('could not be reached: The host "10.0.0.1" is not reached'),
    })
  })

  it('does not leave a test that gave no wire and allows no requests', async () => {
    answer = ok
    const { kit, integration } = await open(forwards(), ['ada'], false)
    expect(await deliver(kit, integration)).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/Unexpected request POST http:\/\/127\.0\.0\.1:\d+\. .*`transport`.*allowRequests/),
    })
    expect((await kit.sync(integration)).items).toMatchObject([{ status: 'failed' }])
    expect(arrived).toEqual([])
  })

  it('goes where the integration says, or nowhere', async () => {
    answer = ok
    const { kit, integration } = await open(
      to(({ id }) => (id === 1 ? { url: `${url}/one`, secrets: [SECRET] } : null)),
    )
    await deliver(kit, integration)
    const other = await kit.integrations.create({ provider: 'acme', name: 'Theirs', credentials: {} })
    expect(await deliver(kit, other, '{"contact":2}')).toMatchObject({ status: 'processed' })
    expect(arrived).toHaveLength(1)
  })

  it('a replay of it is a message of its own', async () => {
    answer = ok
    const { kit, integration } = await open(forwards())
    await deliver(kit, integration)
    await kit.integrations.webhooks.replay(1)
    await kit.processWebhooks()
    expect(arrived.map(({ headers }) => headers['webhook-id'])).toEqual(['webhook_1', 'webhook_1_2'])
  })
})

describe('an item that is forwarded', () => {
  it('is handled by the host’s door in place of listeners, in each attempt under one id', async () => {
    let tries = 0
    answer = (response) => {
      tries += 1
      response.writeHead(tries === 1 ? 500 : 204).end()
    }
    const { kit, integration } = await open(forwards(), ['ada'])
    const { items } = await kit.sync(integration)
    expect(items).toMatchObject([{ status: 'success', attempts: 2 }])
    expect(arrived.map(({ headers }) => headers['webhook-id'])).toEqual(['item_1', 'item_1'])
    expect(judged(arrived[1] as Arrived)).toMatchObject({
      type: 'sync_item',
      data: { eventClass: 'acme.contact', externalId: 'ada', attempt: 2, payload: { name: 'ada' }, provider: 'acme' },
    })
  })

  it('is put off by a Retry-After, which is no failure', async () => {
    let tries = 0
    answer = (response) => {
      tries += 1
      response.writeHead(tries <= 3 ? 429 : 204, { 'retry-after': '20' }).end()
    }
    const { kit, integration } = await open(forwards(), ['ada'])
    expect((await kit.sync(integration)).items).toMatchObject([{ status: 'success' }])
    expect(arrived).toHaveLength(4)
  })

  it.each([
    ['3600.5', 1],
    ['in May 2099', 2],
    ['0', 2],
  ])('after a Retry-After of %s succeeds in attempt %i', async (retryAfter, attempts) => {
    let tries = 0
    answer = (response) => {
      tries += 1
      response.writeHead(tries === 1 ? 503 : 204, { 'retry-after': retryAfter }).end()
    }
    const { kit, integration } = await open(forwards(), ['ada'])
    expect((await kit.sync(integration)).items).toMatchObject([{ status: 'success', attempts }])
  })

  it('fails at once by a 410', async () => {
    answer = (response) => response.writeHead(410).end()
    const { kit, integration } = await open(forwards(), ['ada'])
    expect((await kit.sync(integration)).items).toMatchObject([{ status: 'failed', attempts: 1 }])
  })
})

describe('a workflow of the host’s own', () => {
  it('is asked for with ids, or with the payload where the host says so', async () => {
    const { kit, integration } = await open(
      {
        acme: {
          webhooks: { workflow: 'handle_webhook', taskQueue: 'py' },
          items: { workflow: 'HandleItem', taskQueue: 'go', sendsPayload: true },
        },
      },
      ['ada'],
    )
    expect(await deliver(kit, integration)).toMatchObject({ status: 'processed' })
    expect((await kit.sync(integration)).items).toMatchObject([{ status: 'success' }])
    const [webhook, item] = kit.started.handedOver
    expect(webhook).toMatchObject({ workflow: 'handle_webhook', taskQueue: 'py', id: 'webhook_1' })
    expect(JSON.stringify(webhook?.input)).not.toContain('contact\\"')
    expect(item).toMatchObject({
      ...{ workflow: 'HandleItem', taskQueue: 'go', id: 'item_1' },
      input: { itemId: 1, eventClass: 'acme.contact', externalId: 'ada', payload: { name: 'ada' } },
    })
  })

  it.each([
    ['above what Temporal takes with its own bytes is not asked for', 1_048_576 - 512, 'failed', 0],
    ['just below it is asked for', 1_048_576 - 1_024, 'processed', 1],
  ])('with a payload %s', async (_, quotes, status, asked) => {
    const { kit, integration } = await open({
      acme: { webhooks: { workflow: 'handle_webhook', taskQueue: 'py', sendsPayload: true } },
    })
    // Each takes two bytes in JSON.
    expect(await deliver(kit, integration, '"'.repeat(quotes))).toMatchObject({ status })
    expect(kit.started.handedOver).toHaveLength(asked)
  })
})

describe('what can not be meant', () => {
  it.each<[unknown, RegExp]>([
    [{ acme: { webhooks: { url: 'ftp://x.example', secrets: [SECRET] } } }, /handledBy\.acme\.webhooks: .*url/],
    [{ acme: { webhooks: { url: 'https://x.example', secrets: [] } } }, /secrets/],
    [{ acme: { webhooks: { url: 'https://x.example', secrets: ['short'] } } }, /24 to 64 bytes/],
    [{ acme: { items: { workflow: 'w' } } }, /taskQueue/],
    [{ acme: { items: { workflow: 'w', taskQueue: 'q', url: 'https://x.example' } } }, /url/],
    [{ acme: { hooks: {} } }, /hooks/],
  ])('is refused at the start, without its secrets: %#', (given, message) => {
    expect(() => checkHandledBy(given as HandledBy)).toThrow(message)
  })
})
