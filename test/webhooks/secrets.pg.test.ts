/** Rotating a webhook secret: what verifies when, what the row holds, and two rotations at once. */
import { randomUUID } from 'node:crypto'
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { activeWebhookSecrets } from '../../src/providers/webhook-request.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { refusedDeliveries, rotateWebhookSecret } from '../../src/webhooks/secrets.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { SECRET, sign, TOKEN, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'

const OVERLAP_SECONDS = 86_400

let database: TestDatabase
let test: TestIntegrations
let api: Hono
const clock = new ManualClock('2026-03-10T12:00:00Z')

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    clock,
    providers: {
      acme: webhookProvider(),
      lone: webhookProvider(),
      narrow: webhookProvider({ credentialsSchema: z.object({ token: z.string(), webhook_secret: z.string() }) }),
      short: webhookProvider({
        credentialsSchema: z.looseObject({ webhook_secret: z.string().max(SECRET.length) }),
      }),
      own: webhookProvider({
        verifyWebhookSignature: (integration, request) =>
          activeWebhookSecrets(integration.credentialsArray(), request.receivedAt).some(
            (secret) => request.headers.get('x-signature') === sign(request.rawBody, secret),
          ),
      }),
      silent: {},
    },
  })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const rotate = (id: number, secret?: string) =>
  rotateWebhookSecret(test.framework, id, secret === undefined ? {} : { secret })

async function verifies(integration: Integration, secret: string): Promise<boolean> {
  const response = await api.request(`/integrations/${integration.provider}/${integration.id}/webhook`, {
    method: 'POST',
    headers: { 'x-signature': sign('{}', secret), 'x-delivery': randomUUID() },
    body: '{}',
  })
  expect([200, 403]).toContain(response.status)
  return response.status === 200
}

async function credentialsOf({ id }: Integration): Promise<Record<string, unknown>> {
  return (await test.integrations.get(id)).credentialsArray()
}

describe('a rotated secret', () => {
  it('is in force at once; the old one until its overlap is over, strictly', async () => {
    const integration = await makeIntegration(test, 'acme')
    const validUntil = new Date(clock.now().getTime() + OVERLAP_SECONDS * 1_000)
    expect(await rotate(integration.id, 'the new one')).toEqual({ secret: 'the new one', oldValidUntil: validUntil })
    expect([await verifies(integration, SECRET), await verifies(integration, 'the new one')]).toEqual([true, true])
    clock.set(new Date(validUntil.getTime() - 1))
    expect(await verifies(integration, SECRET)).toBe(true)
    clock.set(validUntil)
    expect([await verifies(integration, SECRET), await verifies(integration, 'the new one')]).toEqual([false, true])
  })

  it('stands beside the other credentials, the old one first among the further ones', async () => {
    const further = [{ secret: 'older', expires_at: null }]
    const integration = await makeIntegration(test, 'acme', {
      credentials: { token: TOKEN, webhook_secret: SECRET, webhook_secrets: further, more: { kept: true } },
    })
    const { oldValidUntil } = await rotate(integration.id, 'new')
    expect(await credentialsOf(integration)).toEqual({
      token: TOKEN,
      webhook_secret: 'new',
      webhook_secrets: [{ secret: SECRET, expires_at: oldValidUntil?.toISOString() }, ...further],
      more: { kept: true },
    })
  })

  it('is made of 32 random bytes, as Standard Webhooks writes them, unless one is given', async () => {
    const integration = await makeIntegration(test, 'acme')
    const first = (await rotate(integration.id)).secret
    const second = (await rotate(integration.id)).secret
    expect(first).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(Buffer.from(first.slice('whsec_'.length), 'base64')).toHaveLength(32)
    expect(second).not.toBe(first)
    expect((await credentialsOf(integration)).webhook_secret).toBe(second)
  })

  it('where there was none leaves none behind', async () => {
    const integration = await makeIntegration(test, 'acme', { credentials: { token: TOKEN } })
    expect(await rotate(integration.id, 'new')).toEqual({ secret: 'new', oldValidUntil: null })
    expect(await credentialsOf(integration)).toEqual({ token: TOKEN, webhook_secret: 'new', webhook_secrets: [] })
  })

  it('makes a sixth drop the one that went first', async () => {
    const integration = await makeIntegration(test, 'acme', { credentials: { webhook_secret: 's0' } })
    for (const secret of ['s1', 's2', 's3', 's4']) await rotate(integration.id, secret)
    expect(await verifies(integration, 's0')).toBe(true)
    await rotate(integration.id, 's5')
    const verified = await Promise.all(['s0', 's1', 's2', 's3', 's4', 's5'].map((s) => verifies(integration, s)))
    expect(verified).toEqual([false, true, true, true, true, true])
    expect((await credentialsOf(integration)).webhook_secrets).toHaveLength(4)
  })

  it('leaves behind what has expired, and what is no secret', async () => {
    const expired = { secret: 'gone', expires_at: clock.now().toISOString() }
    const integration = await makeIntegration(test, 'acme', {
      credentials: { webhook_secret: 'old', webhook_secrets: [expired, { secret: '' }, { no: 'secret' }] },
    })
    await rotate(integration.id, 'new')
    expect((await credentialsOf(integration)).webhook_secrets).toEqual([
      { secret: 'old', expires_at: expect.any(String) },
    ])
  })

  it('that was in force before stands once', async () => {
    const integration = await makeIntegration(test, 'acme', { credentials: { webhook_secret: 'a' } })
    await rotate(integration.id, 'b')
    await rotate(integration.id, 'a')
    expect(await credentialsOf(integration)).toMatchObject({
      webhook_secret: 'a',
      webhook_secrets: [{ secret: 'b', expires_at: expect.any(String) }],
    })
  })

  it('is told as changed credentials, by the names of the keys', async () => {
    const integration = await makeIntegration(test, 'acme')
    const told = vi.fn()
    listen(test, 'CredentialsUpdated', told)
    await rotate(integration.id)
    expect(told.mock.calls).toEqual([
      [{ integration: expect.objectContaining({ id: integration.id }), keys: ['webhook_secret', 'webhook_secrets'] }],
    ])
  })

  it('is in no log line', async () => {
    const integration = await makeIntegration(test, 'acme')
    test.lines.length = 0
    const { secret } = await rotate(integration.id)
    expect(test.lines.map(({ fields }) => fields.event)).toContain('webhook.secret_rotated')
    expect(JSON.stringify(test.lines)).not.toContain(secret)
    expect(JSON.stringify(test.lines)).not.toContain(SECRET)
  })

  it('does not matter to a delivery that is stored: it has been verified', async () => {
    const integration = await makeIntegration(test, 'acme')
    const delivery = randomUUID()
    await api.request(`/integrations/acme/${integration.id}/webhook`, {
      method: 'POST',
      headers: { 'x-signature': sign('{}'), 'x-delivery': delivery },
      body: '{}',
    })
    await rotate(integration.id, 'new')
    clock.advance(OVERLAP_SECONDS)
    await workOff(test.framework)
    const [row] = await test.sql`select id from integration_webhooks where delivery_id = ${delivery}`
    expect(await webhookOf(test, Number(row?.id))).toMatchObject({ status: 'processed' })
  })
})

describe('two rotations at the same moment', () => {
  it('leave both old secrets in force', async () => {
    const integration = await makeIntegration(test, 'acme')
    // A pool gives each its own connection: the row's lock is what puts them in order.
    await Promise.all([rotate(integration.id, 'one'), rotate(integration.id, 'two')])
    for (const secret of [SECRET, 'one', 'two']) expect(await verifies(integration, secret)).toBe(true)
  })
})

describe('a rotation is refused, and nothing changes', () => {
  it.each<[string, string, string | undefined, string]>([
    ['with a blank secret', 'acme', ' \n', 'invalid_argument'],
    ['with an empty secret', 'acme', '', 'invalid_argument'],
    ['with the present secret', 'acme', SECRET, 'invalid_argument'],
    ['of a provider without webhooks', 'silent', undefined, 'unsupported_by_provider'],
    ['with a secret that the provider’s schema refuses', 'short', undefined, 'invalid_credentials'],
    ['where the provider’s schema would drop the old secret', 'narrow', undefined, 'invalid_credentials'],
  ])('%s', async (_, provider, secret, code) => {
    const integration = await makeIntegration(test, provider)
    const before = await credentialsOf(integration)
    await expect(rotate(integration.id, secret)).rejects.toMatchObject({ code })
    expect(await credentialsOf(integration)).toEqual(before)
  })

  it('of an integration that is none', async () => {
    await expect(rotate(999_999)).rejects.toMatchObject({ code: 'integration_not_found' })
  })

  it('of one whose credentials can’t be read', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await test.sql`update integrations set credentials = 'v1.gone.AAAA' where id = ${id}`
    await expect(rotate(id)).rejects.toMatchObject({ code: 'credentials_unreadable' })
  })

  it('names no secret in the refusal', async () => {
    const integration = await makeIntegration(test, 'narrow')
    await expect(rotate(integration.id, 'very-new-secret')).rejects.toMatchObject({
      message: expect.not.stringMatching(/very-new-secret|whsec-of-the-tests/),
    })
  })
})

describe('a former secret', () => {
  const formerOf = ({ id }: Integration) => test.integrations.admin.operator.formerWebhookSecrets(id)

  it('says when it has verified a delivery last; each is noted at most once a minute, and the present one never', async () => {
    const integration = await makeIntegration(test, 'acme')
    const begunAt = clock.now()
    await rotate(integration.id, 'second')
    await rotate(integration.id, 'third')
    const set = vi.spyOn(test.framework.cache, 'set')
    onTestFinished(() => set.mockRestore())

    expect(await verifies(integration, 'third')).toBe(true)
    expect(set).not.toHaveBeenCalled()
    expect(await formerOf(integration)).toMatchObject([
      { lastMatchedAt: null, isWatched: true },
      { lastMatchedAt: null, isWatched: true },
    ])

    expect(await verifies(integration, SECRET)).toBe(true)
    await expect.poll(() => formerOf(integration)).toMatchObject([{ lastMatchedAt: null }, { lastMatchedAt: begunAt }])
    clock.advance(59)
    expect(await verifies(integration, SECRET)).toBe(true)
    expect(set).toHaveBeenCalledTimes(1)
    clock.advance(1)
    expect([await verifies(integration, SECRET), await verifies(integration, 'second')]).toEqual([true, true])
    const now = clock.now()
    await expect.poll(() => formerOf(integration)).toMatchObject([{ lastMatchedAt: now }, { lastMatchedAt: now }])
    expect(set).toHaveBeenCalledTimes(3)
    for (const [key] of set.mock.calls) expect(key).not.toMatch(new RegExp(`${SECRET}|second`))
  })

  it('is not watched where the provider checks signatures itself', async () => {
    const integration = await makeIntegration(test, 'own')
    await rotate(integration.id, 'new')
    expect(await verifies(integration, SECRET)).toBe(true)
    expect(await formerOf(integration)).toMatchObject([{ lastMatchedAt: null, isWatched: false }])
  })

  it('that could not be noted is no trouble of its delivery', async () => {
    const integration = await makeIntegration(test, 'acme')
    await rotate(integration.id, 'new')
    const set = vi.spyOn(test.framework.cache, 'set').mockRejectedValueOnce(new Error('no room'))
    onTestFinished(() => set.mockRestore())
    expect(await verifies(integration, SECRET)).toBe(true)
    await expect
      .poll(() => test.lines.find(({ fields }) => fields.event === 'webhook.former_secret_unnoted'))
      .toMatchObject({
        level: 'warn',
        fields: { integration: integration.id, error: expect.stringContaining('no room') },
      })
  })
})

describe('refused deliveries', () => {
  const seen = async ({ id }: Integration) => (await refusedDeliveries(test.framework, [id]))[0] ?? null
  const MINUTE_MS = 60_000

  /** At these minutes before now, by the clock of the database: it says when a row was stored. */
  async function refusedAt(integration: Integration, minutesAgo: readonly number[]): Promise<void> {
    const set = vi.spyOn(test.framework.cache, 'set')
    for (const minutes of minutesAgo) {
      clock.set(new Date(Date.now() - minutes * MINUTE_MS))
      const writes = set.mock.calls.length
      expect(await verifies(integration, 'of another')).toBe(false)
      await expect.poll(() => set.mock.calls.length).toBe(writes + 1)
    }
    set.mockRestore()
  }

  it('are seen at once where there is no secret, for a day, and until there is one', async () => {
    const integration = await makeIntegration(test, 'acme', { credentials: { token: TOKEN } })
    expect(await seen(integration)).toBeNull()
    const lastRefusedAt = clock.now()
    expect(await verifies(integration, SECRET)).toBe(false)
    await expect
      .poll(() => seen(integration))
      .toEqual({
        integrationId: integration.id,
        because: 'no secret',
        lastRefusedAt,
        reason: 'no_secret',
        lastStoredAt: null,
        isOfSecret: true,
      })
    await rotate(integration.id)
    expect(await seen(integration)).toBeNull()
  })

  it.each([
    ['acme', 'mismatch', true],
    ['own', 'refused_by_provider', false],
  ])('are seen once three of %s, five minutes apart, are refused for %s', async (provider, reason, isOfSecret) => {
    const integration = await makeIntegration(test, provider)
    const createdAt = new Date(Date.now() - 40 * MINUTE_MS)
    await makeWebhook(test, integration.id, { createdAt })
    await refusedAt(integration, [30, 25])
    expect(await seen(integration)).toBeNull()
    await refusedAt(integration, [19])
    expect(await seen(integration)).toEqual({
      integrationId: integration.id,
      because: 'all refused',
      lastRefusedAt: clock.now(),
      reason,
      lastStoredAt: createdAt,
      isOfSecret,
    })
  })

  it('say nothing when they come at once', async () => {
    const integration = await makeIntegration(test, 'acme')
    await refusedAt(integration, [30])
    const set = vi.spyOn(test.framework.cache, 'set')
    const get = vi.spyOn(test.framework.cache, 'get')
    for (const minutes of [29, 28, 27, 26]) {
      clock.set(new Date(Date.now() - minutes * MINUTE_MS))
      expect(await verifies(integration, 'of another')).toBe(false)
    }
    await expect.poll(() => get.mock.calls.length).toBe(4)
    expect(set).not.toHaveBeenCalled()
    set.mockRestore()
    get.mockRestore()
    expect(await seen(integration)).toBeNull()
  })

  it('are a stranger’s beside deliveries that verify; what a reconciliation has fetched was not checked', async () => {
    const integration = await makeIntegration(test, 'acme')
    await refusedAt(integration, [30, 25, 20])
    await makeWebhook(test, integration.id, { headers: { ':source': ['reconcile'] } })
    expect(await seen(integration)).toMatchObject({ because: 'all refused', lastStoredAt: null })
    await makeWebhook(test, integration.id, { createdAt: new Date(Date.now() - 27 * MINUTE_MS) })
    expect(await seen(integration)).toBeNull()
  })

  it('begin again with other secrets: whether those match, later deliveries tell', async () => {
    const integration = await makeIntegration(test, 'acme')
    await refusedAt(integration, [60, 50, 40])
    expect(await seen(integration)).toMatchObject({ because: 'all refused' })
    await rotate(integration.id)
    expect(await seen(integration)).toBeNull()
    await refusedAt(integration, [30, 20])
    expect(await seen(integration)).toBeNull()
    await refusedAt(integration, [10])
    expect(await seen(integration)).toMatchObject({ because: 'all refused' })
  })

  it('on the generic route are those of the only integration that was asked; of several it is not known whose', async () => {
    const post = () =>
      api.request('/integrations/lone/webhook', { method: 'POST', headers: { 'x-signature': 'forged' }, body: '{}' })
    const named = () =>
      test.lines.flatMap(({ fields }) =>
        fields.event === 'webhook.refused' && fields.provider === 'lone' ? fields.integration : [],
      )
    const first = await makeIntegration(test, 'lone', { credentials: { token: TOKEN } })
    expect((await post()).status).toBe(403)
    await expect.poll(() => seen(first)).toMatchObject({ because: 'no secret' })
    expect(named()).toEqual([first.id])
    const second = await makeIntegration(test, 'lone', { credentials: { token: TOKEN } })
    clock.advance(2 * MINUTE_MS)
    expect((await post()).status).toBe(403)
    expect(named()).toEqual([first.id, null])
    expect(await seen(second)).toBeNull()
  })
})
