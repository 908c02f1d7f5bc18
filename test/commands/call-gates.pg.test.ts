/** circuit, rate-limit and test on real rows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { runInWorker } from '../../src/commands/cli/worker-command.ts'
import { checkIntegrationHealth } from '../../src/integrations/health-check.ts'
import { insideTokenWork } from '../../src/oauth/token-work.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import type { Ran } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const NEVER = 999_999_999
const KEY = encryptionKey('test')
const LATER = '2099-01-01T00:00:00.000Z'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** What `checked` answers; a test sets it. */
let healthCheck: (of: Integration) => unknown = () => true

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: KEY,
    providers: {
      plain: {},
      limited: { defaultRateLimit: () => RateLimit.perMinute(60) },
      sharing: { rateLimitScope: () => ({ key: 'app:1', limit: RateLimit.perMinute(600) }) },
      checked: { healthCheck: async (of) => (await healthCheck(of)) as boolean },
    },
    config: { health: { degraded_after: 1 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'limited', { isActive: false })
})

async function run(...words: string[]): Promise<Ran> {
  const ran = await runCommand(test.integrations, words)
  expect(ran.out + ran.err).not.toContain(TOKEN)
  return ran
}

const circuit = (...words: string[]) => run('circuit', String(integration.id), ...words, '--json')
const rateLimit = (...words: string[]) => run('rate-limit', String(integration.id), ...words, '--json')

/** Who asked for what, newest last. */
async function notes(): Promise<unknown[]> {
  const rows = await test.sql`
    select metadata ->> 'token' as token, metadata ->> 'action' as action from integration_logs
    where integration_id = ${integration.id} and operation = 'operator' order by id`
  return rows.map(({ token, action }) => [token, action])
}

const byUser = expect.stringMatching(/^cli:.+/)

describe('circuit', () => {
  const closed = () => ({
    integration_id: integration.id,
    override: null,
    override_until: null,
    state: 'closed',
    failures: 0,
    failure_rate: null,
    opened_at: null,
    retry_at: null,
  })

  it('status only looks', async () => {
    const ran = await circuit('status')
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toEqual(closed())
    expect(await notes()).toEqual([])
  })

  it.each([
    ['open', 'forced_open', 'open'],
    ['close', 'forced_closed', 'closed'],
    ['disable', 'disabled', 'closed'],
  ])('%s sets %s until its moment, and auto takes it back; both say who asked', async (action, override, state) => {
    const set = { ...closed(), override, override_until: LATER, state }
    expect((await circuit(action, '--until', '2099-01-01T01:00:00+01:00')).json()).toEqual(set)
    expect((await circuit('status')).json()).toEqual(set)
    expect((await run('list', '--limit', '999', '--json')).json()).toContainEqual(
      expect.objectContaining({ id: integration.id, circuit: override }),
    )
    expect((await circuit('auto')).json()).toEqual(closed())
    expect(await notes()).toEqual([
      [byUser, `circuit ${action}`],
      [byUser, 'circuit auto'],
    ])
  })

  it('shows why and until when it is open', async () => {
    const openedAt = new Date(Date.now() - 5_000)
    const breaker = { state: 'open', generation: 1, openedAt: openedAt.getTime(), probe: null }
    const value = JSON.stringify({ breaker: { ...breaker, strategy: 'rate', slices: [], streak: 0 } })
    const key = `integrations:integration:${integration.id}:calls`
    await test.sql`insert into integration_cache (key, value) values (${key}, ${value}::text::jsonb)`
    expect((await circuit('status')).json()).toEqual({
      ...closed(),
      state: 'open',
      opened_at: openedAt.toISOString(),
      retry_at: new Date(openedAt.getTime() + 60_000).toISOString(),
    })
    expect((await run('circuit', String(integration.id), 'status')).out).toMatch(/^state +open$/m)
  })

  it.each([
    ['--until with auto', ['auto', '--until', LATER], 'usage'],
    ['--until with status', ['status', '--until', LATER], 'usage'],
    ['a moment that was', ['open', '--until', '2001-01-01T00:00:00Z'], 'invalid_argument'],
    ['a moment without its offset', ['open', '--until', '2099-01-01T00:00:00'], 'usage'],
    ['a duration', ['open', '--until', '10m'], 'usage'],
    ['another word', ['shut'], 'usage'],
    ['no word', [], 'usage'],
  ])('refuses %s and changes nothing', async (_, words, code) => {
    const ran = await circuit(...words)
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toMatchObject({ error: { code } })
    expect((await circuit('status')).json()).toEqual(closed())
    expect(await notes()).toEqual([])
  })
})

describe('rate-limit', () => {
  const providers = () => ({
    integration_id: integration.id,
    source: 'provider',
    limit: 60,
    window_seconds: 60,
    window: 'fixed',
    used: 0,
    override_until: null,
    set_by: null,
    set_at: null,
    suppressed_until: null,
    shared: null,
  })

  it('status only looks', async () => {
    const ran = await rateLimit('status')
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toEqual(providers())
    expect(await notes()).toEqual([])
  })

  it('set puts a limit in place of the provider’s, and clear takes it back; both say who asked', async () => {
    const by = { set_by: byUser, set_at: expect.stringMatching(/Z$/) }
    const set = { ...providers(), ...by, source: 'override', limit: 5, window_seconds: 10 }
    const five = ['set', '--limit', '5', '--window', '10']
    expect((await rateLimit(...five)).json()).toEqual(set)
    const sliding = { ...set, window: 'sliding', override_until: LATER }
    expect((await rateLimit(...five, '--sliding', '--until', LATER)).json()).toEqual(sliding)
    // No person is named for what a host's code has set since.
    await integration.overrideRateLimit({ limit: 9, seconds: 10, window: 'fixed' })
    expect((await rateLimit('status')).json()).toMatchObject({ limit: 9, set_by: null, set_at: null })
    expect((await rateLimit('clear')).json()).toEqual(providers())
    expect(await notes()).toEqual([
      [byUser, 'rate-limit set 5 in 10 s, fixed'],
      [byUser, 'rate-limit set 5 in 10 s, sliding'],
      [byUser, 'rate-limit clear'],
    ])
  })

  it('set and clear --shared are about the limit of all that share it', async () => {
    integration = await makeIntegration(test, 'sharing', { isActive: false })
    const shared = async (...words: string[]) => ((await rateLimit(...words)).json() as { shared: unknown }).shared
    const theirs = { budget: expect.stringMatching(/^sharing\//), source: 'provider', limit: 600, window_seconds: 60 }
    expect(await shared('status')).toMatchObject({ ...theirs, used: 0, waiting: 0, override_until: null })
    const ours = { ...theirs, source: 'override', limit: 50, window_seconds: 10 }
    expect(await shared('set', '--limit', '50', '--window', '10', '--shared')).toMatchObject(ours)
    expect((await rateLimit('status')).json()).toMatchObject({ source: 'none', shared: ours })
    expect(await shared('clear', '--shared')).toMatchObject(theirs)
    expect(await notes()).toEqual([
      [byUser, 'rate-limit set 50 in 10 s, shared'],
      [byUser, 'rate-limit clear shared'],
    ])
  })

  it.each([
    [
      'the shared limit of an integration that has none',
      ['set', '--limit', '5', '--window', '5', '--shared'],
      'invalid_argument',
    ],
    [
      'a shared limit that is sliding: it always is',
      ['set', '--limit', '5', '--window', '5', '--shared', '--sliding'],
      'usage',
    ],
    ['status, shared', ['status', '--shared'], 'usage'],
    ['set without a window', ['set', '--limit', '5'], 'usage'],
    ['set without a limit', ['set', '--window', '5'], 'usage'],
    ['a limit of 0', ['set', '--limit', '0', '--window', '5'], 'usage'],
    ['a limit beyond 2^31 - 1', ['set', '--limit', '2147483648', '--window', '5'], 'usage'],
    [
      'a moment that was',
      ['set', '--limit', '1', '--window', '5', '--until', '2001-01-01T00:00:00Z'],
      'invalid_argument',
    ],
    ['clear with a limit', ['clear', '--limit', '5'], 'usage'],
    ['status with an end', ['status', '--until', LATER], 'usage'],
    ['clear, sliding', ['clear', '--sliding'], 'usage'],
  ])('refuses %s and changes nothing', async (_, words, code) => {
    const ran = await rateLimit(...words)
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toMatchObject({ error: { code } })
    expect((await rateLimit('status')).json()).toEqual(providers())
  })
})

it.each([
  ['circuit', ['open'], { circuit_breaker: { overrides_enabled: false } }, { override: null }],
  [
    'rate-limit',
    ['set', '--limit', '5', '--window', '10'],
    { rate_limiting: { overrides_enabled: false } },
    { source: 'provider', limit: 60 },
  ],
] as const)('%s %j with %j says that nothing obeys it', async (command, words, config, shown) => {
  const providers = { limited: { defaultRateLimit: () => RateLimit.perMinute(60) } }
  const idle = testIntegrations(database.url, { encryptionKeys: KEY, providers, config })
  const ran = await runCommand(idle.integrations, [command, String(integration.id), ...words, '--json'])
  const err = 'The override is stored, and nothing obeys it: '
  expect(ran).toMatchObject({ exitCode: 0, err: expect.stringContaining(err) })
  expect(ran.json()).toMatchObject(shown)
  await idle.close()
})

it.each([
  ['circuit', [String(NEVER), 'open']],
  ['rate-limit', [String(NEVER), 'clear']],
  ['test', [String(NEVER)]],
])('%s of an integration that does not exist ends with 1', async (command, words) => {
  const ran = await run(command, ...words, '--json')
  expect(ran.exitCode).toBe(1)
  expect(ran.json()).toMatchObject({ error: { code: 'integration_not_found' } })
})

describe('test', () => {
  const passed = (id: number) => ({ id, ok: true, duration_ms: expect.any(Number), error: null })

  it('ends with 0 where no provider has a health check', async () => {
    const { id } = await makeIntegration(test, 'plain')
    expect(await run('test', String(id))).toMatchObject({ exitCode: 0, out: expect.stringContaining('Nothing to ask') })
    expect((await run('test', '--json')).json()).toEqual([])
  })

  it('of one whose provider is not registered says so, and of all leaves it out', async () => {
    const { id } = await makeIntegration(test, 'checked')
    await setIntegration(test, id, { provider: 'gone' })
    const ran = await run('test', String(id), '--json')
    expect([ran.exitCode, ran.json()]).toEqual([1, { error: expect.objectContaining({ code: 'unknown_provider' }) }])
    expect(await run('test', '--json')).toMatchObject({ exitCode: 0, out: '[]\n' })
    await test.integrations.delete(id)
  })

  it('asks those that are switched on, five at once, and ends with 1 if one says no', async () => {
    const ids: number[] = []
    for (let n = 0; n < 7; n += 1) ids.push((await makeIntegration(test, 'checked')).id)
    const off = await makeIntegration(test, 'checked', { isActive: false })
    const fifth = occasion()
    const started: number[] = []
    let most = 0
    let underWay = 0
    healthCheck = async ({ id }) => {
      started.push(id)
      underWay += 1
      most = Math.max(most, underWay)
      if (started.length === 5) fifth.happen()
      await fifth.happened
      underWay -= 1
      if (id === ids[1]) throw new Error(`401 for ${TOKEN}`)
      return id !== ids[3]
    }
    const ran = await run('test', '--json')
    expect(ran.exitCode).toBe(1)
    const wrong = { 1: 'Error: 401 for [REDACTED]', 3: 'The health check did not answer true.' }
    expect(ran.json()).toEqual(
      ids.map((id, n) => ({ ...passed(id), ...(n in wrong && { ok: false, error: wrong[n as 1 | 3] }) })),
    )
    expect(most).toBe(5)
    healthCheck = () => true
    expect((await run('test', String(off.id), '--json')).json()).toEqual([passed(off.id)])
    for (const id of ids) await test.integrations.delete(id)
  })

  it('of all that is broken off in a worker gives no part for the whole: another worker begins again', async () => {
    const ids: number[] = []
    for (let n = 0; n < 7; n += 1) ids.push((await makeIntegration(test, 'checked')).id)
    const stop = new AbortController()
    healthCheck = () => {
      stop.abort()
      return true
    }
    const call = { command: 'test', input: {}, by: 'workflow:w', signal: stop.signal }
    expect(await runInWorker(test.integrations, call)).toMatchObject({ exitCode: 130 })
    healthCheck = () => true
    for (const id of ids) await test.integrations.delete(id)
  })

  it('counts by the requests that the check makes, else as a success or by the class of its error', async () => {
    const { id } = await makeIntegration(test, 'checked')
    const health = async () => (await test.integrations.get(id)).healthStatus
    const requests = async () => {
      const [row] = await test.sql`select count(*)::int as n from integration_requests where integration_id = ${id}`
      return row?.n
    }
    const failing = (status: number) => Object.assign(new Error('no'), { status })
    const check = async (by: typeof healthCheck, exitCode: number) => {
      healthCheck = by
      expect((await run('test', String(id))).exitCode).toBe(exitCode)
    }
    await check(() => Promise.reject(failing(401)), 1)
    await check(() => false, 1)
    expect(await health()).toBe('healthy')
    await check(() => Promise.reject(failing(503)), 1)
    expect(await health()).toBe('degraded')
    await check(() => true, 0)
    expect([await health(), await requests()]).toEqual(['healthy', 0])

    // One request that fails: counted once, not again for the check.
    await check((of) => of.request('me', 'GET', () => Promise.reject(failing(503)), { attempts: 1 }), 1)
    const [row] = await test.sql`select consecutive_failures as n from integrations where id = ${id}`
    expect([row?.n, await health(), await requests()]).toEqual([1, 'degraded', 1])
    // A request that was caught counts as it ended, whatever the check makes of it.
    await check(async (of) => {
      await of.request('me', 'GET', () => Promise.reject(failing(404)), { attempts: 1 }).catch(() => {})
      return true
    }, 0)
    expect(await health()).toBe('degraded')
    await test.integrations.delete(id)
  })

  it('says why by the latest request that failed, where the check itself answers false', async () => {
    const { id } = await makeIntegration(test, 'checked')
    healthCheck = async (of) => {
      for (const path of ['first', 'second'])
        await of.request(path, 'GET', () => Promise.reject(new Error(`${path} refused ${TOKEN}`))).catch(() => {})
      await of.request('third', 'GET', () => 'fine')
      return false
    }
    const error = 'The health check did not answer true. What failed last: Error: second refused [REDACTED]'
    expect((await run('test', String(id), '--json')).json()).toEqual([{ ...passed(id), ok: false, error }])
    healthCheck = () => true
    await test.integrations.delete(id)
  })

  it('of a call for tokens tells the kind of the error alone, also where the call that wanted the token throws it on', async () => {
    const { id } = await makeIntegration(test, 'checked')
    const token = (of: Integration) =>
      insideTokenWork(test.framework, of.id, () =>
        of.request('token', 'POST', () => Promise.reject(new Error('it gave fresh-token-that-nobody-has-stored'))),
      )
    const check = async (by: typeof healthCheck) => {
      healthCheck = by
      return (await checkIntegrationHealth(test.framework, id))?.error
    }
    const caught = 'The health check did not answer true. What failed last: Error'
    expect(
      await check((of) =>
        token(of).then(
          () => true,
          () => false,
        ),
      ),
    ).toBe(caught)
    expect(
      await check((of) =>
        of
          .request('me', 'GET', () => token(of))
          .then(
            () => true,
            () => false,
          ),
      ),
    ).toBe(caught)
    expect(await check((of) => token(of).then(() => true))).toBe('Error')
    const stored = await test.sql`select distinct error from integration_requests where integration_id = ${id}`
    expect(stored.map(({ error }) => error)).toEqual(['Error'])
    healthCheck = () => true
    await test.integrations.delete(id)
  })

  it('switches nothing on again', async () => {
    const { id } = await makeIntegration(test, 'checked')
    await setIntegration(test, id, { healthStatus: 'disabled', isActive: false, consecutiveFailures: 50 })
    healthCheck = () => true
    expect((await run('test', String(id), '--json')).json()).toEqual([passed(id)])
    const [row] =
      await test.sql`select is_active, health_status, consecutive_failures from integrations where id = ${id}`
    expect(row).toEqual({ is_active: false, health_status: 'disabled', consecutive_failures: 0 })
  })
})
