/** Which integrations count as stale, and that each edge is told once. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const INTERVAL_MINUTES = 10
const LIMIT_SECONDS = INTERVAL_MINUTES * 60 * 10

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider(() => {}, { defaultSyncInterval: () => INTERVAL_MINUTES }),
      halves: syncProvider(() => {}, { defaultSyncInterval: () => 7.5 }),
      'by-hand': syncProvider(() => {}, { defaultSyncInterval: () => null }),
      unscheduled: {},
      mute: syncProvider(() => {}, {
        defaultSyncInterval: () => {
          throw new Error('no interval to be had')
        },
      }),
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
})

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const LONG = ago(1_000_000)
const DAY_AGO = ago(86_401)
/** So long ago once it is asked for: the table below is made long before its tests run. */
const syncedAgo = (seconds: number) => ({
  get lastSyncedAt() {
    return ago(seconds)
  },
})

describe('becoming stale', () => {
  it.each([
    ['just over ten intervals since its last clean run', 'acme', { lastSyncedAt: ago(LIMIT_SECONDS + 5) }, true],
    ['just under', 'acme', syncedAgo(LIMIT_SECONDS - 60), false],
    ['never clean, created long ago', 'acme', { createdAt: LONG }, true],
    ['never clean, created just now', 'acme', { lastSyncedAt: null }, false],
    ['switched off', 'acme', { lastSyncedAt: LONG, isActive: false }, false],
    ['of disabled health', 'acme', { lastSyncedAt: LONG, healthStatus: 'disabled' }, false],
    ['of a provider that is not registered', 'acme', { lastSyncedAt: LONG, provider: 'gone' }, false],
    ['of a provider without sync()', 'unscheduled', { lastSyncedAt: LONG }, false],
    ['run by hand only', 'by-hand', { lastSyncedAt: LONG }, false],
    ['just over ten intervals that are no whole minutes', 'halves', { lastSyncedAt: ago(4_505) }, true],
    ['just under ten of those', 'halves', syncedAgo(4_440), false],
    ['with an interval of its own', 'by-hand', { lastSyncedAt: LONG, syncIntervalMinutes: 5 }, true],
    [
      'late by the backed-off interval, which does not count',
      'acme',
      { lastSyncedAt: ago(LIMIT_SECONDS + 5), consecutiveSyncFailures: 9 },
      true,
    ],
  ] as const)('an integration that is %s', async (_, provider, values, isStale) => {
    const { id } = await makeIntegration(test, provider)
    await setIntegration(test, id, values)
    const { stale } = await evaluateStaleSyncs(test.framework)
    expect(stale.map(({ integrationId }) => integrationId)).toEqual(isStale ? [id] : [])
    expect(await isMarked(id)).toBe(isStale)
  })

  it('is told once, with the interval and the seconds', async () => {
    const told = vi.fn()
    listen(test, 'SyncBecameStale', told)
    const { id } = await makeIntegration(test, 'acme')
    await setIntegration(test, id, { lastSyncedAt: ago(LIMIT_SECONDS + 100) })
    await evaluateStaleSyncs(test.framework)
    await evaluateStaleSyncs(test.framework)
    expect(told).toHaveBeenCalledTimes(1)
    const [{ integration, secondsSinceSync, intervalMinutes }] = told.mock.calls[0] as [Record<string, never>]
    expect(integration).toMatchObject({ id })
    expect(intervalMinutes).toBe(INTERVAL_MINUTES)
    expect(secondsSinceSync).toBeGreaterThanOrEqual(LIMIT_SECONDS + 100)
  })
})

describe('recovering', () => {
  it.each([
    ['synced clean since', 'acme', { lastSyncedAt: ago(5) }, true],
    ['late still', 'acme', { lastSyncedAt: LONG }, false],
    [
      'late by a shorter interval than its own',
      'acme',
      { lastSyncedAt: ago(LIMIT_SECONDS + 60), syncIntervalMinutes: 60 },
      true,
    ],
    ['run by hand only now', 'by-hand', { lastSyncedAt: LONG }, true],
    ['of a provider that fails to say its interval', 'mute', { lastSyncedAt: LONG }, false],
    ['of such a provider, with an interval of its own', 'mute', { lastSyncedAt: ago(5), syncIntervalMinutes: 5 }, true],
    ['of a provider that has no sync any more', 'unscheduled', { syncStaleAlertedAt: DAY_AGO }, true],
    ['of such a provider, and switched off', 'unscheduled', { syncStaleAlertedAt: DAY_AGO, isActive: false }, true],
    ['of such a provider, and stale for less than a day', 'unscheduled', { lastSyncedAt: LONG }, false],
    ['switched off, and so keeps its marker', 'acme', { lastSyncedAt: ago(5), isActive: false }, false],
    ['of a provider that is not registered', 'acme', { lastSyncedAt: ago(5), provider: 'gone' }, false],
  ] as const)('a stale integration that is %s', async (_, provider, values, recovers) => {
    const told = vi.fn()
    listen(test, 'SyncStalenessRecovered', told)
    const { id } = await makeIntegration(test, provider)
    await setIntegration(test, id, { syncStaleAlertedAt: new Date(), ...values })
    expect((await evaluateStaleSyncs(test.framework)).recovered).toEqual(recovers ? [id] : [])
    await evaluateStaleSyncs(test.framework)
    expect(told).toHaveBeenCalledTimes(recovers ? 1 : 0)
    expect(await isMarked(id)).toBe(!recovers)
  })
})

it('two evaluations at once tell each edge once', async () => {
  const [became, recovered] = [vi.fn(), vi.fn()]
  listen(test, 'SyncBecameStale', became)
  listen(test, 'SyncStalenessRecovered', recovered)
  await test.sql`
    insert into integrations (provider, name, credentials, last_synced_at, sync_stale_alerted_at)
    select 'acme', 'of a test', 'sealed',
           case when n % 2 = 0 then now() - interval '9 days' else now() end, case when n % 2 = 1 then now() end
    from generate_series(1, 60) n`
  const results = await Promise.all(Array.from({ length: 4 }, () => evaluateStaleSyncs(test.framework)))
  // Rows that a neighbour held were left to the next evaluation.
  results.push(await evaluateStaleSyncs(test.framework))
  expect(results.flatMap(({ stale }) => stale)).toHaveLength(30)
  expect(results.flatMap((result) => result.recovered)).toHaveLength(30)
  expect([became.mock.calls.length, recovered.mock.calls.length]).toEqual([30, 30])
})

it('a thousand at a time, the rest with the next evaluation', async () => {
  await test.sql`
    insert into integrations (provider, name, credentials, last_synced_at)
    select 'acme', 'of a test', 'sealed', now() - interval '9 days' from generate_series(1, 1100) n`
  expect((await evaluateStaleSyncs(test.framework)).stale).toHaveLength(1_000)
  expect((await evaluateStaleSyncs(test.framework)).stale).toHaveLength(100)
  expect((await evaluateStaleSyncs(test.framework)).stale).toHaveLength(0)
})

it('waits 30 s for all listeners together: no sync begins before the dispatch ends', async () => {
  const begun = occasion()
  const told: number[] = []
  listen(test, 'SyncBecameStale', ({ integration }: IntegrationEvents['SyncBecameStale']) => {
    told.push(integration.id)
    begun.happen()
    return new Promise(() => {})
  })
  const ids = [(await makeIntegration(test, 'acme')).id, (await makeIntegration(test, 'acme')).id]
  for (const id of ids) await setIntegration(test, id, { lastSyncedAt: LONG })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const evaluated = evaluateStaleSyncs(test.framework)
    await begun.happened
    vi.advanceTimersByTime(30_000)
    expect((await evaluated).stale).toHaveLength(2)
  } finally {
    vi.useRealTimers()
  }
  expect(told.sort((a, b) => a - b)).toEqual(ids)
  expect(test.lines.filter(({ fields }) => fields.event === 'listener.given_up')).toHaveLength(2)
})

async function isMarked(id: number): Promise<boolean> {
  const [row] = await test.sql`select sync_stale_alerted_at is not null as marked from integrations where id = ${id}`
  return row?.marked as boolean
}
