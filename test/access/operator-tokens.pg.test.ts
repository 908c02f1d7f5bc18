/** Operator tokens that are made at run time, on a real table. Rule: docs/behaviour/access.md, "Tokens at run time". */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { CreateToken } from '../../src/access/operator-tokens.ts'
import { noteTokenUse } from '../../src/access/operator-tokens.ts'
import type { Principal } from '../../src/access/rules.ts'
import { limitsOf, visible } from '../../src/access/rules.ts'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, sha256, TOKENS } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeWebhook } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const MINUTE_MS = 60_000
const started = Date.now()
let nowMs = started
const clock = { now: () => new Date(nowMs) }
const keys = encryptionKey('tokens')

let database: TestDatabase
let test: TestIntegrations
/** Another process on the same database. */
let other: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const options = {
    clock,
    encryptionKeys: keys,
    baseUrl: BASE_URL,
    providers: { acme: webhookProvider(), other: webhookProvider() },
    config: { operator: { tokens: TOKENS } },
  }
  test = testIntegrations(database.url, options)
  other = testIntegrations(database.url, options)
})

afterAll(async () => {
  await other.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  nowMs = started
  await test.sql`truncate integration_tokens`
  await test.sql`truncate integration_audit`
})

const create = (more: Partial<CreateToken> = {}) =>
  test.integrations.admin.tokens.create({ name: 'ci', scope: 'read', by: 'ada', ...more })
const principalIn = (place: TestIntegrations, token: string) => place.integrations.admin.access.byToken(token)
async function acts(): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const { by, action, target, from, detail } of test.integrations.admin.audit.list())
    found.push({ by, action, target, from, detail })
  return found
}

describe('a token made at run time', () => {
  it('is 32 random bytes behind a prefix, known to each process at once, and kept as a hash only', async () => {
    const made = await create()
    expect(made.token).toMatch(/^dio_[\w-]{43}$/)
    expect(Buffer.from(made.token.slice(4), 'base64url')).toHaveLength(32)
    expect(await principalIn(other, made.token)).toEqual({ name: 'ci', scopes: ['read'], via: 'token' })
    const stored = JSON.stringify([
      await test.sql`select * from integration_tokens`,
      await test.sql`select * from integration_audit`,
      test.lines,
    ])
    expect(stored).not.toContain(made.token)
    expect(stored).toContain(sha256(made.token))
    expect(await principalIn(test, `${made.token}x`)).toBeNull()
    expect(await principalIn(test, sha256(made.token))).toBeNull()
  })

  it('is unknown to each process as soon as it is revoked, as is its session', async () => {
    const { id, token } = await create({ scope: 'operate' })
    const session = await other.integrations.admin.access.signIn(token, '10.0.0.7')
    const sessionIn = () => other.integrations.admin.access.bySession(session?.id ?? '')
    expect(await sessionIn()).toMatchObject({ principal: { name: 'ci', scopes: ['operate'], via: 'session' } })
    await test.integrations.admin.tokens.revoke(id, { by: 'bob', from: '10.0.0.8' })
    expect([await principalIn(other, token), await sessionIn()]).toEqual([null, null])

    nowMs += MINUTE_MS
    const again = await test.integrations.admin.tokens.revoke(id, { by: 'eve' })
    expect(again).toMatchObject({ state: 'revoked', revokedAt: new Date(started) })
    const target = `token:${id}`
    expect(await acts()).toEqual([
      { by: 'bob', action: 'revoke-token', target, from: '10.0.0.8', detail: '"ci"' },
      { by: 'ci', action: 'sign-in', target: 'operator', from: '10.0.0.7', detail: null },
      { by: 'ada', action: 'create-token', target, from: null, detail: '"ci", operate, never expires' },
    ])
    // The name is free again.
    expect((await create()).id).not.toBe(id)
  })

  it('is good until its end, and not at it; its sessions end with it', async () => {
    const expiresAt = new Date(started + MINUTE_MS)
    const { token } = await create({ expiresAt })
    const session = await test.integrations.admin.access.signIn(token)
    expect(session?.expiresAt).toEqual(expiresAt)
    nowMs = started + MINUTE_MS - 1
    expect(await principalIn(test, token)).not.toBeNull()
    expect(await test.integrations.admin.access.bySession(session?.id ?? '')).not.toBeNull()
    nowMs += 1
    expect(await principalIn(test, token)).toBeNull()
    expect(await test.integrations.admin.access.bySession(session?.id ?? '')).toBeNull()
  })

  it('has its last use noted at most once a minute, over all processes', async () => {
    const { id, token } = await create()
    const usedAt = async () => (await test.sql`select last_used_at from integration_tokens`)[0]?.last_used_at
    await principalIn(test, token)
    await vi.waitFor(async () => expect(await usedAt()).toEqual(new Date(started)), SOON)
    // Another process, which has not noted it: the row itself says when it was noted last.
    const { db, tables } = other.framework
    const noteAt = (ms: number) => noteTokenUse(db, tables, id, new Date(started + ms))
    await noteAt(MINUTE_MS - 1)
    expect(await usedAt()).toEqual(new Date(started))
    await noteAt(MINUTE_MS)
    expect(await usedAt()).toEqual(new Date(started + MINUTE_MS))
  })

  it('is looked up once, and only if it has the shape of one', async () => {
    const selects = vi.spyOn(test.framework.db, 'select')
    await principalIn(test, 'anything-else')
    expect(selects).toHaveBeenCalledTimes(0)
    await principalIn(test, `dio_${'a'.repeat(43)}`)
    expect(selects).toHaveBeenCalledTimes(1)
    selects.mockRestore()
  })

  it('is listed newest first, by state, provider and owner, without its hash', async () => {
    const owner = { type: 'team', id: 7 }
    const a = await create({ name: 'a', owner })
    const b = await create({ name: 'b', provider: 'acme', expiresAt: new Date(started + 1) })
    const c = await create({ name: 'c' })
    await test.integrations.admin.tokens.revoke(c.id, { by: 'ada' })
    nowMs += 1
    const ids = async (filter: Parameters<typeof test.integrations.admin.tokens.list>[0]) => {
      const found: number[] = []
      for await (const token of test.integrations.admin.tokens.list(filter)) {
        expect(JSON.stringify(token)).not.toContain('sha256')
        found.push(token.id)
      }
      return found
    }
    expect(await ids({})).toEqual([c.id, b.id, a.id])
    expect(await ids({ state: 'good' })).toEqual([a.id])
    expect(await ids({ state: 'expired' })).toEqual([b.id])
    expect(await ids({ state: 'revoked' })).toEqual([c.id])
    expect(await ids({ provider: 'acme' })).toEqual([b.id])
    expect(await ids({ owner })).toEqual([a.id])
    expect(await ids({ after: c.id, limit: 1 })).toEqual([b.id])
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a name of the configuration', { name: 'reader' }, 'invalid_argument'],
    ['a name that another token has', { name: 'twice' }, 'invalid_argument'],
    ['a name that could be a command’s', { name: 'cli:root' }, 'invalid_argument'],
    ['no scope', { scope: undefined }, 'invalid_argument'],
    ['a provider that is not there', { provider: 'nowhere' }, 'unknown_provider'],
    ['half an owner', { owner: { type: 'team' } }, 'invalid_argument'],
    ['an end that is over', { expiresAt: new Date(started) }, 'invalid_argument'],
  ])('is refused with %s', async (_, more, code) => {
    await create({ name: 'twice' })
    await expect(create(more as Partial<CreateToken>)).rejects.toMatchObject({ code })
  })

  it('that is not there can not be revoked', async () => {
    await expect(test.integrations.admin.tokens.revoke(999_999, { by: 'ada' })).rejects.toMatchObject({
      code: 'token_not_found',
    })
  })
})

describe('a limited token', () => {
  it('may know of its own owner’s and provider’s records only', async () => {
    const owner = { type: 'team', id: 7 }
    const [own, foreign, elsewhere] = [
      await makeIntegration(test, 'acme', { owner }),
      await makeIntegration(test, 'acme', { owner: { type: 'team', id: 8 } }),
      await makeIntegration(test, 'other', { owner }),
    ]
    const { token } = await create({ owner, provider: 'acme' })
    const principal = (await principalIn(test, token)) as Principal
    expect(limitsOf(principal)).toEqual({ provider: 'acme', owner })
    const { operator } = test.integrations.admin
    const see = (kind: Parameters<typeof operator.maySee>[1], id: number) => operator.maySee(principal, kind, id)
    const seen = await Promise.all([own, foreign, elsewhere].map(({ id }) => see('integration', id)))
    expect(seen).toEqual([true, false, false])
    const webhooks = [await makeWebhook(test, own.id), await makeWebhook(test, foreign.id)]
    expect(await Promise.all(webhooks.map(({ id }) => see('webhook', id)))).toEqual([true, false])
    const { id } = await makeIncident(test, foreign.id)
    expect(await see('incident', id)).toBe(false)
    expect(await operator.ownerOf('incident', id)).toMatchObject({ integrationId: foreign.id, ownerId: 8 })
    expect([await see('request', 999_999), await operator.ownerOf('request', 999_999)]).toEqual([false, null])
    // One without limits needs no look.
    expect(await operator.maySee({ name: 'x', scopes: ['read'], via: 'token' }, 'webhook', 999_999)).toBe(true)
    expect(visible(principal, { provider: 'acme', ownerType: null, ownerId: null })).toBe(false)
  })

  it('gets no answer from a route that does not honour its limits', async () => {
    const { token } = await create({ scope: 'operate', provider: 'acme' })
    const free = await create({ name: 'free', scope: 'operate' })
    const api = createApi(test.integrations)
    const get = async (path: string, bearer: string) =>
      (await api.request(path, { headers: { authorization: `Bearer ${bearer}` } })).status
    for (const path of ['/operator', '/operator/api/v1/configuration', '/operator/api/v1/stats', '/metrics'])
      expect([path, await get(path, token), await get(path, free.token)]).toEqual([path, 403, 200])
  })
})

describe('a refused sign-in', () => {
  it('is in the audit at most once a minute by a process, with the number of those in between', async () => {
    const fresh = testIntegrations(database.url, {
      clock,
      encryptionKeys: keys,
      config: { operator: { tokens: TOKENS } },
    })
    const fail = () => fresh.integrations.admin.access.signIn(`dio_${'a'.repeat(43)}`, '203.0.113.5')
    // In the end the clock is set back.
    for (const ms of [0, 1, 2, MINUTE_MS, -MINUTE_MS, 1 - MINUTE_MS]) {
      nowMs = started + ms
      expect(await fail()).toBeNull()
    }
    await fresh.close()
    const refused = { by: 'unknown', action: 'sign-in refused', target: 'operator', from: '203.0.113.5' }
    const first = { ...refused, detail: null }
    const later = { ...refused, detail: 'and 2 before it, since the last entry of this process' }
    expect(await acts()).toEqual([first, later, first])
  })
})
