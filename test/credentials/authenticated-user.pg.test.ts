/** Who an integration's credentials belong to: asked of the provider, or kept for a while. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { forgetAuthenticatedUser } from '../../src/credentials/authenticated-user.ts'
import type { AuthenticatedUser, HasOAuth2, IdentifiesAuthenticatedUser } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const ADA: AuthenticatedUser = { id: '7', name: 'Ada', email: 'ada@example.test', username: 'ada' }
const GRACE: AuthenticatedUser = { id: '8', name: 'Grace', email: null, username: null }
const HOUR = 3_600

const asked = vi.fn<(integration: Integration) => Promise<AuthenticatedUser>>()
const keyed: IdentifiesAuthenticatedUser = { authenticatedUser: (integration) => asked(integration) }
const never = () => expect.unreachable('nobody asks for tokens here')
const oauth: HasOAuth2 & IdentifiesAuthenticatedUser = {
  ...keyed,
  authorizationUrl: never,
  exchangeCode: never,
  refreshToken: never,
  revokeToken: never,
  refreshThreshold: () => 300,
}
const PROVIDERS = { keyed, oauth, plain: {} }

const clock = new ManualClock('2031-06-01T12:00:00Z')
const KEY = encryptionKey('k1')
let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: PROVIDERS, encryptionKeys: KEY, clock })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(() => {
  asked.mockReset().mockResolvedValue(ADA)
})

const authorized = () =>
  makeIntegration(test, 'oauth', {
    credentials: {
      client_id: 'app',
      access_token: 'first-access-token',
      refresh_token: 'first-refresh-token',
      token_expires_at: '2031-06-01T13:00:00Z',
    },
  })
const entries = ({ id }: Integration) =>
  test.sql<{ value: string; expires_at: Date }[]>`
    select value, expires_at from integration_cache where key = ${`integrations:integration:${id}:identity`}`

describe('without a time', () => {
  it('asks the provider each time, with the handle, and keeps nothing', async () => {
    const integration = await makeIntegration(test, 'keyed')
    expect(await integration.authenticatedUser()).toEqual(ADA)
    expect(await integration.authenticatedUser()).toEqual(ADA)
    expect(asked.mock.calls).toEqual([[integration], [integration]])
    expect(await entries(integration)).toEqual([])
  })

  it('asks although an answer is kept, and leaves that as it is', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(HOUR)
    asked.mockResolvedValue(GRACE)
    expect(await integration.authenticatedUser()).toEqual(GRACE)
    expect(await integration.authenticatedUser(HOUR)).toEqual(ADA)
  })
})

describe('with a time', () => {
  it('asks once for all handles and processes, until the time is over', async () => {
    const integration = await makeIntegration(test, 'keyed')
    const elsewhere = testIntegrations(database.url, { providers: PROVIDERS, encryptionKeys: KEY, clock })
    try {
      expect(await integration.authenticatedUser(60)).toEqual(ADA)
      asked.mockResolvedValue(GRACE)
      const other = await elsewhere.integrations.get(integration.id)
      clock.advance({ seconds: 59 })
      expect(await other.authenticatedUser(HOUR)).toEqual(ADA)
      expect(asked).toHaveBeenCalledTimes(1)
      clock.advance({ seconds: 1 })
      expect(await other.authenticatedUser(HOUR)).toEqual(GRACE)
      expect(asked).toHaveBeenCalledTimes(2)
    } finally {
      await elsewhere.close()
    }
  })

  it('gives back what it got, the raw answer too', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockResolvedValue({ ...ADA, raw: { plan: 'free', teams: [1, null] } })
    const first = await integration.authenticatedUser(HOUR)
    expect(first).toEqual({ ...ADA, raw: { plan: 'free', teams: [1, null] } })
    expect(await integration.authenticatedUser(HOUR)).toEqual(first)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it('stores it encrypted', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(HOUR)
    const [entry] = await entries(integration)
    expect(entry?.value).toMatch(/^v1\.k1\./)
    // Long enough that no random bytes spell them.
    for (const part of ['ada@example.test', Buffer.from('{"id":"7","name"').toString('base64url').slice(0, 16)])
      expect(entry?.value).not.toContain(part)
  })

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, '60' as never, null as never])(
    'refuses %s seconds',
    async (cacheFor) => {
      const integration = await makeIntegration(test, 'keyed')
      await expect(integration.authenticatedUser(cacheFor)).rejects.toMatchObject({
        code: 'invalid_argument',
        argument: 'cacheFor',
      })
      expect(asked).not.toHaveBeenCalled()
    },
  )

  it('takes one second and the longest time there is', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(1)
    clock.advance({ seconds: 1 })
    await integration.authenticatedUser(2 ** 31 - 1)
    await integration.authenticatedUser(1)
    expect(asked).toHaveBeenCalledTimes(2)
  })

  it('keeps no failure', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockRejectedValueOnce(new Error('the identity endpoint is down'))
    await expect(integration.authenticatedUser(HOUR)).rejects.toThrow('the identity endpoint is down')
    expect(await entries(integration)).toEqual([])
    expect(await integration.authenticatedUser(HOUR)).toEqual(ADA)
  })

  it('asks anew where what is kept does not open', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(HOUR)
    const sealed = test.framework.encryption.seal('something else', JSON.stringify(GRACE))
    await test.framework.cache.set(`integration:${integration.id}:identity`, sealed, HOUR)
    expect(await integration.authenticatedUser(HOUR)).toEqual(ADA)
    expect(asked).toHaveBeenCalledTimes(2)
  })
})

describe('what is kept is forgotten', () => {
  it('when somebody says so', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(HOUR)
    await integration.forgetAuthenticatedUser()
    expect(await entries(integration)).toEqual([])
    await integration.authenticatedUser(HOUR)
    expect(asked).toHaveBeenCalledTimes(2)
  })

  it.each<[string, (integration: Integration) => Promise<unknown>]>([
    ['by the handle', (integration) => integration.updateCredentials({ token: 'another' })],
    ['by the update', ({ id }) => test.integrations.update(id, { credentials: { token: 'another' } })],
  ])('when credentials are changed %s', async (_, change) => {
    for (const provider of ['keyed', 'oauth']) {
      const integration = await makeIntegration(test, provider)
      await integration.authenticatedUser(HOUR)
      await change(integration)
      expect(await entries(integration)).toEqual([])
    }
  })

  it('when somebody else’s tokens are put in by hand', async () => {
    const integration = await authorized()
    await integration.authenticatedUser(HOUR)
    await integration.updateCredentials({ access_token: 'of somebody else' })
    asked.mockResolvedValue(GRACE)
    expect(await (await integration.refresh()).authenticatedUser(HOUR)).toEqual(GRACE)
  })

  it('not when anything else of the integration changes', async () => {
    const integration = await makeIntegration(test, 'keyed')
    await integration.authenticatedUser(HOUR)
    const renamed = await test.integrations.update(integration.id, { name: 'renamed' })
    await renamed.authenticatedUser(HOUR)
    expect(asked).toHaveBeenCalledTimes(1)
  })
})

describe('an entry belongs to the credentials it was made with', () => {
  /** As a refresh or a callback stores them: past the handle, without forgetting anything. */
  async function store(integration: Integration, patch: Record<string, unknown>): Promise<Integration> {
    const { encryption } = test.framework
    const text = encryption.encrypt(integration.id, { ...integration.credentialsArray(), ...patch })
    await test.sql`update integrations set credentials = ${text} where id = ${integration.id}`
    return integration.refresh()
  }

  it('and stays when a refresh replaces the tokens', async () => {
    const integration = await authorized()
    await integration.authenticatedUser(HOUR)
    const refreshed = await store(integration, {
      access_token: 'second-access-token',
      refresh_token: 'second-refresh-token',
      token_expires_at: '2031-06-01T14:00:00Z',
    })
    expect(await refreshed.authenticatedUser(HOUR)).toEqual(ADA)
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['oauth', { client_id: 'another app' }],
    // Without OAuth a token under these names is what says who it is.
    ['keyed', { access_token: 'another' }],
  ])('of %s, and is none for %j', async (provider, patch) => {
    const integration = await makeIntegration(test, provider, {
      credentials: { client_id: 'app', access_token: 'one' },
    })
    await integration.authenticatedUser(HOUR)
    const changed = await store(integration, patch)
    asked.mockResolvedValue(GRACE)
    expect(await changed.authenticatedUser(HOUR)).toEqual(GRACE)
  })

  it('so a handle of older credentials neither gets nor leaves one', async () => {
    const old = await makeIntegration(test, 'keyed', { credentials: { token: 'old' } })
    const current = await store(old, { token: 'new' })
    asked.mockResolvedValue(GRACE)
    await current.authenticatedUser(HOUR)
    asked.mockResolvedValue(ADA)
    expect(await old.authenticatedUser(HOUR)).toEqual(ADA)
    asked.mockResolvedValue(GRACE)
    expect(await current.authenticatedUser(HOUR)).toEqual(GRACE)
  })

  it('so an answer for the old account that comes after somebody authorized anew is not kept', async () => {
    const integration = await authorized()
    const [begun, answers] = [occasion(), occasion()]
    asked.mockImplementationOnce(async () => {
      begun.happen()
      await answers.happened
      return ADA
    })
    const late = integration.authenticatedUser(HOUR)
    await begun.happened
    const anew = await store(integration, { access_token: 'of another account' })
    await forgetAuthenticatedUser(test.framework, integration.id)
    answers.happen()
    expect(await late).toEqual(ADA)
    asked.mockResolvedValue(GRACE)
    expect(await anew.authenticatedUser(HOUR)).toEqual(GRACE)
  })

  it('and is left nowhere when the integration went meanwhile', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockImplementationOnce(async ({ id }) => {
      await test.integrations.delete(id)
      return ADA
    })
    expect(await integration.authenticatedUser(HOUR)).toEqual(ADA)
    expect(await entries(integration)).toEqual([])
  })
})

describe('a provider', () => {
  it('that can’t say is told apart beforehand, and refused', async () => {
    const [keyed, plain] = [await makeIntegration(test, 'keyed'), await makeIntegration(test, 'plain')]
    expect([keyed.supportsAuthenticatedUser(), plain.supportsAuthenticatedUser()]).toEqual([true, false])
    await expect(plain.authenticatedUser()).rejects.toMatchObject({
      code: 'unsupported_by_provider',
      provider: 'plain',
      contract: 'IdentifiesAuthenticatedUser',
    })
  })

  it('that is not registered supports nothing', async () => {
    const { id } = await makeIntegration(test, 'keyed')
    await test.sql`update integrations set provider = 'retired' where id = ${id}`
    const integration = await test.integrations.get(id)
    expect(integration.supportsAuthenticatedUser()).toBe(false)
    await expect(integration.authenticatedUser()).rejects.toMatchObject({ code: 'unknown_provider' })
    await integration.forgetAuthenticatedUser()
  })

  it('may leave out what it does not know', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockResolvedValue({ id: '7' } as never)
    expect(await integration.authenticatedUser(HOUR)).toEqual({ id: '7', name: null, email: null, username: null })
  })

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'answer'],
    ['a number as id', { ...ADA, id: 7 }, 'id'],
    ['an empty id', { ...ADA, id: '' }, 'id'],
    ['a list as name', { ...ADA, name: ['Ada'] }, 'name'],
    ['a raw answer that is no JSON', { ...ADA, raw: new Map() }, 'raw'],
  ])('that answers with %s is refused, by the path and without the value', async (_, answer, path) => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockResolvedValue(answer as never)
    const error = await integration.authenticatedUser(HOUR).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'schema_drift', issues: [{ path }] })
    expect((error as Error).message).toContain('authenticatedUser() of the provider "keyed"')
    expect((error as Error).message).not.toContain('Ada')
    expect(await entries(integration)).toEqual([])
  })
})
