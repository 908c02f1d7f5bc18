/** Looks at webhook subscriptions: on real rows, at a server of ours. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { WebhookSubscription } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { keepSubscription } from '../../src/subscriptions/keep.ts'
import { claimSubscription, setWanted } from '../../src/subscriptions/queries.ts'
import type { SubscriptionSight } from '../../src/subscriptions/subscription-jobs.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { SECRET } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { subscribingProvider } from '../support/subscribing-provider.ts'
import type { SubscriptionServer } from '../support/subscription-server.ts'
import { startSubscriptionServer } from '../support/subscription-server.ts'

const BASE = 'https://hooks.example.com'
const LIFE_SECONDS = 90

let database: TestDatabase
let test: TestIntegrations
let server: SubscriptionServer
const clock = new ManualClock('2026-03-10T12:00:00Z')

/** What happens between a look's claim and the provider's list, of the provider `overtaken`. */
let whileListing: (integration: Integration) => Promise<unknown>
/** What the provider `retelling` makes of an answer to a creation or a renewal. */
let retell: (answer: WebhookSubscription) => WebhookSubscription

const options = {
  clock,
  baseUrl: BASE,
  encryptionKeys: encryptionKey('test'),
  // Calls that fail say nothing about the integration's health here.
  config: { health: { degraded_after: 100, failing_after: 200, disabled_after: 300 } },
  egress: { allow: ['127.0.0.1'] },
  providers: {
    acme: subscribingProvider(),
    theirs: subscribingProvider({ webhookSecretFrom: 'provider' }),
    fixed: subscribingProvider({}, { canRenew: false }),
    listless: subscribingProvider({ webhookSubscriptions: async () => null }),
    strict: subscribingProvider({
      webhookSecretFrom: 'provider',
      credentialsSchema: z.object({ token: z.string() }),
    }),
    overtaken: subscribingProvider({
      async webhookSubscriptions(integration, options) {
        await whileListing(integration)
        return subscribingProvider().webhookSubscriptions(integration, options)
      },
    }),
    retelling: subscribingProvider({
      webhookSubscriptions: async () => null,
      async createWebhookSubscription(integration, wanted) {
        return retell(await subscribingProvider().createWebhookSubscription(integration, wanted))
      },
      async renewWebhookSubscription(integration, subscription, wanted) {
        const renewed = await subscribingProvider().renewWebhookSubscription(integration, subscription, wanted)
        return renewed === null ? null : retell(renewed)
      },
    }),
    judging: {
      ...subscribingProvider(),
      classifyFailure(error: unknown) {
        return (error as { response: { status: number } }).response.status === 401 ? ('client' as const) : null
      },
    },
    connected: {
      ...subscribingProvider(),
      ...scriptedOAuth(() => ({}), { exchangeCode: async () => ({ access_token: 'a' }) }),
    },
    silent: {},
  },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, options)
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  whileListing = async () => {}
  retell = (answer) => answer
  server = await startSubscriptionServer({ lifeSeconds: LIFE_SECONDS, now: () => clock.now().getTime() })
})
afterEach(() => server.close())

const make = (provider = 'acme', more: { credentials?: Record<string, unknown> } = {}): Promise<Integration> =>
  makeIntegration(test, provider, { metadata: { server: server.url }, credentials: { token: 't' }, ...more })

const door = ({ id, provider }: Integration): string => `${BASE}/integrations/${provider}/${id}/webhook`

async function look({ id }: Integration): Promise<SubscriptionSight | null> {
  return (await keepSubscription(test.framework, id, new AbortController().signal))?.sight ?? null
}

async function wanted(integration: Integration): Promise<Integration> {
  await setWanted(test.framework.db, test.framework.tables, integration.id, { isWanted: true, now: clock.now() })
  return integration
}

const live = () => [...server.subscriptions.values()]
const pass = (seconds: number): void => clock.set(new Date(clock.now().getTime() + seconds * 1_000))

async function incidentsOf({ id }: Integration) {
  return test.sql`select status, source, reason, peak_severity from integration_incidents
    where integration_id = ${id} order by id`
}

describe('registering', () => {
  it('makes a secret, stores it and tells it to the provider with our door', async () => {
    const integration = await make()
    const view = await test.integrations.webhooks.register(integration.id)
    const [one] = live()
    expect(one).toMatchObject({ id: view.subscriptionId, url: door(integration) })
    expect((await test.integrations.get(integration.id)).credentialsArray()).toMatchObject({
      webhook_secret: one?.secret,
    })
    expect(view).toMatchObject({ isWanted: true, failures: 0, lastError: null })
    expect(view.expiresAt).toEqual(new Date(clock.now().getTime() + LIFE_SECONDS * 1_000))
    expect(view.nextCheckAt).toEqual(new Date(clock.now().getTime() + (LIFE_SECONDS / 2) * 1_000))
    expect(test.starts.subscriptions).toContain(integration.id)
    // Neither the row, nor the request's, nor the log shows the secret.
    const rows = await test.sql`select * from integration_webhook_subscriptions, integration_requests`
    expect(JSON.stringify([rows, test.lines])).not.toContain(one?.secret)
  })

  it('keeps the secret that there is', async () => {
    const integration = await make('acme', { credentials: { webhook_secret: SECRET } })
    await test.integrations.webhooks.register(integration.id)
    expect(live()[0]?.secret).toBe(SECRET)
  })

  it('stores the secret that the provider makes; the old one stays valid for a while', async () => {
    const theirs = await startSubscriptionServer({ makesSecret: true, now: () => clock.now().getTime() })
    const integration = await makeIntegration(test, 'theirs', {
      metadata: { server: theirs.url },
      credentials: { webhook_secret: SECRET },
    })
    await test.integrations.webhooks.register(integration.id)
    const [one] = [...theirs.subscriptions.values()]
    expect((await test.integrations.get(integration.id)).credentialsArray()).toMatchObject({
      webhook_secret: one?.secret,
      webhook_secrets: [{ secret: SECRET }],
    })
    await theirs.close()
  })

  it('waits while the integration is switched off, and creates when it is switched on', async () => {
    const integration = await make()
    await test.integrations.disable(integration.id)
    expect(await test.integrations.webhooks.register(integration.id)).toMatchObject({
      isWanted: true,
      subscriptionId: null,
      nextCheckAt: null,
    })
    test.starts.subscriptions.length = 0
    await test.integrations.enable(integration.id)
    expect(test.starts.subscriptions).toEqual([integration.id])
    expect(await look(integration)).toMatchObject({ standing: 'registered', did: 'created' })
  })

  it('is refused without a base URL, and of a provider that can not', async () => {
    const { baseUrl: _, ...homelessOptions } = options
    const homeless = testIntegrations(database.url, homelessOptions)
    const integration = await makeIntegration(homeless, 'acme', { credentials: {}, metadata: { server: server.url } })
    await expect(homeless.integrations.webhooks.register(integration.id)).rejects.toMatchObject({
      code: 'base_url_missing',
      message: expect.stringMatching(/no webhook can be registered.*INTEGRATIONS_BASE_URL/),
    })
    await homeless.close()
    const silent = await makeIntegration(test, 'silent')
    await expect(test.integrations.webhooks.register(silent.id)).rejects.toMatchObject({
      code: 'unsupported_by_provider',
    })
  })

  it('two at once leave one', async () => {
    const integration = await make()
    await Promise.allSettled(Array.from({ length: 5 }, () => test.integrations.webhooks.register(integration.id)))
    await look(integration)
    expect(live()).toHaveLength(1)
    expect(await look(integration)).toMatchObject({ did: 'nothing' })
  })
})

describe('a command whose look is taken over', () => {
  /** Once: the worker was woken, and its look has the row. */
  const takeOverOnce = (how: (integration: Integration) => Promise<unknown>) => {
    whileListing = async (integration) => {
      whileListing = async () => {}
      await how(integration)
    }
  }

  it('looks again, and says what there is then', async () => {
    const integration = await make('overtaken')
    takeOverOnce(look)
    const view = await test.integrations.webhooks.register(integration.id)
    expect(live()).toMatchObject([{ id: view.subscriptionId, url: door(integration) }])
  })

  it('says that the provider refuses', async () => {
    const integration = await make('overtaken')
    takeOverOnce(look)
    for (let tries = 0; tries < 2; tries++) server.faults.push({ method: 'POST', fault: { status: 403 } })
    await expect(test.integrations.webhooks.register(integration.id)).rejects.toMatchObject({
      code: 'webhook_subscription_failed',
      message: expect.stringContaining('403'),
    })
  })

  it('removes before it deletes, though the worker has claimed and not yet asked', async () => {
    const integration = await make('overtaken')
    await test.integrations.webhooks.register(integration.id)
    takeOverOnce(({ id }) => claimSubscription(test.framework.db, test.framework.tables, id))
    await test.integrations.delete(integration.id)
    expect(live()).toEqual([])
  })

  it('fails where that happens each time, and so does a deletion, unless it is forced', async () => {
    const integration = await make('overtaken')
    await test.integrations.webhooks.register(integration.id)
    whileListing = ({ id }) => claimSubscription(test.framework.db, test.framework.tables, id)
    const refused = { code: 'webhook_subscription_failed', message: expect.stringContaining('taken over 3 times') }
    await expect(test.integrations.webhooks.checkSubscription(integration.id)).rejects.toMatchObject(refused)
    await expect(test.integrations.delete(integration.id)).rejects.toMatchObject(refused)
    expect(await test.integrations.find(integration.id)).not.toBeNull()
    await test.integrations.delete(integration.id, { force: true })
    expect(await test.integrations.find(integration.id)).toBeNull()
  })
})

describe('a look', () => {
  it('renews at half of its life, and not before', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    pass(44)
    expect(await look(integration)).toMatchObject({ did: 'nothing', nextLookInSeconds: 1 })
    pass(1)
    expect(await look(integration)).toMatchObject({ did: 'renewed', nextLookInSeconds: 45 })
    expect(live()).toHaveLength(1)
  })

  it.each(['acme', 'theirs'])(
    'outlives the removal of an encryption key: nothing is told again (%s)',
    async (provider) => {
      const peer = await startSubscriptionServer({
        makesSecret: provider === 'theirs',
        now: () => clock.now().getTime(),
      })
      const credentials = { token: 't' }
      const { id } = await makeIntegration(test, provider, { metadata: { server: peer.url }, credentials })
      await test.integrations.webhooks.register(id)
      const registered = [...peer.subscriptions.values()].map((one) => ({ ...one }))
      const fresh = encryptionKey('fresh')
      for (const encryptionKeys of [`${fresh},${options.encryptionKeys}`, fresh]) {
        const restarted = testIntegrations(database.url, { ...options, encryptionKeys })
        const sight = await keepSubscription(restarted.framework, id, new AbortController().signal)
        expect(sight?.sight).toMatchObject({ standing: 'registered', did: 'nothing' })
        if (encryptionKeys !== fresh) await restarted.integrations.admin.keys.rotate()
        await restarted.close()
      }
      expect([...peer.subscriptions.values()]).toEqual(registered)
      await test.sql`delete from integrations where id = ${id}`
      await peer.close()
    },
  )

  it('creates another one first where it can not be renewed', async () => {
    const integration = await make('fixed')
    await test.integrations.webhooks.register(integration.id)
    server.timeline.length = 1
    pass(50)
    expect(await look(integration)).toMatchObject({ did: 'replaced' })
    expect(live()).toHaveLength(1)
    expect(Math.min(...server.timeline.slice(1).map((one) => one.live))).toBe(1)
  })

  it.each<[string, () => void]>([
    ['lost', () => server.subscriptions.clear()],
    ['switched off', () => Object.assign(live()[0] as object, { isActive: false })],
    ['pointed elsewhere', () => Object.assign(live()[0] as object, { url: 'https://else.example/' })],
  ])('puts right what was %s at the provider', async (_, change) => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    change()
    expect((await look(integration))?.did).not.toBe('nothing')
    expect(live()).toMatchObject([{ url: door(integration), isActive: true }])
    expect(await look(integration)).toMatchObject({ did: 'nothing' })
  })

  it('leaves those of others alone', async () => {
    const [one, other] = [await make(), await make()]
    await test.integrations.webhooks.register(one.id)
    await test.integrations.webhooks.register(other.id)
    await test.integrations.webhooks.unregister(one.id)
    expect(live()).toMatchObject([{ url: door(other) }])
  })

  it('finds in the list what was created while its answer was lost', async () => {
    const integration = await make()
    server.faults.push({ method: 'POST', fault: 'answer lost' })
    await expect(test.integrations.webhooks.register(integration.id)).rejects.toMatchObject({
      code: 'webhook_subscription_failed',
    })
    expect(await look(integration)).toMatchObject({ standing: 'registered', did: 'renewed' })
    expect(live()).toHaveLength(1)
  })

  it("takes back at once what can't be kept: no later look could use it", async () => {
    // This server tells no secret, and the provider says that it makes one.
    const without = await make('theirs')
    for (let looks = 0; looks < 3; looks++)
      expect(await look(await wanted(without))).toMatchObject({ standing: 'failing', error: 'schema_drift' })
    expect(live()).toEqual([])

    const theirs = await startSubscriptionServer({ makesSecret: true, now: () => clock.now().getTime() })
    const strict = await makeIntegration(test, 'strict', {
      metadata: { server: theirs.url },
      credentials: { token: 't' },
    })
    for (let looks = 0; looks < 3; looks++)
      expect(await look(await wanted(strict))).toMatchObject({ standing: 'failing', error: 'invalid_credentials' })
    // Nor does a removal that is refused hide why.
    theirs.faults.push({ method: 'DELETE', fault: { status: 403 } })
    expect(await look(strict)).toMatchObject({ standing: 'failing', error: 'invalid_credentials' })
    expect(theirs.subscriptions.size).toBe(1)
    await theirs.close()
  })

  it.each([
    ['has ended', -1],
    ['ends at once', 29.999],
    ['ends at no time', Number.NaN],
  ])('fails at a subscription that %s, and leaves none behind', async (_, lifeSeconds) => {
    const endEarly = (answer: WebhookSubscription) => ({
      ...answer,
      expiresAt: new Date(clock.now().getTime() + lifeSeconds * 1_000),
    })
    const integration = await wanted(await make('retelling'))
    retell = endEarly
    for (const nextLookInSeconds of [5, 15, 60])
      expect(await look(integration)).toMatchObject({ standing: 'failing', error: 'schema_drift', nextLookInSeconds })
    expect(live()).toEqual([])
    expect(server.requests).toEqual(['POST', 'DELETE', 'POST', 'DELETE', 'POST', 'DELETE'])
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open', source: 'webhooks' }])
    expect((await test.integrations.webhooks.subscription(integration.id)).lastError).toContain('expiresAt')

    retell = (answer) => answer
    expect(await look(integration)).toMatchObject({ standing: 'registered', did: 'created' })
    const known = await test.integrations.webhooks.subscription(integration.id)
    pass(50)
    retell = endEarly
    expect(await look(integration)).toMatchObject({ standing: 'failing', error: 'schema_drift', nextLookInSeconds: 5 })
    expect(await test.integrations.webhooks.subscription(integration.id)).toMatchObject({ expiresAt: known.expiresAt })
    expect(live()).toHaveLength(1)
  })

  it('creates another one where the lost answer had the secret, and removes the first', async () => {
    const theirs = await startSubscriptionServer({ makesSecret: true, now: () => clock.now().getTime() })
    const integration = await makeIntegration(test, 'theirs', {
      metadata: { server: theirs.url },
      credentials: { token: 't' },
    })
    theirs.faults.push({ method: 'POST', fault: 'answer lost' })
    await expect(test.integrations.webhooks.register(integration.id)).rejects.toThrow()
    expect(await look(integration)).toMatchObject({ did: 'created' })
    const [one, ...more] = [...theirs.subscriptions.values()]
    expect(more).toEqual([])
    expect((await test.integrations.get(integration.id)).credentialsArray().webhook_secret).toBe(one?.secret)
    await theirs.close()
  })

  it('tells the provider of a rotated secret; where the provider makes it, by a new subscription', async () => {
    const ours = await make()
    await test.integrations.webhooks.register(ours.id)
    const { secret } = await test.integrations.webhooks.rotateSecret(ours.id)
    expect(await look(ours)).toMatchObject({ did: 'renewed' })
    expect(live()[0]?.secret).toBe(secret)

    const theirs = await startSubscriptionServer({ makesSecret: true, now: () => clock.now().getTime() })
    const other = await makeIntegration(test, 'theirs', { metadata: { server: theirs.url }, credentials: {} })
    await test.integrations.webhooks.register(other.id)
    const [before] = theirs.subscriptions.keys()
    await test.integrations.webhooks.rotateSecret(other.id)
    expect(await look(other)).toMatchObject({ did: 'replaced' })
    const [after, ...more] = [...theirs.subscriptions.values()]
    expect(after?.id).not.toBe(before)
    expect(more).toEqual([])
    expect((await test.integrations.get(other.id)).credentialsArray().webhook_secret).toBe(after?.secret)
    await theirs.close()
  })

  it('comes at once after new credentials: by a handle that names the secret, and by an authorization', async () => {
    const integration = await make('connected')
    await test.integrations.webhooks.register(integration.id)
    const dueAt = async () => (await test.integrations.webhooks.subscription(integration.id)).nextCheckAt
    const later = await dueAt()
    test.starts.subscriptions.length = 0
    await integration.updateCredentials({ token: 'of the adapter' })
    expect([test.starts.subscriptions, await dueAt()]).toEqual([[], later])

    await integration.updateCredentials({ webhook_secret: SECRET })
    expect([test.starts.subscriptions, await dueAt()]).toEqual([[integration.id], clock.now()])
    await look(integration)
    expect(live()[0]?.secret).toBe(SECRET)
    expect(await dueAt()).not.toEqual(clock.now())

    const { state } = await test.integrations.oauth.start(integration.id)
    const query = new URLSearchParams({ state, code: 'a-code' })
    await test.integrations.oauth.complete({ query, cookie: () => undefined })
    expect([test.starts.subscriptions, await dueAt()]).toEqual([[integration.id, integration.id], clock.now()])
  })

  it('believes what is known where the provider has no list', async () => {
    const integration = await make('listless')
    await test.integrations.webhooks.register(integration.id)
    expect(await look(integration)).toMatchObject({ did: 'nothing' })
    pass(50)
    expect(await look(integration)).toMatchObject({ did: 'renewed' })
    await test.integrations.webhooks.unregister(integration.id)
    expect(live()).toEqual([])
  })

  it('renews again where the answer to a renewal does not tell the end: that of before counts', async () => {
    const integration = await make('retelling')
    const { expiresAt } = await test.integrations.webhooks.register(integration.id)
    retell = ({ id, url }) => ({ id, url })
    for (const seconds of [45, 23]) {
      pass(seconds)
      expect(await look(integration)).toMatchObject({ did: 'renewed', expiresAt: expiresAt?.toISOString() })
    }
  })

  it('of an earlier claim takes back what it has created, once a later one has the row', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    server.subscriptions.clear()
    let isFirst = true
    const slow = testIntegrations(database.url, {
      ...options,
      providers: {
        acme: subscribingProvider({
          async createWebhookSubscription(one, wanted) {
            const created = await subscribingProvider().createWebhookSubscription(one, wanted)
            // The worker stood still after the provider's answer; another one was given the look.
            if (isFirst) {
              isFirst = false
              await keepSubscription(slow.framework, one.id, new AbortController().signal)
            }
            return created
          },
        }),
      },
    })
    expect(await keepSubscription(slow.framework, integration.id, new AbortController().signal)).toBeNull()
    expect(live().length).toBeLessThanOrEqual(1)
    await look(integration)
    expect(live()).toHaveLength(1)
    await slow.close()
  })

  it.each<[string, 'answer lost' | undefined]>([
    ['answered', undefined],
    ['not answered', 'answer lost'],
  ])('of an earlier claim that renews behind a later one has the secret told once more (%s)', async (_, fault) => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    const rotate = () => test.integrations.webhooks.rotateSecret(integration.id)
    let isFirst = true
    const slow = testIntegrations(database.url, {
      ...options,
      providers: {
        acme: subscribingProvider({
          async renewWebhookSubscription(one, subscription, wanted) {
            // The call waits for the provider's limit; meanwhile a person rotates, and looks.
            if (isFirst) {
              isFirst = false
              await rotate()
              expect(await look(integration)).toMatchObject({ did: 'renewed' })
              if (fault !== undefined) server.faults.push({ method: 'PATCH', fault })
            }
            return subscribingProvider().renewWebhookSubscription(one, subscription, wanted)
          },
        }),
      },
    })
    await rotate()
    expect(await keepSubscription(slow.framework, integration.id, new AbortController().signal)).toBeNull()
    expect(slow.starts.subscriptions).toEqual([integration.id])
    expect(await test.integrations.webhooks.subscription(integration.id)).toMatchObject({ nextCheckAt: clock.now() })
    const { webhook_secret: present } = (await test.integrations.get(integration.id)).credentialsArray()
    expect(live().map(({ secret }) => secret)).not.toEqual([present])
    expect(await look(integration)).toMatchObject({ did: 'renewed' })
    expect(live().map(({ secret }) => secret)).toEqual([present])
    expect(await look(integration)).toMatchObject({ did: 'nothing' })
    await slow.close()
  })
})

describe('switching off', () => {
  it('removes it, and looks once more', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    test.starts.subscriptions.length = 0
    await test.integrations.disable(integration.id)
    expect(test.starts.subscriptions).toEqual([integration.id])
    expect(await look(integration)).toMatchObject({ standing: 'removed', did: 'removed', nextLookInSeconds: 30 })
    expect(live()).toEqual([])
    expect(await look(integration)).toMatchObject({ standing: 'removed', did: 'nothing', nextLookInSeconds: null })
    // From now on the provider is not asked any more.
    const asked = server.requests.length
    await look(integration)
    expect(server.requests).toHaveLength(asked)
  })

  it.each([true, false])('looks once more if a creation may be under way (it arrives: %j)', async (arrives) => {
    const integration = await make()
    // As of a process that died once it had asked: nothing is known of an answer.
    server.faults.push({ method: 'POST', fault: { status: 503 } })
    await expect(test.integrations.webhooks.register(integration.id)).rejects.toMatchObject({
      code: 'webhook_subscription_failed',
    })
    expect(await test.integrations.webhooks.unregister(integration.id)).toMatchObject({
      ...{ subscriptionId: null, url: door(integration) },
      nextCheckAt: new Date(clock.now().getTime() + 30_000),
    })
    if (arrives) {
      const late = { id: 'late', url: door(integration), secret: null, expiresAt: null, isActive: true }
      server.subscriptions.set(late.id, late)
      expect(await look(integration)).toMatchObject({ did: 'removed', nextLookInSeconds: 30 })
      expect(live()).toEqual([])
    }
    expect(await look(integration)).toMatchObject({ standing: 'removed', did: 'nothing', nextLookInSeconds: null })
  })

  it('by its health keeps it: deliveries are stored all the same', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    await test.sql`update integrations set is_active = false, health_status = 'disabled' where id = ${integration.id}`
    expect(await look(integration)).toMatchObject({ standing: 'registered', did: 'nothing' })
  })

  it('by `unregister` stays, also when it is enabled again', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    expect(await test.integrations.webhooks.unregister(integration.id)).toMatchObject({ isWanted: false })
    await test.integrations.enable(integration.id)
    await look(integration)
    expect(live()).toEqual([])
  })

  it('by `unregister` forgets it where a release has removed the contract, and ends the incident', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    await setIntegration(test, integration.id, { provider: 'silent' })
    expect(await look(integration)).toMatchObject({ standing: 'failing' })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open' }])
    expect(await test.integrations.webhooks.unregister(integration.id)).toMatchObject({
      ...{ isWanted: false, subscriptionId: null, url: null, lastError: null, nextCheckAt: null },
    })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
    const [{ id } = { id: '' }] = live()
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ event: 'webhook.subscription_left', subscription: id }),
      }),
    )
    expect(await look(integration)).toMatchObject({ did: 'nothing', nextLookInSeconds: null })
    const never = await makeIntegration(test, 'silent')
    await expect(test.integrations.webhooks.unregister(never.id)).rejects.toMatchObject({
      code: 'unsupported_by_provider',
    })
  })

  it('by `unregister` forgets it where the provider is not registered; until then its looks are no failures', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    await setIntegration(test, integration.id, { provider: 'gone' })
    for (let looks = 0; looks < 3; looks++)
      expect(await look(integration)).toMatchObject({ error: 'unknown_provider', nextLookInSeconds: 900 })
    expect(await incidentsOf(integration)).toEqual([])
    const [row] = await test.sql`select * from integration_webhook_subscriptions
      where integration_id = ${integration.id}`
    expect(row).toMatchObject({ failures: 0, failing_since: null, last_error: null, alerted_at: null })
    expect(row?.next_check_at).toEqual(new Date(clock.now().getTime() + 900_000))
    expect(await test.integrations.webhooks.unregister(integration.id)).toMatchObject({
      ...{ isWanted: false, subscriptionId: null, url: null, nextCheckAt: null },
    })
    const [{ id } = { id: '' }] = live()
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ subscription: id, error: 'its provider is not registered' }),
      }),
    )
  })

  it('by deletion removes it first; a refusal refuses the deletion, unless it is forced', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    server.faults.push({ method: 'DELETE', fault: { status: 403 } })
    await expect(test.integrations.delete(integration.id)).rejects.toMatchObject({
      code: 'webhook_subscription_failed',
    })
    await test.integrations.delete(integration.id)
    expect(live()).toEqual([])

    const other = await make()
    await test.integrations.webhooks.register(other.id)
    server.faults.push({ method: 'DELETE', fault: { status: 403 } })
    await test.integrations.delete(other.id, { force: true })
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ event: 'webhook.subscription_left', url: door(other) }),
      }),
    )
  })

  it('by erasure, when it is forced, leaves no word of what the provider said', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    server.faults.push({ method: 'DELETE', fault: { status: 403 } })
    const erased = await test.integrations.admin.erase(integration.id, { force: true })
    expect(erased).toMatchObject({ webhookSubscriptions: 1 })
    const { lastError, url } = await test.integrations.webhooks.subscription(integration.id)
    expect({ lastError, url }).toEqual({ lastError: 'erased', url: door(integration) })
  })

  it.each(['gone', 'silent'])('by deletion asks no provider that can not be asked any more (%s)', async (provider) => {
    const nothingLeft = await make()
    await test.integrations.webhooks.register(nothingLeft.id)
    await test.integrations.webhooks.unregister(nothingLeft.id)
    // The second look after a removal forgets the URL: from then on the provider has none.
    await look(nothingLeft)
    await setIntegration(test, nothingLeft.id, { provider })
    await test.integrations.delete(nothingLeft.id)
    expect(await test.integrations.find(nothingLeft.id)).toBeNull()

    const left = await make()
    await test.integrations.webhooks.register(left.id)
    await setIntegration(test, left.id, { provider })
    await expect(test.integrations.delete(left.id)).rejects.toMatchObject({ code: 'webhook_subscription_failed' })
    await test.integrations.delete(left.id, { force: true })
    expect(await test.integrations.find(left.id)).toBeNull()
  })
})

describe('a failure', () => {
  it('is tried again later and later; the third in a row opens an incident, and success closes it', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    for (const seconds of [5, 15, 60]) {
      expect(await incidentsOf(integration)).toEqual([])
      server.faults.push({ method: 'GET', fault: { status: 503 } })
      expect(await look(integration)).toMatchObject({ standing: 'failing', nextLookInSeconds: seconds })
    }
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open', source: 'webhooks' }])
    expect((await test.integrations.webhooks.subscription(integration.id)).lastError).toContain('503')
    expect(await look(integration)).toMatchObject({ standing: 'registered' })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
  })

  it('that does not pass by itself opens one at once; other good news does not close it', async () => {
    const integration = await make()
    server.faults.push({ method: 'GET', fault: { status: 403 } })
    await expect(test.integrations.webhooks.register(integration.id)).rejects.toMatchObject({
      code: 'webhook_subscription_failed',
    })
    expect(await incidentsOf(integration)).toEqual([
      { status: 'open', source: 'webhooks', reason: 'webhook_subscription_failed', peak_severity: 'degraded' },
    ])
    await integration.recordFailure('upstream')
    await integration.recordSuccess()
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open' }])
    expect(await look(integration)).toMatchObject({ standing: 'registered', did: 'created' })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
  })

  it('that the provider’s classifier throws at counts as any other', async () => {
    const integration = await wanted(await make('judging'))
    server.faults.push({ method: 'GET', fault: { status: 401 } })
    expect(await look(integration)).toMatchObject({ standing: 'failing' })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open', reason: 'webhook_subscription_failed' }])
    expect((await test.integrations.webhooks.subscription(integration.id)).lastError).toContain('401')
  })
})

describe('the dispatch', () => {
  it('tells the workflow of each whose look is a minute late', async () => {
    const integration = await make()
    await test.integrations.webhooks.register(integration.id)
    test.starts.subscriptions.length = 0
    pass(45 + 59)
    await test.activities.rewakeFollowers()
    expect(test.starts.subscriptions).not.toContain(integration.id)
    pass(2)
    await test.activities.rewakeFollowers()
    expect(test.starts.subscriptions).toContain(integration.id)
  })

  it('gives each integration one with webhook.subscribe, but for those that a person has removed', async () => {
    const [one, removed, off] = [await make(), await make(), await make()]
    await test.integrations.webhooks.unregister(removed.id)
    await test.integrations.disable(off.id)
    const all = testIntegrations(database.url, {
      ...options,
      config: { webhook: { subscribe: true } },
    })
    await all.activities.rewakeFollowers()
    expect(all.starts.subscriptions).toContain(one.id)
    expect(all.starts.subscriptions).not.toContain(removed.id)
    expect(all.starts.subscriptions).not.toContain(off.id)
    const created = await makeIntegration(all, 'acme', { credentials: {}, metadata: { server: server.url } })
    expect(all.starts.subscriptions).toContain(created.id)
    await all.close()
  })
})
