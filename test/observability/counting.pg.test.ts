/** What is counted, and what is not. Rule: docs/behaviour/metrics.md. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { syncItemActivities } from '../../src/activities/item-activities.ts'
import { webhookActivities } from '../../src/activities/webhook-activities.ts'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import { createApi } from '../../src/api/app.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { MAX_LOST_WORKERS } from '../../src/claims/rules.ts'
import { partsOf } from '../../src/create-integrations.ts'
import type { HandlesWebhooks, HasScheduledSync, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import { cancelRun } from '../../src/syncs/cut-short.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { sign, syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'
import { readMetrics, sumsBy } from './prometheus-text.ts'

let database: TestDatabase
let test: TestIntegrations
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()

const surroundings =
  (signal = new AbortController().signal, attempt = 1) =>
  () => ({
    cancellationSignal: signal,
    info: { attempt },
  })

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(() => {
  handle.mockReset()
  const acme: HandlesWebhooks & HasScheduledSync & ReconcilesWebhooks = {
    ...webhookProvider({ handleWebhook: (...given) => handle(...given) }),
    ...syncProvider(() => {}, { defaultRateLimit: () => RateLimit.perHour(1).sliding() }),
    reconcileLookbackSeconds: 86_400,
    async *missedWebhooks(_integration, { since }) {
      for (const n of [1, 2, 3])
        yield { deliveryId: `missed-${n}`, eventType: null, payload: '{}', headers: {}, occurredAt: since }
    },
  }
  test = testIntegrations(database.url, {
    providers: { acme, plain: {} },
    config: { rate_limiting: { max_wait_seconds: 0 } },
  })
  return () => test.close()
})

const samples = async () => readMetrics(await test.integrations.admin.metrics.text())
const sums = async (name: string, label = '') => sumsBy(await samples(), name, label)

describe('webhooks that are settled', () => {
  it('count by how their attempt ended, once each', async () => {
    const { id } = await makeIntegration(test, 'acme')
    for (let n = 0; n < 5; n += 1) await makeWebhook(test, id)
    handle.mockRejectedValueOnce(new Error('no')).mockResolvedValue(null)
    await workOff(test.framework)
    expect(await sums('webhooks_processed_total', 'status')).toEqual({ processed: 4, failed: 1 })
    expect(await sums('webhook_duration_seconds_count')).toEqual({ '': 5 })
  })

  it('do not count where another attempt holds the row by then', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeWebhook(test, id)
    handle.mockImplementation(async () => {
      await test.sql`update integration_webhooks set attempts = attempts + 1 where integration_id = ${id}`
    })
    await workOff(test.framework)
    expect(handle).toHaveBeenCalledOnce()
    expect(await sums('webhooks_processed_total')).toEqual({})
  })

  it('do not count where they went back', async () => {
    const { id } = await makeIntegration(test, 'acme')
    for (let n = 0; n < 60; n += 1) await makeWebhook(test, id)
    const stop = new AbortController()
    // More are claimed than run at once, once the first handlers have been quick.
    handle.mockImplementation(() => {
      if (handle.mock.calls.length === 15) stop.abort()
    })
    expect(await workOff(test.framework, { signal: stop.signal })).toMatchObject({ end: 'stopped' })
    const ran = handle.mock.calls.length
    expect(ran).toBeLessThan(60)
    expect(await sums('webhooks_processed_total', 'status')).toEqual({ processed: ran })
  })

  it('count as failed, without a duration, where their workers were lost too often', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const lost = { status: 'processing', attempts: 4, claim: 'd', lostWorkers: MAX_LOST_WORKERS - 1 } as const
    const { id: webhookId } = await makeWebhook(test, id, lost)
    const { processOneWebhook } = webhookRecoveryActivities(test.framework, surroundings(undefined, 2))
    expect(await processOneWebhook({ webhookId, claim: 'd' })).toMatchObject({ outcome: 'failed' })
    const [row] = await test.sql`select status, error from integration_webhooks where integration_id = ${id}`
    expect(row).toEqual({ status: 'failed', error: expect.stringContaining('worker lost') })
    expect(await sums('webhooks_processed_total', 'provider')).toEqual({ acme: 1 })
    expect(await sums('webhook_duration_seconds_count')).toEqual({})
  })
})

describe('deliveries', () => {
  it('count by what became of them; a stranger names no series', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const api = createApi(test.integrations)
    const post = async (path: string, body: string, headers: Record<string, string> = {}) =>
      (await api.request(path, { method: 'POST', headers: { 'x-signature': sign(body), ...headers }, body })).status
    const own = `/integrations/acme/${id}/webhook`
    expect(await post(own, '{}', { 'x-delivery': 'one' })).toBe(200)
    expect(await post(own, '{}', { 'x-delivery': 'one' })).toBe(200)
    expect(await post(own, '{}', { 'x-signature': 'no' })).toBe(403)
    expect(await post('/integrations/nobody-knows/webhook', '{}')).toBe(404)
    expect(await post('/integrations/acme/4711/webhook', '{}')).toBe(404)
    expect(await sums('webhooks_received_total', 'outcome')).toEqual({
      queued: 1,
      duplicate: 1,
      bad_signature: 1,
      unknown_provider: 1,
      unknown_integration: 1,
    })
    expect(await sums('webhooks_received_total', 'provider')).toEqual({ acme: 4, '(unknown)': 1 })
  })

  it('that reconciliation stores count apart, and those that were there do not', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeWebhook(test, id, { deliveryId: 'missed-1' })
    await webhookActivities(test.framework, surroundings()).reconcileIntegration({ integrationId: id })
    expect(await sums('webhooks_received_total', 'outcome')).toEqual({ reconciled: 2 })
    await webhookActivities(test.framework, surroundings()).reconcileIntegration({
      integrationId: id,
      dryRun: true,
    })
    expect(await sums('webhooks_received_total', 'outcome')).toEqual({ reconciled: 2 })
  })
})

describe('outbound calls', () => {
  it('count by class, as their rows have it', async () => {
    const integration = await makeIntegration(test, 'plain')
    for (const status of [200, 404, 429, 503, 503])
      await integration
        .request('/x', 'GET', () => new Response('{}', { status }), { attempts: 1 })
        .catch((error: unknown) => expect(error).toMatchObject({ status }))
    const rows = await test.sql<{ class: string; count: string }[]>`
      select coalesce(failure_class, 'none') as class, count(*) from integration_requests
      where integration_id = ${integration.id} group by 1`
    expect(await sums('requests_total', 'failure_class')).toEqual(
      Object.fromEntries(rows.map((row) => [row.class, Number(row.count)])),
    )
    expect(await sums('requests_total', 'failure_class')).toEqual({ none: 1, client: 1, throttle: 1, upstream: 2 })
  })

  it('count once each attempt, and those refused for want of capacity apart', async () => {
    const integration = await makeIntegration(test, 'acme')
    expect(await integration.request('/x', 'GET', () => ({ ok: true }))).toEqual({ ok: true })
    await expect(integration.request('/x', 'GET', () => ({ ok: true }))).rejects.toMatchObject({
      code: 'rate_limit_exceeded',
    })
    expect(await sums('requests_total', 'failure_class')).toEqual({ none: 1 })
    expect(await sums('rate_limited_total')).toEqual({ '': 1 })
  })
})

describe('syncs', () => {
  it('count items that are skipped, refused, or end with their run', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const run = await makeRun(test, id)
    const failed = await makeItem(test, run, { status: 'failed' })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'x' })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: null })
    await makeItem(test, run)
    const { syncItems } = test.integrations.admin
    await syncItems.skip(failed.id)
    expect(await sums('sync_items_total', 'status')).toEqual({ skipped: 1 })
    expect(await cancelRun(test.framework, { integrationId: id, syncLogId: run.id })).toBe(true)
    expect(await cancelRun(test.framework, { integrationId: id, syncLogId: run.id })).toBe(false)
    expect(await sums('sync_items_total', 'status')).toEqual({ skipped: 1, failed: 2 })
    expect(await sums('sync_runs_total', 'status')).toEqual({ cancelled: 1 })
    expect(await sums('sync_runs_total', 'provider')).toEqual({ acme: 1 })
  })

  it('count an item that no listener may have as failed', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const run = await makeRun(test, id)
    await makeItem(test, run)
    // What another release of the host has left: ours refuses to register one.
    vi.spyOn(test.framework.listeners, 'queuedItemTypes').mockReturnValue([ThingSynced.type])
    await syncItemActivities(test.framework, surroundings()).processSyncItems({
      syncLogId: run.id,
      claim: 'q',
      take: { kind: 'pending', limit: 10 },
    })
    expect(await sums('sync_items_total', 'status')).toEqual({ failed: 1 })
    expect(await sums('sync_items_total', 'provider')).toEqual({ acme: 1 })
  })

  it('count a run once, however often it is finalised', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const run = await makeRun(test, id)
    await makeItem(test, run, { status: 'success' })
    await test.integrations.syncs.finalise(run.id)
    await test.integrations.syncs.finalise(run.id)
    expect(await sums('sync_runs_total', 'status')).toEqual({ success: 1 })
  })
})

describe('wake-ups', () => {
  it('count when Temporal is not there', async () => {
    const lonely = testIntegrations(database.url, {
      recordStarts: false,
      providers: { acme: webhookProvider() },
    })
    const { workflow } = partsOf(lonely.integrations).client()
    vi.spyOn(workflow, 'signalWithStart').mockRejectedValue(new Error('14 UNAVAILABLE: No connection established'))
    try {
      lonely.framework.workflows.wakeInbox()
      await vi.waitFor(() => expect(lonely.lines.map(({ fields }) => fields.event)).toContain('inbox.wake_failed'), {
        timeout: 20_000,
        interval: 20,
      })
      const said = lonely.lines.filter(({ fields }) => fields.event === 'inbox.wake_failed').length
      expect(sumsBy(readMetrics(await lonely.integrations.admin.metrics.text()), 'wakeups_failed_total')).toEqual({
        '': said,
      })
    } finally {
      await lonely.close()
    }
  })
})
