/** Counting rows into buckets: nothing is missed, nothing twice, whatever happens meanwhile. */
import fc from 'fast-check'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ChartFilter } from '../../src/rollups/series.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const START_MS = Date.UTC(2026, 2, 15, 10, 37, 12)

let database: TestDatabase
let test: TestIntegrations
let nowMs = START_MS
const clock = { now: () => new Date(nowMs) }

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() }, clock })
})

beforeEach(() => {
  nowMs = START_MS
})

afterEach(async () => {
  await test.sql`truncate integrations restart identity cascade`
  await test.sql`delete from integration_cache`
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const rollUp = () => test.integrations.admin.charts.rollUp()

/** Passes until all is counted for good that can be. */
async function rollUpFor(minutes: number): Promise<void> {
  for (let n = 0; n < minutes; n += 1) {
    expect(await rollUp()).toMatchObject({ kind: 'done' })
    nowMs += MINUTE_MS
  }
}

async function makeCalls(
  calls: readonly { integrationId: number; atMs: number; failureClass?: string | null; durationMs?: number | null }[],
  sql = test.sql,
): Promise<void> {
  const rows = calls.map(({ integrationId, atMs, failureClass = null, durationMs = 100 }) => ({
    integration_id: integrationId,
    endpoint: '/',
    method: 'GET',
    failure_class: failureClass,
    duration_ms: durationMs,
    created_at: new Date(atMs).toISOString(),
    updated_at: new Date(atMs).toISOString(),
  }))
  if (rows.length > 0) await sql`insert into integration_requests ${sql(rows)}`
}

let delivery = 0

/** As they come: pending, or already taken by a worker. */
async function makeWebhooks(
  webhooks: readonly { integrationId: number; deliveryId: string; atMs: number; status: string }[],
): Promise<void> {
  const rows = webhooks.map(({ integrationId, deliveryId, atMs, status }) => ({
    integration_id: integrationId,
    delivery_id: deliveryId,
    payload: '{}',
    headers: '{}',
    status: status === 'processing' ? status : 'pending',
    created_at: new Date(atMs).toISOString(),
    updated_at: new Date(atMs).toISOString(),
  }))
  if (rows.length > 0) await test.sql`insert into integration_webhooks ${test.sql(rows)}`
}

async function settleWebhook(deliveryId: string, status: string, atMs: number): Promise<void> {
  const at = new Date(atMs).toISOString()
  await test.sql`
    update integration_webhooks set status = ${status}, processed_at = ${at}, updated_at = ${at}
    where delivery_id = ${deliveryId}`
}

async function makeItems(
  items: readonly { integrationId: number; settledMs: number; status: string }[],
): Promise<void> {
  const rows = items.map(({ integrationId, settledMs, status }) => ({
    integration_id: integrationId,
    event_class: 'thing',
    status,
    completed_at: new Date(settledMs).toISOString(),
    created_at: new Date(settledMs - HOUR_MS).toISOString(),
  }))
  if (rows.length > 0) await test.sql`insert into integration_sync_items ${test.sql(rows)}`
}

const series = (window: '1h' | '24h' | '7d' | '30d', filter: ChartFilter = {}) =>
  test.integrations.admin.charts.series({ window, ...filter })
const callsOf = async (window: '1h' | '24h' | '7d' | '30d', filter?: ChartFilter) =>
  (await series(window, filter)).total.calls
const bucketsOf = (integrationId: number) =>
  test.sql<{ seconds: number; calls: number }[]>`
    select seconds, sum(calls)::int as calls from integration_rollups where integration_id = ${integrationId}
    group by seconds order by seconds`

describe('roll-ups', () => {
  it('counts what a direct count counts, by any filter and window, whenever passes ran', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          calls: fc.array(
            fc.record({
              of: fc.integer({ min: 0, max: 2 }),
              ago: fc.oneof(fc.integer({ min: 0, max: 3 * 3_600 }), fc.integer({ min: 0, max: 35 * 86_400 })),
              failureClass: fc.constantFrom(null, null, 'upstream', 'throttle', 'client', 'unknown'),
              durationMs: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 2_147_483_647 })),
            }),
            { maxLength: 60 },
          ),
          webhooks: fc.array(
            fc.record({
              of: fc.integer({ min: 0, max: 2 }),
              ago: fc.integer({ min: 0, max: 32 * 86_400 }),
              took: fc.integer({ min: 0, max: 90_000 }),
              status: fc.constantFrom('pending', 'processing', 'processed', 'failed'),
            }),
            { maxLength: 30 },
          ),
          items: fc.array(
            fc.record({
              of: fc.integer({ min: 0, max: 2 }),
              ago: fc.integer({ min: 0, max: 32 * 86_400 }),
              status: fc.constantFrom('success', 'failed', 'skipped'),
            }),
            { maxLength: 30 },
          ),
          /** Minutes between one pass and the next. */
          pauses: fc.array(fc.constantFrom(1, 1, 2, 7, 61, 60 * 5, 60 * 50), { maxLength: 6 }),
        }),
        async ({ calls, webhooks, items, pauses }) => {
          await test.sql`truncate integrations restart identity cascade`
          await test.sql`delete from integration_cache`
          const totalMinutes = pauses.reduce((sum, minutes) => sum + minutes, 0)
          const endMs = START_MS
          nowMs = endMs - totalMinutes * MINUTE_MS
          const owner = { type: 'team', id: 7 }
          const made = [
            await makeIntegration(test, 'acme', { owner }),
            await makeIntegration(test, 'acme'),
            await makeIntegration(test, 'other', { owner }),
          ]
          const idOf = (of: number) => made[of]?.id ?? 0
          // A row's moment is its settlement's: rows of the future of a pass are not there yet.
          const allCalls = calls.map(({ of, ago, ...call }) => ({
            of,
            integrationId: idOf(of),
            atMs: endMs - ago * 1_000,
            ...call,
          }))
          const allWebhooks = webhooks.map(({ of, ago, took, status }) => {
            const atMs = endMs - ago * 1_000
            const settledMs =
              status === 'processed' || status === 'failed' ? Math.min(endMs, atMs + took * 1_000) : null
            delivery += 1
            return { of, integrationId: idOf(of), deliveryId: `d${delivery}`, atMs, settledMs, status }
          })
          const allItems = items.map(({ of, ago, status }) => ({
            of,
            integrationId: idOf(of),
            settledMs: endMs - ago * 1_000,
            status,
          }))
          let fromMs = 0
          const store = async () => {
            const isNew = (atMs: number) => atMs >= fromMs && atMs < nowMs
            await makeCalls(allCalls.filter(({ atMs }) => isNew(atMs)))
            // Ids are drawn in the order in which they come.
            await makeWebhooks(allWebhooks.filter(({ atMs }) => isNew(atMs)).sort((a, b) => a.atMs - b.atMs))
            for (const { settledMs, status, deliveryId } of allWebhooks)
              if (settledMs !== null && isNew(settledMs)) await settleWebhook(deliveryId, status, settledMs)
            await makeItems(allItems.filter(({ settledMs }) => isNew(settledMs)))
            fromMs = nowMs
          }
          await store()
          for (const minutes of pauses) {
            await rollUp()
            nowMs += minutes * MINUTE_MS
            await store()
          }
          nowMs += 1_000
          await store()
          await rollUp()
          const filters: [ChartFilter, (of: number) => boolean][] = [
            [{}, () => true],
            [{ provider: 'acme' }, (of) => of < 2],
            [{ integrationId: idOf(1) }, (of) => of === 1],
            [{ owner }, (of) => of !== 1],
            [{ owner, provider: 'other' }, (of) => of === 2],
          ]
          for (const window of ['1h', '24h', '7d', '30d'] as const)
            for (const [filter, isOf] of filters) {
              const { points, pointSeconds, total, missing } = await series(window, filter)
              expect(missing).toBeNull()
              for (const { at, ...figures } of points) {
                const isIn = (ms: number | null) =>
                  ms !== null && ms >= at.getTime() && ms < at.getTime() + pointSeconds * 1_000
                const mine = allCalls.filter(({ of, atMs }) => isOf(of) && isIn(atMs))
                const hooks = allWebhooks.filter(({ of }) => isOf(of))
                const settled = allItems.filter(({ of, settledMs }) => isOf(of) && isIn(settledMs))
                expect({ window, at, ...countsOf(figures) }).toEqual({
                  window,
                  at,
                  calls: mine.length,
                  failures: mine.filter(({ failureClass }) => failureClass !== null).length,
                  received: hooks.filter(({ atMs }) => isIn(atMs)).length,
                  processed: hooks.filter(({ status, settledMs }) => status === 'processed' && isIn(settledMs)).length,
                  failed: hooks.filter(({ status, settledMs }) => status === 'failed' && isIn(settledMs)).length,
                  succeeded: settled.filter(({ status }) => status === 'success').length,
                  itemsFailed: settled.filter(({ status }) => status === 'failed').length,
                  skipped: settled.filter(({ status }) => status === 'skipped').length,
                })
              }
              expect(total.calls).toBe(points.reduce((sum, { calls }) => sum + calls, 0))
            }
        },
      ),
      { numRuns: 10 },
    )
  }, 120_000)

  it('takes a row that is committed after its minute was counted', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const late = postgres(database.url, { max: 1, fetch_types: false })
    try {
      await rollUp()
      await late.begin(async (tx) => {
        await makeCalls([{ integrationId: id, atMs: nowMs }], tx as never)
        nowMs += MINUTE_MS
        await rollUpFor(10)
        expect(await callsOf('1h')).toBe(0)
      })
      await rollUpFor(4)
      expect(await callsOf('1h')).toBe(1)
      expect(await callsOf('24h', { integrationId: id })).toBe(1)
    } finally {
      await late.end()
    }
  })

  it('waits an hour for an open transaction, and goes on without it then', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const late = postgres(database.url, { max: 1, fetch_types: false })
    try {
      await rollUp()
      await late.begin(async (tx) => {
        await makeCalls([{ integrationId: id, atMs: nowMs }], tx as never)
        nowMs += 30 * MINUTE_MS
        const early = await rollUp()
        expect(early).toMatchObject({ settledAt: new Date(Date.UTC(2026, 2, 15, 10, 36)) })
        nowMs += 45 * MINUTE_MS
        expect(await rollUp()).toMatchObject({ kind: 'done', settledAt: new Date(Date.UTC(2026, 2, 15, 10, 52)) })
      })
    } finally {
      await late.end()
    }
  })

  it('counts each row once when passes run at the same moment', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeCalls(Array.from({ length: 500 }, (_, n) => ({ integrationId: id, atMs: nowMs - n * 30 * MINUTE_MS })))
    const results = await Promise.all([rollUp(), rollUp(), rollUp(), rollUp()])
    expect(results.map(({ kind }) => kind)).toContain('done')
    await Promise.all([rollUp(), rollUp()])
    expect(await callsOf('30d')).toBe(500)
    expect(await callsOf('30d', { integrationId: id })).toBe(500)
  })

  it('counts again what is not settled, and changes nothing by it', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeCalls([{ integrationId: id, atMs: nowMs - 90_000 }])
    for (let n = 0; n < 3; n += 1) await rollUp()
    nowMs += MINUTE_MS
    await rollUp()
    expect(await callsOf('1h')).toBe(1)
  })

  it('makes up for the time in which no pass ran', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await rollUpFor(5)
    const atMs = nowMs
    nowMs += 26 * HOUR_MS
    await makeCalls([
      { integrationId: id, atMs: atMs + HOUR_MS },
      { integrationId: id, atMs: nowMs - 61 * MINUTE_MS },
    ])
    // Until a worker counts, a page shows what it can count by itself, and says what it can't.
    const before = await series('7d')
    expect(before.total.calls).toBe(0)
    expect(before.missing).toEqual({
      from: new Date(Date.UTC(2026, 2, 15, 10, 41)),
      to: new Date(Date.UTC(2026, 2, 16, 11, 42)),
    })
    expect(await rollUp()).toMatchObject({ kind: 'done' })
    expect((await series('7d')).total.calls).toBe(2)
    expect((await series('7d')).missing).toBeNull()
  })

  it('counts again what was passed over while the clock was ahead', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeCalls([{ integrationId: id, atMs: START_MS - 20 * MINUTE_MS }])
    await rollUp()
    nowMs = START_MS + 3 * HOUR_MS
    await rollUpFor(2)
    nowMs = START_MS + 5 * MINUTE_MS
    await makeCalls([{ integrationId: id, atMs: START_MS + 2 * MINUTE_MS }])
    const before = test.lines.length
    expect(await rollUp()).toMatchObject({ kind: 'done', rolledAt: new Date(Date.UTC(2026, 2, 15, 10, 42)) })
    expect(await callsOf('1h')).toBe(2)
    expect(test.lines.slice(before).map(({ fields }) => fields.event)).toEqual(['charts.clock_was_ahead'])
    await makeCalls([{ integrationId: id, atMs: START_MS + HOUR_MS }])
    nowMs = START_MS + 4 * HOUR_MS
    await rollUpFor(3)
    for (const window of ['24h', '7d', '30d'] as const) expect(await callsOf(window)).toBe(3)
    expect((await series('24h')).missing).toBeNull()
  })

  it('fills itself from what is stored, old rows into wide buckets only', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeCalls([
      { integrationId: id, atMs: nowMs - 29 * DAY_MS },
      { integrationId: id, atMs: nowMs - 5 * DAY_MS },
      { integrationId: id, atMs: nowMs - 20 * HOUR_MS },
      { integrationId: id, atMs: nowMs - 30 * MINUTE_MS },
    ])
    const pass = await rollUp()
    expect(pass).toMatchObject({ kind: 'done' })
    // Six hours at most in a step.
    expect(pass.kind === 'busy' ? 0 : pass.steps).toBeGreaterThan(112)
    await rollUpFor(5)
    expect(await callsOf('30d')).toBe(4)
    // Hours of the last eight days, quarters of the last two, minutes of the last three hours.
    expect(await bucketsOf(id)).toEqual([
      { seconds: 60, calls: 1 },
      { seconds: 900, calls: 2 },
      { seconds: 3_600, calls: 2 },
      { seconds: 21_600, calls: 3 },
      { seconds: 86_400, calls: 3 },
    ])
  })

  it('keeps narrow buckets as long as a chart reads them', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeCalls([{ integrationId: id, atMs: nowMs }])
    const widthsAfter = async (ms: number) => {
      nowMs = START_MS + ms
      await rollUpFor(4)
      return (await bucketsOf(id)).map(({ seconds }) => seconds)
    }
    expect(await widthsAfter(5 * MINUTE_MS)).toEqual([60])
    expect(await widthsAfter(HOUR_MS)).toEqual([60, 900, 3_600])
    expect(await widthsAfter(4 * HOUR_MS)).toEqual([900, 3_600, 21_600])
    expect(await widthsAfter(DAY_MS)).toEqual([900, 3_600, 21_600, 86_400])
    expect(await widthsAfter(3 * DAY_MS)).toEqual([3_600, 21_600, 86_400])
    expect(await widthsAfter(10 * DAY_MS)).toEqual([21_600, 86_400])
    expect(await widthsAfter(34 * DAY_MS)).toEqual([86_400])
  })

  it('reads the tail from the rows themselves, without a pass', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await rollUpFor(3)
    await makeCalls([{ integrationId: id, atMs: nowMs - 500, failureClass: 'upstream', durationMs: 40 }])
    await makeWebhooks([{ integrationId: id, deliveryId: 'a', atMs: nowMs - 700, status: 'pending' }])
    await settleWebhook('a', 'processed', nowMs - 200)
    await makeItems([{ integrationId: id, settledMs: nowMs - 100, status: 'failed' }])
    for (const window of ['1h', '24h', '7d', '30d'] as const) {
      const { total } = await series(window)
      expect(total).toMatchObject({
        calls: 1,
        failures: 1,
        byClass: { upstream: 1, throttle: 0, client: 0, unknown: 0 },
        failureRate: 1,
        webhooks: { received: 1, processed: 1, failed: 0 },
        items: { succeeded: 0, failed: 1, skipped: 0 },
      })
      expect(total.durationMs.p50).toBeGreaterThan(37)
      expect(total.durationMs.p50).toBeLessThan(43)
    }
    expect(await test.integrations.admin.charts.busiest({ window: '1h', by: 'failures' })).toEqual([
      { integrationId: id, name: 'of a test', provider: 'acme', calls: 1, failures: 1 },
    ])
    const line = (await test.integrations.admin.charts.sparklines([id])).get(id)
    expect(line?.calls.at(-1)).toBe(1)
    expect(line?.failures).toHaveLength(24)
  })

  it('counts a webhook that failed and was retried by each of its settlements', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeWebhooks([{ integrationId: id, deliveryId: 'a', atMs: nowMs, status: 'pending' }])
    await settleWebhook('a', 'failed', nowMs)
    nowMs += MINUTE_MS
    await rollUpFor(5)
    await settleWebhook('a', 'processed', nowMs)
    nowMs += MINUTE_MS
    await rollUpFor(4)
    expect((await series('1h')).total.webhooks).toEqual({ received: 1, processed: 1, failed: 1 })
  })

  it('has percentiles within 7 % of the exact ones, over any union of buckets', async () => {
    const { id } = await makeIntegration(test, 'acme')
    let seed = 42
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return seed / 2_147_483_648
    }
    const calls = Array.from({ length: 3_000 }, () => ({
      integrationId: id,
      atMs: Math.floor(nowMs - random() * 6 * DAY_MS),
      durationMs: Math.floor(Math.exp(random() * 9)),
    }))
    await makeCalls(calls)
    await rollUp()
    const { total } = await series('7d')
    const exact = calls.map(({ durationMs }) => durationMs).sort((a, b) => a - b)
    for (const [name, share] of [
      ['p50', 0.5],
      ['p95', 0.95],
      ['p99', 0.99],
    ] as const) {
      const is = total.durationMs[name] ?? 0
      const should = exact[Math.ceil(share * exact.length) - 1] ?? 0
      expect(Math.abs(is - should) / should).toBeLessThan(0.07)
    }
  })

  it('loses the sums of an integration with the integration, and keeps its provider’s', async () => {
    const [gone, other] = [await makeIntegration(test, 'acme'), await makeIntegration(test, 'acme')]
    await makeCalls([
      { integrationId: gone.id, atMs: nowMs - 2 * DAY_MS },
      { integrationId: other.id, atMs: nowMs - 2 * DAY_MS },
    ])
    await rollUp()
    expect(await test.integrations.delete(gone.id)).toMatchObject({ rollups: 3 })
    expect(await bucketsOf(gone.id)).toEqual([])
    expect(await callsOf('7d', { provider: 'acme' })).toBe(2)
    expect(await callsOf('7d', { integrationId: other.id })).toBe(1)
  })

  it('names the busiest integrations and no other ones', async () => {
    const made = [
      await makeIntegration(test, 'acme'),
      await makeIntegration(test, 'other'),
      await makeIntegration(test, 'acme'),
    ]
    const [a = 0, b = 0, c = 0] = made.map(({ id }) => id)
    const calls = (integrationId: number, count: number, failureClass: string | null) =>
      makeCalls(Array.from({ length: count }, (_, n) => ({ integrationId, atMs: nowMs - n * HOUR_MS, failureClass })))
    await calls(a, 5, null)
    await calls(b, 9, 'client')
    await calls(c, 2, 'upstream')
    await rollUp()
    const { busiest } = test.integrations.admin.charts
    const idsOf = async (asked: Parameters<typeof busiest>[0]) =>
      (await busiest(asked)).map(({ integrationId }) => integrationId)
    expect(await idsOf({ window: '30d', by: 'calls' })).toEqual([b, a, c])
    expect(await idsOf({ window: '24h', by: 'failures' })).toEqual([b, c])
    expect(await idsOf({ window: '7d', by: 'calls', provider: 'acme', limit: 1 })).toEqual([a])
    expect(await idsOf({ window: '7d', by: 'either', provider: 'acme', limit: 1 })).toEqual([a, c])
    await expect(busiest({ window: '7d', by: 'calls', limit: 101 })).rejects.toMatchObject({ argument: 'limit' })
  })
})

function countsOf(figures: Awaited<ReturnType<typeof series>>['total']) {
  const { calls, failures, webhooks, items } = figures
  return { calls, failures, ...webhooks, succeeded: items.succeeded, itemsFailed: items.failed, skipped: items.skipped }
}
