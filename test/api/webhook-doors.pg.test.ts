/** Doors of providers that ask for more than 200 and JSON, each over a socket against a peer that does what the provider's page says. */
import { createPublicKey, timingSafeEqual, verify } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { activeWebhookSecrets } from '../../src/providers/webhook-request.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import type { AdyenItem } from './door-peers.ts'
import {
  Adyen,
  Asana,
  adyenSignature,
  EventGrid,
  Graph,
  HubSpot,
  hmac,
  hubspotSignature,
  Salesforce,
  SendGrid,
  Trello,
  Xero,
} from './door-peers.ts'

let database: TestDatabase
let test: TestIntegrations
let server: Server
let baseUrl: string

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers })
  server = serve({ fetch: createApi(test.integrations).fetch, port: 0, hostname: '127.0.0.1' }) as Server
  if (!server.listening) await once(server, 'listening')
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await test.close()
  await database.drop()
})

const secretsOf = (integration: Integration, request: WebhookRequest) =>
  activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)
const isSame = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
const keyOf = (integration: Integration, key: string) => String(integration.credentialsArray()[key] ?? '')
const byKey = (request: WebhookRequest, integration: Integration) =>
  isSame(request.query.get('key') ?? '', keyOf(integration, 'webhook_secret'))
const handled = { handleWebhook: () => null }

const trello: HandlesWebhooks = {
  ...handled,
  webhookDoor: { methods: ['HEAD', 'POST'], handshake: (_integration, { method }) => (method === 'HEAD' ? {} : null) },
  verifyWebhookSignature: (integration, request) =>
    secretsOf(integration, request).some((secret) =>
      isSame(
        hmac('sha1', secret, request.text() + baseUrl + request.url).digest('base64'),
        request.headers.get('x-trello-webhook') ?? '',
      ),
    ),
}

const eventGrid: HandlesWebhooks = {
  ...handled,
  webhookDoor: {
    methods: ['OPTIONS', 'POST'],
    handshake(integration, request) {
      if (!byKey(request, integration)) return null
      const origin = request.headers.get('webhook-request-origin')
      if (request.method === 'OPTIONS')
        return origin === EventGrid.ORIGIN
          ? { headers: { 'WebHook-Allowed-Origin': origin, 'WebHook-Allowed-Rate': '120', Allow: 'OPTIONS, POST' } }
          : { status: 403 }
      if (request.headers.get('aeg-event-type') !== 'SubscriptionValidation') return null
      const [event] = request.json() as [{ data: { validationCode: string } }]
      return { json: { validationResponse: event.data.validationCode } }
    },
  },
  verifyWebhookSignature: (integration, request) => byKey(request, integration),
}

const asana: HandlesWebhooks = {
  ...handled,
  webhookDoor: {
    handshake(_integration, { headers }) {
      const storeSecret = headers.get('x-hook-secret')
      return storeSecret === null ? null : { status: 204, headers: { 'X-Hook-Secret': storeSecret }, storeSecret }
    },
  },
  signature: { scheme: 'hmac', hash: 'sha256', header: 'x-hook-signature', encoding: 'hex' },
}

const xero: HandlesWebhooks = {
  ...handled,
  webhookDoor: { accepted: {}, badSignature: { status: 401 } },
  signature: { scheme: 'hmac', hash: 'sha256', header: 'x-xero-signature', encoding: 'base64' },
  splitWebhook: (request) =>
    (request.json() as unknown as { events: { eventType: string }[] }).events.map((event) => ({
      id: null,
      type: event.eventType,
      payload: { ...event },
    })),
}

const salesforce: HandlesWebhooks = {
  ...handled,
  webhookDoor: {
    accepted: {
      xml: '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound"><Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>',
    },
  },
  verifyWebhookSignature: (integration, request) =>
    byKey(request, integration) &&
    request.text().includes(`<OrganizationId>${keyOf(integration, 'organization_id')}</OrganizationId>`),
  webhookDeliveryId: (request) => /<Notification><Id>(\w+)<\/Id>/.exec(request.text())?.[1] ?? null,
}

const adyen: HandlesWebhooks = {
  ...handled,
  webhookDoor: { accepted: { text: '[accepted]' } },
  verifyWebhookSignature(integration, request) {
    const key = keyOf(integration, 'webhook_secret')
    const items = adyenItems(request)
    return (
      items.length > 0 && items.every((item) => isSame(adyenSignature(item, key), item.additionalData.hmacSignature))
    )
  },
}

function adyenItems(request: WebhookRequest) {
  const { notificationItems } = request.json() as unknown as {
    notificationItems: { NotificationRequestItem: AdyenItem & { additionalData: { hmacSignature: string } } }[]
  }
  return notificationItems.map(({ NotificationRequestItem }) => NotificationRequestItem)
}

const hubspot: HandlesWebhooks = {
  ...handled,
  verifyWebhookSignature: (integration, request) =>
    secretsOf(integration, request).some((secret) =>
      isSame(hubspotSignature(secret, request, baseUrl), request.headers.get('x-hubspot-signature-v3') ?? ''),
    ),
  splitWebhook: (request) =>
    (request.json() as unknown as { eventId: number; subscriptionType: string }[]).map((event) => ({
      id: String(event.eventId),
      type: event.subscriptionType,
      payload: { ...event },
    })),
}

const sendgrid: HandlesWebhooks = {
  ...handled,
  verifyWebhookSignature(integration, request) {
    const signed = Buffer.concat([
      Buffer.from(request.headers.get('x-twilio-email-event-webhook-timestamp') ?? ''),
      request.rawBody,
    ])
    const signature = request.headers.get('x-twilio-email-event-webhook-signature') ?? ''
    const key = { key: Buffer.from(keyOf(integration, 'public_key'), 'base64'), format: 'der', type: 'spki' } as const
    return verify('sha256', signed, createPublicKey(key), Buffer.from(signature, 'base64'))
  },
  splitWebhook: (request) =>
    (request.json() as unknown as { sg_event_id: string; event: string }[]).map((event) => ({
      id: event.sg_event_id,
      type: event.event,
      payload: { ...event },
    })),
}

const graph: HandlesWebhooks = {
  ...handled,
  webhookDoor: {
    accepted: { status: 202 },
    handshake: (_integration, { query }) => {
      const token = query.get('validationToken')
      return token === null ? null : { text: token }
    },
  },
  verifyWebhookSignature: (integration, request) =>
    graphEvents(request).every(({ clientState }) => isSame(clientState, keyOf(integration, 'webhook_secret'))),
  splitWebhook: (request) =>
    graphEvents(request).map((event) => ({ id: null, type: event.changeType, payload: { ...event } })),
}

const graphEvents = (request: WebhookRequest) =>
  (request.json() as unknown as { value: { clientState: string; changeType: string }[] }).value

const providers = { hubspot, sendgrid, graph, trello, 'event-grid': eventGrid, asana, xero, salesforce, adyen }

const SECRET = 'a secret of the doors'
const addressOf = ({ provider, id }: Integration) => `${baseUrl}/integrations/${provider}/${id}/webhook`

function create(provider: keyof typeof providers, credentials: Record<string, string> = { webhook_secret: SECRET }) {
  return test.integrations.create({ provider, name: provider, credentials })
}

async function stored({ id }: Integration): Promise<number> {
  const [row] = await test.sql`select count(*)::int as n from integration_webhooks where integration_id = ${id}`
  return row?.n
}

describe('the door of', () => {
  it('Trello takes its HEAD, so that its webhook can be created, and what it signs', async () => {
    const integration = await create('trello')
    const peer = new Trello(SECRET, addressOf(integration))
    expect(await peer.create()).toBe('created')
    expect(await stored(integration)).toBe(0)
    expect((await peer.send({ id: '1', type: 'updateCard' })).status).toBe(200)
    expect((await new Trello('a forger', addressOf(integration)).send({ id: '2' })).status).toBe(403)
    expect(await stored(integration)).toBe(1)
  })

  it('Azure Event Grid answers its validation event, and the OPTIONS of CloudEvents', async () => {
    const integration = await create('event-grid')
    const peer = new EventGrid(`${addressOf(integration)}?key=${encodeURIComponent(SECRET)}`)
    expect(await peer.validate()).toBe('validated')
    expect(await peer.askForPermission()).toBe('granted')
    expect(await stored(integration)).toBe(0)
    expect((await peer.send([{ id: '1', eventType: 'Microsoft.Storage.BlobCreated' }])).status).toBe(200)
    expect(await stored(integration)).toBe(1)
    expect(await new EventGrid(`${addressOf(integration)}?key=other`).askForPermission()).not.toBe('granted')
  })

  it('Asana repeats the secret that comes with the creation, and verifies by it', async () => {
    const integration = await create('asana', { token: 'a token of Asana' })
    const peer = new Asana(addressOf(integration))
    expect(await peer.create()).toBe('the target answered 403')
    await test.integrations.webhooks.expectHandshake(integration.id)
    expect(await peer.create()).toBe('created')
    expect((await peer.send([{ action: 'changed', resource: { gid: '1' } }])).status).toBe(200)
    expect((await new Asana(addressOf(integration)).send([])).status).toBe(403)
    expect(await stored(integration)).toBe(1)
  })

  it('Xero passes its intent to receive: 200 or 401, without a body or a cookie', async () => {
    const integration = await create('xero')
    const peer = new Xero(SECRET, addressOf(integration))
    expect(await peer.intentToReceive()).toBe('ok')
    expect(await stored(integration)).toBe(0)
    expect((await peer.send([{ resourceId: '1', eventType: 'UPDATE' }])).status).toBe(200)
  })

  it('Salesforce acknowledges an outbound message in SOAP, a repeat too', async () => {
    const integration = await create('salesforce', { webhook_secret: SECRET, organization_id: '00D5e000000Test' })
    const url = `${addressOf(integration)}?key=${encodeURIComponent(SECRET)}`
    const peer = new Salesforce('00D5e000000Test', url)
    expect(await peer.send('04l5e0000001')).toBe('acknowledged')
    expect(await peer.send('04l5e0000001')).toBe('acknowledged')
    expect(await new Salesforce('00D5e00000Other', url).send('04l5e0000002')).toMatch(/^403 /)
    expect(await stored(integration)).toBe(1)
  })

  it('HubSpot takes up to 100 events at once, each a webhook', async () => {
    const integration = await create('hubspot')
    const peer = new HubSpot(SECRET, addressOf(integration))
    const events = Array.from({ length: 100 }, (_, at) => ({ eventId: at, subscriptionType: 'contact.creation' }))
    expect((await peer.send(events)).status).toBe(200)
    expect((await peer.send(events)).status).toBe(200)
    expect((await new HubSpot('a forger', addressOf(integration)).send(events)).status).toBe(403)
    expect(await stored(integration)).toBe(100)
  })

  it('SendGrid takes an array of events, signed with ECDSA', async () => {
    const peer = new SendGrid()
    const integration = await create('sendgrid', { public_key: peer.publicKey })
    const event = (id: string) => ({ sg_event_id: id, event: 'delivered', email: 'a@example.com' })
    expect((await peer.send(addressOf(integration), [event('a'), event('b')])).status).toBe(200)
    expect((await peer.send(addressOf(integration), [event('b'), event('c')])).status).toBe(200)
    expect((await new SendGrid().send(addressOf(integration), [event('d')])).status).toBe(403)
    expect(await stored(integration)).toBe(3)
  })

  it('Microsoft Graph repeats the validation token in plain text, and takes 202 for an array', async () => {
    const integration = await create('graph')
    const peer = new Graph(SECRET, addressOf(integration))
    expect(await peer.subscribe()).toBe('created')
    expect(await stored(integration)).toBe(0)
    expect((await peer.send([{ changeType: 'created' }, { changeType: 'updated' }])).status).toBe(202)
    expect(await stored(integration)).toBe(2)
  })

  it('Adyen says [accepted]', async () => {
    const key = 'ab'.repeat(32)
    const integration = await create('adyen', { webhook_secret: key })
    const item: AdyenItem = {
      pspReference: '7914073381342284',
      merchantAccountCode: 'TestMerchant',
      merchantReference: 'Order-1',
      amount: { value: 1_130, currency: 'EUR' },
      eventCode: 'AUTHORISATION',
      success: 'true',
    }
    expect(await new Adyen(key, addressOf(integration)).send([item])).toBe('accepted')
    expect(await new Adyen('cd'.repeat(32), addressOf(integration)).send([item])).toMatch(/^403 /)
  })
})
