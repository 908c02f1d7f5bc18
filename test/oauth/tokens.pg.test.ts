/** An integration's tokens: given out, refreshed once whoever asks, saved, or known to be of no use any more. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { HttpError, ReauthRequiredException } from '../../src/framework/errors.ts'
import { integrationContext } from '../../src/integrations/integration-contexts.ts'
import { findIntegration } from '../../src/integrations/queries.ts'
import { keepAliveState, noteTokenRefreshed, noteTokenRefreshFailed } from '../../src/oauth/keep-alive.ts'
import { clearReauthMark, reauthMark } from '../../src/oauth/reauth.ts'
import { saveTokens } from '../../src/oauth/token-save.ts'
import { insideTokenWork, isInsideTokenWork, withTokenLock } from '../../src/oauth/token-work.ts'
import { refreshTokens } from '../../src/oauth/tokens.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'
import { runWebhook } from '../../src/webhooks/handling.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeWebhook, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const THRESHOLD_SECONDS = 300
const ACCESS = 'access-token-of-the-tests'
const REFRESH = 'refresh-token-of-the-tests'
const NEW_ACCESS = 'new-access-token-of-the-tests'
const NEW_REFRESH = 'new-refresh-token-of-the-tests'

/** What the provider does when it is asked; each test says it. */
const refreshToken = vi.fn<(integration: Integration) => Promise<Credentials>>()
const oauth: HasOAuth2 = {
  authorizationUrl: () => 'https://provider.example/authorize',
  exchangeCode: async () => ({}),
  refreshToken: (integration) => refreshToken(integration),
  revokeToken: async () => {},
  refreshThreshold: () => THRESHOLD_SECONDS,
}
const handleWebhook = vi.fn<(integration: Integration) => Promise<unknown>>()
const hooked = { ...oauth, ...webhookProvider({ handleWebhook: (integration) => handleWebhook(integration) }) }
const strict = { ...oauth, credentialsSchema: z.object({ access_token: z.string(), client: z.string().optional() }) }

let database: TestDatabase
let test: TestIntegrations
/** The same, which waits for no lock. */
let impatient: TestIntegrations
/** Another process. */
let another: () => TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const encryptionKeys = encryptionKey('test')
  const providers = {
    oauth,
    hooked,
    strict,
    grown: { ...oauth, credentialsSchema: z.looseObject({ access_token: z.string(), account: z.string() }) },
    plain: {},
    // Counted from its first call: a fixed window might begin anew between two calls.
    limited: { ...oauth, defaultRateLimit: () => RateLimit.perHour(1).sliding() } as never,
  }
  const rate_limiting = { max_wait_seconds: 1 }
  test = testIntegrations(database.url, { encryptionKeys, providers, config: { rate_limiting } })
  another = () => testIntegrations(database.url, { encryptionKeys, providers })
  impatient = testIntegrations(database.url, { encryptionKeys, providers, config: { oauth: { refresh_lock_wait: 0 } } })
})
afterAll(async () => {
  await impatient.close()
  await test.close()
  await database.drop()
})
beforeEach(() => {
  refreshToken.mockReset()
  refreshToken.mockResolvedValue(granted())
  for (const { lines } of [test, impatient]) lines.length = 0
})

const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1_000).toISOString()
const granted = (others: Credentials = {}): Credentials => ({
  access_token: NEW_ACCESS,
  refresh_token: NEW_REFRESH,
  token_expires_at: inSeconds(3_600),
  ...others,
})
/** By default its token is good for a minute. */
const make = (credentials: Credentials = {}, provider = 'oauth'): Promise<Integration> =>
  test.integrations.create({
    provider,
    name: 'of a test',
    credentials: { access_token: ACCESS, refresh_token: REFRESH, token_expires_at: inSeconds(60), ...credentials },
  })
const stored = async ({ id }: Integration): Promise<Credentials> => (await test.integrations.get(id)).credentialsArray()
const EXPIRED = { token_expires_at: '2020-01-01T00:00:00Z' }
const refused = (body: unknown = { error: 'invalid_grant' }) => new HttpError(400, new Headers(), body)
const warnings = (of = test) => of.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)

describe('a token is given out as it is stored, and nobody is asked', () => {
  it.each<[string, Credentials, string, string | null]>([
    ['there is none', { access_token: null }, 'oauth', null],
    ['it is no text', { access_token: 7 }, 'oauth', null],
    ['it is good for long', { token_expires_at: inSeconds(3_600) }, 'oauth', ACCESS],
    ['it has no expiry', { token_expires_at: null }, 'oauth', ACCESS],
    ['its expiry is no time', { token_expires_at: 'one day' }, 'oauth', ACCESS],
    ['its provider knows no OAuth', EXPIRED, 'plain', ACCESS],
  ])('%s', async (_, credentials, provider, token) => {
    const integration = await make(credentials, provider)
    expect(integration.tokenExpiresSoon()).toBe(false)
    expect(await integration.getAccessToken()).toBe(token)
    expect(await integration.refreshTokenIfNeeded()).toBe(false)
    expect(refreshToken).not.toHaveBeenCalled()
  })
})

describe('a token that expires soon', () => {
  it('is refreshed: stored, told, and the handle goes on with it', async () => {
    const told = vi.fn()
    listen(test, 'CredentialsUpdated', told)
    refreshToken.mockImplementation(async (given) => {
      expect(given.credentialsArray()).toMatchObject({ access_token: ACCESS, refresh_token: REFRESH, client: 'c-1' })
      return granted({ scope: null, refresh_token: undefined })
    })
    const integration = await make({ client: 'c-1', scope: 'read' })
    expect(integration.tokenExpiresSoon()).toBe(true)
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(integration.tokenExpiresSoon()).toBe(false)
    // Absent keys stay, null removes one.
    expect(await stored(integration)).toEqual({
      client: 'c-1',
      access_token: NEW_ACCESS,
      refresh_token: REFRESH,
      token_expires_at: expect.any(String),
    })
    expect(integration.credentialsArray()).toEqual(await stored(integration))
    expect(told).toHaveBeenCalledTimes(1)
    expect(told.mock.calls[0]?.[0].keys.toSorted()).toEqual(['access_token', 'scope', 'token_expires_at'])
    expect(told.mock.calls[0]?.[0].integration.credentialsArray()).toEqual(await stored(integration))
    expect((await keepAliveState(test.framework, integration.id)).succeededAt).toBeInstanceOf(Date)
  })

  it('is refreshed without a refresh token, too: the provider may have other means', async () => {
    const integration = await make({ refresh_token: null })
    expect(await integration.refreshTokenIfNeeded()).toBe(true)
    expect(await integration.refreshTokenIfNeeded()).toBe(false)
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('is refreshed once for all who ask at the same moment, by whichever handle', async () => {
    const { id } = await make(EXPIRED)
    const handles = await Promise.all(Array.from({ length: 10 }, () => test.integrations.get(id)))
    const tokens = await Promise.all([...handles, ...handles, ...handles].map((handle) => handle.getAccessToken()))
    expect(new Set(tokens)).toEqual(new Set([NEW_ACCESS]))
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('that somebody else has refreshed is taken over', async () => {
    const early = await make(EXPIRED)
    await (await test.integrations.get(early.id)).getAccessToken()
    expect(await early.getAccessToken()).toBe(NEW_ACCESS)
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('that somebody else has refreshed, and that is over as well by now, is refreshed', async () => {
    const early = await make(EXPIRED)
    await (await test.integrations.get(early.id)).updateCredentials({ access_token: 'over', ...EXPIRED })
    expect(await early.getAccessToken()).toBe(NEW_ACCESS)
    expect(refreshToken).toHaveBeenCalledTimes(1)
    expect(refreshToken.mock.calls[0]?.[0].credentialsArray()).toMatchObject({ access_token: 'over' })
  })

  it('that was revoked meanwhile is none any more', async () => {
    const early = await make(EXPIRED)
    await (await test.integrations.get(early.id)).updateCredentials({ access_token: null, refresh_token: null })
    expect(await early.getAccessToken()).toBeNull()
    expect(refreshToken).not.toHaveBeenCalled()
  })

  it('is the present one for whoever works on it, and no longer for what was left behind', async () => {
    const left = occasion()
    let later: Promise<string | null> | undefined
    refreshToken.mockImplementation(async (given) => {
      expect(await given.getAccessToken()).toBe(ACCESS)
      expect(await given.refreshTokenIfNeeded()).toBe(false)
      later ??= left.happened.then(() => given.getAccessToken())
      return granted()
    })
    const integration = await make()
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    left.happen()
    expect(await later).toBe(NEW_ACCESS)
  })

  it('may be asked for by the listeners who are told of it, also where every token expires soon', async () => {
    refreshToken.mockImplementation(async () => granted({ token_expires_at: inSeconds(10) }))
    const heard: unknown[] = []
    listen(test, 'CredentialsUpdated', async ({ integration }: IntegrationEvents['CredentialsUpdated']) => {
      heard.push(await integration.getAccessToken())
    })
    expect(await (await make()).getAccessToken()).toBe(NEW_ACCESS)
    expect(heard).toEqual([NEW_ACCESS])
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('is refreshed outside of a transaction and a sync of who happened to ask first', async () => {
    refreshToken.mockImplementation(async (given) => {
      await given.request('token', 'POST', () => 'ok', { idempotencyKey: `key of ${given.id}` })
      return granted()
    })
    const integration = await make()
    await test.integrations.transaction(async () => {
      expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    })
    expect(await integration.idempotencyRecord(`key of ${integration.id}`)).not.toBeNull()
  })
})

describe('a refresh that fails', () => {
  const away = new HttpError(503, new Headers(), null)

  it('gives the token while it lasts, with one warning a minute', async () => {
    refreshToken.mockRejectedValue(away)
    const integration = await make()
    expect(await integration.getAccessToken()).toBe(ACCESS)
    expect(await integration.getAccessToken()).toBe(ACCESS)
    expect(refreshToken).toHaveBeenCalledTimes(2)
    expect(warnings()).toEqual(['a token that expires soon could not be refreshed; it is used while it lasts'])
    await expect(integration.refreshTokenIfNeeded()).rejects.toBe(away)
    expect((await keepAliveState(test.framework, integration.id)).failures).toBe(3)
  })

  it('throws its error when the token is over', async () => {
    refreshToken.mockRejectedValue(away)
    await expect((await make(EXPIRED)).getAccessToken()).rejects.toBe(away)
  })

  it('throws what a provider throws before it waits for anything', async () => {
    refreshToken.mockImplementation(() => {
      throw away
    })
    await expect((await make(EXPIRED)).getAccessToken()).rejects.toBe(away)
  })

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['no access token', { refresh_token: NEW_REFRESH }],
  ])('since it gave %s: nothing is stored', async (_, given) => {
    refreshToken.mockResolvedValue(given as Credentials)
    const integration = await make(EXPIRED)
    await expect(integration.getAccessToken()).rejects.toMatchObject({
      code: 'invalid_argument',
      argument: 'result of refreshToken()',
    })
    expect(await stored(integration)).toMatchObject({ access_token: ACCESS, refresh_token: REFRESH })
  })

  it('since the schema drops a token: it says which', async () => {
    const integration = await make({ refresh_token: undefined, token_expires_at: undefined }, 'strict')
    await expect(
      test.integrations.update(integration.id, { credentials: { token_expires_at: EXPIRED.token_expires_at } }),
    ).resolves.toBeDefined()
    const holder = { integration, credentials: () => integration.credentialsArray(), adopt: () => {} }
    await expect(refreshTokens(test.framework, holder, { force: true })).rejects.toMatchObject({
      code: 'invalid_credentials',
      issues: [{ path: 'refresh_token', message: expect.stringContaining('looseObject') }],
    })
    expect(await stored(integration)).toEqual({ access_token: ACCESS })
  })

  it('since a release asks for more than is stored loses no tokens', async () => {
    const { id } = await make(EXPIRED)
    await setIntegration(test, id, { provider: 'grown' })
    const integration = await test.integrations.get(id)
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(await stored(integration)).toMatchObject({ access_token: NEW_ACCESS, refresh_token: NEW_REFRESH })
    await expect(test.integrations.update(id, { credentials: { other: 1 } })).rejects.toMatchObject({
      issues: [{ path: 'account' }],
    })
  })

  it('since the breaker or the limiter of ours refused it does not count', async () => {
    refreshToken.mockImplementation((given) => given.request('token', 'POST', () => granted()))
    const integration = await make(EXPIRED)
    await integration.overrideCircuit('forced_open')
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'circuit_open' })
    const limited = await make(EXPIRED, 'limited')
    await limited.request('things', 'GET', () => 1)
    await expect(limited.getAccessToken()).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
    for (const { id } of [integration, limited]) expect((await keepAliveState(test.framework, id)).failures).toBe(0)
  })

  it('since the integration was deleted leaves nothing behind', async () => {
    const integration = await make(EXPIRED)
    refreshToken.mockImplementation(async ({ id }) => {
      await test.integrations.delete(id)
      return granted()
    })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'integration_not_found' })
    expect(
      await test.sql`select key from integration_cache where key like ${`%integration:${integration.id}:%`}`,
    ).toEqual([])
  })

  it('does not lose the tokens for want of a readable expiry', async () => {
    refreshToken.mockResolvedValue(granted({ token_expires_at: 3_600 }))
    const integration = await make(EXPIRED)
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(await stored(integration)).toEqual({ access_token: NEW_ACCESS, refresh_token: NEW_REFRESH })
    expect(warnings()).toEqual([expect.stringContaining('no ISO 8601 time')])
  })

  it('does not lose the tokens to a schema that drops the expiry, and warns', async () => {
    refreshToken.mockResolvedValue({ access_token: NEW_ACCESS, token_expires_at: inSeconds(3_600) })
    const integration = await make({ refresh_token: undefined, token_expires_at: undefined }, 'strict')
    const holder = { integration, credentials: () => integration.credentialsArray(), adopt: () => {} }
    await refreshTokens(test.framework, holder, { force: true })
    expect(await stored(integration)).toEqual({ access_token: NEW_ACCESS })
    expect(warnings()).toEqual([expect.stringContaining('drops token_expires_at')])
  })

  it('without an expiry is not made again and again: the old one goes', async () => {
    refreshToken.mockResolvedValue({ access_token: NEW_ACCESS })
    const integration = await make(EXPIRED)
    await integration.getAccessToken()
    expect(await stored(integration)).toEqual({ access_token: NEW_ACCESS, refresh_token: REFRESH })
    expect(await (await test.integrations.get(integration.id)).getAccessToken()).toBe(NEW_ACCESS)
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('does not lose the tokens when Postgres is away for a moment', async () => {
    const integration = await make(EXPIRED)
    refreshToken.mockImplementation(async () => {
      vi.spyOn(test.framework.db, 'transaction').mockRejectedValueOnce(new Error('connection terminated'))
      return granted()
    })
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(await stored(integration)).toMatchObject({ refresh_token: NEW_REFRESH })
  })
})

describe('the end of a process', () => {
  it('waits until the answer to a refresh is stored, though its caller has gone', async () => {
    const ending = another()
    const [begun, asked] = [occasion(), occasion<Credentials>()]
    refreshToken.mockImplementationOnce(async () => {
      begun.happen()
      return asked.happened
    })
    const { id } = await make(EXPIRED)
    const integration = await ending.integrations.get(id)
    void integration.getAccessToken().catch(() => {})
    await begun.happened
    let atItsEnd: Credentials = {}
    const { egress } = ending.framework
    const { close } = egress
    vi.spyOn(egress, 'close').mockImplementation(async () => {
      atItsEnd = await stored(integration)
      await close()
    })
    const closed = ending.integrations.close()
    await new Promise((resolve) => setImmediate(resolve))
    asked.happen(granted())
    await Promise.all([closed, ending.sql.end()])
    expect(atItsEnd).toMatchObject({ access_token: NEW_ACCESS, refresh_token: NEW_REFRESH })
  })
})

describe('who waits for the lock longer than allowed', () => {
  /** Another process refreshes while the work goes on. */
  async function locked({ id }: Integration, work: (integration: Integration) => Promise<void>): Promise<void> {
    const lock = `integration:${id}:lock:tokens`
    await test.framework.cache.acquire(lock, 'another process', 600)
    await work(await impatient.integrations.get(id))
    await test.framework.cache.release(lock, 'another process')
  }

  it('gets the token while it lasts', async () => {
    await locked(await make(), async (integration) => {
      expect(await integration.getAccessToken()).toBe(ACCESS)
    })
    expect(warnings(impatient)).toHaveLength(1)
    expect(refreshToken).not.toHaveBeenCalled()
  })

  it('gets the error when the token is over', async () => {
    await locked(await make(EXPIRED), async (integration) => {
      await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'lock_timeout' })
    })
  })

  it('gets what was stored meanwhile', async () => {
    await locked(await make(EXPIRED), async (integration) => {
      vi.spyOn(impatient.framework.cache, 'acquire').mockImplementationOnce(async () => {
        await (await impatient.integrations.get(integration.id)).updateCredentials(granted())
        return false
      })
      expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    })
  })

  it('is not who works under it: there the present token is given', async () => {
    const integration = await make(EXPIRED)
    await withTokenLock(test.framework, integration.id, async () => {
      expect(await integration.getAccessToken()).toBe(ACCESS)
    })
    await insideTokenWork(test.framework, integration.id, async () => {
      const another = await make(EXPIRED)
      expect(isInsideTokenWork(test.framework, another.id)).toBe(false)
      expect(await another.getAccessToken()).toBe(NEW_ACCESS)
    })
  })
})

describe('an answer that comes after the time of the lock', () => {
  /** The refresh is under way and its caller has given up. */
  async function late(integration: Integration): Promise<{ answer: (given: Credentials | Error) => void }> {
    const [begun, asked] = [occasion(), occasion<Credentials | Error>()]
    refreshToken.mockImplementationOnce(async () => {
      begun.happen()
      const given = await asked.happened
      if (given instanceof Error) throw given
      return given
    })
    // The time of the lock passes at once, and here alone: what follows must not run into it on a machine that stands still.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const failed = expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'request_timeout' })
      await begun.happened
      vi.advanceTimersByTime(test.framework.config.oauth.refresh_lock_ttl * 1_000)
      await failed
    } finally {
      vi.useRealTimers()
    }
    return { answer: asked.happen }
  }

  it('is stored and told all the same, if nobody was quicker', async () => {
    const told = occasion()
    listen(test, 'CredentialsUpdated', () => told.happen())
    const integration = await make(EXPIRED)
    const { answer } = await late(integration)
    expect((await keepAliveState(test.framework, integration.id)).failures).toBe(1)
    answer(granted())
    await told.happened
    expect(await stored(integration)).toMatchObject({ access_token: NEW_ACCESS, refresh_token: NEW_REFRESH })
    expect((await keepAliveState(test.framework, integration.id)).failures).toBe(0)
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
  })

  it('takes away the mark of who asked next with the token that it had replaced', async () => {
    const told = occasion()
    const integration = await make(EXPIRED)
    const { answer } = await late(integration)
    refreshToken.mockRejectedValueOnce(refused())
    const next = await test.integrations.get(integration.id)
    await expect(next.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    listen(test, 'CredentialsUpdated', () => told.happen())
    answer(granted({ token_expires_at: inSeconds(60) }))
    await told.happened
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
    refreshToken.mockResolvedValueOnce(granted({ access_token: 'the-one-after' }))
    expect(await (await test.integrations.get(integration.id)).getAccessToken()).toBe('the-one-after')
  })

  it('is dropped if somebody was quicker', async () => {
    const integration = await make(EXPIRED)
    const { answer } = await late(integration)
    expect(await (await test.integrations.get(integration.id)).getAccessToken()).toBe(NEW_ACCESS)
    answer(granted({ access_token: 'late-access-token', refresh_token: 'late-refresh-token' }))
    await vi.waitFor(() => expect(warnings()).toContainEqual(expect.stringContaining('answered after')), SOON)
    expect(await stored(integration)).toMatchObject({ access_token: NEW_ACCESS, refresh_token: NEW_REFRESH })
  })

  it('is a line in the log if it is an error', async () => {
    const { answer } = await late(await make(EXPIRED))
    answer(new Error(`no more ${REFRESH}`))
    await vi.waitFor(() => expect(warnings()).toContainEqual(expect.stringContaining('failed after')), SOON)
    expect(JSON.stringify(test.lines)).not.toContain(REFRESH)
  })
})

describe('a refresh token that the provider takes no longer', () => {
  it('needs a person: told once, and nobody is asked any more', async () => {
    const told = vi.fn()
    listen(test, 'ReauthRequired', told)
    refreshToken.mockRejectedValue(refused())
    const integration = await make(EXPIRED)
    const failure = { code: 'reauth_required', integrationId: integration.id, reason: 'invalid_grant' }
    for (let times = 0; times < 3; times += 1) await expect(integration.getAccessToken()).rejects.toMatchObject(failure)
    await expect(integration.refreshTokenIfNeeded()).rejects.toMatchObject(failure)
    expect(refreshToken).toHaveBeenCalledTimes(1)
    expect(told).toHaveBeenCalledTimes(1)
    expect(told.mock.calls[0]?.[0]).toMatchObject({ integration: { id: integration.id }, reason: 'invalid_grant' })
    expect(await reauthMark(test.framework, integration.id)).toMatchObject({ reason: 'invalid_grant' })
    expect((await test.integrations.get(integration.id)).healthStatus).toBe('healthy')
  })

  it('is told when the lock is free again: who is told may revoke what is left', async () => {
    const outcomes: unknown[] = []
    listen(test, 'ReauthRequired', async ({ integration: { id } }: IntegrationEvents['ReauthRequired']) => {
      outcomes.push(await test.integrations.oauth.revoke(id))
    })
    refreshToken.mockRejectedValue(refused())
    await expect((await make(EXPIRED)).getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    expect(outcomes).toEqual(['revoked'])
  })

  it.each<[string, (integration: Integration) => Promise<void>]>([
    ['are put in by hand', async ({ id }) => (await test.integrations.get(id)).updateCredentials(granted())],
    [
      'come with a late answer',
      async ({ id }) => {
        await saveTokens(test.framework, id, { accessToken: ACCESS, refreshToken: REFRESH, expiresAt: null }, granted())
        await clearReauthMark(test.framework, id)
      },
    ],
  ])('leaves no mark where new tokens %s while it is refused', async (_, change) => {
    const integration = await make(EXPIRED)
    const { cache } = test.framework
    const { within } = cache
    let changing: Promise<void> | undefined
    vi.spyOn(cache, 'within').mockImplementation((tx) => ({
      ...within(tx),
      async add(...entry) {
        changing ??= change(integration)
        await vi.waitFor(async () => {
          const waiting = await test.sql`
            select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
          expect(waiting).toHaveLength(1)
        }, SOON)
        return within(tx).add(...entry)
      },
    }))
    refreshToken.mockRejectedValue(refused())
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    await changing
    expect(await stored(integration)).toMatchObject({ access_token: NEW_ACCESS })
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
  })

  it('after four days of failures is not said of tokens that a quicker refresh has replaced', async () => {
    const integration = await make(EXPIRED)
    const sent = { accessToken: ACCESS, refreshToken: REFRESH, expiresAt: null }
    for (const hours of [97, 96, 90, 80, 50])
      await noteTokenRefreshFailed(
        { ...test.framework, clock: { now: () => new Date(Date.now() - hours * 3_600_000) } },
        integration,
        sent,
        new Error('503'),
      )
    refreshToken.mockImplementation(async ({ id }) => {
      await saveTokens(test.framework, id, sent, granted())
      await noteTokenRefreshed(test.framework, id)
      throw new HttpError(503, new Headers(), null)
    })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ status: 503 })
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
    expect((await keepAliveState(test.framework, integration.id)).failures).toBe(0)
  })

  it('leaves the access token in use while it lasts', async () => {
    refreshToken.mockRejectedValue(refused())
    const integration = await make()
    expect(await integration.getAccessToken()).toBe(ACCESS)
    expect(await integration.getAccessToken()).toBe(ACCESS)
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('is no news when somebody else has used it up: theirs is taken over', async () => {
    const integration = await make(EXPIRED)
    refreshToken.mockImplementation(async ({ id }) => {
      await (await test.integrations.get(id)).updateCredentials(granted())
      throw refused()
    })
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
  })

  it('is named by the provider itself, without a secret', async () => {
    const integration = await make(EXPIRED)
    refreshToken.mockRejectedValue(new ReauthRequiredException(integration.id, `the grant of ${REFRESH} was withdrawn`))
    const reason = 'the grant of [REDACTED] was withdrawn'
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required', reason })
    expect(await reauthMark(test.framework, integration.id)).toMatchObject({ reason })
  })

  it('of another integration says nothing about this one', async () => {
    const integration = await make(EXPIRED)
    const error = new ReauthRequiredException(integration.id + 1_000, 'invalid_grant')
    refreshToken.mockRejectedValue(error)
    await expect(integration.getAccessToken()).rejects.toBe(error)
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
  })

  it('is not a client that is refused', async () => {
    const error = new HttpError(401, new Headers(), { error: 'invalid_client' })
    refreshToken.mockRejectedValue(error)
    const integration = await make(EXPIRED)
    await expect(integration.getAccessToken()).rejects.toBe(error)
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
  })
})

describe('a refresh whose end nobody knows', () => {
  const lost = Object.assign(new TypeError('fetch failed'), { code: 'ECONNRESET' })

  it.each<[string, Error, boolean]>([
    ['the connection broke', lost, true],
    ['the answer was a 502', new HttpError(502, new Headers(), null), true],
    ['it was refused', new HttpError(400, new Headers(), { error: 'invalid_scope' }), false],
    ['it never got there', Object.assign(new TypeError('fetch failed'), { code: 'ECONNREFUSED' }), false],
  ])('is named when the provider refuses the token later: %s', async (_, error, isNamed) => {
    const integration = await make(EXPIRED)
    refreshToken.mockRejectedValueOnce(error)
    await expect(integration.getAccessToken()).rejects.toBe(error)
    refreshToken.mockRejectedValue(refused())
    const reason = isNamed
      ? expect.stringMatching(
          /^invalid_grant; a refresh that began at \d{4}-.*Z was cut off before its tokens were stored$/,
        )
      : 'invalid_grant'
    await expect(integration.getAccessToken()).rejects.toMatchObject({ reason })
  })

  it('keeps the time of the first, also over another that is refused, and is forgotten with the next tokens', async () => {
    const integration = await make(EXPIRED)
    refreshToken.mockRejectedValueOnce(lost).mockRejectedValueOnce(new HttpError(400, new Headers(), null))
    await expect(integration.getAccessToken()).rejects.toBe(lost)
    const begun = () => test.framework.cache.get(`integration:${integration.id}:token-refresh`)
    const first = await begun()
    await expect(integration.getAccessToken()).rejects.toMatchObject({ status: 400 })
    expect(first).toBeDefined()
    expect(await begun()).toEqual(first)
    expect(JSON.stringify(first)).not.toContain(REFRESH)
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    expect(await begun()).toBeUndefined()
  })
})

describe('no token is told', () => {
  it('by log lines, rows, cache, events, or what a handle prints', async () => {
    const integration = await make(EXPIRED)
    const told: unknown[] = []
    for (const event of ['CredentialsUpdated', 'RequestCompleted', 'RequestFailed', 'ReauthRequired'] as const)
      listen(test, event, (payload) => void told.push(JSON.stringify(payload)))
    refreshToken.mockImplementation(async (given) => {
      const data = { grant_type: 'refresh_token', refresh_token: String(given.credentialsArray().refresh_token) }
      await given.request(`token?refresh_token=${REFRESH}`, 'POST', () => granted(), { data })
      return granted()
    })
    expect(await integration.getAccessToken()).toBe(NEW_ACCESS)
    // Both tokens have come by way of this handle.
    for (const token of [ACCESS, NEW_ACCESS])
      await expect(
        integration.request(`things/${token}`, 'GET', () => Promise.reject(new Error(`refused ${token}`)), {
          attempts: 1,
        }),
      ).rejects.toThrow('refused')
    refreshToken.mockRejectedValue(new Error(`the server does not like ${NEW_REFRESH}`))
    await integration.updateCredentials({ token_expires_at: inSeconds(60) })
    const late = await test.integrations.get(integration.id)
    expect(await late.getAccessToken()).toBe(NEW_ACCESS)
    expect(warnings()).not.toEqual([])
    const rows = await Promise.all([
      test.sql`select * from integration_requests where integration_id = ${integration.id}`,
      test.sql`select * from integration_logs where integration_id = ${integration.id}`,
      test.sql`select * from integration_cache`,
      test.sql`select * from integrations where id = ${integration.id}`,
    ])
    const everything = JSON.stringify([test.lines, told, rows, integration, `${integration}`])
    for (const token of [ACCESS, REFRESH, NEW_ACCESS, NEW_REFRESH]) expect(everything).not.toContain(token)
    expect(rows[0].length).toBe(3)
  })

  it('that nobody has stored, though an adapter quotes it in its error', async () => {
    const UNSTORED = 'unstored-token-of-the-tests'
    const integration = await make()
    refreshToken.mockImplementation(async (given) => {
      const quoting = async () => {
        throw new Error(`unexpected answer {"accessToken":"${UNSTORED}"}`)
      }
      return given.request<Credentials>('token', 'POST', quoting, { attempts: 1 })
    })
    expect(await integration.getAccessToken()).toBe(ACCESS)
    expect(warnings()).toContainEqual(expect.stringContaining('could not be refreshed'))
    const rows = await Promise.all([
      test.sql`select * from integration_requests where integration_id = ${integration.id}`,
      test.sql`select * from integration_cache`,
    ])
    expect(rows[0]).toMatchObject([{ error: 'Error' }])
    expect(JSON.stringify([test.lines, rows])).not.toContain(UNSTORED)
  })

  it('by what a webhook handler threw or gave after it had brought a new one', async () => {
    const { id } = await make(EXPIRED, 'hooked')
    const { db, tables } = test.framework
    const said = async (): Promise<unknown> => {
      const row = await makeWebhook(test, id, { eventType: null })
      const integration = await findIntegration(db, tables, id)
      if (integration === null) throw new Error('the integration of the test is gone')
      const outcome = await runWebhook(test.framework, row, integrationContext(test.framework, integration))
      return outcome?.error ?? outcome?.result
    }
    handleWebhook.mockImplementationOnce(async (given) => {
      throw new Error(`${ACCESS} and ${await given.getAccessToken()}`)
    })
    expect(await said()).toBe('[REDACTED] and [REDACTED]')
    await setIntegration(test, id, {
      credentials: test.framework.encryption.encrypt(id, { access_token: ACCESS, ...EXPIRED }),
    })
    handleWebhook.mockImplementationOnce(async (given) => ({ said: await given.getAccessToken() }))
    expect(await said()).toEqual({ said: '[REDACTED]' })
  })

  it('by an operation of a handle that had it before', async () => {
    const integration = await make(EXPIRED)
    await integration.getAccessToken()
    const operation = await integration.startOperation({
      operation: 'export',
      direction: 'outbound',
      status: 'processing',
    })
    await operation.fail(new Error(`${ACCESS} and ${NEW_ACCESS}`))
    const [row] = await test.sql`select error from integration_logs where integration_id = ${integration.id}`
    expect(row?.error).toBe('Error: [REDACTED] and [REDACTED]')
  })
})
