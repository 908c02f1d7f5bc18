/** Keeping tokens alive, on real rows: who is refreshed, who is left alone, and what is remembered of it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { oauthStatus } from '../../src/oauth/authorization-status.ts'
import { keepAliveState, noteTokenRefreshed } from '../../src/oauth/keep-alive.ts'
import type { RefreshTokensInput } from '../../src/oauth/oauth-jobs.ts'
import { markReauthRequired, reauthMark } from '../../src/oauth/reauth.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { ActivityRun } from '../support/activities.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const NOON = Date.parse('2031-06-01T12:00:00Z')
const CANARY = 'canary-7f3a-access'

let database: TestDatabase
let test: TestIntegrations
let nowMs: number
/** Integrations whose provider was asked, in order. */
let asked: number[]
let answer: (integration: Integration) => Promise<Credentials> | Credentials

beforeAll(async () => {
  database = await createTestDatabase()
  const refresh = (integration: Integration) => {
    asked.push(integration.id)
    return answer(integration)
  }
  test = testIntegrations(database.url, {
    clock: { now: () => new Date(nowMs) },
    providers: {
      oauth: scriptedOAuth(refresh),
      other: scriptedOAuth(refresh, { refreshTokenMaxIdle: () => 7_200 }),
      plain: syncProvider(() => {}),
    },
  })
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  nowMs = NOON
  asked = []
  answer = renewed
  test.lines.length = 0
  await test.sql`delete from integrations`
})

let tokens = 0
/** Good for an hour from now. */
function renewed(): Credentials {
  tokens += 1
  return { access_token: `access-${tokens}`, refresh_token: `refresh-${tokens}`, token_expires_at: inMs(HOUR_MS) }
}

const inMs = (ms: number): string => new Date(nowMs + ms).toISOString()

/** An integration whose tokens were refreshed just now, and are good for ten hours. */
async function connected(
  given: Credentials = {},
  { provider = 'oauth', isActive = true }: { provider?: string; isActive?: boolean } = {},
): Promise<Integration> {
  const credentials = { access_token: 'old', refresh_token: 'seed', token_expires_at: inMs(10 * HOUR_MS), ...given }
  const integration = await makeIntegration(test, provider, { credentials, isActive })
  await noteTokenRefreshed(test.framework, integration.id)
  return integration
}

const pass = (input: RefreshTokensInput = {}, run?: ActivityRun) =>
  runActivity(test.activities.refreshTokensNow, input, run)

describe('a pass', () => {
  it('refreshes what expires soon, and nothing else', async () => {
    const soon = await connected({ token_expires_at: inMs(5 * MINUTE_MS) })
    const over = await connected({ token_expires_at: inMs(-DAY_MS) })
    await connected({ token_expires_at: inMs(5 * MINUTE_MS + 1_000) })
    await connected({ token_expires_at: inMs(-DAY_MS), refresh_token: null })
    await connected({ token_expires_at: inMs(-DAY_MS) }, { isActive: false })
    await makeIntegration(test, 'plain')
    expect(await pass()).toEqual({ checked: 3, refreshed: 2, failed: 0, reauthRequired: 0 })
    expect(asked.sort()).toEqual([soon.id, over.id])
    expect((await soon.refresh()).credentialsArray()).toMatchObject({ token_expires_at: inMs(HOUR_MS) })
    expect(await pass()).toEqual({ checked: 3, refreshed: 0, failed: 0, reauthRequired: 0 })
  })

  it('uses a refresh token once a day, and sooner where it would idle out', async () => {
    const given = { token_expires_at: inMs(90 * DAY_MS) }
    answer = () => ({ access_token: `access-${asked.length}` })
    const daily = await connected(given)
    const idling = await connected(given, { provider: 'other' })
    nowMs += HOUR_MS - 1
    expect((await pass()).refreshed).toBe(0)
    nowMs += 1
    expect((await pass()).refreshed).toBe(1)
    nowMs = NOON + DAY_MS
    expect((await pass()).refreshed).toBe(2)
    expect(asked.filter((id) => id === daily.id)).toHaveLength(1)
    expect(asked.filter((id) => id === idling.id)).toHaveLength(2)
  })

  it('refreshes at once what nobody knows the age of', async () => {
    const imported = await makeIntegration(test, 'oauth', {
      credentials: { access_token: 'old', refresh_token: 'seed', token_expires_at: inMs(90 * DAY_MS) },
    })
    expect(await pass()).toMatchObject({ refreshed: 1 })
    expect(asked).toEqual([imported.id])
  })

  it('goes on with the others when one fails, and leaves that one alone until its wait is over', async () => {
    const bad = await connected({ token_expires_at: inMs(0) })
    await connected({ token_expires_at: inMs(0) })
    answer = ({ id }) => {
      if (id === bad.id) throw new RangeError(`no such client; sent ${CANARY}`)
      return { ...renewed(), token_expires_at: inMs(10 * HOUR_MS) }
    }
    expect(await pass()).toEqual({ checked: 2, refreshed: 1, failed: 1, reauthRequired: 0 })
    const told = test.lines.filter(({ fields }) => fields.event === 'tokens.refresh_failed')
    expect(told.map(({ fields }) => fields)).toEqual([
      {
        event: 'tokens.refresh_failed',
        integration: bad.id,
        provider: bad.provider,
        error: 'RangeError',
        reauth_required: false,
      },
    ])
    expect(JSON.stringify(test.lines)).not.toContain(CANARY)
    nowMs += 10 * MINUTE_MS - 1
    expect(await pass()).toMatchObject({ refreshed: 0, failed: 0 })
    nowMs += 1
    expect(await pass()).toMatchObject({ refreshed: 0, failed: 1 })
    nowMs += HOUR_MS
    answer = renewed
    expect(await pass()).toMatchObject({ refreshed: 1, failed: 0 })
    expect(await keepAliveState(test.framework, bad.id)).toMatchObject({ failures: 0, succeededAt: new Date(nowMs) })
  })

  it('counts one whose credentials can not be read as failed, and goes on', async () => {
    const unreadable = await connected()
    await setIntegration(test, unreadable.id, { credentials: 'plain' })
    await connected({ token_expires_at: inMs(0) })
    expect(await pass()).toEqual({ checked: 2, refreshed: 1, failed: 1, reauthRequired: 0 })
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        fields: expect.objectContaining({ integration: unreadable.id, error: 'credentials_unreadable' }),
      }),
    )
  })

  it('asks for a person where the provider takes the tokens no more, once, and does not ask it again', async () => {
    const told: string[] = []
    listen(test, 'ReauthRequired', ({ reason }: { reason: string }) => told.push(reason))
    const { id } = await connected({ token_expires_at: inMs(0) })
    answer = () => {
      throw Object.assign(new Error('the token endpoint said no'), { status: 400, error: 'invalid_grant' })
    }
    expect(await pass()).toEqual({ checked: 1, refreshed: 0, failed: 1, reauthRequired: 1 })
    nowMs += 30 * DAY_MS
    expect(await pass()).toEqual({ checked: 1, refreshed: 0, failed: 0, reauthRequired: 0 })
    expect([asked, told]).toEqual([[id], ['invalid_grant']])
  })

  it('asks for a person after four days of failures', async () => {
    const told: string[] = []
    listen(test, 'ReauthRequired', ({ reason }: { reason: string }) => told.push(reason))
    const { id } = await connected({ token_expires_at: inMs(0) })
    answer = () => {
      throw new RangeError(`down; sent ${CANARY}`)
    }
    for (; (await reauthMark(test.framework, id)) === null && nowMs < NOON + 10 * DAY_MS; nowMs += 10 * MINUTE_MS)
      await pass()
    // 0, 10 min, 1 h 10 min, 7 h 10 min, then a day each.
    expect((await reauthMark(test.framework, id))?.since).toEqual(
      new Date(NOON + 4 * DAY_MS + (7 * 60 + 10) * MINUTE_MS),
    )
    expect(asked).toHaveLength(8)
    expect(told).toEqual(['every refresh since 2031-06-01T12:00:00.000Z failed, 8 in all; the last: RangeError'])
  })

  it('does not let one that hangs hold up the others, over several pages', async () => {
    const [hanging] = [await connected({ token_expires_at: inMs(0) })]
    for (let n = 0; n < 104; n += 1) await connected({ token_expires_at: inMs(0) })
    const released = occasion()
    const others = occasion()
    answer = async ({ id }) => {
      if (id === hanging?.id) await released.happened
      else if (asked.length === 105) others.happen()
      return { ...renewed(), token_expires_at: inMs(10 * HOUR_MS) }
    }
    const running = pass()
    await others.happened
    released.happen()
    expect(await running).toEqual({ checked: 105, refreshed: 105, failed: 0, reauthRequired: 0 })
    expect(new Set(asked).size).toBe(105)
  })

  it('does not let a provider that hangs hold up another one', async () => {
    for (let n = 0; n < 6; n += 1) await connected({ token_expires_at: inMs(0) })
    const { id } = await connected({ token_expires_at: inMs(0) }, { provider: 'other' })
    const released = occasion()
    const reached = occasion()
    answer = async (integration) => {
      if (integration.id === id) reached.happen()
      else await released.happened
      return { ...renewed(), token_expires_at: inMs(10 * HOUR_MS) }
    }
    const running = pass()
    await reached.happened
    released.happen()
    expect(await running).toMatchObject({ checked: 7, refreshed: 7 })
  })

  it('begins no more once the worker stops', async () => {
    for (let n = 0; n < 12; n += 1) await connected({ token_expires_at: inMs(0) })
    let cancel = (): void => {}
    answer = () => {
      cancel()
      return renewed()
    }
    const running = pass({}, { onStart: (given) => (cancel = given) })
    await expect(running).rejects.toThrow('CANCELLED')
    expect(asked.length).toBeLessThanOrEqual(5)
  })
})

describe('one integration', () => {
  it('is refreshed however long its token is good for, switched off or not', async () => {
    const { id } = await connected({}, { isActive: false })
    await connected({ token_expires_at: inMs(0) })
    expect(await pass({ integrationId: id })).toEqual({ checked: 1, refreshed: 1, failed: 0, reauthRequired: 0 })
    expect(asked).toEqual([id])
  })

  it('is refreshed although a wait of it is not over', async () => {
    const { id } = await connected({ token_expires_at: inMs(0) })
    answer = () => {
      throw new RangeError('down')
    }
    expect(await pass({ integrationId: id })).toMatchObject({ failed: 1 })
    answer = renewed
    expect(await pass({ integrationId: id })).toMatchObject({ refreshed: 1, failed: 0 })
  })

  it('is left alone where there is no refresh token, and its access token does not end', async () => {
    const integration = await connected({ refresh_token: null, token_expires_at: null })
    answer = () => {
      throw new RangeError('there is nothing to refresh with')
    }
    expect(await pass({ integrationId: integration.id })).toEqual({
      checked: 1,
      refreshed: 0,
      failed: 0,
      reauthRequired: 0,
    })
    expect(asked).toEqual([])
  })

  it('is not asked for while a person is needed', async () => {
    const integration = await connected()
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    expect(await pass({ integrationId: integration.id })).toEqual({
      checked: 1,
      refreshed: 0,
      failed: 1,
      reauthRequired: 1,
    })
    expect(asked).toEqual([])
  })

  it('has nothing to refresh without tokens', async () => {
    const { id } = await makeIntegration(test, 'oauth', { credentials: { client: 'c' } })
    expect(await pass({ integrationId: id })).toEqual({ checked: 0, refreshed: 0, failed: 0, reauthRequired: 0 })
  })

  it('refuses one that is not there, and one whose provider knows no OAuth', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await expect(pass({ integrationId: id })).rejects.toMatchObject({ code: 'unsupported_by_provider' })
    await expect(pass({ integrationId: id + 1 })).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})

describe('the status', () => {
  it('says what is known, and asks nobody', async () => {
    const { id } = await connected()
    expect(await oauthStatus(test.framework, id)).toEqual({
      integrationId: id,
      needsAuthorization: true,
      isConnected: true,
      expiresAt: new Date(NOON + 10 * HOUR_MS),
      hasRefreshToken: true,
      reauth: null,
      lastRefreshedAt: new Date(NOON),
      nextRefreshAt: new Date(NOON + 10 * HOUR_MS - 5 * MINUTE_MS),
      failures: 0,
      failingSince: null,
    })
    expect(asked).toEqual([])
  })

  it('says since when refreshes fail, and when the next is due', async () => {
    const { id } = await connected({ token_expires_at: inMs(0) })
    answer = () => {
      throw new RangeError('down')
    }
    await pass()
    nowMs += 10 * MINUTE_MS
    await pass()
    expect(await oauthStatus(test.framework, id)).toMatchObject({
      failures: 2,
      failingSince: new Date(NOON),
      nextRefreshAt: new Date(nowMs + HOUR_MS),
    })
    nowMs += 2 * HOUR_MS
    expect((await oauthStatus(test.framework, id)).nextRefreshAt).toEqual(new Date(nowMs))
  })

  it.each<[string, () => Promise<Integration>]>([
    ['switched off', () => connected({}, { isActive: false })],
    ['without a refresh token', () => connected({ refresh_token: null })],
    ['without any token', () => makeIntegration(test, 'oauth', { credentials: {} })],
    [
      'waiting for a person',
      async () => {
        const integration = await connected()
        await markReauthRequired(test.framework, integration, 'invalid_grant')
        return integration
      },
    ],
  ])('has no next refresh for one that is %s', async (_, made) => {
    const { id } = await made()
    expect((await oauthStatus(test.framework, id)).nextRefreshAt).toBeNull()
  })

  it('is refused for what has no OAuth, is not there, or can not be read', async () => {
    const plain = await makeIntegration(test, 'plain')
    const unreadable = await connected()
    await setIntegration(test, unreadable.id, { credentials: 'plain' })
    await expect(oauthStatus(test.framework, plain.id)).rejects.toMatchObject({ code: 'unsupported_by_provider' })
    await expect(oauthStatus(test.framework, unreadable.id)).rejects.toMatchObject({ code: 'credentials_unreadable' })
    await expect(oauthStatus(test.framework, unreadable.id + 1)).rejects.toMatchObject({
      code: 'integration_not_found',
    })
  })
})

describe('new tokens that are put in by hand', () => {
  it.each<[string, (integration: Integration) => Promise<unknown>]>([
    ['through the handle', (integration) => integration.updateCredentials({ refresh_token: 'given' })],
    ['by an update', ({ id }) => test.integrations.update(id, { credentials: { access_token: 'given' } })],
  ])('%s end the wait for a person, and are tried at once', async (_, give) => {
    const integration = await connected()
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    await integration.updateCredentials({ client: 'another' })
    expect(await reauthMark(test.framework, integration.id)).not.toBeNull()
    await give(integration)
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
    expect(await pass()).toMatchObject({ refreshed: 1 })
  })
})
