/** Deliveries of Stripe: which are let in, and what is told of them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { StripeProvider, StripeWebhookReceived } from '../../../src/adapters/stripe/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { webhookRequest } from '../../../src/providers/webhook-request.ts'
import type { TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations, signedWebhook, stripeSigner } from '../../../src/testing/index.ts'
import { providerTakes } from '../../support/signatures.ts'

/** No base64 of a key, as in Standard Webhooks: the whole text is the key. */
const SECRET = 'whsec_not-base64:the-whole-text'
const FORMER = 'whsec_of_before'
const EXPIRED = 'whsec_long_gone'
const NOW = new Date('2026-03-01T12:00:00Z')
const SIGNED_AT = NOW.getTime() / 1_000
const EVENT = { id: 'evt_1', object: 'event', type: 'charge.succeeded', data: { object: { id: 'ch_1', amount: 5 } } }
const BODY = JSON.stringify(EVENT)

const provider = new StripeProvider()
let kit: TestIntegrations
let integration: Integration

beforeAll(async () => {
  kit = await createTestIntegrations({ providers: { stripe: provider }, now: NOW })
  integration = await account({
    webhook_secret: SECRET,
    webhook_secrets: [
      { secret: FORMER, expires_at: '2026-03-01T12:00:01Z' },
      { secret: EXPIRED, expires_at: '2026-03-01T12:00:00Z' },
    ],
  })
})

afterAll(() => kit.close())

beforeEach(() => kit.events.clear())

describe('a signature', () => {
  const good = signature(BODY, SECRET, SIGNED_AT)

  it.each([
    ['of the raw body under the secret', good, true],
    ['under a secret that a rotation left in force', signature(BODY, FORMER, SIGNED_AT), true],
    ['under one that has ended at this very moment', signature(BODY, EXPIRED, SIGNED_AT), false],
    ['under one that is none of them', signature(BODY, 'whsec_of_somebody_else', SIGNED_AT), false],
    ['under the secret without its prefix', signature(BODY, SECRET.slice('whsec_'.length), SIGNED_AT), false],
    ['with others beside it, as while Stripe rolls a secret', `${good},v1=${'0'.repeat(64)}`, true],
    ['with one of test mode (v0) beside it', `${good},v0=${'1'.repeat(64)}`, true],
    ['of the scheme v0 alone', good.replace('v1=', 'v0='), false],
    ['that is absent', null, false],
    ['that is empty', '', false],
    ['without a time', good.split(',')[1] ?? '', false],
    ['with two times', `t=${SIGNED_AT},${good}`, false],
    ['whose time is followed by letters', good.replace(`t=${SIGNED_AT}`, `t=${SIGNED_AT}s`), false],
    ['whose time is no number', good.replace(`t=${SIGNED_AT}`, 't=now'), false],
    ['of another time', good.replace(`t=${SIGNED_AT}`, `t=${SIGNED_AT + 1}`), false],
    ['that is too short', good.slice(0, -1), false],
    ['that is too long', `${good}0`, false],
    ['with one changed digit', good.slice(0, -1) + (good.endsWith('0') ? '1' : '0'), false],
    ['that is no hexadecimal', good.replace(/v1=.*/, `v1=${'z'.repeat(64)}`), false],
    ['that was sent twice', `${good}, ${good}`, false],
  ])('%s', (_, header, verified) => {
    expect(verifies(BODY, header)).toBe(verified)
  })

  it.each([
    ['300 s ago', -300, true],
    ['301 s ago', -301, false],
    ['300 s from now', 300, true],
    ['301 s from now', 301, false],
  ])('made %s', (_, offsetSeconds, verified) => {
    expect(verifies(BODY, signature(BODY, SECRET, SIGNED_AT + offsetSeconds))).toBe(verified)
  })

  it('counts whole seconds, whatever the part of one at which the delivery came in', () => {
    const late = new Date(NOW.getTime() + 999)
    expect(verifies(BODY, signature(BODY, SECRET, SIGNED_AT - 300), { receivedAt: late })).toBe(true)
  })

  it('is held to the tolerance of the config', () => {
    const at60 = signature(BODY, SECRET, SIGNED_AT - 60)
    expect(verifies(BODY, at60, { toleranceSeconds: 60 })).toBe(true)
    expect(verifies(BODY, at60, { toleranceSeconds: 59 })).toBe(false)
  })

  it('is of every byte of the body', () => {
    const bytes = Buffer.from(BODY)
    for (const index of bytes.keys()) {
      const changed = Buffer.from(bytes)
      changed[index] = (changed[index] ?? 0) ^ 1
      expect(verifies(changed, good)).toBe(false)
    }
  })

  it.each([
    ['a byte-order mark', Buffer.from(`\uFEFF${BODY}`)],
    ['bytes that are no UTF-8', Buffer.from([0xff, 0xfe, 0x7b])],
    ['nothing', Buffer.alloc(0)],
  ])('of the body does not hold for %s', (_, body) => {
    expect(verifies(body, good)).toBe(false)
  })

  it('of a body with a byte-order mark is that of its very bytes', () => {
    const marked = `\uFEFF${BODY}`
    expect(verifies(marked, signature(marked, SECRET, SIGNED_AT))).toBe(true)
    expect(verifies(BODY, signature(marked, SECRET, SIGNED_AT))).toBe(false)
  })

  it('of U+FFFD is not one of the bytes that would be read as it', () => {
    const signed = '{"name":"\uFFFD"}'
    const header = signature(signed, SECRET, SIGNED_AT)
    expect(verifies(signed, header)).toBe(true)
    const bytes = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xff]), Buffer.from('"}')])
    expect(verifies(bytes, header)).toBe(false)
  })

  it('holds for nothing when the integration has no secret', async () => {
    const without = await account({})
    expect(verifies(BODY, good, {}, without)).toBe(false)
    expect(verifies(BODY, signature(BODY, 'undefined', SIGNED_AT), {}, without)).toBe(false)
  })
})

describe('a delivery', () => {
  it('is stored under the id and the type of its event, handled once, and told with the whole event', async () => {
    expect(await statusOf(await deliver(BODY))).toBe('queued')
    expect(await statusOf(await deliver(BODY))).toBe('duplicate')
    expect(await kit.processWebhooks()).toMatchObject({ processed: 1 })
    expect(told()).toEqual([{ type: 'charge.succeeded', id: 'evt_1', payload: EVENT }])
    expect(await rows()).toEqual([
      { delivery_id: 'evt_1', event_type: 'charge.succeeded', status: 'processed', payload: BODY },
    ])
  })

  it('is not stored with a signature of another secret', async () => {
    const before = await rows()
    const request = signedWebhook(stripeSigner, { ...EVENT, id: 'evt_2' }, { secret: 'whsec_forged', at: NOW })
    expect((await kit.deliver(request, integration)).status).toBe(403)
    expect(await rows()).toEqual(before)
  })

  it.each([
    ['without id and type', '{"object":"event"}', { object: 'event' }],
    ['whose id and type are no text', '{"id":7,"type":["a"]}', { id: 7, type: ['a'] }],
    ['with empty ones', '{"id":"","type":""}', { id: '', type: '' }],
    ['that is a list', '["id","type"]', ['id', 'type']],
    ['that is no JSON', 'id=evt_1&type=a', null],
  ])('%s is known by its bytes, and told as unknown', async (_, body, payload) => {
    expect(await statusOf(await deliver(body))).toBe('queued')
    expect(await statusOf(await deliver(body))).toBe('duplicate')
    await kit.processWebhooks()
    expect(told()).toEqual([{ type: 'unknown', id: '', payload }])
  })

  it('of a type that names something of every object is told like any other', async () => {
    const event = { id: 'evt_3', type: 'constructor' }
    await deliver(JSON.stringify(event))
    await kit.processWebhooks()
    expect(told()).toEqual([{ type: 'constructor', id: 'evt_3', payload: event }])
  })

  it('leaves in the log what became of it', async () => {
    const [log] = await kit.sql`
      select result_data from integration_logs where operation = 'webhook' order by id limit 1`
    expect(log?.result_data).toEqual({ status: 'dispatched', event: 'charge.succeeded' })
  })

  it('whose listener throws has failed, with what it threw', async () => {
    const listener = () => {
      throw new Error('no luck')
    }
    kit.integrations.on(StripeWebhookReceived, listener)
    try {
      await deliver('{"id":"evt_4","type":"charge.failed"}')
      expect(await kit.processWebhooks()).toMatchObject({ failed: 1 })
      const [row] = await kit.sql`select status, error from integration_webhooks where delivery_id = 'evt_4'`
      expect(row).toMatchObject({ status: 'failed', error: expect.stringContaining('no luck') })
    } finally {
      kit.integrations.off(StripeWebhookReceived, listener)
    }
  })
})

function signature(body: string, secret: string, at: number): string {
  return stripeSigner({ body, secret, at: new Date(at * 1_000), event: null, deliveryId: '' })['stripe-signature'] ?? ''
}

function verifies(
  body: string | Uint8Array,
  header: string | null,
  { receivedAt = NOW, toleranceSeconds = 300 } = {},
  of = integration,
): boolean {
  const headers = new Headers(header === null ? {} : { 'stripe-signature': header })
  const rawBody = Buffer.from(body)
  const path = '/integrations/stripe/1/webhook'
  const request = webhookRequest({ method: 'POST', path, query: '', headers, rawBody, receivedAt, toleranceSeconds })
  const isTaken = providerTakes(provider, of, request)
  expect(provider.verifyWebhookSignature(of, request)).toBe(isTaken)
  return isTaken
}

function account(credentials: Record<string, unknown>): Promise<Integration> {
  const api_key = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc'
  return kit.integrations.create({ provider: 'stripe', name: 'of a test', credentials: { api_key, ...credentials } })
}

function deliver(body: string): Promise<Response> {
  return kit.deliver(signedWebhook(stripeSigner, body, { secret: SECRET, at: NOW }), integration)
}

async function statusOf(response: Response): Promise<unknown> {
  expect(response.status).toBe(200)
  return ((await response.json()) as { status: unknown }).status
}

function told() {
  return kit.events.of(StripeWebhookReceived).map(({ type, id, payload }) => ({ type, id, payload }))
}

async function rows() {
  return [
    ...(await kit.sql`
      select delivery_id, event_type, status, payload from integration_webhooks
      where integration_id = ${integration.id} and delivery_id in ('evt_1', 'evt_2')`),
  ].map((row) => ({ ...row }))
}
