/** health, stats and evaluate-failures on real rows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { WorkflowStarters } from '../../src/framework/context.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'
import type { Ran } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

let database: TestDatabase
let test: TestIntegrations
const evaluation = vi.fn<WorkflowStarters['runEvaluateFailures']>()

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} } })
  Object.assign(test.framework.workflows, { runEvaluateFailures: evaluation })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
})

const run = (words: readonly (string | number)[]): Promise<Ran> => runCommand(test.integrations, words.map(String))
const codeOf = (ran: Ran) => (ran.json() as { error: { code: string } }).error.code

async function failures(id: number, count: number, error: string): Promise<void> {
  await test.sql`
    insert into integration_requests (integration_id, endpoint, method, failure_class, error, duration_ms)
    select ${id}, 'users', 'GET', 'upstream', ${error}, 12 from generate_series(1, ${count}::int)`
}

describe('health of one', () => {
  it('says how it is and why', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const at = new Date('2031-01-01')
    await setIntegration(test, id, { healthStatus: 'failing', consecutiveFailures: 21, lastErrorAt: at })
    await test.framework.db.insert(test.framework.tables.incidents).values({
      integrationId: id,
      source: 'health',
      reason: 'health_degraded',
      peakSeverity: 'failing',
      openedAt: at,
    })
    await failures(id, 3, 'HttpError: 503')
    const ran = await run(['health', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      id,
      name: 'of a test',
      provider: 'plain',
      registered: true,
      health_status: 'failing',
      is_active: true,
      switched_off_at: null,
      circuit: 'closed',
      stale: false,
      reauth_required: false,
      last_synced_at: null,
      requests_24h: 3,
      failed_items: 0,
      waiting_items: 0,
      last_run: null,
      open_run: null,
      pause: null,
      error_rate_24h: 100,
      consecutive_failures: 21,
      consecutive_sync_failures: 0,
      last_error_at: at.toISOString(),
      next_sync_at: null,
      streams: [],
      elevated_since: null,
      incident: expect.objectContaining({
        integration_id: id,
        status: 'open',
        reason: 'health_degraded',
        opened_at: at.toISOString(),
      }),
      failures_24h: { upstream: 3, throttle: 0, client: 0, unknown: 0 },
      mean_ms_24h: 12,
      p95_ms_24h: 12,
      top_errors_24h: [{ error: 'HttpError: 503', requests: 3 }],
      identity: null,
    })
  })

  it('in words: a line for each figure, errors cut and without what a terminal would obey', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await failures(id, 2, `Error: \u001b[31m${'x'.repeat(300)}`)
    const { out } = await run(['health', id, 'report'])
    expect(out).toMatch(/^health_status +healthy$/m)
    expect(out).toMatch(/^failures_24h\.upstream +2$/m)
    expect(out).toMatch(/^incident +-$/m)
    expect(out).toMatch(/^top_error_1 +2 x Error: \[31mx{80,100}$/m)
  })

  it('switches it on and off', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { healthStatus: 'disabled', isActive: false })
    const stands = async () => {
      const { isActive, healthStatus } = await test.integrations.get(id)
      return [isActive, healthStatus]
    }
    expect((await run(['health', id, 'enable', '--json'])).json()).toMatchObject({ id, is_active: true })
    expect(await stands()).toEqual([true, 'healthy'])
    expect((await run(['health', id, 'disable'])).out).toBe(`Integration ${id} is switched off.\n`)
    expect(await stands()).toEqual([false, 'healthy'])
  })

  it.each([
    ['one that is not there', [999_999_999], 'integration_not_found'],
    ['what is no id', ['report'], 'usage'],
    ['an action that is none', [1, 'mend'], 'usage'],
    ['a failure that is none', ['--fail-on', 'healthy'], 'usage'],
    ['a failure of what is no report', [1, 'enable', '--fail-on', 'stale'], 'usage'],
  ])('refuses %s', async (_, words, code) => {
    const ran = await run(['health', ...words, '--json'])
    expect([ran.exitCode, codeOf(ran)]).toEqual([1, code])
  })
})

describe('health of all', () => {
  it('counts them, and lists those that are not well', async () => {
    const ids: number[] = []
    for (let n = 0; n < 5; n += 1) ids.push((await makeIntegration(test, 'plain')).id)
    const [, stale = 0, degraded = 0, disabled = 0, forced = 0] = ids
    await setIntegration(test, stale, { syncStaleAlertedAt: new Date() })
    await setIntegration(test, degraded, { healthStatus: 'degraded' })
    await setIntegration(test, disabled, { healthStatus: 'disabled', isActive: false })
    await (await test.integrations.get(forced)).overrideCircuit('forced_open')
    const ran = await run(['health', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    const document: { not_well: { id: number }[] } = ran.json()
    expect(document).toMatchObject({
      integrations: 5,
      by_health: { healthy: 3, degraded: 1, failing: 0, disabled: 1 },
      stale: 1,
    })
    expect(document.not_well.map(({ id }) => id)).toEqual([stale, degraded, disabled, forced])
    expect((await run(['health'])).out).toMatch(
      /\n5 in all: 3 healthy, 1 degraded, 0 failing, 1 disabled; 1 stale, 0 with failed items, 0 with items that wait\.\n$/,
    )
  })

  it('lists those of which no item was stored, though their provider is healthy', async () => {
    const { id: failing } = await makeIntegration(test, 'plain')
    const row = await makeRun(test, failing, { success_count: 0, failure_count: 2 }, { status: 'failed' })
    for (const externalId of ['a', 'b'])
      await makeItem(test, row, { externalId, status: 'failed', error: 'Error: no table' })
    const { id: waiting } = await makeIntegration(test, 'plain')
    await makeItem(test, await makeRun(test, waiting), { status: 'processing', nextAttemptAt: new Date() })
    const { id: resolved } = await makeIntegration(test, 'plain')
    const [before, after] = [await makeRun(test, resolved), await makeRun(test, resolved, {}, { status: 'success' })]
    await makeItem(test, before, { externalId: 'c', status: 'failed' })
    await makeItem(test, after, { externalId: 'c', status: 'success' })
    const document: { not_well: { id: number }[] } = (await run(['health', '--json'])).json()
    expect(document).toMatchObject({
      by_health: { healthy: 3 },
      with_failed_items: 1,
      with_waiting_items: 1,
      not_well: [
        { id: failing, failed_items: 2, waiting_items: 0, last_run: { id: row.id, status: 'failed', failed: 2 } },
        { id: waiting, failed_items: 0, waiting_items: 1, last_run: null },
      ],
    })
    expect(document.not_well.map(({ id }) => id)).not.toContain(resolved)
    const listed = (await run(['list'])).out
    expect(listed.split('\n').find((line) => line.trim().startsWith(`${failing} `))).toMatch(/ 2 +0 +failed /)
  })

  it('of none', async () => {
    expect(await run(['health'])).toMatchObject({
      exitCode: 0,
      out: '0 in all: 0 healthy, 0 degraded, 0 failing, 0 disabled; 0 stale, 0 with failed items, 0 with items that wait.\n',
    })
  })
})

describe('--fail-on', () => {
  it.each<[Parameters<typeof setIntegration>[2], Record<string, 0 | 1>]>([
    [{ healthStatus: 'healthy' }, { degraded: 0, failing: 0, disabled: 0, stale: 0 }],
    [{ healthStatus: 'degraded' }, { degraded: 1, failing: 0, disabled: 0, stale: 0 }],
    [{ healthStatus: 'failing' }, { degraded: 1, failing: 1, disabled: 0, stale: 0 }],
    [
      { healthStatus: 'disabled', isActive: false },
      { degraded: 1, failing: 1, disabled: 1, stale: 0 },
    ],
    [{ syncStaleAlertedAt: new Date() }, { degraded: 0, failing: 0, disabled: 0, stale: 1 }],
    // Switched off by an operator.
    [
      { healthStatus: 'failing', isActive: false, syncStaleAlertedAt: new Date() },
      { degraded: 0, failing: 0, stale: 0 },
    ],
  ])('of %j ends with %j, for one and for all', async (values, exits) => {
    const { id } = await makeIntegration(test, 'plain')
    await makeIntegration(test, 'plain')
    await setIntegration(test, id, values)
    for (const [what, exitCode] of Object.entries(exits)) {
      expect([what, (await run(['health', id, '--fail-on', what])).exitCode]).toEqual([what, exitCode])
      expect([what, (await run(['health', '--fail-on', what])).exitCode]).toEqual([what, exitCode])
    }
  })

  it('may be repeated', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { syncStaleAlertedAt: new Date() })
    expect((await run(['health', '--fail-on', 'stale', '--fail-on', 'failing'])).exitCode).toBe(1)
    expect((await run(['health', '--fail-on', 'failing', '--fail-on=degraded'])).exitCode).toBe(0)
  })
})

describe('stats', () => {
  it('has calls, syncs and webhooks', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await failures(id, 2, 'Error: away')
    await makeWebhook(test, id, { status: 'processed' })
    const ran = await run(['stats', '--provider', 'plain', '--since', '7d', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      since: '7d',
      provider: 'plain',
      requests: 2,
      error_rate: 100,
      mean_ms: 12,
      p95_ms: 12,
      cache_hit_rate: 0,
      syncs: { processing: 0, success: 0, partial: 0, failed: 0, cancelled: 0 },
      webhooks: { pending: 0, processing: 0, processed: 1, failed: 0 },
    })
    const { out } = await run(['stats'])
    expect(out).toMatch(/^since +24h$/m)
    expect(out).toMatch(/^webhooks\.processed +1$/m)
  })

  it('refuses a span that is none', async () => {
    const ran = await run(['stats', '--since', '1h', '--json'])
    expect([ran.exitCode, codeOf(ran)]).toEqual([1, 'usage'])
  })
})

describe('evaluate-failures', () => {
  it('has a line for each that is newly elevated, and for each that is no more', async () => {
    const elevated = [
      { integrationId: 7, failureRate: 100 / 3, requests: 48, dominantClass: 'upstream' as const },
      { integrationId: 9, failureRate: 25, requests: 20, dominantClass: 'client' as const },
    ]
    evaluation.mockResolvedValue({ enabled: true, checked: 12, elevated, recovered: [3] })
    const ran = await run(['evaluate-failures', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      enabled: true,
      checked: 12,
      elevated: [
        { integration_id: 7, failure_rate: 33.3, requests: 48, dominant_class: 'upstream' },
        { integration_id: 9, failure_rate: 25, requests: 20, dominant_class: 'client' },
      ],
      recovered: [3],
    })
    expect((await run(['evaluate-failures'])).out).toBe(
      [
        'Integration 7: 33.3 % of 48 requests failed, most of them upstream.',
        'Integration 9: 25.0 % of 20 requests failed, most of them client.',
        'Integration 3 is no longer elevated.\n',
      ].join('\n'),
    )
  })

  it.each([
    [true, 12, 'Nothing new: 12 active integrations.\n'],
    [true, 1, 'Nothing new: 1 active integration.\n'],
    [false, 0, 'Nothing was looked at: observability.anomaly_enabled is false.\n'],
  ])('enabled %s, %i looked at, nothing new', async (enabled, checked, out) => {
    evaluation.mockResolvedValue({ enabled, checked, elevated: [], recovered: [] })
    expect(await run(['evaluate-failures'])).toMatchObject({ exitCode: 0, out })
  })

  it('without Temporal ends with 2', async () => {
    evaluation.mockRejectedValue(new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'Start it.' }))
    const ran = await run(['evaluate-failures', '--json'])
    expect([ran.exitCode, codeOf(ran)]).toEqual([2, 'backend_unreachable'])
  })
})
