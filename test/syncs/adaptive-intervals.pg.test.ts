/** The interval of a stream that declares bounds, by what its runs show and what the limits leave. Rule: docs/behaviour/sync-adaptive.md. */
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { MAX_INTEGER } from '../../src/db/schema/columns.ts'
import type { HasStreams, SyncStream } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { changesPerSecond, intervalAt, priceFor, quotaBudget } from '../../src/syncs/adaptive-rules.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { dueStreams, roundSeconds } from '../../src/syncs/due.ts'
import { quotaPrice } from '../../src/syncs/plan-next.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const BOUNDS = { least: 60, most: 3_600 }
const QUOTA = RateLimit.perMinute(60)

let database: TestDatabase
let test: TestIntegrations
let lists: (session: SyncSession) => Promise<void> | void
let limit: RateLimit | null
let quota: RateLimit | null
const clock = new ManualClock('2031-06-01T12:00:00Z')

const crm: HasStreams = {
  defaultRateLimit: () => limit,
  syncQuota: () => quota,
  streams: {
    contacts: {
      everySeconds: BOUNDS,
      sync: async (_integration, session) => lists(session),
      reduceCheckpoints: reduceCheckpointsByMax,
      events: [ThingSynced],
    },
    deals: { everySeconds: 600, sync: async () => {}, reduceCheckpoints: reduceCheckpointsByMax },
  },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { crm }, clock, config: { sync: { item_tries: 1 } } })
  test.integrations.on(ThingSynced, ({ payload }) => {
    if (payload.n < 0) throw new Error('poison')
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  lists = () => {}
  limit = null
  quota = null
  // The price of a quota is kept for a minute.
  clock.advance(61_000)
})

const listsThings =
  (...things: readonly (readonly [n: number, minute: number])[]) =>
  async (session: SyncSession) => {
    for (const [n, minute] of things)
      await session.dispatch(new ThingSynced(session.integration, { n }), at(minute), String(n))
  }
const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString()
const run = ({ id }: Integration, stream = 'contacts') =>
  runSync(test.framework, new ManualClock(new Date().toISOString()), { integrationId: id, stream })

async function rowOf({ id }: Integration) {
  const { streams } = test.framework.tables
  const rows = await test.framework.db.select().from(streams).where(eq(streams.integrationId, id))
  const row = rows.find(({ stream }) => stream === 'contacts')
  if (row === undefined) throw new Error('the stream has no row')
  return row
}

/** As if the last run had begun so long ago. */
async function elapse({ id }: Integration, seconds: number): Promise<void> {
  await test.sql`update integration_streams set observed_at = observed_at - make_interval(secs => ${seconds})
    where integration_id = ${id}`
}

async function waits({ id }: Integration): Promise<number> {
  const [row] = await test.sql<{ seconds: number }[]>`
    select extract(epoch from next_sync_at - updated_at)::float8 as seconds
    from integration_streams where integration_id = ${id} and stream = 'contacts'`
  return row?.seconds ?? Number.NaN
}

describe('what a run shows', () => {
  it('is nothing in the first run, which lists what there is', async () => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([1, 1], [2, 2])
    await run(integration)
    expect(await rowOf(integration)).toMatchObject({ changesSeen: 0, secondsSeen: 0, callsPerRun: null })
  })

  it('is each record beyond the cursor, and not what is listed again', async () => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([1, 1], [2, 2])
    await run(integration)
    await elapse(integration, 1_000)
    lists = listsThings([1, 1], [2, 2], [3, 3], [4, 4], [5, 4])
    await run(integration)
    const { changesSeen, secondsSeen } = await rowOf(integration)
    expect(changesSeen).toBe(3)
    expect(secondsSeen).toBeGreaterThanOrEqual(1_000)
    expect(secondsSeen).toBeLessThan(1_060)
  })

  it.each([
    ['after a clock was set back', 0],
    ['of a row that an earlier release left without a number', Number.NaN],
  ])('is a number %s', async (_, before) => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([1, 1])
    await run(integration)
    await elapse(integration, -60)
    await test.sql`update integration_streams set changes_seen = ${before}, seconds_seen = ${before}
      where integration_id = ${integration.id}`
    lists = listsThings([2, 2])
    await run(integration)
    expect(await rowOf(integration)).toMatchObject({ changesSeen: 0, secondsSeen: 0, adaptiveReason: 'changes' })
    expect(await waits(integration)).toBeLessThan(BOUNDS.most)
  })

  it('lowers the rate where it found nothing, so that the interval grows', async () => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([1, 1])
    await run(integration)
    const first = await rowOf(integration)
    await elapse(integration, 40_000)
    await run(integration)
    const second = await rowOf(integration)
    expect(changesPerSecond(second, BOUNDS)).toBeLessThan(changesPerSecond(first, BOUNDS) / 100)
    expect(second.adaptiveSeconds).toBeGreaterThan(3 * (first.adaptiveSeconds as number))
    expect(second).toMatchObject({ changesSeen: 0, adaptiveReason: 'changes' })
    expect(await waits(integration)).toBeCloseTo(second.adaptiveSeconds as number, 0)
  })

  it.each([
    ['the run has a failed item', listsThings([1, 2]), listsThings([-1, 3], [4, 4])],
    ['the cursor is held by an item of an earlier run', listsThings([-9, 2]), listsThings([5, 5])],
  ])('is not counted while %s', async (_, earlier, listing) => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([1, 1])
    await run(integration)
    lists = earlier
    await run(integration)
    const before = await rowOf(integration)
    lists = listing
    await run(integration)
    const { changesSeen, secondsSeen, observedAt } = await rowOf(integration)
    expect({ changesSeen, secondsSeen, observedAt }).toEqual({
      changesSeen: before.changesSeen,
      secondsSeen: before.secondsSeen,
      observedAt: before.observedAt,
    })
  })

  it('with failures in a row waits for the adaptive interval, multiplied', async () => {
    const integration = await makeIntegration(test, 'crm')
    lists = listsThings([-1, 1])
    await run(integration)
    await run(integration)
    await run(integration)
    const { adaptiveSeconds, consecutiveSyncFailures } = await rowOf(integration)
    expect(consecutiveSyncFailures).toBe(3)
    expect(await waits(integration)).toBeCloseTo(4 * (adaptiveSeconds as number), 0)
  })
})

describe('the interval in force', () => {
  it('is the one that was set by hand; the figures are kept meanwhile', async () => {
    const integration = await makeIntegration(test, 'crm')
    await run(integration)
    await test.sql`update integration_streams set sync_interval_seconds = 300 where stream = 'contacts'`
    await elapse(integration, 500)
    await run(integration)
    expect(await waits(integration)).toBeCloseTo(300, 0)
    expect((await rowOf(integration)).secondsSeen).toBeGreaterThanOrEqual(500)
  })

  it('is multiplied by the wait for health', async () => {
    const integration = await makeIntegration(test, 'crm')
    await run(integration)
    const isDue = async (seconds: number) => {
      await test.sql`update integration_streams set adaptive_seconds = 1000, next_sync_at = null,
        last_synced_at = clock_timestamp() - make_interval(secs => ${seconds}), last_run_at = null`
      const declared = [
        { provider: 'crm', stream: 'contacts', seconds: 3_600, least: 60, after: null, staleSeconds: null },
      ]
      const { db, tables } = test.framework
      return (await dueStreams(db, tables, { declared, backoff: { degraded: 2, failing: MAX_INTEGER } }, 10)).length
    }
    await test.sql`update integrations set health_status = 'degraded'`
    expect([await isDue(1_990), await isDue(2_010)]).toEqual([0, 1])
    // The product is more than Postgres' intervals hold.
    await test.sql`update integrations set health_status = 'failing'`
    await test.sql`update integration_streams set sync_interval_seconds = ${MAX_INTEGER}`
    expect(await isDue(2_010)).toBe(0)
  })

  it('grows with the calls that the limit of the integration leaves, never beyond the longest', async () => {
    const integration = await makeIntegration(test, 'crm')
    const intervals: number[] = []
    // Each run lists two changes in 100 s: without a limit it would run at the shortest interval.
    for (const each of [null, RateLimit.perHour(40), RateLimit.perHour(8), RateLimit.perHour(1)]) {
      limit = each
      await test.sql`delete from integration_streams`
      lists = listsThings([1, 1])
      await run(integration)
      await elapse(integration, 100)
      lists = listsThings([2, 2], [3, 2])
      await run(integration)
      const { adaptiveSeconds, adaptiveReason } = await rowOf(integration)
      intervals.push(Math.round(adaptiveSeconds as number))
      expect(adaptiveReason).toBe(each === null ? 'changes' : 'limit')
    }
    // Half of 40 and of 8 calls an hour.
    expect(intervals.slice(1)).toEqual([180, 900, 3_600])
    expect(intervals[0]).toBeLessThan(100)
  })
})

describe('a stream with an adaptive interval', () => {
  it('is stale by its longest interval', async () => {
    const integration = await makeIntegration(test, 'crm')
    await run(integration)
    await run(integration, 'deals')
    const allowed = BOUNDS.most * test.framework.config.sync.stale_after_intervals
    const stale = async (seconds: number) => {
      await test.sql`update integration_streams set adaptive_seconds = 60,
        last_synced_at = clock_timestamp() - make_interval(secs => ${seconds}) where stream = 'contacts'`
      return (await evaluateStaleSyncs(test.framework)).stale.map(({ stream }) => stream)
    }
    expect([await stale(allowed - 10), await stale(allowed + 10)]).toEqual([[], ['contacts']])
  })

  it('has the dispatch come each 10 s where its shortest interval is below a minute', () => {
    const { providers } = test.framework
    const { contacts } = crm.streams
    expect(roundSeconds({ providers })).toBe(60)
    const everySeconds = { least: 59, most: 600 }
    providers.register('quick', { ...crm, streams: { contacts: { ...contacts, everySeconds } as SyncStream } })
    expect(roundSeconds({ providers })).toBe(10)
  })
})

describe('the price of a quota that all integrations share', () => {
  it('is that of the rule over the streams of all active integrations, in kinds', async () => {
    quota = QUOTA
    const demand = []
    for (let rank = 1; rank <= 60; rank++) {
      const { id } = await makeIntegration(test, 'crm')
      const figures = { changesSeen: 16, secondsSeen: 60 * rank ** 1.5, callsPerRun: 1 + (rank % 7) }
      await test.framework.db.insert(test.framework.tables.streams).values([
        { integrationId: id, stream: 'contacts', ...figures },
        { integrationId: id, stream: 'deals' },
      ])
      if (rank % 10 === 0) await test.sql`update integrations set is_active = false where id = ${id}`
      else {
        demand.push({
          streams: 1,
          ...BOUNDS,
          changesPerSecond: changesPerSecond(figures, BOUNDS),
          callsPerRun: figures.callsPerRun,
        })
        demand.push({ streams: 1, least: 600, most: 600, changesPerSecond: 1, callsPerRun: 1 })
      }
    }
    const price = (await quotaPrice(test.framework, test.framework.db, 'crm')) as number
    const budget = quotaBudget(QUOTA, demand, 60)
    const exact = priceFor(demand, budget)
    expect(exact).toBeGreaterThan(10_000)
    for (const each of demand) expect(intervalAt(price, each) / intervalAt(exact, each)).toBeCloseTo(1, 1)
    const used = demand.reduce((sum, each) => sum + each.callsPerRun / intervalAt(price, each), 0)
    expect(used / budget).toBeCloseTo(1, 1)
  })

  it('binds each stream, and is kept for a minute', async () => {
    quota = QUOTA
    const integration = await makeIntegration(test, 'crm')
    await run(integration)
    const alone = (await rowOf(integration)).adaptiveSeconds as number
    for (let each = 0; each < 200; each++) {
      const { id } = await makeIntegration(test, 'crm')
      const figures = { changesSeen: 16, secondsSeen: 1_600, callsPerRun: 1 }
      await test.framework.db
        .insert(test.framework.tables.streams)
        .values({ integrationId: id, stream: 'contacts', ...figures })
    }
    await run(integration)
    expect((await rowOf(integration)).adaptiveSeconds).toBeCloseTo(alone, 0)
    clock.advance(61_000)
    await run(integration)
    const { adaptiveSeconds, adaptiveReason } = await rowOf(integration)
    expect(adaptiveReason).toBe('quota')
    expect(adaptiveSeconds).toBeGreaterThan(3 * alone)
  })
})
