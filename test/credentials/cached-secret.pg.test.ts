/** What a provider gives out for a while: kept for all processes, encrypted, until five minutes before its end. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { LockTimeoutException } from '../../src/framework/errors.ts'
import { secretsKnownTo } from '../../src/framework/known-secrets.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const NAME = 'installation_token'
const FIRST = 'secret-of-the-first-answer'
const SECOND = 'secret-of-the-second-answer'

const clock = new ManualClock('2031-06-01T12:00:00Z')
const inMinutes = (minutes: number) => new Date(clock.now().getTime() + minutes * 60_000)
const obtain = vi.fn<() => Promise<{ value: string; expiresAt: Date }>>()
const answers = (value: string, minutes = 60) =>
  obtain.mockImplementation(async () => ({ value, expiresAt: inMinutes(minutes) }))

const PROVIDERS = { plain: {} }
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
  obtain.mockReset()
  answers(FIRST)
})

const made = () => makeIntegration(test, 'plain', { credentials: { app_id: 'of-the-app', private_key: 'first-key' } })
const entries = ({ id }: Integration) =>
  test.sql<{ value: string; expires_at: Date }[]>`
    select value, expires_at from integration_cache where key like ${`integrations:integration:${id}:secret:%`}`
/** As somebody else stores them: past the handle. */
async function store(integration: Integration, credentials: Record<string, unknown>): Promise<void> {
  const text = test.framework.encryption.encrypt(integration.id, credentials)
  await test.sql`update integrations set credentials = ${text} where id = ${integration.id}`
}

describe('a cached secret', () => {
  it('is obtained once for all handles and processes, until five minutes before its end', async () => {
    const integration = await made()
    expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
    const elsewhere = testIntegrations(database.url, { providers: PROVIDERS, encryptionKeys: KEY, clock })
    try {
      const other = await elsewhere.integrations.get(integration.id)
      answers(SECOND)
      clock.advance({ seconds: 55 * 60 - 1 })
      expect(await other.cachedSecret(NAME, obtain)).toBe(FIRST)
      clock.advance({ seconds: 1 })
      expect(await other.cachedSecret(NAME, obtain)).toBe(SECOND)
      expect(await integration.cachedSecret(NAME, obtain)).toBe(SECOND)
      expect(obtain).toHaveBeenCalledTimes(2)
    } finally {
      await elsewhere.close()
    }
  })

  it('is obtained once however many ask at the same time', async () => {
    const integration = await made()
    const [begun, answered] = [occasion(), occasion()]
    obtain.mockImplementation(async () => {
      begun.happen()
      await answered.happened
      return { value: FIRST, expiresAt: inMinutes(60) }
    })
    const first = integration.cachedSecret(NAME, obtain)
    await begun.happened
    const others = Array.from({ length: 10 }, () => integration.cachedSecret(NAME, obtain))
    answered.happen()
    expect(new Set(await Promise.all([first, ...others]))).toEqual(new Set([FIRST]))
    expect(obtain).toHaveBeenCalledTimes(1)
  })

  it('is one for each name and integration', async () => {
    const [one, other] = [await made(), await made()]
    await one.cachedSecret(NAME, obtain)
    answers(SECOND)
    expect(await one.cachedSecret('another', obtain)).toBe(SECOND)
    expect(await other.cachedSecret(NAME, obtain)).toBe(SECOND)
    expect(await one.cachedSecret(NAME, obtain)).toBe(FIRST)
  })

  it('is stored encrypted', async () => {
    const integration = await made()
    await integration.cachedSecret(NAME, obtain)
    const [entry, ...more] = await entries(integration)
    expect(more).toEqual([])
    expect(entry?.value).toMatch(/^v1\.k1\./)
    for (const part of [FIRST, Buffer.from(FIRST).toString('base64url')]) expect(entry?.value).not.toContain(part)
  })

  it('that was sealed for something else, or is none, counts as absent', async () => {
    const integration = await made()
    const key = `integration:${integration.id}:secret:${NAME}`
    for (const value of [test.framework.encryption.seal('something else', SECOND), 'no envelope', 7]) {
      await test.framework.cache.set(key, value, 3_600)
      expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
    }
  })

  it('is known to redaction for as long as the handle lives, and pushes out nothing that was known before', async () => {
    const integration = await made()
    await integration.updateCredentials({ app_id: 'given-since-the-snapshot' })
    for (let call = 0; call < 30; call += 1) await integration.cachedSecret(NAME, obtain)
    await integration.forgetCachedSecret(NAME)
    answers(SECOND)
    await integration.cachedSecret(NAME, obtain)
    expect(secretsKnownTo(integration)).toEqual(
      expect.arrayContaining([FIRST, SECOND, 'given-since-the-snapshot', 'first-key']),
    )
  })

  it.each([5, 0, -1])('that ends in %s minutes is given to its caller and not kept', async (minutes) => {
    const integration = await made()
    answers(FIRST, minutes)
    expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
    expect(await entries(integration)).toEqual([])
    expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
    expect(obtain).toHaveBeenCalledTimes(2)
  })
})

describe('it is forgotten', () => {
  it('when somebody says so', async () => {
    const integration = await made()
    await integration.cachedSecret(NAME, obtain)
    await integration.forgetCachedSecret(NAME)
    expect(await entries(integration)).toEqual([])
    answers(SECOND)
    expect(await integration.cachedSecret(NAME, obtain)).toBe(SECOND)
  })

  it('when the handle’s credentials are changed', async () => {
    const integration = await made()
    await integration.cachedSecret(NAME, obtain)
    await integration.updateCredentials({ private_key: 'second-key' })
    answers(SECOND)
    expect(await (await integration.refresh()).cachedSecret(NAME, obtain)).toBe(SECOND)
  })

  it('with the integration', async () => {
    const integration = await made()
    await integration.cachedSecret(NAME, obtain)
    await test.integrations.delete(integration.id)
    expect(await entries(integration)).toEqual([])
  })
})

describe('a handle that knows older credentials', () => {
  it('goes on with the stored ones before it obtains anything', async () => {
    const integration = await made()
    await store(integration, { app_id: 'of-the-app', private_key: 'second-key' })
    obtain.mockImplementation(async () => ({
      value: `made-with-${String(integration.credentialsArray().private_key)}`,
      expiresAt: inMinutes(60),
    }))
    expect(await integration.cachedSecret(NAME, obtain)).toBe('made-with-second-key')
    expect(secretsKnownTo(integration)).toEqual(expect.arrayContaining(['first-key', 'made-with-second-key']))
  })

  it('gets what was obtained for the newer ones, and obtains none for itself', async () => {
    const old = await made()
    await old.cachedSecret(NAME, obtain)
    await store(old, { app_id: 'of-the-app', private_key: 'second-key' })
    const current = await old.refresh()
    answers(SECOND)
    for (const handle of [current, old, current, old]) expect(await handle.cachedSecret(NAME, obtain)).toBe(SECOND)
    expect(obtain).toHaveBeenCalledTimes(2)
  })

  it('leaves nothing behind when they are changed, or the integration is deleted, while it obtains', async () => {
    for (const change of [
      (integration: Integration) => store(integration, { private_key: 'second-key' }),
      ({ id }: Integration) => test.integrations.delete(id),
    ]) {
      const integration = await made()
      obtain.mockImplementationOnce(async () => {
        await change(integration)
        return { value: FIRST, expiresAt: inMinutes(60) }
      })
      expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
      expect(await entries(integration)).toEqual([])
    }
  })
})

describe('what goes wrong', () => {
  it('is thrown and not kept; the next one obtains anew', async () => {
    const integration = await made()
    obtain.mockRejectedValueOnce(new Error('the endpoint is down'))
    await expect(integration.cachedSecret(NAME, obtain)).rejects.toThrow('the endpoint is down')
    expect(await entries(integration)).toEqual([])
    expect(await integration.cachedSecret(NAME, obtain)).toBe(FIRST)
  })

  it('holds up nobody for longer than the wait for the lock: then each obtains its own', async () => {
    const impatient = testIntegrations(database.url, {
      providers: PROVIDERS,
      encryptionKeys: KEY,
      clock,
      config: { oauth: { refresh_lock_wait: 0 } },
    })
    try {
      const integration = await impatient.integrations.get((await made()).id)
      const [begun, answered] = [occasion(), occasion()]
      obtain.mockImplementationOnce(async () => {
        begun.happen()
        await answered.happened
        return { value: FIRST, expiresAt: inMinutes(60) }
      })
      const hanging = integration.cachedSecret(NAME, obtain)
      await begun.happened
      answers(SECOND)
      expect(await integration.cachedSecret(NAME, obtain)).toBe(SECOND)
      answered.happen()
      expect(await hanging).toBe(FIRST)
    } finally {
      await impatient.close()
    }
  })

  it('is not hidden by the lock: a lock timeout of obtain() itself is thrown once', async () => {
    const integration = await made()
    const timeout = new LockTimeoutException('of-another-lock', 1)
    obtain.mockRejectedValue(timeout)
    await expect(integration.cachedSecret(NAME, obtain)).rejects.toBe(timeout)
    expect(obtain).toHaveBeenCalledTimes(1)
  })

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'answer'],
    ['an empty value', { value: '', expiresAt: new Date() }, 'value'],
    ['a value that is no text', { value: [FIRST], expiresAt: new Date() }, 'value'],
    ['an end that is a text', { value: FIRST, expiresAt: '2031-06-01T13:00:00Z' }, 'expiresAt'],
    ['an end that is no date', { value: FIRST, expiresAt: new Date('tomorrow') }, 'expiresAt'],
  ])('with %s as answer is refused by its path and without its value', async (_, answer, path) => {
    const integration = await made()
    obtain.mockResolvedValue(answer as never)
    const error = await integration.cachedSecret(NAME, obtain).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'schema_drift', issues: [{ path }] })
    expect((error as Error).message).toContain(`the cached secret "${NAME}" of the provider "plain"`)
    expect((error as Error).message).not.toContain(FIRST)
    expect(await entries(integration)).toEqual([])
  })

  it.each(['', 'a b', 'a:b', 'ü', 'x'.repeat(65), 7 as never, undefined as never])(
    'refuses the name %j',
    async (name) => {
      const integration = await made()
      const refused = { code: 'invalid_argument', argument: 'name' }
      await expect(integration.cachedSecret(name, obtain)).rejects.toMatchObject(refused)
      await expect(integration.forgetCachedSecret(name)).rejects.toMatchObject(refused)
      expect(obtain).not.toHaveBeenCalled()
    },
  )

  it('takes the longest name there is', async () => {
    const integration = await made()
    expect(await integration.cachedSecret('x'.repeat(64), obtain)).toBe(FIRST)
  })
})
