/** Looking at and overriding breaker and limiter. */
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallState } from '../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../src/calls/admission/state-rules.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import type { EventName } from '../../src/events/events.ts'
import type { CircuitView, Integration, RateLimitView } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const START = new Date('2031-05-01T12:00:00.000Z')
const KEY = encryptionKey('test')
const clock = new ManualClock(START)

let database: TestDatabase
let test: TestIntegrations

const options: IntegrationsOptions = {
  encryptionKeys: KEY,
  clock,
  providers: { plain: {}, limited: { defaultRateLimit: () => RateLimit.perMinute(3) } },
  config: { circuit_breaker: { minimum_requests: 4, cooldown_seconds: 30 }, rate_limiting: { max_wait_seconds: 0 } },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, options)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const CLOSED: CircuitView = {
  override: null,
  overrideUntil: null,
  state: 'closed',
  failures: 0,
  failureRate: null,
  openedAt: null,
  retryAt: null,
}

const later = (seconds: number, from = clock.now()): Date => new Date(from.getTime() + seconds * 1_000)

async function succeed(integration: Integration): Promise<void> {
  await integration.request('things', 'GET', () => 'fine')
}

async function fail(integration: Integration): Promise<void> {
  const refused = Object.assign(new Error('no'), { status: 503 })
  const call = integration.request('things', 'GET', () => Promise.reject(refused), { attempts: 1 })
  await expect(call).rejects.toBe(refused)
}

async function trip(integration: Integration): Promise<void> {
  for (let n = 0; n < 4; n += 1) await fail(integration)
}

async function stateOf(id: number): Promise<CallState> {
  const [row] =
    await test.sql`select value from integration_cache where key = ${`integrations:integration:${id}:calls`}`
  return row?.value
}

/** The names that arrive, in order, with what is particular to each. */
function heard(...names: EventName[]): unknown[] {
  const events: unknown[] = []
  for (const name of names)
    listen(test, name, ({ integration, ...rest }: { integration: Integration }) => {
      events.push({ name, id: integration.id, ...rest })
    })
  return events
}

describe('circuit()', () => {
  it('is closed before the first call', async () => {
    expect(await (await makeIntegration(test, 'plain')).circuit()).toEqual(CLOSED)
  })

  it('counts the upstream failures of the window and their rate', async () => {
    const integration = await makeIntegration(test, 'plain')
    await succeed(integration)
    await succeed(integration)
    await fail(integration)
    expect(await integration.circuit()).toEqual({ ...CLOSED, failures: 1, failureRate: 100 / 3 })
    clock.advance(61)
    expect(await integration.circuit()).toEqual(CLOSED)
  })

  it('is open until the probe, also past the cooldown, and says when the probe may be made', async () => {
    const integration = await makeIntegration(test, 'plain')
    await trip(integration)
    const openedAt = clock.now()
    const open = { ...CLOSED, state: 'open', openedAt, retryAt: later(30, openedAt) }
    expect(await integration.circuit()).toEqual(open)
    clock.advance(30)
    expect(await integration.circuit()).toEqual(open)
    const halfOpen: CircuitView[] = []
    await integration.request('things', 'GET', async () => {
      halfOpen.push(await integration.circuit())
    })
    expect(halfOpen).toEqual([{ ...CLOSED, state: 'half_open', openedAt }])
    expect(await integration.circuit()).toEqual(CLOSED)
  })

  it('that a clock ahead has opened may be tried at once when the clock is right again', async () => {
    const integration = await makeIntegration(test, 'plain')
    const now = clock.now()
    clock.advance(3_600)
    await trip(integration)
    clock.set(now)
    expect(await integration.circuit()).toMatchObject({ state: 'open', openedAt: later(3_600, now), retryAt: now })
    await succeed(integration)
    expect(await integration.circuit()).toEqual(CLOSED)
  })

  it('is closed where the breaker is switched off', async () => {
    const integration = await makeIntegration(test, 'plain')
    await trip(integration)
    const off = testIntegrations(database.url, { ...options, config: { circuit_breaker: { enabled: false } } })
    expect(await (await off.integrations.get(integration.id)).circuit()).toEqual(CLOSED)
    await off.close()
  })

  it('counts failures in a row under the strategy count, from nothing after a change of strategy', async () => {
    const integration = await makeIntegration(test, 'plain')
    await fail(integration)
    const counting = testIntegrations(database.url, { ...options, config: { circuit_breaker: { strategy: 'count' } } })
    const same = await counting.integrations.get(integration.id)
    expect(await same.circuit()).toEqual(CLOSED)
    await fail(same)
    await fail(same)
    expect(await same.circuit()).toEqual({ ...CLOSED, failures: 2 })
    await counting.close()
  })

  it('of an integration that is gone', async () => {
    const integration = await makeIntegration(test, 'plain')
    await test.integrations.delete(integration.id)
    for (const ask of [integration.circuit, integration.rateLimit])
      await expect(ask()).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})

describe('overrideCircuit()', () => {
  it('forced_open refuses every call without a probe, and tells', async () => {
    const integration = await makeIntegration(test, 'plain')
    const events = heard('CircuitOpened', 'CircuitClosed', 'IncidentOpened')
    await integration.overrideCircuit('forced_open')
    expect(events).toEqual([
      { name: 'CircuitOpened', id: integration.id, reason: 'forced_open', openedAt: clock.now() },
    ])
    expect(await integration.circuit()).toEqual({ ...CLOSED, override: 'forced_open', state: 'open' })
    clock.advance(3_600)
    const refusal = { code: 'circuit_open', openedAt: null, retryAfterSeconds: null }
    await expect(succeed(integration)).rejects.toMatchObject(refusal)
    const [incidents] =
      await test.sql`select count(*)::int as n from integration_incidents where integration_id = ${integration.id}`
    expect(incidents?.n).toBe(0)
  })

  it.each([
    ['forced_closed', [{ name: 'CircuitClosed', reason: 'forced_closed' }]],
    ['disabled', []],
  ] as const)('%s lets calls through an open breaker and counts none of them', async (override, told) => {
    const integration = await makeIntegration(test, 'plain')
    await trip(integration)
    const events = heard('CircuitOpened', 'CircuitClosed', 'IncidentClosed')
    await integration.overrideCircuit(override)
    expect(events).toEqual(told.map((event) => ({ ...event, id: integration.id })))
    const [incident] = await test.sql`select status from integration_incidents where integration_id = ${integration.id}`
    expect(incident?.status).toBe('open')
    await trip(integration)
    await succeed(integration)
    expect(await integration.circuit()).toEqual({ ...CLOSED, override })
  })

  it('null gives the breaker back to itself: closed and empty, without an event', async () => {
    const integration = await makeIntegration(test, 'plain')
    await trip(integration)
    const before = await stateOf(integration.id)
    const events = heard('CircuitOpened', 'CircuitClosed')
    await integration.overrideCircuit(null)
    expect(await integration.circuit()).toEqual(CLOSED)
    const { breaker } = await stateOf(integration.id)
    expect(breaker).toEqual({ ...CLOSED_BREAKER, generation: before.breaker.generation + 1 })
    await fail(integration)
    expect(await integration.circuit()).toEqual({ ...CLOSED, failures: 1, failureRate: 100 })
    expect(events).toEqual([])
  })

  it('a call under way when it is set no longer counts', async () => {
    const integration = await makeIntegration(test, 'plain')
    const call = integration.request(
      'things',
      'GET',
      async () => {
        await integration.overrideCircuit(null)
        throw Object.assign(new Error('no'), { status: 503 })
      },
      { attempts: 1 },
    )
    await expect(call).rejects.toThrow('no')
    expect(await integration.circuit()).toEqual(CLOSED)
  })

  it('ends at its moment, which clears the columns', async () => {
    const integration = await makeIntegration(test, 'plain')
    const until = later(60)
    await integration.overrideCircuit('forced_open', until)
    clock.advance(59.999)
    expect(await integration.circuit()).toMatchObject({ override: 'forced_open', overrideUntil: until, state: 'open' })
    await expect(succeed(integration)).rejects.toMatchObject({ code: 'circuit_open' })
    clock.advance(0.001)
    await succeed(integration)
    expect(await integration.circuit()).toEqual({ ...CLOSED, failureRate: 0 })
    const [row] = await test.sql`
      select circuit_override, circuit_override_until from integrations where id = ${integration.id}`
    expect(row).toEqual({ circuit_override: null, circuit_override_until: null })
  })

  it.each<[string, (integration: Integration) => Promise<unknown>]>([
    ['a look', (integration) => integration.circuit()],
    ['a call', succeed],
  ])(
    'written into the columns over an open breaker, it leaves it closed and empty at its end, seen first by %s',
    async (_, see) => {
      const integration = await makeIntegration(test, 'plain')
      await trip(integration)
      const { generation } = (await stateOf(integration.id)).breaker
      await setIntegration(test, integration.id, { circuitOverride: 'disabled', circuitOverrideUntil: later(1) })
      await fail(integration)
      clock.advance(1)
      await see(integration)
      expect(await integration.circuit()).toMatchObject({ override: null, state: 'closed', failures: 0, retryAt: null })
      expect((await stateOf(integration.id)).breaker).toMatchObject({ state: 'closed', generation: generation + 1 })
    },
  )

  it.each<[string, unknown, unknown, string]>([
    ['another word', 'open', undefined, 'circuit override'],
    ['a moment that is now', 'forced_open', START, 'until'],
    ['a moment that was', 'forced_open', new Date(0), 'until'],
    ['no moment', 'forced_open', new Date(Number.NaN), 'until'],
    ['a text', 'forced_open', '2099-01-01', 'until'],
    ['a year of five digits', 'forced_open', new Date('+010000-01-01T00:00:00Z'), 'until'],
    ['an end of nothing', null, new Date('2099-01-01'), 'until'],
  ])('refuses %s and changes nothing', async (_, to, until, argument) => {
    const integration = await makeIntegration(test, 'plain')
    await trip(integration)
    const before = await stateOf(integration.id)
    await expect(integration.overrideCircuit(to as never, until as never)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
    expect(await stateOf(integration.id)).toEqual(before)
    expect((await integration.circuit()).override).toBeNull()
  })

  it('leaves no state behind for an integration that is gone', async () => {
    const integration = await makeIntegration(test, 'plain')
    await test.integrations.delete(integration.id)
    await expect(integration.overrideCircuit('disabled')).rejects.toMatchObject({ code: 'integration_not_found' })
    expect(await stateOf(integration.id)).toBeUndefined()
  })

  it('is stored and not obeyed where overrides are switched off, with a warning and no event', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const config = { circuit_breaker: { overrides_enabled: false }, rate_limiting: { overrides_enabled: false } }
    const off = testIntegrations(database.url, { ...options, config })
    const events: unknown[] = []
    off.integrations.on('CircuitOpened', (event) => events.push(event))
    const integration = await off.integrations.get(id)
    await integration.overrideCircuit('forced_open')
    await integration.overrideRateLimit(RateLimit.perMinute(1))
    await succeed(integration)
    await succeed(integration)
    expect(await integration.circuit()).toMatchObject({ override: null, state: 'closed' })
    expect(await integration.rateLimit()).toMatchObject({ source: 'none' })
    expect(events).toEqual([])
    expect(off.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      expect.stringContaining('circuit_breaker.overrides_enabled is false'),
      expect.stringContaining('rate_limiting.overrides_enabled is false'),
    ])
    await off.close()
  })

  it('leaves an open breaker open where overrides are switched off', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await trip(await test.integrations.get(id))
    const config = { circuit_breaker: { minimum_requests: 4, overrides_enabled: false } }
    const off = testIntegrations(database.url, { ...options, config })
    const integration = await off.integrations.get(id)
    for (const to of ['forced_closed', 'disabled', 'forced_open', null] as const) {
      await integration.overrideCircuit(to)
      expect(await integration.circuit()).toMatchObject({ override: null, state: 'open' })
    }
    await off.close()
  })
})

describe('rateLimit()', () => {
  const NONE: RateLimitView = {
    source: 'none',
    limit: null,
    windowSeconds: null,
    window: null,
    used: 0,
    overrideUntil: null,
    setBy: null,
    setAt: null,
    suppressedUntil: null,
    shared: null,
  }
  const PROVIDERS: RateLimitView = { ...NONE, source: 'provider', limit: 3, windowSeconds: 60, window: 'fixed' }

  it('is none where the provider declares none', async () => {
    const integration = await makeIntegration(test, 'plain')
    await succeed(integration)
    expect(await integration.rateLimit()).toEqual(NONE)
  })

  it("is the provider's, with what is used of it", async () => {
    const integration = await makeIntegration(test, 'limited')
    expect(await integration.rateLimit()).toEqual(PROVIDERS)
    await succeed(integration)
    await succeed(integration)
    expect(await integration.rateLimit()).toEqual({ ...PROVIDERS, used: 2 })
    clock.advance(60)
    expect(await integration.rateLimit()).toEqual(PROVIDERS)
  })

  it('is an override until its moment, which clears the columns', async () => {
    const integration = await makeIntegration(test, 'limited')
    const overrideUntil = later(90)
    await integration.overrideRateLimit(RateLimit.per(1, 30).sliding(), overrideUntil)
    await succeed(integration)
    const overridden = { limit: 1, windowSeconds: 30, window: 'sliding', overrideUntil, source: 'override' }
    expect(await integration.rateLimit()).toEqual({ ...PROVIDERS, ...overridden, used: 1 })
    await expect(succeed(integration)).rejects.toMatchObject({
      code: 'rate_limit_exceeded',
      retryAfterSeconds: 30,
      rateLimit: { limit: 1, seconds: 30, window: 'sliding' },
    })
    clock.advance(90)
    expect(await integration.rateLimit()).toEqual(PROVIDERS)
    const [row] = await test.sql`
      select rate_limit_override, rate_limit_override_until from integrations where id = ${integration.id}`
    expect(row).toEqual({ rate_limit_override: null, rate_limit_override_until: null })
  })

  it("null gives the provider's back, its count kept", async () => {
    const integration = await makeIntegration(test, 'limited')
    await succeed(integration)
    await integration.overrideRateLimit(RateLimit.perMinute(1))
    await expect(succeed(integration)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
    await integration.overrideRateLimit(null)
    expect(await integration.rateLimit()).toEqual({ ...PROVIDERS, used: 1 })
  })

  it.each([[{ limit: 0, windowSeconds: 1, window: 'fixed' }], [{ limit: 1 }], ['1/s'], [[]]])(
    'ignores a column that holds %j',
    async (rateLimitOverride) => {
      const integration = await makeIntegration(test, 'limited')
      await setIntegration(test, integration.id, { rateLimitOverride })
      expect(await integration.rateLimit()).toEqual(PROVIDERS)
      await succeed(integration)
    },
  )

  it('says until when the provider has asked for quiet, as long as that lies ahead', async () => {
    const integration = await makeIntegration(test, 'limited')
    const call = integration.request(
      'things',
      'GET',
      ({ report }) => {
        report({ retryAfterSeconds: 40 })
        throw Object.assign(new Error('slow down'), { status: 429 })
      },
      { attempts: 1 },
    )
    await expect(call).rejects.toThrow('slow down')
    const suppressedUntil = later(40)
    expect(await integration.rateLimit()).toEqual({ ...PROVIDERS, used: 1, suppressedUntil })
    await integration.overrideRateLimit(RateLimit.perMinute(100))
    expect(await integration.rateLimit()).toMatchObject({ source: 'override', suppressedUntil })
    clock.advance(40)
    expect((await integration.rateLimit()).suppressedUntil).toBeNull()
  })

  it.each<[string, unknown, unknown, string]>([
    ['no limit', { limit: 0, seconds: 1, window: 'fixed' }, undefined, 'rate limit'],
    ['a fraction', { limit: 1.5, seconds: 1, window: 'fixed' }, undefined, 'rate limit'],
    ['no window', { limit: 1, seconds: 1 }, undefined, 'rate limit'],
    ['what no admission reads', { limit: 1, seconds: 2 ** 31, window: 'fixed' }, undefined, 'rate limit'],
    ['a number', 5, undefined, 'rate limit'],
    ['a moment that is now', RateLimit.perDay(1), START, 'until'],
    ['an end of nothing', null, new Date('2099-01-01'), 'until'],
  ])('can not be overridden by %s', async (_, limit, until, argument) => {
    const integration = await makeIntegration(test, 'limited')
    await expect(integration.overrideRateLimit(limit as never, until as never)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
    expect(await integration.rateLimit()).toEqual(PROVIDERS)
  })
})

describe('many at the same moment', () => {
  it('overrides and calls of one integration end without a deadlock, each in one piece', async () => {
    const integration = await makeIntegration(test, 'limited')
    await integration.overrideRateLimit(RateLimit.perMinute(1_000))
    const work = Array.from({ length: 60 }, (_, n) => {
      if (n % 6 === 0) return integration.overrideCircuit(n % 12 === 0 ? 'forced_closed' : null)
      if (n % 6 === 1) return integration.recordFailure('upstream')
      return succeed(integration)
    })
    expect((await Promise.allSettled(work)).filter(({ status }) => status === 'rejected')).toEqual([])
    expect((await stateOf(integration.id)).breaker).toMatchObject({ state: 'closed', generation: 10 })
  })

  it('first calls of an integration, which make its rows, end without a deadlock', async () => {
    const integration = await makeIntegration(test, 'plain')
    const sessions = 6
    const sql = postgres(database.url, { max: sessions, fetch_types: false, connection: { deadlock_timeout: 20 } })
    try {
      // Each begins at its own moment within the few statements of the others.
      for (let round = 0; round < 150; round += 1)
        await Promise.all(
          Array.from(
            { length: sessions },
            () => sql`select integration_lock_calls(${integration.id}, ${`first-calls-${round}`})`,
          ),
        )
    } finally {
      await sql.end()
    }
  })
})
