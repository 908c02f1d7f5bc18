/**
 * Signatures as they come over the wire, by three schemes: what is taken, and what is refused without a trace.
 *
 * Rule: docs/behaviour/webhook-signatures.md.
 */
import { createHmac, randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { createApi } from '../../src/api/app.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { isTimely, soleHeader } from '../../src/providers/signatures/delivery-values.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { activeWebhookSecrets } from '../../src/providers/webhook-request.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const NOW = new Date('2026-03-10T12:00:00.500Z')
const TOLERANCE_SECONDS = 300
const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1_000)

type Headers = Record<string, string | readonly string[]>

interface Scheme {
  readonly provider: string
  /** Where the signature stands. */
  readonly header: string
  /** One of this scheme; each call makes another delivery. */
  sign(given?: { body?: string; secret?: string; at?: Date }): Record<string, string>
  readonly secret: string
  readonly otherSecret: string
  readonly signsTime: boolean
}

/** A check of a provider's own, by an SDK that knows no time to come. https://docs.stripe.com/webhooks/signature */
const stripe = new Stripe('sk_test_of_the_tests')

function verifyStripe(integration: Integration, request: WebhookRequest): boolean {
  const header = soleHeader(request, 'stripe-signature')
  const signedAt = header?.match(/(?:^|,)t=(\d+)(?:,|$)/)?.[1]
  if (header === null || signedAt === undefined || !isTimely(request, Number(signedAt))) return false
  const { receivedAt, toleranceSeconds, rawBody } = request
  return activeWebhookSecrets(integration.credentialsArray(), receivedAt).some((secret) => {
    try {
      const { signature } = stripe.webhooks
      return signature?.verifyHeader(
        Buffer.from(rawBody),
        header,
        secret,
        toleranceSeconds,
        undefined,
        Number(receivedAt),
      )
    } catch {
      return false
    }
  })
}

const PROVIDERS: Record<string, HandlesWebhooks> = {
  github: new GitHubProvider(),
  standard: {
    signature: { scheme: 'standard-webhooks' },
    webhookDeliveryId: (request) => request.headers.get('webhook-id'),
    handleWebhook: () => null,
  },
  stripe: {
    verifyWebhookSignature: verifyStripe,
    webhookDeliveryId: (request) => (request.json() as { id: string }).id,
    resolveWebhookEvent: (request) => (request.json() as { type: string }).type,
    handleWebhook: () => null,
  },
}

const BODY = '{"id": "evt_1", "type": "charge.succeeded", "object": "event", "name": "Zoë 😀"}'
const GITHUB_SECRET = "It's a Secret to Everybody"
const STRIPE_SECRET = 'whsec_of_stripe'
const standardSecret = (byte: number): string => `whsec_${Buffer.alloc(32, byte).toString('base64')}`

const SCHEMES: Scheme[] = [
  {
    provider: 'github',
    header: 'x-hub-signature-256',
    signsTime: false,
    secret: GITHUB_SECRET,
    otherSecret: 'another secret',
    sign({ body = BODY, secret = GITHUB_SECRET } = {}) {
      const digest = createHmac('sha256', secret).update(body).digest('hex')
      return { 'x-hub-signature-256': `sha256=${digest}`, 'x-github-delivery': randomUUID(), 'x-github-event': 'ping' }
    },
  },
  {
    provider: 'standard',
    header: 'webhook-signature',
    signsTime: true,
    secret: standardSecret(1),
    otherSecret: standardSecret(2),
    sign({ body = BODY, secret = standardSecret(1), at = NOW } = {}) {
      const id = `msg_${randomUUID()}`
      const timestamp = String(Math.floor(at.getTime() / 1_000))
      return {
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': new Webhook(secret).sign(id, at, body),
      }
    },
  },
  {
    provider: 'stripe',
    header: 'stripe-signature',
    signsTime: true,
    secret: STRIPE_SECRET,
    otherSecret: 'whsec_of_another',
    sign({ body = BODY, secret = STRIPE_SECRET, at = NOW } = {}) {
      const timestamp = Math.floor(at.getTime() / 1_000)
      return { 'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp }) }
    },
  },
]

let database: TestDatabase
let test: TestIntegrations
let server: Server
const integrations = new Map<string, Integration>()

beforeAll(async () => {
  database = await createTestDatabase()
  const config = { webhook: { timestamp_tolerance: TOLERANCE_SECONDS } }
  test = testIntegrations(database.url, { providers: PROVIDERS, clock: new ManualClock(NOW), config })
  const { fetch } = createApi(test.integrations)
  server = serve({ fetch, port: 0, hostname: '127.0.0.1' }) as Server
  for (const scheme of SCHEMES) integrations.set(scheme.provider, await integrationOf(scheme))
})

afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await test.close()
  await database.drop()
})

beforeEach(() => {
  test.starts.wakes.length = 0
})

describe.each(SCHEMES.map((scheme) => [scheme.provider, scheme] as const))('a delivery of %s', (_, scheme) => {
  const { header, otherSecret } = scheme
  const signature = (headers: Record<string, string>): string => headers[header] as string
  /** A good delivery, but for this. */
  const but = (change: (good: string) => string | readonly string[]): Headers => {
    const good = scheme.sign()
    return { ...good, [header]: change(signature(good)) }
  }

  it('with its signature is queued, told, and kept as its bytes', async () => {
    const told = listens()
    const body = BODY.replace('evt_1', `evt_${randomUUID()}`)
    expect(await send(scheme, scheme.sign({ body }), body)).toEqual([200, { status: 'queued' }])
    const [row] = await test.sql`select id, payload from integration_webhooks order by id desc limit 1`
    expect(row?.payload).toBe(body)
    expect(told.mock.calls).toEqual([[expect.objectContaining({ webhookId: Number(row?.id) })]])
    expect(test.starts.wakes).toEqual(['arrived'])
  })

  const bad: [string, () => Headers][] = [
    ['absent', () => without(scheme.sign(), header)],
    ['empty', () => but(() => '')],
    ['two characters short', () => but((good) => good.slice(0, -2))],
    ['two characters long', () => but((good) => `${good}00`)],
    ['no digest', () => but((good) => `${good.slice(0, -4)}!!!!`)],
    ['without its scheme', () => but((good) => good.replace(/sha256=|v1,|v1=/, ''))],
    ['under another secret', () => scheme.sign({ secret: otherSecret })],
    ['of another body', () => scheme.sign({ body: BODY.replace('Zoë', 'Zoe') })],
    ['of the same JSON written anew', () => scheme.sign({ body: JSON.stringify(JSON.parse(BODY)) })],
    ['of the body and a line break', () => scheme.sign({ body: `${BODY}\n` })],
    ['sent twice', () => but((good) => [good, good])],
    [
      'sent twice, the second of another secret',
      () => but((good) => [good, signature(scheme.sign({ secret: otherSecret }))]),
    ],
    [
      'sent twice, the first of another secret',
      () => but((good) => [signature(scheme.sign({ secret: otherSecret })), good]),
    ],
  ]
  const untimely: typeof bad = [
    ['a second too old', () => scheme.sign({ at: ago(TOLERANCE_SECONDS + 1) })],
    ['a year old', () => scheme.sign({ at: ago(31_536_000) })],
    ['a second too far in the future', () => scheme.sign({ at: ago(-TOLERANCE_SECONDS - 1) })],
    ['a year in the future', () => scheme.sign({ at: ago(-31_536_000) })],
  ]

  it.each(scheme.signsTime ? [...bad, ...untimely] : bad)(
    'whose signature is %s is 403: no row, no event, no wake-up',
    async (_, headers) => {
      const told = listens()
      const before = await countRows()
      expect(await send(scheme, headers())).toEqual([403, { error: expect.stringMatching(/^[A-Z].*\.$/) }])
      expect([await countRows(), told.mock.calls, test.starts.wakes]).toEqual([before, [], []])
    },
  )

  it('under a secret that was rotated passes until its end, strictly', async () => {
    const rotatedUntil = async (expires_at: Date): Promise<number> => {
      const further = [{ secret: scheme.secret, expires_at: expires_at.toISOString() }]
      const rotated = await integrationOf(scheme, { webhook_secret: otherSecret, webhook_secrets: further })
      return (await send(scheme, scheme.sign(), BODY, rotated))[0]
    }
    expect([await rotatedUntil(new Date(NOW.getTime() + 1)), await rotatedUntil(NOW)]).toEqual([200, 403])
  })
})

describe.each(SCHEMES.filter(({ signsTime }) => signsTime).map((scheme) => [scheme.provider, scheme] as const))(
  'a time signed by %s',
  (_, scheme) => {
    it.each([
      ['300 s ago', TOLERANCE_SECONDS],
      ['in 300 s', -TOLERANCE_SECONDS],
    ])('%s is taken', async (_, seconds) => {
      const body = BODY.replace('evt_1', `evt_${randomUUID()}`)
      expect((await send(scheme, scheme.sign({ body, at: ago(seconds) }), body))[0]).toBe(200)
    })
  },
)

describe('what else Standard Webhooks signs', () => {
  const scheme = SCHEMES.find(({ provider }) => provider === 'standard') as Scheme

  it.each<[string, (good: Record<string, string>) => Headers]>([
    ['another id', (good) => ({ ...good, 'webhook-id': 'msg_other' })],
    ['two ids', (good) => ({ ...good, 'webhook-id': [good['webhook-id'] as string, 'msg_other'] })],
    ['no id', (good) => without(good, 'webhook-id')],
    ['another time', (good) => ({ ...good, 'webhook-timestamp': String(Number(good['webhook-timestamp']) + 1) })],
    ['two times', (good) => ({ ...good, 'webhook-timestamp': Array(2).fill(good['webhook-timestamp']) })],
    ['no time', (good) => without(good, 'webhook-timestamp')],
  ])('with %s is 403, and nothing is stored', async (_, change) => {
    const before = await countRows()
    expect((await send(scheme, change(scheme.sign())))[0]).toBe(403)
    expect(await countRows()).toBe(before)
  })

  it('is known again by its id: the same one is a duplicate', async () => {
    const headers = scheme.sign()
    expect(await send(scheme, headers)).toEqual([200, { status: 'queued' }])
    expect(await send(scheme, headers)).toEqual([200, { status: 'duplicate' }])
  })
})

describe('events signed by Stripe’s SDK', () => {
  const scheme = SCHEMES.find(({ provider }) => provider === 'stripe') as Scheme

  it.each(['charge.succeeded', 'customer.subscription.deleted', 'invoice.payment_failed', 'payout.paid'])(
    '%s is stored under its own id and type',
    async (type) => {
      const id = `evt_${randomUUID()}`
      const event = {
        id,
        object: 'event',
        type,
        created: Math.floor(NOW.getTime() / 1_000),
        data: { object: { amount: 1 } },
      }
      // As Stripe writes its events: over many lines.
      const body = JSON.stringify(event, null, 2)
      expect(await send(scheme, scheme.sign({ body }), body)).toEqual([200, { status: 'queued' }])
      const rows = await test.sql`select event_type, payload from integration_webhooks where delivery_id = ${id}`
      expect(rows).toEqual([{ event_type: type, payload: body }])
    },
  )
})

async function integrationOf(
  { provider, secret }: Scheme,
  credentials?: Record<string, unknown>,
): Promise<Integration> {
  return makeIntegration(test, provider, {
    credentials: { token: 'of the tests', ...(credentials ?? { webhook_secret: secret }) },
    ...(provider === 'github' ? { metadata: { owner: 'octo', repo: 'widgets' } } : {}),
  })
}

function integrationFor({ provider }: Scheme): Integration {
  return integrations.get(provider) as Integration
}

function without(headers: Record<string, string>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name))
}

function listens() {
  const told = vi.fn()
  listen(test, 'WebhookReceived', told)
  return told
}

async function countRows(): Promise<number> {
  const [row] = await test.sql`select count(*) as n from integration_webhooks`
  return Number(row?.n)
}

/** Over a socket, header by header: a repeated one arrives as two. */
function send(
  scheme: Scheme,
  headers: Headers,
  body = BODY,
  { id } = integrationFor(scheme),
): Promise<[status: number, body: unknown]> {
  const { port } = server.address() as AddressInfo
  const path = `/integrations/${scheme.provider}/${id}/webhook`
  const lines = Object.entries(headers).flatMap(([name, values]) => [values].flat().flatMap((value) => [name, value]))
  const sent = [
    ...lines,
    'content-type',
    'application/json',
    'host',
    'localhost',
    'content-length',
    String(Buffer.byteLength(body)),
  ]
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers: sent }, async (response) => {
      try {
        resolve([response.statusCode ?? 0, JSON.parse(Buffer.concat(await response.toArray()).toString())])
      } catch (error) {
        reject(error as Error)
      }
    })
    request.on('error', reject)
    request.end(body)
  })
}
