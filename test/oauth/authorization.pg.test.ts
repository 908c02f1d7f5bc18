/** Authorizations among everything else that goes on: refreshes, revocations, secrets. Rule: docs/behaviour/oauth.md. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import { reauthMark } from '../../src/oauth/reauth.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { BASE_URL } from '../support/operators.ts'
import { logsOf, makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { scriptedOAuth } from './scripted-oauth.ts'

const OLD = { access_token: 'old-access-of-the-tests', refresh_token: 'old-refresh-of-the-tests' }
const NEW = { access_token: 'new-access-of-the-tests', refresh_token: 'new-refresh-of-the-tests' }
const keys = encryptionKey('oauth')
const LOCK_SECONDS = 60
const unexpected = () => expect.unreachable('nobody asks for a refresh')

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

function deployment(provider: HasOAuth2, config: IntegrationsOptions['config'] = {}): TestIntegrations {
  const providers = { acme: provider }
  const test = testIntegrations(database.url, { encryptionKeys: keys, baseUrl: BASE_URL, providers, config })
  onTestFinished(() => test.close())
  return test
}

const authorized = (test: TestIntegrations, credentials = {}): Promise<Integration> =>
  makeIntegration(test, 'acme', { credentials: { ...OLD, ...credentials } })

/** What a provider sends back with a browser whose host has led it there. */
async function answered(test: TestIntegrations, id: number, code = 'a-code-of-the-tests') {
  const { state } = await test.integrations.oauth.start(id)
  return { query: new URLSearchParams({ state, code }), cookie: () => undefined }
}

describe('an authorization that comes in', () => {
  it('while a refresh of the old tokens is refused is not marked as needed', async () => {
    const refresh = async () => {
      throw Object.assign(new Error('no'), { status: 400, error: 'invalid_grant' })
    }
    const test = deployment(scriptedOAuth(refresh, { exchangeCode: async () => NEW }))
    const integration = await authorized(test, { token_expires_at: '2000-01-01T00:00:00Z' })
    const { cache } = test.framework
    const { within } = cache
    const callback = await answered(test, integration.id)
    let completing: Promise<unknown> | undefined
    // The refresh has found the old pair still there. The new one is saved once the mark is set, under the lock of the row.
    cache.within = (tx) => ({
      ...within(tx),
      async add(...entry) {
        completing ??= test.integrations.oauth.complete(callback)
        await vi.waitFor(async () => {
          const waiting = await test.sql`
            select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
          expect(waiting).toHaveLength(1)
        }, SOON)
        return within(tx).add(...entry)
      },
    })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    await completing
    expect(await reauthMark(test.framework, integration.id)).toBeNull()
    expect(await (await integration.refresh()).getAccessToken()).toBe(NEW.access_token)
  })

  it('is complete even while a refresh hangs', async () => {
    const [asked, late] = [occasion(), occasion()]
    const refresh = async () => {
      asked.happen()
      await late.happened
      return { access_token: 'late-access-of-the-tests' }
    }
    const provider = scriptedOAuth(refresh, { exchangeCode: async () => NEW })
    const test = deployment(provider, { oauth: { refresh_lock_wait: 0 } })
    const integration = await authorized(test, { token_expires_at: '2000-01-01T00:00:00Z' })
    const refreshing = integration.getAccessToken()
    await asked.happened
    await test.integrations.oauth.complete(await answered(test, integration.id))
    late.happen()
    await refreshing
    expect((await integration.refresh()).credentialsArray()).toMatchObject(NEW)
  })

  it('gives its exchange the present token, and no refresh', async () => {
    let seen: string | null = null
    const exchangeCode = async (integration: Integration) => {
      seen = await integration.getAccessToken()
      return NEW
    }
    const test = deployment(scriptedOAuth(unexpected, { exchangeCode }))
    const { id } = await authorized(test, { token_expires_at: '2000-01-01T00:00:00Z' })
    await test.integrations.oauth.complete(await answered(test, id))
    expect(seen).toBe(OLD.access_token)
  })

  it('is not exchanged where the stored credentials can’t be read', async () => {
    const exchangeCode = () => expect.unreachable('the code would be spent')
    const test = deployment(scriptedOAuth(unexpected, { exchangeCode }))
    const { id } = await authorized(test)
    const callback = await answered(test, id)
    await test.sql`update integrations set credentials = 'v1.gone.AAAA.AAAA.AAAA' where id = ${id}`
    await expect(test.integrations.oauth.complete(callback)).rejects.toMatchObject({ code: 'code_exchange_failed' })
    const [log] = await logsOf(test, id, 'oauth')
    expect(log?.error).toContain('credentials_unreadable')
  })
})

describe('a revocation', () => {
  it('waits for the refresh that is under way, and revokes what came of it', async () => {
    const [asked, goOn] = [occasion(), occasion()]
    const revoked: unknown[] = []
    const refresh = async () => {
      asked.happen()
      await goOn.happened
      return NEW
    }
    const revokeToken = async (integration: Integration) => {
      revoked.push(integration.credentialsArray().access_token)
    }
    const test = deployment(scriptedOAuth(refresh, { revokeToken }))
    const integration = await authorized(test, { token_expires_at: '2000-01-01T00:00:00Z' })
    const refreshing = integration.getAccessToken()
    await asked.happened
    const revoking = test.integrations.oauth.revoke(integration.id)
    goOn.happen()
    expect(await Promise.all([refreshing, revoking])).toEqual([NEW.access_token, 'revoked'])
    expect(revoked).toEqual([NEW.access_token])
    expect(await (await integration.refresh()).getAccessToken()).toBeNull()
  })

  it('leaves the tokens of an authorization that came in meanwhile', async () => {
    const [asked, goOn] = [occasion(), occasion()]
    const revokeToken = async () => {
      asked.happen()
      await goOn.happened
    }
    const provider = scriptedOAuth(unexpected, { revokeToken, exchangeCode: async () => NEW })
    const test = deployment(provider, { oauth: { refresh_lock_wait: 0 } })
    const { id } = await authorized(test)
    const revoking = test.integrations.oauth.revoke(id)
    await asked.happened
    await test.integrations.oauth.complete(await answered(test, id))
    goOn.happen()
    expect(await revoking).toBe('newer tokens kept')
    expect((await test.integrations.get(id)).credentialsArray()).toMatchObject(NEW)
    expect((await logsOf(test, id, 'oauth')).map(({ summary }) => summary)).toContain(
      'Revoked; the tokens of a newer authorization stay.',
    )
  })

  it('whose provider has dropped the tokens itself is one, too', async () => {
    const revokeToken = async (integration: Integration) => {
      await integration.updateCredentials({ access_token: null, refresh_token: null })
    }
    const test = deployment(scriptedOAuth(unexpected, { revokeToken }))
    const revoked: number[] = []
    test.integrations.on('OAuthRevoked', ({ integration }) => revoked.push(integration.id))
    const { id } = await authorized(test, { token_expires_at: '2099-01-01T00:00:00Z' })
    expect(await test.integrations.oauth.revoke(id)).toBe('revoked')
    expect(revoked).toEqual([id])
    expect((await test.integrations.get(id)).credentialsArray()).toEqual({})
    expect((await logsOf(test, id, 'oauth')).map(({ summary }) => summary)).toEqual(['Revoked.'])
    expect(await test.integrations.oauth.revoke(id)).toBe('nothing to revoke')
  })

  it('that nobody answers ends with its lock, and keeps the tokens', async () => {
    const never = scriptedOAuth(unexpected, { revokeToken: () => new Promise(() => {}) })
    const test = deployment(never, { oauth: { refresh_lock_ttl: 1 } })
    const { id } = await authorized(test)
    await expect(test.integrations.oauth.revoke(id)).rejects.toMatchObject({ code: 'revoke_failed' })
    expect((await test.integrations.get(id)).credentialsArray()).toEqual(OLD)
    const [log] = await logsOf(test, id, 'oauth')
    expect(log?.error).toContain('request_timeout')
  })

  it('by force has time left when nobody has answered: no refresh comes in between', async () => {
    const asked = occasion()
    const revokeToken = () => {
      asked.happen()
      return new Promise<void>(() => {})
    }
    const test = deployment(
      scriptedOAuth(async () => NEW, { revokeToken }),
      { oauth: { refresh_lock_ttl: LOCK_SECONDS } },
    )
    const integration = await authorized(test, { token_expires_at: '2000-01-01T00:00:00Z' })
    // Two thirds of the lock's time pass at once; what is left of it is enough on a machine that stands still, too.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const revoking = test.integrations.oauth.revoke(integration.id, { force: true })
    await asked.happened
    const refreshing = integration.getAccessToken().catch(() => null)
    vi.advanceTimersByTime((LOCK_SECONDS * 1_000 * 2) / 3)
    vi.useRealTimers()
    const [outcome] = await Promise.all([revoking, refreshing])
    expect(outcome).toBe('revoked')
    expect((await integration.refresh()).credentialsArray()).not.toHaveProperty('refresh_token', OLD.refresh_token)
  })

  it('asks no provider once the time of its lock is over, since the process stood still', async () => {
    const revokeToken = vi.fn(async () => {})
    const test = deployment(scriptedOAuth(unexpected, { revokeToken }), { oauth: { refresh_lock_ttl: LOCK_SECONDS } })
    const { id } = await authorized(test)
    const { cache } = test.framework
    const { acquire } = cache
    const real = performance.now.bind(performance)
    let stoodStillMs = 0
    const now = vi.spyOn(performance, 'now').mockImplementation(() => real() + stoodStillMs)
    onTestFinished(() => now.mockRestore())
    vi.spyOn(cache, 'acquire').mockImplementation(async (...given) => {
      const isTaken = await acquire(...given)
      stoodStillMs = LOCK_SECONDS * 1_000
      return isTaken
    })
    await expect(test.integrations.oauth.revoke(id)).rejects.toMatchObject({ code: 'revoke_failed' })
    expect(revokeToken).not.toHaveBeenCalled()
    expect((await test.integrations.get(id)).credentialsArray()).toEqual(OLD)
  })

  it('that the provider refuses is told when the lock is free again: who is told may force it', async () => {
    const outcomes: unknown[] = []
    let isAsked = false
    const revokeToken = async () => {
      if (!isAsked) {
        isAsked = true
        throw new Error('not now')
      }
    }
    const test = deployment(scriptedOAuth(unexpected, { revokeToken }), { oauth: { refresh_lock_wait: 0 } })
    const { id } = await authorized(test)
    test.integrations.on('OAuthFailed', async () => {
      outcomes.push(await test.integrations.oauth.revoke(id, { force: true }))
    })
    await expect(test.integrations.oauth.revoke(id)).rejects.toMatchObject({ code: 'revoke_failed' })
    expect(outcomes).toEqual(['revoked'])
  })

  it('of a provider without OAuth is refused', async () => {
    const test = testIntegrations(database.url, { encryptionKeys: keys, providers: { acme: {} } })
    onTestFinished(() => test.close())
    const { id } = await authorized(test)
    await expect(test.integrations.oauth.revoke(id)).rejects.toMatchObject({ code: 'oauth_unsupported' })
  })
})

describe('of the secrets of an authorization nothing is left anywhere', () => {
  const CANARY = 'canary-7f3a'
  const code = `${CANARY}-code`
  const tokens = { access_token: `${CANARY}-access`, refresh_token: `${CANARY}-refresh`, id_token: `${CANARY}-id` }

  it.each<[string, (integration: Integration) => Promise<typeof tokens>]>([
    ['when it succeeds', async () => tokens],
    [
      'when the adapter’s error quotes them',
      async () => {
        throw Object.assign(new Error(`no: ${CANARY}-access\n    at ${CANARY}-access (x:1:1)`), {
          body: tokens,
          error: 'invalid_client',
        })
      },
    ],
    [
      'when its cause does',
      async () => {
        throw new TypeError(`failed ${code}`, { cause: new Error(JSON.stringify(tokens)) })
      },
    ],
  ])('%s', async (_, outcome) => {
    const verifiers: string[] = []
    const exchangeCode: HasOAuth2['exchangeCode'] = async (integration, given, redirectUri, pkce) => {
      verifiers.push(pkce?.codeVerifier ?? '')
      const data = {
        grant_type: 'authorization_code',
        code: given,
        redirect_uri: redirectUri,
        code_verifier: pkce?.codeVerifier ?? '',
      }
      await integration.request('/token', 'POST', async () => ({ ...tokens, note: `for ${given}` }), { data })
      return outcome(integration)
    }
    const test = deployment(scriptedOAuth(unexpected, { pkce: 'S256', exchangeCode }))
    const events: unknown[] = []
    for (const name of ['OAuthCompleted', 'OAuthFailed', 'CredentialsUpdated'] as const)
      test.integrations.on(name, (payload) => void events.push(name, JSON.stringify(payload), errorIn(payload)))
    const { id } = await makeIntegration(test, 'acme', { credentials: { client_secret: 'secret-of-the-tests' } })
    const callback = await answered(test, id, code)
    const state = callback.query.get('state') ?? ''
    const ended = await test.integrations.oauth.complete(callback).then(JSON.stringify, (error: Error) => whole(error))
    const everything = JSON.stringify([ended, events, test.lines, await rowsOf(test)])
    expect(everything).toContain('authorization_code')
    expect(verifiers).toHaveLength(1)
    for (const secret of [CANARY, state, ...verifiers]) expect(everything).not.toContain(secret)
  })
})

const errorIn = (payload: object): string => ('error' in payload ? whole(payload.error as Error) : '')

/** As a logger would print it. */
function whole(error: Error): string {
  const cause = error.cause instanceof Error ? whole(error.cause) : JSON.stringify(error.cause)
  return `${JSON.stringify({ ...error })} ${error.stack} ${cause}`
}

async function rowsOf({ sql }: TestIntegrations): Promise<unknown> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables where table_schema = 'public'`
  return Promise.all(tables.map(({ name }) => sql`select * from ${sql(name)}`))
}
