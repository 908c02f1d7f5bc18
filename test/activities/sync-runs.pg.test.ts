/** How a run begins: opened, or taken over from a dead one. And how it ends. */
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { settle } from '../../src/claims/claimed-rows.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { Json } from '../../src/framework/json.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { claimedItems } from '../../src/syncs/items/item-queries.ts'
import { recentRuns } from '../../src/syncs/opening-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { incrementalProvider, syncProvider } from '../support/providers.ts'
import { itemsOf, logOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const INTERVAL_MINUTES = 10
/** So long that a machine which stands still for seconds leaves them apart. */
const BACKOFF = [1_000, 3_000]
/** What is left of a wait that began within the last seconds. */
const mostOf = (seconds: number) => expect.toSatisfy((left: number) => left > seconds - 15 && left <= seconds)

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
    config: { sync: { queues: { 'by-hand': 'slow' }, item_backoff: BACKOFF } },
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

  it.each([
    ['is finalised since', { status: 'success' }],
    ['was given up since', { status: 'failed' }],
  ])('finds the run of an earlier try also when it %s', async (_, values) => {
    const run = await makeRun(test, integration.id, { run_id: 'a-run' }, values)
    expect(await open('a-run')).toMatchObject({ kind: 'open', syncLogId: run.id })
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(1)
  })

  it('ends silently when the health of the integration is disabled', async () => {
    await setIntegration(test, integration.id, { healthStatus: 'disabled' })
    expect(await open('a-run')).toEqual({ kind: 'nothing to do', reason: expect.stringContaining('disabled') })
    expect(await logsOf(test, integration.id, 'sync')).toEqual([])
  })

  it.each([
    ['due', -1, true, 'open'],
    ['due since it exists', null, true, 'open'],
    ['not due any more', 60, true, 'nothing to do'],
    ['not due, and was asked for by hand', 60, false, 'open'],
  ])('when the integration is %s, for a dispatch or not', async (_, seconds, onlyIfDue, kind) => {
    await test.sql`
      update integrations set next_sync_at = clock_timestamp() + make_interval(secs => ${seconds}::int)
      where id = ${integration.id}`
    const input = { integrationId: integration.id, runId: 'a-run', onlyIfDue }
    expect(await test.activities.openSyncRun(input)).toMatchObject({ kind })
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(kind === 'open' ? 1 : 0)
  })

  it('for a dispatch twice opens one run, when the first one has ended before the second is asked', async () => {
    const ask = (runId: string) =>
      test.activities.openSyncRun({ integrationId: integration.id, runId, onlyIfDue: true })
    const first = await ask('a-run')
    if (first.kind !== 'open') throw new Error('no run was opened')
    const run = { id: first.syncLogId, integrationId: integration.id }
    await test.sql`update integration_logs set metadata = metadata || '{"enumerated": true}' where id = ${run.id}`
    await finalise(run)
    expect(await ask('another-run')).toEqual({ kind: 'nothing to do', reason: 'it is not due any more' })
    expect(await ask('a-run')).toEqual(first)
  })

  it('names the queue of items, and says when the listing will be incremental', async () => {
    const byHand = await makeIntegration(test, 'by-hand')
    expect(await open('a-run', byHand)).toMatchObject({ settings: { itemTaskQueue: 'integrations-default' } })
    const incremental = await makeIntegration(test, 'incremental')
    await open('a-run', incremental)
    expect((await logsOf(test, incremental.id, 'sync'))[0]?.metadata).toMatchObject({ incremental: true })
  })
})

describe('what an earlier run left behind, when the next one is opened', () => {
  const open = (runId = 'a-run') => test.activities.openSyncRun({ integrationId: integration.id, runId })
  const age = (id: number, seconds: number) =>
    test.sql`
      update integration_sync_items set updated_at = clock_timestamp() - ${`${seconds} seconds`}::interval where id = ${id}`
  const inFlightTooLong = (id: number) =>
    test.sql`update integration_sync_items set created_at = now() - interval '20 days' where id = ${id}`

  it('an incomplete listing: its rows go, its log is failed and says why, and a new run is opened', async () => {
    const left = await makeRun(test, integration.id, { enumerated: false })
    await makeItem(test, left)
    const opened = await open()
    expect(opened).toMatchObject({ kind: 'open' })
    expect(opened).not.toMatchObject({ syncLogId: left.id })
    expect(await logOf(test, left.id)).toMatchObject({
      status: 'failed',
      error: 'the workflow of the run ended before its listing was complete',
    })
    expect(await itemsOf(test, left.id)).toEqual([])
    expect(await open()).toEqual(opened)
  })

  it('an incomplete listing: a due dispatch goes on all the same, whatever plan the failed run leaves', async () => {
    const left = await makeRun(test, integration.id, { enumerated: false })
    const input = { integrationId: integration.id, runId: 'a-run', onlyIfDue: true }
    const opened = await test.activities.openSyncRun(input)
    expect(opened).toMatchObject({ kind: 'open' })
    expect((await logOf(test, left.id)).status).toBe('failed')
    expect(await test.activities.openSyncRun(input)).toEqual(opened)
  })

  it('a complete listing: it is gone on with, 60 s after its last claim, and no run is opened', async () => {
    const left = await makeRun(test, integration.id)
    await makeItem(test, left)
    await age((await makeItem(test, left, { status: 'processing', attempts: 1, claim: 'dead:1' })).id, 300)
    await age((await makeItem(test, left, { status: 'processing', attempts: 1, claim: 'dead:2' })).id, 20)
    await age((await makeItem(test, left, { status: 'processing', attempts: 1 })).id, 1)
    const opened = await open()
    expect(opened).toEqual({
      kind: 'adopted',
      syncLogId: left.id,
      waitSeconds: mostOf(40),
      settings: expect.objectContaining({ itemTaskQueue: 'integrations-default' }),
    })
    expect(await logsOf(test, integration.id, 'sync')).toEqual([
      expect.objectContaining({ status: 'processing', metadata: expect.objectContaining({ adopted_by: 'a-run' }) }),
    ])
    expect(await open()).toMatchObject({ kind: 'adopted', syncLogId: left.id })
  })

  it('is settled also for a dispatch of what is not due any more', async () => {
    const left = await makeRun(test, integration.id)
    await test.sql`update integrations set next_sync_at = now() + interval '1 hour' where id = ${integration.id}`
    const input = { integrationId: integration.id, runId: 'a-run', onlyIfDue: true }
    expect(await test.activities.openSyncRun(input)).toMatchObject({ kind: 'adopted', syncLogId: left.id })
  })

  it('a complete listing of which nothing is held: it is gone on with at once', async () => {
    const left = await makeRun(test, integration.id)
    await makeItem(test, left)
    expect(await open()).toMatchObject({ kind: 'adopted', syncLogId: left.id, waitSeconds: 0 })
  })

  it('a complete listing whose adopter died too is adopted again', async () => {
    const left = await makeRun(test, integration.id, { adopted_by: 'dead-too' })
    expect(await open()).toMatchObject({ kind: 'adopted', syncLogId: left.id })
    expect((await logOf(test, left.id)).metadata).toMatchObject({ adopted_by: 'a-run' })
  })

  it.each([
    ['of the dead run', { status: 'processing' }],
    ['of a run that was finalised long ago', { status: 'partial' }],
  ])('an item %s that is being retried by hand: no run begins until its retry is over', async (_, values) => {
    const left = await makeRun(test, integration.id, {}, values)
    const item = await makeItem(test, left, { status: 'processing', attempts: 4, claim: 'retry-abc:1' })
    test.starts.runningItems.add(item.id)
    expect(await open()).toEqual({ kind: 'nothing to do', reason: expect.stringContaining(String(item.id)) })
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(1)
    test.starts.runningItems.delete(item.id)
    expect(await open()).toMatchObject({ kind: values.status === 'partial' ? 'open' : 'adopted' })
  })

  it('items that were in flight for too long are failed, their runs finalised, and that is all', async () => {
    const left = await makeRun(test, integration.id)
    const item = await makeItem(test, left, { status: 'processing', attempts: 1, claim: 'dead:1' })
    await makeItem(test, left, { status: 'success' })
    await inFlightTooLong(item.id)
    const reclaimed = { kind: 'reclaimed', syncLogIds: [left.id] }
    expect(await open()).toEqual(reclaimed)
    expect(await logOf(test, left.id)).toMatchObject({ status: 'partial' })
    expect((await itemsOf(test, left.id)).map(({ status }) => status)).toEqual(['failed', 'success'])
    expect(await logsOf(test, integration.id, 'sync')).toHaveLength(1)
    // A second try still knows whom to tell of; the run of another workflow begins.
    expect(await open()).toEqual(reclaimed)
    expect(await open('another-run')).toMatchObject({ kind: 'open' })
  })

  it('a backfill, whatever its state, is no business of an ordinary run', async () => {
    const backfill = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    const item = await makeItem(test, backfill, { status: 'processing', attempts: 1, claim: 'retry-abc:1' })
    test.starts.runningItems.add(item.id)
    expect(await open()).toMatchObject({ kind: 'open' })
    expect((await logOf(test, backfill.id)).status).toBe('processing')
  })

  it('is found without a walk over the years: the newest runs are read off the index, and no others', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials)
      select 'acme', 'one of many', 'sealed' from generate_series(1, 50)`
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status, metadata)
      select i.id, 'sync', 'inbound', 'success', '{"run_id":"x","enumerated":true}'
      from generate_series(1, 200) as run cross join integrations i order by run`
    await test.sql`analyze integration_logs`
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    const db = drizzle(test.sql, { logger: { logQuery } })
    await recentRuns(db, test.framework.tables, { integrationId: integration.id })
    const [query] = asked
    const plan = await test.sql.unsafe(`explain (analyze, costs off) ${query?.text}`, query?.parameters as never[])
    const lines = plan.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(lines).toMatch(/Index Scan Backward using integration_logs_operation_idx .*rows=20/)
    expect(lines).not.toContain('Sort')
  })
})

describe('taking over a run whose workflow is gone', () => {
  const takeOver = (run: { id: number }) =>
    test.activities.takeOverSyncRun({ integrationId: integration.id, syncLogId: run.id })
  const stateOf = async (run: { id: number }) =>
    (await itemsOf(test, run.id)).map(({ status, attempts, claim }) => [status, attempts, claim])

  it('gives back what its batches held, keeps what is held by the adopter or by a living retry, and counts', async () => {
    const run = await makeRun(test, integration.id, { adopted_by: 'adopter', listed: 12, unchanged: 3 })
    const held = { status: 'processing' } as const
    await makeItem(test, run, { status: 'success', attempts: 1 })
    await makeItem(test, run, { status: 'failed', attempts: 3 })
    await makeItem(test, run, { status: 'skipped', attempts: 3 })
    await makeItem(test, run)
    await makeItem(test, run, { ...held, attempts: 1, claim: 'dead:1:2' })
    const later = await makeItem(test, run, { ...held, attempts: 2, claim: 'dead:2' })
    const waits = await makeItem(test, run, { ...held, attempts: 2 })
    await makeItem(test, run, { ...held, attempts: 1, claim: 'adopter:1' })
    const retried = await makeItem(test, run, { ...held, attempts: 4, claim: 'retry-abc:1' })
    test.starts.runningItems.add(retried.id)
    const taken = {
      listed: 12,
      unchanged: 3,
      succeeded: 1,
      failed: 2,
      pending: 2,
      waiting: [
        { id: later.id, seconds: mostOf(1_000) },
        { id: waits.id, seconds: mostOf(3_000) },
      ],
    }
    const state = [
      ['success', 1, null],
      ['failed', 3, null],
      ['skipped', 3, null],
      ['pending', 0, null],
      ['pending', 0, null],
      ['processing', 1, null],
      ['processing', 2, null],
      ['processing', 1, 'adopter:1'],
      ['processing', 4, 'retry-abc:1'],
    ]
    expect(await takeOver(run)).toEqual(taken)
    expect(await stateOf(run)).toEqual(state)
    expect(await takeOver(run)).toEqual(taken)
    expect(await stateOf(run)).toEqual(state)
  })

  it.each(['sync', 'backfill'])('gives back what a %s itself lost, when it asks for old claims', async (operation) => {
    const run = await makeRun(test, integration.id, { run_id: 'own' }, { operation })
    const lost = await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'own:1' })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'own:2' })
    const retried = await makeItem(test, run, { status: 'processing', attempts: 4, claim: 'retry-abc:1' })
    test.starts.runningItems.add(retried.id)
    await test.sql`
      update integration_sync_items set updated_at = clock_timestamp() - interval '61 seconds'
      where id in (${lost.id}, ${retried.id})`
    const input = { integrationId: integration.id, syncLogId: run.id, olderThanSeconds: 60 }
    expect(await test.activities.takeOverSyncRun(input)).toMatchObject({ pending: 1, waiting: [] })
    expect(await stateOf(run)).toEqual([
      ['pending', 0, null],
      ['processing', 1, 'own:2'],
      ['processing', 4, 'retry-abc:1'],
    ])
  })

  it('gives back what a dead retry by hand held, too, in an attempt or between two', async () => {
    const run = await makeRun(test, integration.id, { adopted_by: 'adopter' })
    await makeItem(test, run, { status: 'processing', attempts: 4, claim: 'retry-abc:1' })
    await makeItem(test, run, { status: 'processing', attempts: 4, claim: 'retry-abc:waiting' })
    await takeOver(run)
    expect(await stateOf(run)).toEqual([
      ['processing', 3, null],
      ['processing', 4, null],
    ])
  })

  it('a wait goes on from where it was: an item that is due has nothing left to wait', async () => {
    const run = await makeRun(test, integration.id, { adopted_by: 'adopter' })
    const { id } = await makeItem(test, run, { status: 'processing', attempts: 2, claim: 'dead:1' })
    await test.sql`update integration_sync_items set updated_at = now() - interval '3001 seconds' where id = ${id}`
    expect(await takeOver(run)).toMatchObject({ waiting: [{ id, seconds: 0 }] })
  })

  it.each([
    ['not adopted', {}, {}],
    ['over', { adopted_by: 'adopter' }, { status: 'cancelled' }],
  ])('of a run that is %s changes nothing', async (_, metadata, values) => {
    const run = await makeRun(test, integration.id, metadata, values)
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'living:1' })
    await takeOver(run)
    expect(await stateOf(run)).toEqual([['processing', 1, 'living:1']])
  })

  it('a batch of the dead workflow that comes late settles nothing', async () => {
    const run = await makeRun(test, integration.id, { adopted_by: 'adopter' })
    const item = await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'dead:1' })
    await takeOver(run)
    const late = {
      id: item.id,
      attempts: 1,
      claim: 'dead:1',
      status: 'success',
      uncounted: false,
      wait: null,
      waitsFor: null,
    } as const
    const settled = await settle(test.framework.db, claimedItems(test.framework.tables), [
      { ...late, error: null, failure: null },
    ])
    expect(settled.size).toBe(0)
    expect(await stateOf(run)).toEqual([['pending', 0, null]])
  })
})

describe('finalising a run', () => {
  it('changes nothing while an item is not terminal', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success' })
    await makeItem(test, run, { status: 'pending' })
    const waits = await makeItem(test, run, { status: 'processing', attempts: 1 })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'held:1' })
    expect(await finalise(run)).toEqual({
      kind: 'unfinished',
      pending: 1,
      waiting: [{ id: waits.id, seconds: mostOf(1_000) }],
    })
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(await timesOf()).toMatchObject({ lastSyncedAt: null, nextInMinutes: null })
  })

  it('changes nothing before the listing is complete', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    await makeItem(test, run, { status: 'success', checkpointValue: 'c9' })
    expect(await finalise(run)).toEqual({ kind: 'not this time', reason: 'the listing is not complete' })
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect((await timesOf()).cursor).toBeNull()
  })

  it('looks at rows of this run only', async () => {
    const [run, other] = [await makeRun(test, integration.id), await makeRun(test, integration.id)]
    await makeItem(test, other, { status: 'pending' })
    await makeItem(test, run, { status: 'success' })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', succeeded: 1 })
  })

  it('reduces the checkpoints of success and skipped rows, in id order, to the cursor', async () => {
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
  ])('leaves the cursor with %s', async (_, checkpoints) => {
    await setIntegration(test, integration.id, { syncCursor: 'c1' })
    const run = await makeRun(test, integration.id)
    for (const checkpointValue of checkpoints) await makeItem(test, run, { status: 'success', checkpointValue })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', status: 'success' })
    expect((await timesOf()).cursor).toBe('c1')
  })

  it('one failed item of this run holds the cursor', async () => {
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
    'an unresolved failure of an earlier run and %s: the cursor is held or released',
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

  it('a failure without an external id holds the cursor until its own row is resolved', async () => {
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

  it('a success before the failure does not resolve it', async () => {
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
  ])('only moves forward: the cursor is %s', async (_, syncCursor, checkpointValue, cursor) => {
    await setIntegration(test, integration.id, { syncCursor })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue })
    await finalise(run)
    expect((await timesOf()).cursor).toBe(cursor)
  })

  it('a cursor that was set after the run began stays', async () => {
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

  it('a reset cursor stays null', async () => {
    const run = await makeRun(test, integration.id)
    await integration.updateSyncCursor(null)
    await makeItem(test, run, { status: 'success', checkpointValue: 'c9' })
    await finalise(run)
    expect((await timesOf()).cursor).toBeNull()
  })

  it('happens once, also when two do it at the same moment', async () => {
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
  ])('with %j is %s', async (counts, status) => {
    const run = await makeRun(test, integration.id, { request_ids: [5, 6], duplicates_dropped: 2 })
    for (const [each, count] of Object.entries(counts))
      for (let n = 0; n < count; n += 1) await makeItem(test, run, { status: each as 'success' })
    expect(await finalise(run)).toEqual({
      kind: 'finalised',
      status,
      succeeded: counts.success,
      failed: counts.failed,
      skipped: counts.skipped,
      fullListing: false,
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

  it('clean sets last_synced_at to now, the counter to 0, and clears staleness', async () => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: 4, syncStaleAlertedAt: new Date() })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success' })
    await finalise(run)
    const times = await timesOf()
    expect(times).toMatchObject({ failures: 0, staleAlertedAt: null })
    expect(times.syncedSecondsAgo).toBeLessThan(60)
    expect(times.nextInMinutes).toBeCloseTo(INTERVAL_MINUTES, 1)
  })

  it('an empty listing is clean', async () => {
    const run = await makeRun(test, integration.id)
    expect(await finalise(run)).toMatchObject({
      kind: 'finalised',
      status: 'success',
      succeeded: 0,
      failed: 0,
      skipped: 0,
    })
    expect(await timesOf()).toMatchObject({ failures: 0, syncedSecondsAgo: expect.any(Number) })
  })

  it('a run with failures leaves last_synced_at', async () => {
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
  ])('after %i failed runs before, a failed one waits %i intervals', async (before, multiplier) => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: before })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed' })
    await finalise(run)
    expect(await timesOf()).toMatchObject({ failures: before + 1 })
    expect((await timesOf()).nextInMinutes).toBeCloseTo(INTERVAL_MINUTES * multiplier, 1)
  })

  it('without an interval plans nothing, with one of its own that one', async () => {
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
      unchangedCount: 0,
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

/** By the database's clock; the next run by the statement that has planned it, however long ago that was. */
async function timesOf(id = integration.id) {
  const [row] = await test.sql`
    select sync_cursor as cursor, last_synced_at as "lastSyncedAt", consecutive_sync_failures as failures,
           sync_stale_alerted_at as "staleAlertedAt",
           extract(epoch from next_sync_at - updated_at)::float8 / 60 as "nextInMinutes",
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
