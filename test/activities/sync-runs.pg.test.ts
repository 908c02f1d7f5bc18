/** The steps of a run around its items: due, open, list, finalise, announce. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { InvalidArgumentException } from '../../src/core/errors.ts'
import type { Json } from '../../src/core/json.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { incrementalProvider, syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { itemsOf, logOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const INTERVAL_MINUTES = 10

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> | void

beforeAll(async () => {
  database = await createTestDatabase()
  const byTest = (session: SyncSession) => lists(session)
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider(byTest, { defaultSyncInterval: () => INTERVAL_MINUTES }),
      incremental: incrementalProvider(() => {
        throw new Error('sync() was called')
      }, byTest),
      'by-hand': syncProvider(byTest, { defaultSyncInterval: () => null }),
      unscheduled: {},
    },
    config: { sync: { queues: { 'by-hand': 'slow' }, item_backoff: [10, 30] } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  lists = () => {}
})

describe('starting due syncs', () => {
  const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
  beforeEach(async () => {
    await test.sql`delete from integrations`
    test.starts.syncs.length = 0
  })

  it.each([
    ['never planned', 'acme', { nextSyncAt: null }, true],
    ['due since a second', 'acme', { nextSyncAt: ago(1) }, true],
    ['due in a minute', 'acme', { nextSyncAt: ago(-60) }, false],
    ['switched off', 'acme', { nextSyncAt: null, isActive: false }, false],
    ['of an unregistered provider', 'acme', { nextSyncAt: null, provider: 'gone' }, false],
    ['of a provider without sync()', 'unscheduled', { nextSyncAt: null }, false],
    ['of a provider without an interval', 'by-hand', { nextSyncAt: null }, false],
    ['with an interval of its own', 'by-hand', { nextSyncAt: null, syncIntervalMinutes: 5 }, true],
    ['of an incremental provider', 'incremental', { nextSyncAt: null }, true],
  ])('an integration that is %s', async (_, provider, values, due) => {
    const { id } = await makeIntegration(test, provider)
    await setIntegration(test, id, values)
    expect(await test.activities.startDueSyncs()).toEqual({ due: due ? 1 : 0, started: due ? 1 : 0, alreadyRunning: 0 })
    expect(test.starts.syncs).toEqual(due ? [id] : [])
  })

  it('begins with those never planned, then the longest overdue', async () => {
    const ids: number[] = []
    for (const nextSyncAt of [ago(5), ago(50), null, ago(20), null]) {
      const { id } = await makeIntegration(test, 'acme')
      await setIntegration(test, id, { nextSyncAt })
      ids.push(id)
    }
    await test.activities.startDueSyncs()
    expect(test.starts.syncs.map((id) => ids.indexOf(id))).toEqual([2, 4, 1, 3, 0])
  })

  it('counts a run that lives as already running', async () => {
    const [first, second] = [await makeIntegration(test, 'acme'), await makeIntegration(test, 'acme')]
    test.starts.running.add(second.id)
    expect(await test.activities.startDueSyncs()).toEqual({ due: 2, started: 1, alreadyRunning: 1 })
    expect(test.starts.syncs).toEqual([first.id, second.id])
  })

  it('is not held up by a thousand that run by hand only', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials)
      select 'by-hand', 'by hand', 'sealed' from generate_series(1, 1001)`
    const { id } = await makeIntegration(test, 'acme')
    await setIntegration(test, id, { nextSyncAt: ago(1) })
    await test.activities.startDueSyncs()
    expect(test.starts.syncs).toEqual([id])
  })
})

describe('opening a run', () => {
  const open = (runId: string, { id } = integration) => test.activities.openSyncRun({ integrationId: id, runId })

  it('writes its log: inbound, processing, not enumerated, the cursor before', async () => {
    await integration.updateSyncCursor('c1')
    const opened = await open('a-run')
    expect(opened).toMatchObject({ kind: 'open', settings: { itemTaskQueue: 'integrations-default' } })
    expect(await logsOf(test, integration.id, 'sync')).toEqual([
      expect.objectContaining({
        direction: 'inbound',
        status: 'processing',
        metadata: { run_id: 'a-run', incremental: false, cursor_before: 'c1', enumerated: false },
      }),
    ])
  })

  it('is done once per run id, however often it is tried', async () => {
    const first = await open('a-run')
    expect(await open('a-run')).toEqual(first)
    expect(await open('another-run')).not.toEqual(first)
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(2)
  })

  it('is done once per run id when two tries overlap', async () => {
    const tries = await Promise.all(Array.from({ length: 8 }, () => open('a-run')))
    expect(new Set(tries.map((opened) => JSON.stringify(opened))).size).toBe(1)
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(1)
  })

  it.each([
    ['is gone', async () => ({ id: 999_999 }), 'no integration'],
    ['is switched off', async () => integration.disable().then(() => integration), 'switched off'],
    [
      'has no registered provider',
      async () => setIntegration(test, integration.id, { provider: 'gone' }).then(() => integration),
      'not registered',
    ],
    ['can not be synced', async () => makeIntegration(test, 'unscheduled'), 'no sync()'],
  ])('ends silently when the integration %s', async (_, arrange, reason) => {
    const { id } = await arrange()
    const opened = await test.activities.openSyncRun({ integrationId: id, runId: 'a-run' })
    expect(opened).toEqual({ kind: 'nothing to do', reason: expect.stringContaining(reason) })
    expect(await logsOf(test, id, 'sync')).toEqual([])
  })

  it('names the provider‘s own queue, and says when the listing will be incremental', async () => {
    const byHand = await makeIntegration(test, 'by-hand')
    expect(await open('a-run', byHand)).toMatchObject({ settings: { itemTaskQueue: 'integrations-slow' } })
    const incremental = await makeIntegration(test, 'incremental')
    await open('a-run', incremental)
    expect((await logsOf(test, incremental.id, 'sync'))[0]?.metadata).toMatchObject({ incremental: true })
  })
})

describe('a listing', () => {
  const things = async (session: SyncSession, ...numbers: number[]) => {
    for (const n of numbers) await session.dispatch(new ThingSynced(session.integration, { n }), n, n)
  }
  const list = (run: { id: number; integrationId: number }, attempt = 1) =>
    runActivity(test.activities.listSyncItems, { integrationId: run.integrationId, syncLogId: run.id }, { attempt })

  it('stores the items, marks the run as enumerated and names its requests', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    lists = async (session) => {
      await session.integration.request('things?page=1', 'GET', () => ({ ok: true }))
      await things(session, 1, 2)
      await session.integration.request('things?page=2', 'GET', () => ({ ok: true }))
    }
    expect(await list(run)).toEqual({ listed: 2, duplicatesDropped: 0 })
    const requests =
      await test.sql`select id from integration_requests where integration_id = ${integration.id} order by id`
    expect((await logOf(test, run.id)).metadata).toMatchObject({
      enumerated: true,
      listed: 2,
      request_ids: requests.map(({ id }) => Number(id)),
    })
    expect(requests).toHaveLength(2)
    const rows = await itemsOf(test, run.id)
    expect(rows.map((row) => row.batchId)).toEqual([
      (run.metadata as { run_id: string }).run_id,
      (run.metadata as { run_id: string }).run_id,
    ])
  })

  it('uses syncIncremental() where the provider has it', async () => {
    const incremental = await makeIntegration(test, 'incremental')
    const run = await makeRun(test, incremental.id, { enumerated: false })
    lists = (session) => things(session, 1)
    expect(await list(run)).toMatchObject({ listed: 1 })
  })

  it('that is tried again deletes what the try before stored', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    lists = async (session) => {
      for (let n = 0; n < 500; n += 1) await session.dispatch(new ThingSynced(session.integration, { n }))
      throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' })
    }
    await expect(list(run)).rejects.toMatchObject({ nonRetryable: false })
    expect(await itemsOf(test, run.id)).toHaveLength(500)
    lists = (session) => things(session, 7, 8)
    await list(run, 2)
    expect((await itemsOf(test, run.id)).map((row) => row.externalId)).toEqual(['7', '8'])
  })

  it('that is complete is not made again', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    lists = (session) => things(session, 1)
    await list(run)
    lists = () => {
      throw new Error('listed again')
    }
    expect(await list(run, 2)).toEqual({ listed: 1, duplicatesDropped: 0 })
  })

  it.each([
    ['a lost connection', 1, Object.assign(new Error('lost'), { code: 'ECONNRESET' }), false],
    ['a lost connection, the second time', 2, Object.assign(new Error('lost'), { code: 'ECONNRESET' }), false],
    ['a lost connection, the third time', 3, Object.assign(new Error('lost'), { code: 'ECONNRESET' }), true],
    ['an ordinary error', 1, new Error('a bug'), false],
    ['a client fault', 1, Object.assign(new Error('no such repository'), { status: 404 }), true],
    ['a bad argument', 1, new InvalidArgumentException('cursor', 'bad'), true],
  ])('that throws %s on try %i is final or not', async (_, attempt, error, nonRetryable) => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    lists = () => {
      throw error
    }
    await expect(list(run, attempt)).rejects.toMatchObject({ nonRetryable })
  })

  it('fails without a credential in the message, and without a stack', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    lists = () => {
      throw new Error(`refused ${TOKEN}`)
    }
    const failure = await list(run).catch((error: Error) => error)
    expect(failure).toMatchObject({ message: 'Error: refused [REDACTED]', stack: '' })
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })

  it('given up leaves a failed log, no item, cursor and last_synced_at as they were, and plans the next run', async () => {
    await setIntegration(test, integration.id, { syncCursor: 'c1', consecutiveSyncFailures: 1 })
    const run = await makeRun(test, integration.id, { enumerated: false })
    await makeItem(test, run)
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const fail = () =>
      test.activities.failSyncRun({ integrationId: integration.id, syncLogId: run.id, reason: 'it broke' })
    await fail()
    expect(await logOf(test, run.id)).toMatchObject({ status: 'failed', error: 'it broke' })
    expect(await itemsOf(test, run.id)).toEqual([])
    const times = await timesOf()
    expect(times).toMatchObject({ cursor: 'c1', lastSyncedAt: null, failures: 2 })
    expect(times.nextInMinutes).toBeCloseTo(2 * INTERVAL_MINUTES, 1)
    await fail()
    expect((await timesOf()).failures).toBe(2)
    expect(told).not.toHaveBeenCalled()
  })
})

describe('finalising a run', () => {
  it('F1: changes nothing while an item is not terminal', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success' })
    await makeItem(test, run, { status: 'pending' })
    const waits = await makeItem(test, run, { status: 'processing', attempts: 1 })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'held:1' })
    expect(await finalise(run)).toEqual({
      kind: 'unfinished',
      pending: 1,
      waiting: [{ id: waits.id, seconds: expect.closeTo(10, -0.5) }],
    })
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(await timesOf()).toMatchObject({ lastSyncedAt: null, nextInMinutes: null })
  })

  it('F1: changes nothing before the listing is complete', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    await makeItem(test, run, { status: 'success', checkpointValue: 'c9' })
    expect(await finalise(run)).toEqual({ kind: 'not this time', reason: 'the listing is not complete' })
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect((await timesOf()).cursor).toBeNull()
  })

  it('F1: looks at rows of this run only', async () => {
    const [run, other] = [await makeRun(test, integration.id), await makeRun(test, integration.id)]
    await makeItem(test, other, { status: 'pending' })
    await makeItem(test, run, { status: 'success' })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', succeeded: 1 })
  })

  it('F2: reduces the checkpoints of success and skipped rows, in id order, to the cursor', async () => {
    const reduced = vi.fn((checkpoints: readonly Json[]) => checkpoints.at(-1) ?? null)
    const key = `reducing-${integration.id}`
    test.integrations.register(
      key,
      syncProvider(() => {}, { reduceCheckpoints: reduced }),
    )
    const run = await makeRun(test, (await makeIntegration(test, key)).id)
    await makeItem(test, run, { status: 'success', checkpointValue: { p: 1 } })
    await makeItem(test, run, { status: 'skipped', checkpointValue: { p: 2 } })
    await makeItem(test, run, { status: 'success', checkpointValue: null })
    await makeItem(test, run, { status: 'success', checkpointValue: { p: 3 } })
    await finalise(run)
    expect(reduced.mock.calls[0]?.[0]).toEqual([{ p: 1 }, { p: 2 }, { p: 3 }])
    expect((await timesOf(run.integrationId)).cursor).toEqual({ p: 3 })
  })

  it.each([
    ['no checkpoint', [null, null]],
    ['no item at all', []],
  ])('F2: leaves the cursor with %s', async (_, checkpoints) => {
    await setIntegration(test, integration.id, { syncCursor: 'c1' })
    const run = await makeRun(test, integration.id)
    for (const checkpointValue of checkpoints) await makeItem(test, run, { status: 'success', checkpointValue })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', status: 'success' })
    expect((await timesOf()).cursor).toBe('c1')
  })

  it('F2: one failed item of this run holds the cursor', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c2' })
    await makeItem(test, run, { status: 'failed', checkpointValue: 'c1' })
    expect(await finalise(run)).toMatchObject({ status: 'partial' })
    expect((await timesOf()).cursor).toBeNull()
  })

  it.each([
    ['nothing later', null, 'held'],
    ['a later success of the same external id', { status: 'success', externalId: 'x' }, 'released'],
    ['a later skip of the same external id', { status: 'skipped', externalId: 'x' }, 'released'],
    ['a later success of another external id', { status: 'success', externalId: 'y' }, 'held'],
    ['a later success of another class', { status: 'success', externalId: 'x', eventClass: 'test.other' }, 'held'],
  ] as const)(
    'F2: an unresolved failure of an earlier run and %s: the cursor is held or released',
    async (_, later, expected) => {
      const earlier = await makeRun(test, integration.id, {}, { status: 'partial' })
      await makeItem(test, earlier, { status: 'failed', externalId: 'x', checkpointValue: 'c1' })
      const run = await makeRun(test, integration.id)
      await makeItem(test, run, { status: 'success', externalId: 'z', checkpointValue: 'c2' })
      if (later !== null) await makeItem(test, run, { ...later })
      expect(await finalise(run)).toMatchObject({ status: 'success' })
      expect((await timesOf()).cursor).toBe(expected === 'held' ? null : 'c2')
    },
  )

  it('F2: a failure without an external id holds the cursor until its own row is resolved', async () => {
    const earlier = await makeRun(test, integration.id, {}, { status: 'partial' })
    const failed = await makeItem(test, earlier, { status: 'failed', externalId: null })
    const first = await makeRun(test, integration.id)
    await makeItem(test, first, { status: 'success', externalId: null, checkpointValue: 'c2' })
    await finalise(first)
    expect((await timesOf()).cursor).toBeNull()
    await test.sql`update integration_sync_items set status = 'skipped' where id = ${failed.id}`
    const second = await makeRun(test, integration.id)
    await makeItem(test, second, { status: 'success', checkpointValue: 'c3' })
    await finalise(second)
    expect((await timesOf()).cursor).toBe('c3')
  })

  it('F2: a success before the failure does not resolve it', async () => {
    const earliest = await makeRun(test, integration.id, {}, { status: 'success' })
    await makeItem(test, earliest, { status: 'success', externalId: 'x' })
    const earlier = await makeRun(test, integration.id, {}, { status: 'partial' })
    await makeItem(test, earlier, { status: 'failed', externalId: 'x' })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c2' })
    await finalise(run)
    expect((await timesOf()).cursor).toBeNull()
  })

  it.each([
    ['none', null, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z'],
    ['an earlier one', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', '2026-01-02T00:00:00Z'],
    ['a later one', '2026-01-02T00:00:00Z', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'],
    ['the same instant in another form', '2026-01-02T00:00:00Z', '2026-01-02T00:00:00+00:00', '2026-01-02T00:00:00Z'],
    [
      'an earlier one that is greater as text',
      '2026-01-02T00:00:00Z',
      '2026-01-01T23:30:00-01:00',
      '2026-01-01T23:30:00-01:00',
    ],
    ['a fraction of a second earlier', '2026-01-02T00:00:00Z', '2026-01-02T00:00:00.5Z', '2026-01-02T00:00:00.5Z'],
  ])('F3: only moves forward: the cursor is %s', async (_, syncCursor, checkpointValue, cursor) => {
    await setIntegration(test, integration.id, { syncCursor })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue })
    await finalise(run)
    expect((await timesOf()).cursor).toBe(cursor)
  })

  it('F4: a cursor that was set after the run began stays', async () => {
    await setIntegration(test, integration.id, { syncCursor: 'c5' })
    const run = await makeRun(test, integration.id)
    await integration.updateSyncCursor('c1')
    await makeItem(test, run, { status: 'success', checkpointValue: 'c9' })
    expect(await finalise(run)).toMatchObject({ status: 'success' })
    expect((await timesOf()).cursor).toBe('c1')
    const next = await makeRun(test, integration.id)
    await makeItem(test, next, { status: 'success', checkpointValue: 'c9' })
    await finalise(next)
    expect((await timesOf()).cursor).toBe('c9')
  })

  it('F4: a reset cursor stays null', async () => {
    const run = await makeRun(test, integration.id)
    await integration.updateSyncCursor(null)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c9' })
    await finalise(run)
    expect((await timesOf()).cursor).toBeNull()
  })

  it('F5: happens once, also when two do it at the same moment', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed' })
    const results = await Promise.all(Array.from({ length: 6 }, () => finalise(run)))
    expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1)
    expect((await timesOf()).failures).toBe(1)
    await finalise(run)
    expect((await timesOf()).failures).toBe(1)
    expect((await logOf(test, run.id)).status).toBe('failed')
  })

  it.each([
    [{ success: 2, failed: 0, skipped: 1 }, 'success'],
    [{ success: 0, failed: 0, skipped: 2 }, 'success'],
    [{ success: 0, failed: 0, skipped: 0 }, 'success'],
    [{ success: 1, failed: 1, skipped: 0 }, 'partial'],
    [{ success: 0, failed: 1, skipped: 1 }, 'partial'],
    [{ success: 0, failed: 3, skipped: 0 }, 'failed'],
  ])('F6: with %j is %s', async (counts, status) => {
    const run = await makeRun(test, integration.id, { request_ids: [5, 6], duplicates_dropped: 2 })
    for (const [each, count] of Object.entries(counts))
      for (let n = 0; n < count; n += 1) await makeItem(test, run, { status: each as 'success' })
    expect(await finalise(run)).toEqual({
      kind: 'finalised',
      status,
      succeeded: counts.success,
      failed: counts.failed,
      skipped: counts.skipped,
    })
    expect(await logOf(test, run.id)).toMatchObject({
      status,
      durationMs: expect.any(Number),
      metadata: {
        success_count: counts.success,
        failure_count: counts.failed,
        skipped_count: counts.skipped,
        duplicates_dropped: 2,
        request_ids: [5, 6],
      },
    })
  })

  it('F7: clean sets last_synced_at to now, the counter to 0, and clears staleness', async () => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: 4, syncStaleAlertedAt: new Date() })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success' })
    await finalise(run)
    const times = await timesOf()
    expect(times).toMatchObject({ failures: 0, staleAlertedAt: null })
    expect(times.syncedSecondsAgo).toBeLessThan(5)
    expect(times.nextInMinutes).toBeCloseTo(INTERVAL_MINUTES, 1)
  })

  it('F7: an empty listing is clean', async () => {
    const run = await makeRun(test, integration.id)
    expect(await finalise(run)).toEqual({ kind: 'finalised', status: 'success', succeeded: 0, failed: 0, skipped: 0 })
    expect(await timesOf()).toMatchObject({ failures: 0, syncedSecondsAgo: expect.any(Number) })
  })

  it('F7: a run with failures leaves last_synced_at', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed' })
    await finalise(run)
    expect(await timesOf()).toMatchObject({ failures: 1, lastSyncedAt: null })
  })

  it.each([
    [0, 1],
    [1, 2],
    [2, 4],
    [3, 8],
    [4, 16],
    [5, 16],
    [500, 16],
  ])('F8: after %i failed runs before, a failed one waits %i intervals', async (before, multiplier) => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: before })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed' })
    await finalise(run)
    expect(await timesOf()).toMatchObject({ failures: before + 1 })
    expect((await timesOf()).nextInMinutes).toBeCloseTo(INTERVAL_MINUTES * multiplier, 1)
  })

  it('F8: without an interval plans nothing, with one of its own that one', async () => {
    const byHand = await makeIntegration(test, 'by-hand')
    await setIntegration(test, byHand.id, { nextSyncAt: new Date() })
    await finalise(await makeRun(test, byHand.id))
    expect((await timesOf(byHand.id)).nextInMinutes).toBeNull()
    await byHand.refresh()
    await setIntegration(test, byHand.id, { syncIntervalMinutes: 7 })
    await finalise(await makeRun(test, byHand.id))
    expect((await timesOf(byHand.id)).nextInMinutes).toBeCloseTo(7, 1)
  })

  it('by a reducer that throws is rolled back as a whole', async () => {
    const key = `broken-${integration.id}`
    test.integrations.register(
      key,
      syncProvider(() => {}, {
        reduceCheckpoints: () => {
          throw new Error('the reducer broke')
        },
      }),
    )
    const { id } = await makeIntegration(test, key)
    const run = await makeRun(test, id)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c1' })
    expect(await finalise(run)).toEqual({ kind: 'reducer threw', reason: 'Error: the reducer broke' })
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(await timesOf(id)).toMatchObject({ lastSyncedAt: null, nextInMinutes: null })
  })
})

describe('announcing a run', () => {
  it('tells SyncCompleted once, with what the run came to', async () => {
    const told = vi.fn<(event: IntegrationEvents['SyncCompleted']) => void>()
    listen(test, 'SyncCompleted', told)
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c1' })
    await makeItem(test, run, { status: 'skipped' })
    await finalise(run)
    await announce(run)
    await announce(run)
    expect(told).toHaveBeenCalledTimes(1)
    expect(told.mock.calls[0]?.[0].result).toEqual({
      kind: 'success',
      successCount: 1,
      failureCount: 0,
      skippedCount: 1,
      safeSyncedAt: (await integration.refresh()).lastSyncedAt,
      cursor: 'c1',
    })
    expect((await logOf(test, run.id)).metadata).toMatchObject({ announced_at: expect.any(String) })
  })

  it('gives no safe time for a run with failures, and says nothing of one that is not final', async () => {
    const told = vi.fn<(event: IntegrationEvents['SyncCompleted']) => void>()
    listen(test, 'SyncCompleted', told)
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed' })
    await announce(run)
    expect(told).not.toHaveBeenCalled()
    await finalise(run)
    await announce(run)
    expect(told.mock.calls[0]?.[0].result).toMatchObject({ kind: 'failed', failureCount: 1, safeSyncedAt: null })
  })

  it('of an empty run counts 0 and 0', async () => {
    const told = vi.fn<(event: IntegrationEvents['SyncCompleted']) => void>()
    listen(test, 'SyncCompleted', told)
    const run = await makeRun(test, integration.id)
    await finalise(run)
    await announce(run)
    expect(told.mock.calls[0]?.[0].result).toMatchObject({ kind: 'success', successCount: 0, failureCount: 0 })
  })
})

type Run = { id: number; integrationId: number }

const finalise = (run: Run) => test.activities.finaliseSyncRun({ integrationId: run.integrationId, syncLogId: run.id })
const announce = (run: Run) => test.activities.announceSyncRun({ integrationId: run.integrationId, syncLogId: run.id })

/** By the database's clock. */
async function timesOf(id = integration.id) {
  const [row] = await test.sql`
    select sync_cursor as cursor, last_synced_at as "lastSyncedAt", consecutive_sync_failures as failures,
           sync_stale_alerted_at as "staleAlertedAt",
           extract(epoch from next_sync_at - now())::float8 / 60 as "nextInMinutes",
           extract(epoch from now() - last_synced_at)::float8 as "syncedSecondsAgo"
    from integrations where id = ${id}`
  return row as unknown as {
    cursor: Json
    lastSyncedAt: Date | null
    failures: number
    staleAlertedAt: Date | null
    nextInMinutes: number | null
    syncedSecondsAgo: number | null
  }
}
