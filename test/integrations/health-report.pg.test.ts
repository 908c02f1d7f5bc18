/** How one integration is, and figures over many. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { healthReport } from '../../src/integrations/health-report.ts'
import { statistics } from '../../src/observability/statistics.ts'
import { trafficOfLastDay } from '../../src/observability/traffic-queries.ts'
import type { IdentifiesAuthenticatedUser } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'

const ADA = { id: '1', name: 'Ada', email: 'ada@example.org', username: 'ada', raw: { plan: 'pro' } }
const asked = vi.fn<IdentifiesAuthenticatedUser['authenticatedUser']>()

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { plain: {}, keyed: { authenticatedUser: (integration) => asked(integration) } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  test.lines.length = 0
  asked.mockReset().mockResolvedValue(ADA)
})

interface Calls {
  readonly count: number
  readonly failed?: string
  /** Default: one for what has failed, null for the rest. */
  readonly error?: string | null
  readonly ms?: number
  readonly hits?: number
  readonly hoursAgo?: number
}

async function calls(
  id: number,
  { count, failed, error = failed === undefined ? null : 'Error: away', ms, hits = 0, hoursAgo = 1 }: Calls,
): Promise<void> {
  await test.sql`
    insert into integration_requests (integration_id, endpoint, method, failure_class, error, duration_ms, cache_hits, created_at)
    select ${id}, 'users', 'GET', ${failed ?? null}, ${error}, ${ms ?? null}::int, ${hits}::int,
           clock_timestamp() - make_interval(secs => ${hoursAgo * 3_600}::float8)
    from generate_series(1, ${count}::int)`
}

describe('a report', () => {
  it('of one that nothing is known of', async () => {
    const { id } = await makeIntegration(test, 'plain')
    expect(await healthReport(test.framework, id)).toEqual({
      id,
      name: 'of a test',
      provider: 'plain',
      registered: true,
      healthStatus: 'healthy',
      isActive: true,
      switchedOffAt: null,
      circuit: 'closed',
      stale: false,
      reauthRequired: false,
      lastSyncedAt: null,
      requests24h: 0,
      failedItems: 0,
      waitingItems: 0,
      lastRun: null,
      openRun: null,
      pause: null,
      errorRate24h: null,
      consecutiveFailures: 0,
      consecutiveSyncFailures: 0,
      lastErrorAt: null,
      nextSyncAt: null,
      elevatedSince: null,
      incident: null,
      failures24h: { upstream: 0, throttle: 0, client: 0, unknown: 0 },
      meanMs24h: null,
      p95Ms24h: null,
      streams: [],
      topErrors24h: [],
      identity: null,
    })
  })

  it('has the row, the open incident and the figures of the last 24 hours', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const { id: other } = await makeIntegration(test, 'plain')
    const at = new Date('2031-01-01')
    await setIntegration(test, id, {
      healthStatus: 'failing',
      consecutiveFailures: 23,
      consecutiveSyncFailures: 4,
      lastErrorAt: at,
      nextSyncAt: at,
      anomalyAlertedAt: at,
      syncStaleAlertedAt: at,
    })
    const incident = { integrationId: id, source: 'health', peakSeverity: 'failing', openedAt: at } as const
    await test.framework.db.insert(test.framework.tables.incidents).values([
      { ...incident, reason: 'threshold_reached', status: 'closed', closedAt: at },
      { ...incident, reason: 'health_degraded' },
    ])
    for (const failed of ['upstream', 'upstream', 'throttle', 'client', 'unknown'])
      await calls(id, { count: 1, failed })
    await calls(id, { count: 3, failed: 'upstream', error: 'HttpError: 503' })
    await calls(id, { count: 2, failed: 'client', error: 'HttpError: 404' })
    await calls(id, { count: 1, failed: 'client', error: 'HttpError: 400' })
    // 1 to 19 ms, and one slow one: the 95th percentile of 20 is the 19th.
    for (let ms = 1; ms < 20; ms += 1) await calls(id, { count: 1, ms })
    await calls(id, { count: 1, ms: 10_000 })
    await calls(id, { count: 100, failed: 'upstream', error: 'Error: of the day before', ms: 1, hoursAgo: 24.1 })
    await calls(other, { count: 100, failed: 'upstream', error: 'Error: of another', ms: 1 })
    expect(await healthReport(test.framework, id)).toMatchObject({
      healthStatus: 'failing',
      stale: true,
      requests24h: 31,
      errorRate24h: 35.5,
      consecutiveFailures: 23,
      consecutiveSyncFailures: 4,
      lastErrorAt: at,
      nextSyncAt: at,
      elevatedSince: at,
      incident: { integrationId: id, status: 'open', reason: 'health_degraded' },
      failures24h: { upstream: 5, throttle: 1, client: 4, unknown: 1 },
      meanMs24h: Math.round((190 + 10_000) / 20),
      p95Ms24h: 19,
      topErrors24h: [
        { error: 'Error: away', requests: 5 },
        { error: 'HttpError: 503', requests: 3 },
        { error: 'HttpError: 404', requests: 2 },
      ],
    })
  })

  it.each([
    ['one', [7], 7],
    ['two', [1, 9], 9],
    ['nineteen of twenty alike', [...Array<number>(19).fill(5), 900], 5],
    ['eighteen of twenty alike', [...Array<number>(18).fill(5), 900, 901], 900],
  ])('has the 95th percentile of %s', async (_, durations, p95) => {
    const { id } = await makeIntegration(test, 'plain')
    for (const ms of durations) await calls(id, { count: 1, ms, ...(ms === 9 ? { failed: 'client' } : {}) })
    expect(await healthReport(test.framework, id)).toMatchObject({ p95Ms24h: p95 })
  })

  it('of none: there is no such integration', async () => {
    await expect(healthReport(test.framework, 999_999_999)).rejects.toMatchObject({ code: 'integration_not_found' })
  })

  it('is there where the provider is not registered and the credentials can not be read', async () => {
    const { id } = await makeIntegration(test, 'keyed')
    await setIntegration(test, id, { credentials: 'plain text' })
    expect(await healthReport(test.framework, id)).toMatchObject({ registered: true, identity: null })
    await setIntegration(test, id, { provider: 'gone' })
    expect(await healthReport(test.framework, id)).toMatchObject({ registered: false, identity: null })
  })
})

it('a row with an error and no class is a failure of class unknown, in a report and in statistics', async () => {
  const { id } = await makeIntegration(test, 'plain')
  await calls(id, { count: 6 })
  await calls(id, { count: 1, failed: 'unknown' })
  await calls(id, { count: 3, error: 'Error: written by hand' })
  expect(await healthReport(test.framework, id)).toMatchObject({
    requests24h: 10,
    errorRate24h: 40,
    failures24h: { upstream: 0, throttle: 0, client: 0, unknown: 4 },
    topErrors24h: [
      { error: 'Error: written by hand', requests: 3 },
      { error: 'Error: away', requests: 1 },
    ],
  })
  for (const of of [{}, { provider: 'plain' }])
    expect(await statistics(test.framework, of)).toMatchObject({ requests: 10, errorRate: 40 })
})

describe('the identity in a report', () => {
  const identityOf = async (id: number) => (await healthReport(test.framework, id)).identity

  it('is asked for once, and has no raw answer', async () => {
    const { id } = await makeIntegration(test, 'keyed')
    const { raw: _, ...ada } = ADA
    expect([await identityOf(id), await identityOf(id)]).toEqual([ada, ada])
    expect(asked).toHaveBeenCalledTimes(1)
  })

  it('is not asked for again for an hour where it could not be had: a look must not make a failing one fail more', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockRejectedValue(new Error(`the token ${TOKEN} was refused`))
    expect([await identityOf(integration.id), await identityOf(integration.id)]).toEqual([null, null])
    expect(asked).toHaveBeenCalledTimes(1)
    const told = test.lines.filter(({ fields }) => fields.event === 'health.identity_unknown')
    expect(told).toMatchObject([{ level: 'warn', fields: { integration: integration.id } }])
    expect(JSON.stringify(told)).not.toContain(TOKEN)

    asked.mockResolvedValue(ADA)
    await test.sql`update integration_cache set expires_at = expires_at - interval '1 hour'`
    expect(await identityOf(integration.id)).toMatchObject({ id: '1' })
  })

  it('is asked for at once with other credentials', async () => {
    const integration = await makeIntegration(test, 'keyed')
    asked.mockRejectedValueOnce(new Error('refused'))
    expect(await identityOf(integration.id)).toBeNull()
    await integration.updateCredentials({ token: 'a-better-one' })
    expect(await identityOf(integration.id)).toMatchObject({ id: '1' })
  })
})

describe('statistics', () => {
  const empty = { processing: 0, success: 0, partial: 0, failed: 0, cancelled: 0 }
  const none = { pending: 0, processing: 0, processed: 0, failed: 0 }

  it('of nothing', async () => {
    expect(await statistics(test.framework)).toEqual({
      since: '24h',
      provider: null,
      requests: 0,
      errorRate: null,
      meanMs: null,
      p95Ms: null,
      cacheHitRate: null,
      syncs: empty,
      webhooks: none,
    })
  })

  it('add up all integrations, or those of a provider, over a span', async () => {
    const [first, second, keyed] = [
      await makeIntegration(test, 'plain'),
      await makeIntegration(test, 'plain', { isActive: false }),
      await makeIntegration(test, 'keyed'),
    ]
    for (const [hoursAgo, days] of [
      [1, 0],
      [25, 1],
      [24 * 8, 8],
      [24 * 31, 31],
    ] as const) {
      const createdAt = new Date(Date.now() - (days * 24 + 1) * 3_600_000)
      await calls(first.id, { count: 6, ms: 10, hits: 1, hoursAgo })
      await calls(second.id, { count: 2, ms: 30, failed: 'client', hoursAgo })
      await calls(keyed.id, { count: 2, ms: 50, failed: 'upstream', hoursAgo })
      for (const status of ['success', 'partial', 'success']) await makeRun(test, first.id, {}, { status, createdAt })
      await makeRun(test, keyed.id, {}, { status: 'failed', createdAt })
      await makeRun(test, keyed.id, {}, { status: 'failed', operation: 'backfill', createdAt })
      await makeWebhook(test, first.id, { status: 'processed', createdAt })
      await makeWebhook(test, keyed.id, { status: 'failed', createdAt })
      await makeWebhook(test, keyed.id, { createdAt })
    }
    expect(await statistics(test.framework)).toEqual({
      since: '24h',
      provider: null,
      requests: 10,
      errorRate: 40,
      meanMs: 22,
      p95Ms: 50,
      cacheHitRate: 37.5,
      syncs: { ...empty, success: 2, partial: 1, failed: 1 },
      webhooks: { ...none, processed: 1, failed: 1, pending: 1 },
    })
    expect(await statistics(test.framework, { provider: 'plain', since: '7d' })).toEqual({
      since: '7d',
      provider: 'plain',
      requests: 16,
      errorRate: 25,
      meanMs: 15,
      p95Ms: 30,
      cacheHitRate: 42.9,
      syncs: { ...empty, success: 4, partial: 2 },
      webhooks: { ...none, processed: 2 },
    })
    const month = await statistics(test.framework, { since: '30d' })
    expect([month.requests, month.webhooks.processed, month.syncs.success]).toEqual([30, 3, 6])
    expect(await statistics(test.framework, { provider: 'nobody' })).toMatchObject({ requests: 0, errorRate: null })
  })

  it.each([
    ['a span', { since: '1h' }, 'since'],
    ['a provider', { provider: '' }, 'provider'],
  ])('refuse %s that is none', async (_, input, argument) => {
    await expect(statistics(test.framework, input as never)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
  })

  it('count by the clock that dates the requests', async () => {
    let now = new Date('2031-06-01T12:00:00Z')
    const later = testIntegrations(database.url, { providers: { plain: {} }, clock: { now: () => now } })
    onTestFinished(() => later.close())
    const integration = await makeIntegration(later, 'plain')
    await integration.request('users', 'GET', () => new Response('{}'))
    const seen = async () => [
      (await statistics(later.framework)).requests,
      (await healthReport(later.framework, integration.id)).requests24h,
      (await trafficOfLastDay(later.framework, [integration.id])).get(integration.id)?.requests ?? 0,
    ]
    expect(await seen()).toEqual([1, 1, 1])
    now = new Date('2031-06-02T12:00:00Z')
    expect(await seen()).toEqual([0, 0, 0])
  })
})
