/** Tokens, sessions and signed links on a real cache table. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, sha256, TOKENS, WRONG_TOKEN } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const HOUR_MS = 3_600_000
const DAY_SECONDS = 86_400
const keys = encryptionKey('links')

let database: TestDatabase
let test: TestIntegrations
const started = Date.now()
let nowMs = started
const clock = { now: () => new Date(nowMs) }

beforeAll(async () => {
  database = await createTestDatabase()
  test = withTokens(TOKENS)
})

beforeEach(() => {
  nowMs = started
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

function withTokens(tokens: NonNullable<ConfigInput['operator']>['tokens']): TestIntegrations {
  const providers = { acme: webhookProvider() }
  return testIntegrations(database.url, {
    clock,
    providers,
    baseUrl: BASE_URL,
    encryptionKeys: keys,
    config: { operator: { tokens } },
  })
}

describe('a token', () => {
  it.each([
    [READ_TOKEN, { name: 'reader', scopes: ['read'], via: 'token' }],
    [OPERATE_TOKEN, { name: 'operator', scopes: ['operate'], via: 'token' }],
    [WRONG_TOKEN, null],
    ['', null],
    [sha256(OPERATE_TOKEN), null],
    [`${OPERATE_TOKEN} `, null],
  ])('%j belongs to %j', async (token, principal) => {
    expect(await test.integrations.admin.access.byToken(token)).toEqual(principal)
  })

  it('has the time of its last use noted at most once a minute by a process', async () => {
    // A name of its own: uses of the other tests' tokens may be written down only now.
    const fresh = withTokens([{ name: 'noted', sha256: sha256(READ_TOKEN), scopes: ['read'] }])
    const notedAt = async (): Promise<string> => {
      const rows = await test.sql`
        select value ->> 'at' as at from integration_cache where key like '%:token-used:%' and value ->> 'name' = 'noted'`
      return String(rows[0]?.at)
    }
    const useAt = async (ms: number): Promise<void> => {
      nowMs = started + ms
      await fresh.integrations.admin.access.byToken(READ_TOKEN)
    }
    const at = (ms: number): string => new Date(started + ms).toISOString()
    const notes: string[] = []
    vi.spyOn(fresh.framework.cache, 'set').mockImplementation(async (_, value) => {
      notes.push((value as { at: string }).at)
    })
    // In the end the clock is set back.
    for (const ms of [HOUR_MS, HOUR_MS + 59_999, HOUR_MS + 60_000, 0, 1]) await useAt(ms)
    expect(notes).toEqual([at(HOUR_MS), at(HOUR_MS + 60_000), at(0)])
    vi.restoreAllMocks()

    // Nobody waits for it.
    await useAt(HOUR_MS + 120_000)
    await vi.waitFor(async () => {
      expect({ at: await notedAt(), said: fresh.lines }).toEqual({ at: at(HOUR_MS + 120_000), said: [] })
    }, SOON)
    await fresh.close()
  })

  it('is let in while its use can not be noted', async () => {
    const fresh = withTokens(TOKENS)
    Object.assign(fresh.framework.cache, { set: () => Promise.reject(new Error('the disk is full')) })
    expect(await fresh.integrations.admin.access.byToken(READ_TOKEN)).toMatchObject({ name: 'reader' })
    expect(fresh.lines).toMatchObject([
      { level: 'warn', fields: { token: 'reader', error: 'Error: the disk is full' } },
    ])
    await fresh.close()
  })
})

describe('a session', () => {
  it('is refused to a token that is nobody’s, with one line that does not name it', async () => {
    const before = test.lines.length
    expect(await test.integrations.admin.access.signIn(WRONG_TOKEN)).toBeNull()
    const lines = test.lines.slice(before)
    expect(lines).toMatchObject([{ level: 'warn', message: expect.stringContaining('sign in') }])
    expect(JSON.stringify(lines)).not.toContain(WRONG_TOKEN)
  })

  it('is 32 random bytes and holds neither id, token nor CSRF token in the table', async () => {
    const { access } = test.integrations.admin
    const [first, second] = [await signIn(test), await signIn(test)]
    expect(Buffer.from(first.id, 'base64url')).toHaveLength(32)
    expect(new Set([first.id, second.id, first.csrfToken, second.csrfToken]).size).toBe(4)
    expect(await access.bySession(first.id)).toEqual(first)
    const stored = JSON.stringify(await test.sql`select * from integration_cache`)
    for (const secret of [first.id, first.csrfToken, OPERATE_TOKEN]) expect(stored).not.toContain(secret)
    expect(stored).toContain(sha256(first.id))
  })

  it('lasts 8 hours', async () => {
    const { id } = await signIn(test)
    nowMs = started + 8 * HOUR_MS - 1
    expect(await test.integrations.admin.access.bySession(id)).toMatchObject({
      id,
      principal: { name: 'operator', via: 'session' },
    })
    nowMs += 1
    expect(await test.integrations.admin.access.bySession(id)).toBeNull()
  })

  it('ends when it signs out, and no other one does', async () => {
    const { access } = test.integrations.admin
    const [leaves, stays] = [await signIn(test), await signIn(test)]
    await access.signOut(leaves.id)
    expect(await access.bySession(leaves.id)).toBeNull()
    expect(await access.bySession(stays.id)).toEqual(stays)
  })

  it.each(['', 'x', 'a'.repeat(43), `${'a'.repeat(42)}=`, "'; drop table"])(
    'is nobody’s under the id %j',
    async (id) => {
      expect(await test.integrations.admin.access.bySession(id)).toBeNull()
    },
  )

  const [, operator] = TOKENS
  it.each([
    ['stays while its token does', [operator], true],
    ['ends with its token', [TOKENS[0]], false],
    ['ends when the token’s bytes change', [{ ...operator, sha256: sha256('another') }], false],
    ['ends when the token’s scopes change', [{ ...operator, scopes: ['read', 'operate'] as const }], false],
    ['ends when the token is named anew', [{ ...operator, name: 'somebody' }], false],
    ['ends when no token is left', [], false],
  ])('%s', async (_, tokens, stays) => {
    const { id } = await signIn(test)
    const later = withTokens(tokens)
    expect((await later.integrations.admin.access.bySession(id)) !== null).toBe(stays)
    await later.close()
  })
})

describe('a signed link', () => {
  const target = { method: 'GET', path: '/integrations/7/oauth/authorize' }
  const link = (seconds = 60) => new URLSearchParams(test.integrations.admin.access.signLink(target, seconds))
  const opens = (query: URLSearchParams, of = target) => test.integrations.admin.access.isLinkValid(of, query)

  it('opens until its end, and not at it', () => {
    const query = link(60)
    const endMs = Number(query.get('expires')) * 1_000
    nowMs = endMs - 1
    expect(opens(query)).toBe(true)
    nowMs = endMs
    expect(opens(query)).toBe(false)
  })

  it.each([
    ['another path', { ...target, path: '/integrations/8/oauth/authorize' }],
    ['another action', { ...target, path: '/integrations/7/oauth/revoke' }],
    ['another method', { ...target, method: 'POST' }],
    ['a path below', { ...target, path: `${target.path}/more` }],
  ])('does not open %s', (_, other) => {
    expect(opens(link(), other)).toBe(false)
  })

  it.each([
    ['a later end', (query: URLSearchParams) => query.set('expires', String(Number(query.get('expires')) + 1))],
    ['another signature', (query: URLSearchParams) => query.set('signature', 'a'.repeat(43))],
    ['a cut signature', (query: URLSearchParams) => query.set('signature', (query.get('signature') ?? '').slice(1))],
    ['no signature', (query: URLSearchParams) => query.delete('signature')],
    ['an addition', (query: URLSearchParams) => query.set('force', 'true')],
  ])('does not open with %s', (_, change) => {
    const query = link()
    change(query)
    expect(opens(query)).toBe(false)
  })

  it('does not open under other keys', async () => {
    const query = link()
    const other = testIntegrations(database.url, { clock, encryptionKeys: encryptionKey('links') })
    expect(other.integrations.admin.access.isLinkValid(target, query)).toBe(false)
    await other.close()
  })

  it.each([0, -1, 1.5, Number.NaN, 7 * DAY_SECONDS + 1])('is refused for %d seconds', (seconds) => {
    expect(() => link(seconds)).toThrow(expect.objectContaining({ code: 'invalid_argument', argument: 'expiresIn' }))
  })

  it('may last 7 days', () => {
    expect(opens(link(7 * DAY_SECONDS))).toBe(true)
  })
})

describe('oauth.link()', () => {
  it.each([
    ['authorize', 'GET'],
    ['revoke', 'POST'],
  ] as const)('opens %s of one integration by %s, for an hour', async (action, method) => {
    const { id } = await makeIntegration(test, 'acme')
    const url = new URL(await test.integrations.oauth.link(id, { action }))
    const path = `/integrations/${id}/oauth/${action}`
    expect([url.origin, url.pathname]).toEqual([BASE_URL, path])
    expect(test.integrations.admin.access.isLinkValid({ method, path }, url.searchParams)).toBe(true)
    nowMs = started + HOUR_MS
    expect(test.integrations.admin.access.isLinkValid({ method, path }, url.searchParams)).toBe(false)
  })

  it('says that it needs a base URL', async () => {
    const homeless = testIntegrations(database.url, { encryptionKeys: keys })
    await expect(homeless.integrations.oauth.link(1, { action: 'authorize' })).rejects.toMatchObject({
      code: 'base_url_missing',
    })
    await homeless.close()
  })

  it.each([
    ['an integration that is not there', 999_999, 'authorize', 'integration_not_found'],
    ['an action that is none', 1, 'constructor', 'invalid_argument'],
  ])('refuses %s', async (_, id, action, code) => {
    await expect(test.integrations.oauth.link(id, { action: action as 'authorize' })).rejects.toMatchObject({ code })
  })
})

async function signIn({ integrations }: TestIntegrations) {
  const session = await integrations.admin.access.signIn(OPERATE_TOKEN)
  if (session === null) throw new Error('expected a session')
  return session
}
