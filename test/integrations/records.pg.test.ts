/** Creating, finding, listing and changing integrations. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import type { UpdateIntegration } from '../../src/integrations/records.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, syncProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, setIntegration } from '../support/rows.ts'

const strict = {
  credentialsSchema: z.looseObject({ token: z.string().min(8) }),
  metadataSchema: z.object({ region: z.enum(['eu', 'us']) }),
}

const called = vi.fn(() => ({}))
let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const synced = syncProvider(() => {})
  test = testIntegrations(database.url, { providers: { plain: {}, synced, strict, listed: {} } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('create', () => {
  it('stores what is given, defaults for the rest, and tells IntegrationCreated', async () => {
    const told = vi.fn()
    listen(test, 'IntegrationCreated', told)
    const made = await test.integrations.create({
      provider: 'synced',
      name: 'ours',
      credentials: CREDENTIALS,
      metadata: { a: 1 },
      owner: { type: 'team', id: 7 },
      syncIntervalMinutes: 15,
    })
    expect(await test.integrations.get(made.id)).toMatchObject({
      provider: 'synced',
      name: 'ours',
      metadata: { a: 1 },
      owner: { type: 'team', id: 7 },
      syncIntervalMinutes: 15,
      isActive: true,
      healthStatus: 'healthy',
      syncCursor: null,
      lastSyncedAt: null,
      nextSyncAt: null,
    })
    expect(told).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['an unknown provider', { provider: 'nobody' }, 'unknown_provider'],
    ['a blank name', { name: '  ' }, 'invalid_argument'],
    ['a name of 256 characters', { name: 'x'.repeat(256) }, 'invalid_argument'],
    ['a name with U+0000', { name: 'a\0b' }, 'invalid_argument'],
    ['a name that is no text', { name: 7 as never }, 'invalid_argument'],
    ['an owner without an id', { owner: { type: 'team' } as never }, 'invalid_argument'],
    ['an owner with id 0', { owner: { type: 'team', id: 0 } }, 'invalid_argument'],
    ['an owner with id 2^53', { owner: { type: 'team', id: 2 ** 53 } }, 'invalid_argument'],
    ['an owner of a blank type', { owner: { type: ' ', id: 1 } }, 'invalid_argument'],
    ['an owner of a type of 256 characters', { owner: { type: 'x'.repeat(256), id: 1 } }, 'invalid_argument'],
    ['a switch that is no boolean', { isActive: 1 as never }, 'invalid_argument'],
    ['metadata that is null', { metadata: null as never }, 'invalid_argument'],
    ['metadata with a Date', { metadata: { since: new Date() } }, 'invalid_argument'],
    ['metadata of 65,537 bytes', { metadata: { a: 'x'.repeat(65_537 - '{"a":""}'.length) } }, 'invalid_argument'],
    ['an interval of 2^31', { provider: 'synced', syncIntervalMinutes: 2 ** 31 }, 'invalid_argument'],
    ['an interval of 0', { provider: 'synced', syncIntervalMinutes: 0 }, 'invalid_argument'],
    ['an interval of 1.5', { provider: 'synced', syncIntervalMinutes: 1.5 }, 'invalid_argument'],
    ['an interval without sync()', { syncIntervalMinutes: 5 }, 'unsupported_by_provider'],
    ['metadata that does not fit', { provider: 'strict', metadata: { region: 'mars' } }, 'invalid_credentials'],
  ])('refuses %s, and stores nothing', async (_, given, code) => {
    const [before] = await test.sql`select count(*) as n from integrations`
    await expect(makeIntegration(test, 'plain', given)).rejects.toMatchObject({ code })
    expect((await test.sql`select count(*) as n from integrations`)[0]).toEqual(before)
  })
})

describe('find and get', () => {
  it('differ in what they say of an id that is none', async () => {
    const { id } = await makeIntegration(test, 'plain')
    expect((await test.integrations.find(id))?.id).toBe(id)
    expect(await test.integrations.find(999_999)).toBeNull()
    await expect(test.integrations.get(999_999)).rejects.toMatchObject({
      code: 'integration_not_found',
      integrationId: 999_999,
    })
  })

  it.each([0, -1, 1.5, Number.NaN, 2 ** 53, '1' as never])('know of none with the id %s', async (id) => {
    expect(await test.integrations.find(id)).toBeNull()
    for (const ask of [
      () => test.integrations.get(id),
      () => test.integrations.update(id, { name: 'x' }),
      () => test.integrations.enable(id),
      () => test.integrations.disable(id),
      () => test.integrations.delete(id),
      () => test.integrations.admin.erase(id),
    ])
      await expect(ask()).rejects.toMatchObject({ code: 'integration_not_found', integrationId: id })
  })

  it('load a row of an unregistered provider; using it throws UnknownProvider', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { provider: 'gone' })
    expect((await test.integrations.get(id)).provider).toBe('gone')
  })
})

describe('list', () => {
  const ids = async (filter: Parameters<TestIntegrations['integrations']['list']>[0]) => {
    const found: number[] = []
    for await (const each of test.integrations.list(filter)) found.push(each.id)
    return found
  }

  it('goes by ascending id over all pages, from `after` on, up to `limit`', async () => {
    const made = []
    for (let n = 0; n < 203; n += 1) made.push((await makeIntegration(test, 'listed')).id)
    expect(await ids({ provider: 'listed' })).toEqual(made)
    expect(await ids({ provider: 'listed', after: made[99] as number })).toEqual(made.slice(100))
    expect(await ids({ provider: 'listed', limit: 101 })).toEqual(made.slice(0, 101))
    expect(await ids({ provider: 'listed', limit: 203 })).toEqual(made)
  })

  it('filters by activity, health and owner', async () => {
    const owner = { type: 'team', id: 42 }
    const [active, off, ill] = [
      await makeIntegration(test, 'plain', { owner }),
      await makeIntegration(test, 'plain', { owner, isActive: false }),
      await makeIntegration(test, 'plain', { owner }),
    ]
    await setIntegration(test, ill.id, { healthStatus: 'failing' })
    expect(await ids({ owner })).toEqual([active.id, off.id, ill.id])
    expect(await ids({ owner, active: false })).toEqual([off.id])
    expect(await ids({ owner, active: true, health: 'healthy' })).toEqual([active.id])
    expect(await ids({ owner: { type: 'user', id: 42 } })).toEqual([])
  })

  it('filters by staleness', async () => {
    const owner = { type: 'team', id: 44 }
    const [fresh, stale] = [
      await makeIntegration(test, 'plain', { owner }),
      await makeIntegration(test, 'plain', { owner }),
    ]
    await setIntegration(test, stale.id, { syncStaleAlertedAt: new Date() })
    expect(await ids({ owner, stale: true })).toEqual([stale.id])
    expect(await ids({ owner, stale: false })).toEqual([fresh.id])
    expect(await ids({ owner })).toEqual([fresh.id, stale.id])
  })

  it.each<[string, Record<string, unknown>]>([
    ['health', { health: 'ill' }],
    ['limit', { limit: 0 }],
    ['limit', { limit: 1.5 }],
    ['after', { after: -1 }],
    ['after', { after: 1.5 }],
    ['owner', { owner: { type: 'team' } }],
    ['owner', { owner: { id: 3 } }],
    ['owner', { owner: { type: '', id: 3 } }],
    ['owner', { owner: null }],
    ['active', { active: 'yes' }],
    ['stale', { stale: 1 }],
    ['provider', { provider: 7 }],
  ])('refuses a bad %s: %j', (argument, filter) => {
    const refusal = expect.objectContaining({ code: 'invalid_argument', argument })
    expect(() => test.integrations.list(filter)).toThrow(refusal)
    expect(() => test.integrations.admin.summaries(filter)).toThrow(refusal)
  })

  it('works over rows whose credentials can not be read', async () => {
    const owner = { type: 'team', id: 43 }
    const { id } = await makeIntegration(test, 'plain', { owner })
    await setIntegration(test, id, { credentials: 'plain text' })
    expect(await ids({ owner })).toEqual([id])
  })
})

describe('update', () => {
  it('changes what the patch names, nothing else', async () => {
    const before = await makeIntegration(test, 'synced', { metadata: { a: 1 } })
    const after = await test.integrations.update(before.id, { name: 'renamed', syncIntervalMinutes: 3 })
    expect(after).toMatchObject({ name: 'renamed', syncIntervalMinutes: 3, metadata: { a: 1 }, isActive: true })
    expect(after.credentialsArray()).toEqual(CREDENTIALS)
  })

  it('clears the owner with null, and leaves it without a word of it', async () => {
    const { id } = await makeIntegration(test, 'plain', { owner: { type: 'team', id: 1 } })
    expect((await test.integrations.update(id, { name: 'renamed' })).owner).toEqual({ type: 'team', id: 1 })
    expect((await test.integrations.update(id, { owner: { type: 'user', id: 2 } })).owner).toEqual({
      type: 'user',
      id: 2,
    })
    expect((await test.integrations.update(id, { owner: null })).owner).toBeNull()
  })

  it('replaces metadata as a whole', async () => {
    const { id } = await makeIntegration(test, 'plain', { metadata: { a: 1 } })
    expect((await test.integrations.update(id, { metadata: { b: 2 } })).metadata).toEqual({ b: 2 })
    expect((await test.integrations.update(id, { metadata: {} })).metadata).toEqual({})
  })

  it('makes metadata of what is stored, under the lock of the row', async () => {
    const { id } = await makeIntegration(test, 'plain', { metadata: { a: 1 } })
    const add = (more: object) => test.integrations.update(id, { metadata: (stored) => ({ ...stored, ...more }) })
    await Promise.all([add({ b: 2 }), add({ c: 3 }), add({ a: 4 })])
    expect((await test.integrations.get(id)).metadata).toEqual({ a: 4, b: 2, c: 3 })
    await expect(test.integrations.update(id, { metadata: () => null as never })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it('merges credentials', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const after = await test.integrations.update(id, { credentials: { added: true, token: null } })
    expect(after.credentialsArray()).toEqual({ webhook_secret: CREDENTIALS.webhook_secret, added: true })
  })

  it.each<[string, UpdateIntegration, string]>([
    ['a blank name', { name: '' }, 'invalid_argument'],
    ['credentials that do not fit', { credentials: { token: 'short' } }, 'invalid_credentials'],
    ['metadata that does not fit', { metadata: { region: 'mars' } }, 'invalid_credentials'],
    ['an interval without sync()', { syncIntervalMinutes: 5 }, 'unsupported_by_provider'],
    ['half an owner', { owner: { type: 'team' } as never }, 'invalid_argument'],
    ['metadata that is null', { metadata: null as never }, 'invalid_argument'],
    ['a switch that is no boolean', { isActive: 'yes' as never }, 'invalid_argument'],
    ['credentials that are no JSON', { credentials: { at: new Date() } }, 'invalid_argument'],
  ])('with %s stores nothing of the patch', async (_, patch, code) => {
    const { id } = await makeIntegration(test, 'strict', { metadata: { region: 'eu' } })
    const told = vi.fn()
    listen(test, 'CredentialsUpdated', told)
    const [before] = await test.sql`select * from integrations where id = ${id}`
    await expect(test.integrations.update(id, { name: 'renamed', isActive: false, ...patch })).rejects.toMatchObject({
      code,
    })
    expect((await test.sql`select * from integrations where id = ${id}`)[0]).toEqual(before)
    expect(told).not.toHaveBeenCalled()
  })

  it('of an id that is none says so', async () => {
    await expect(test.integrations.update(999_999, { name: 'x' })).rejects.toMatchObject({
      code: 'integration_not_found',
    })
  })
})

describe('a handle', () => {
  it('is a snapshot; refresh() is a new one', async () => {
    const before = await makeIntegration(test, 'plain')
    await test.integrations.update(before.id, { name: 'renamed' })
    expect([before.name, (await before.refresh()).name]).toEqual(['of a test', 'renamed'])
  })

  it('has each column of its row but the credentials, under its own name', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const at = new Date('2031-05-01T12:00:00Z')
    const columns = {
      healthStatus: 'failing' as const,
      ...{ ownerType: 'team', ownerId: 7, metadata: { region: 'eu' }, isActive: false },
      ...{ consecutiveFailures: 21, lastErrorAt: at, anomalyAlertedAt: at, lastSyncedAt: at, nextSyncAt: at },
      ...{ consecutiveSyncFailures: 3, syncStaleAlertedAt: at, syncIntervalMinutes: 15, syncCursor: { page: 2 } },
      ...{ circuitOverride: 'forced_open', circuitOverrideUntil: at },
      ...{ rateLimitOverride: { limit: 5, seconds: 60 }, rateLimitOverrideUntil: at, createdAt: at },
    }
    await setIntegration(test, id, columns)
    const handle = await test.integrations.get(id)
    expect(handle).toMatchObject({ ...columns, updatedAt: expect.any(Date) })
    await handle.recordFailure('upstream')
    expect((await handle.refresh()).consecutiveFailures).toBe(22)
    expect(JSON.parse(JSON.stringify(handle))).toEqual({ id, provider: 'plain', name: 'of a test' })
  })

  it('switches it off and on: enable() makes it healthy, due at once, and wakes its inbox', async () => {
    const integration = await makeIntegration(test, 'synced')
    await integration.disable()
    expect((await integration.refresh()).isActive).toBe(false)
    await setIntegration(test, integration.id, {
      healthStatus: 'disabled',
      consecutiveFailures: 50,
      nextSyncAt: new Date('2099-01-01'),
    })
    const wakes = test.starts.wakes.length
    await integration.enable()
    const [row] =
      await test.sql`select is_active, health_status, consecutive_failures, coalesce(next_sync_at, now()) <= now() as due from integrations where id = ${integration.id}`
    expect(row).toEqual({ is_active: true, health_status: 'healthy', consecutive_failures: 0, due: true })
    expect(test.starts.wakes.slice(wakes)).toEqual(['arrived'])
  })

  it('stays as it is when it is enabled again, but for being due', async () => {
    const integration = await makeIntegration(test, 'plain')
    const before = await integration.refresh()
    await integration.enable()
    expect(await integration.refresh()).toMatchObject({
      isActive: true,
      healthStatus: 'healthy',
      metadata: before.metadata,
      nextSyncAt: null,
    })
  })

  it.each([
    ['a text of digits', '12345'],
    ['an object', { page: 1 }],
    ['null', null],
  ])('sets the cursor to %s, with a `cursor` log row', async (_, value) => {
    const integration = await makeIntegration(test, 'synced')
    await integration.updateSyncCursor(value)
    expect((await integration.refresh()).syncCursor).toEqual(value)
    expect(await logsOf(test, integration.id, 'cursor')).toEqual([
      expect.objectContaining({ status: 'success', metadata: { from: null, to: value, by: 'code' } }),
    ])
  })

  it('refuses a cursor that is no JSON', async () => {
    const integration = await makeIntegration(test, 'synced')
    await expect(integration.updateSyncCursor(new Date() as never)).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await logsOf(test, integration.id, 'cursor')).toEqual([])
  })
})

describe('starting a sync by hand', () => {
  it('starts a run, or says that another one follows the one that runs', async () => {
    const integration = await makeIntegration(test, 'synced')
    expect(await test.integrations.syncs.start(integration.id)).toMatchObject({ kind: 'started' })
    test.starts.running.add(integration.id)
    expect(await test.integrations.syncs.start(integration.id)).toEqual({ kind: 'remembered' })
  })

  it.each([
    ['that is not there', async () => 999_999, 'integration_not_found'],
    [
      'that is switched off',
      async () => {
        const integration = await makeIntegration(test, 'synced')
        await integration.disable()
        return integration.id
      },
      'integration_inactive',
    ],
    ['whose provider has no sync', async () => (await makeIntegration(test, 'plain')).id, 'unsupported_by_provider'],
  ])('refuses an integration %s', async (_, make, code) => {
    const starts = test.starts.syncs.length
    await expect(test.integrations.syncs.start(await make())).rejects.toMatchObject({ code })
    expect(test.starts.syncs).toHaveLength(starts)
  })
})

describe('a provider that is not registered', () => {
  const unregistered = async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { provider: 'gone' })
    return test.integrations.get(id)
  }

  it.each<[string, (integration: Integration) => unknown]>([
    ['a call', (one) => one.request('things', 'GET', called)],
    ['a call with a schema', (one) => one.requestAs(z.unknown(), 'things', 'GET', called)],
    ['a call by the builder', (one) => one.at('things').get('http://127.0.0.1:1/')],
    ['a token', (one) => one.getAccessToken()],
    ['whether a token expires', (one) => one.tokenExpiresSoon()],
    ['a refresh', (one) => one.refreshTokenIfNeeded()],
    ['its identity', (one) => one.authenticatedUser()],
    ['credentials', (one) => one.updateCredentials({ token: 'unchecked' })],
    ['metadata', ({ id }) => test.integrations.update(id, { metadata: { region: 'mars' } })],
    ['an interval', ({ id }) => test.integrations.update(id, { syncIntervalMinutes: 5 })],
  ])('refuses %s', async (_, use) => {
    const integration = await unregistered()
    called.mockClear()
    await expect(Promise.resolve().then(() => use(integration))).rejects.toMatchObject({
      code: 'unknown_provider',
      provider: 'gone',
    })
    expect(called).not.toHaveBeenCalled()
    const after = await test.integrations.get(integration.id)
    expect([after.credentialsArray(), after.metadata]).toEqual([integration.credentialsArray(), integration.metadata])
  })

  it('leaves what concerns our own rows: they load, list, are renamed, switched and deleted', async () => {
    const integration = await unregistered()
    await integration.disable()
    await integration.enable()
    await integration.recordFailure('upstream')
    expect(await integration.circuit()).toMatchObject({ state: 'closed' })
    expect(await integration.rateLimit()).toMatchObject({ source: 'none' })
    expect(integration.supportsAuthenticatedUser()).toBe(false)
    expect(await test.integrations.update(integration.id, { name: 'renamed', isActive: false })).toMatchObject({
      name: 'renamed',
      isActive: false,
    })
    await test.integrations.delete(integration.id)
    expect(await test.integrations.find(integration.id)).toBeNull()
  })
})
