/** How a run ends: finalised, late, told, given up, cancelled. */

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { handBack } from '../../src/claims/claimed-rows.ts'
import type { SyncItemRow } from '../../src/db/schema/tables.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { Json } from '../../src/framework/json.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { abandonSlice } from '../../src/syncs/cut-short.ts'
import { isCursorHeld } from '../../src/syncs/end-queries.ts'
import { finaliseRun } from '../../src/syncs/finalisation.ts'
import { skipSyncItem } from '../../src/syncs/items/item-acts.ts'
import { claimedItems } from '../../src/syncs/items/item-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { planned } from '../support/plans.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import {
  itemOf,
  itemsOf,
  logOf,
  makeIntegration,
  makeItem,
  makeRun,
  setIntegration,
  waitingForLocks,
} from '../support/rows.ts'

const INTERVAL_MINUTES = 10

type Run = { readonly id: number; readonly integrationId: number }
type Status = SyncItemRow['status']

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let reduce: (checkpoints: readonly Json[]) => Json

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider(() => {}, {
        defaultSyncInterval: () => INTERVAL_MINUTES,
        reduceCheckpoints: (checkpoints) => reduce(checkpoints),
      }),
      ordered: syncProvider(() => {}, { listsByCheckpoint: true }),
      former: webhookProvider(),
    },
    config: { sync: { stuck_item_after_runs: 3 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  reduce = (checkpoints) => Math.max(...checkpoints.map(Number))
})

describe('the beginning of the listing', () => {
  const BEGAN = '2026-03-01T12:00:00.000Z'
  const [BEFORE, AFTER] = ['2026-03-01T11:59:00Z', '2026-03-01T12:00:07Z']
  const cursorAfter = async (...checkpoints: [eventClass: string, checkpoint: Json][]) => {
    const run = await makeRun(test, integration.id, { listing_began_at: BEGAN })
    for (const [eventClass, checkpointValue] of checkpoints)
      await makeItem(test, run, { status: 'success', checkpointValue, eventClass })
    await finalise(run)
    return (await timesOf()).cursor
  }

  beforeEach(() => {
    reduce = reduceCheckpointsByMax
  })

  it('is as far as the cursor goes: an item of another list may have changed since', async () => {
    expect(await cursorAfter(['test.thing', BEFORE], ['test.other', AFTER])).toBe('2026-03-01T12:00:00Z')
  })

  it('leaves an earlier cursor as it is', async () => {
    expect(await cursorAfter(['test.thing', BEFORE])).toBe(BEFORE)
  })

  it('bounds each time in the cursor of a reducer of its own', async () => {
    reduce = (given) => Object.assign({}, ...given)
    const cursor = await cursorAfter(['test.thing', { things: BEFORE }], ['test.other', { others: AFTER }])
    expect(cursor).toEqual({ things: BEFORE, others: '2026-03-01T12:00:00Z' })
  })

  it('holds nothing where the provider lists by that very field', async () => {
    integration = await makeIntegration(test, 'ordered')
    expect(await cursorAfter(['test.thing', AFTER])).toBe(AFTER)
  })

  it('can hold no cursor that is no time: a warning says so, and none does where the provider lists by it', async () => {
    const warnings = () => test.lines.filter(({ fields }) => fields.event === 'sync.cursor_without_time')
    expect(await cursorAfter(['test.thing', 'evt_9'])).toBe('evt_9')
    expect(warnings()).toMatchObject([{ fields: { integration: integration.id } }])
    integration = await makeIntegration(test, 'ordered')
    expect(await cursorAfter(['test.thing', 'evt_9'])).toBe('evt_9')
    expect(warnings()).toHaveLength(1)
  })

  it('is that of its own run also when the cursor moves late', async () => {
    const run = await makeRun(test, integration.id, { listing_began_at: BEGAN })
    await makeItem(test, run, { status: 'success', checkpointValue: AFTER })
    await makeItem(test, run, { status: 'failed', checkpointValue: AFTER, externalId: 'failed' })
    await finalise(run)
    expect((await timesOf()).cursor).toBeNull()
    await setItem(run, 2, { status: 'skipped' })
    await late(run)
    expect((await timesOf()).cursor).toBe('2026-03-01T12:00:00Z')
  })
})

describe('the end of a run', () => {
  it.each<[string, unknown]>([
    ['what Postgres can not keep', 'a\ud83d'],
    ['what is no JSON', new Date(0)],
  ])('takes a reducer that gives %s for one that throws: nothing is changed', async (_, given) => {
    reduce = () => given as Json
    const result = await finalise(await runOf(['success', 1]))
    expect(result).toMatchObject({ kind: 'reducer threw', reason: expect.stringContaining('cursor') })
    expect((await timesOf()).cursor).toBeNull()
  })

  it('the cursor advances only once every item succeeded: the checkpoints are reduced, and it never goes back', async () => {
    const run = await runOf(['success', 1], ['success', 2], ['failed', 3])
    await finalise(run)
    expect((await timesOf()).cursor).toBeNull()
    const good = await runOf(['success', 5], ['success', 4], ['success', 3, 'item 3'])
    await setItem(run, 3, { status: 'skipped' })
    await finalise(good)
    expect((await timesOf()).cursor).toBe(5)
    await finalise(await runOf(['success', 2]))
    expect((await timesOf()).cursor).toBe(5)
  })

  it('a clean run sets last_synced_at, resets consecutive_sync_failures and advances next_sync_at', async () => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: 3 })
    await finalise(await runOf(['success', 1], ['skipped', 2]))
    const times = await timesOf()
    expect(times).toMatchObject({ failures: 0, lastSyncedAt: expect.any(Date) })
    expect(times.nextInMinutes).toBeCloseTo(INTERVAL_MINUTES, 1)
  })

  it('a run with failures leaves last_synced_at, adds to consecutive_sync_failures and still advances next_sync_at', async () => {
    await setIntegration(test, integration.id, { consecutiveSyncFailures: 1 })
    await finalise(await runOf(['success', 1], ['failed', 2]))
    const times = await timesOf()
    expect(times).toMatchObject({ failures: 2, lastSyncedAt: null })
    expect(times.nextInMinutes).toBeCloseTo(2 * INTERVAL_MINUTES, 1)
  })

  it('the multiplier of next_sync_at derives from consecutive_sync_failures and is capped', async () => {
    const waits: number[] = []
    for (let n = 0; n < 7; n += 1) {
      await finalise(await runOf(['failed', 1]))
      waits.push(Math.round(((await timesOf()).nextInMinutes ?? 0) / INTERVAL_MINUTES))
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 16, 16])
  })

  it('plans the next run within a hundred years, whatever interval is multiplied by what', async () => {
    await setIntegration(test, integration.id, {
      syncIntervalMinutes: 2_147_483_647,
      consecutiveSyncFailures: 2_147_483_647,
    })
    await finalise(await runOf(['failed', 1]))
    const { failures, nextInMinutes } = await timesOf()
    expect(failures).toBe(2_147_483_647)
    expect((nextInMinutes ?? 0) / 60 / 24 / 365.25).toBeCloseTo(100, 1)
  })

  it('sync_stale_alerted_at is cleared by a clean run, which is told with its end; one with failures leaves it', async () => {
    const recovered = vi.fn()
    listen(test, 'SyncStalenessRecovered', recovered)
    await setIntegration(test, integration.id, { syncStaleAlertedAt: new Date() })
    const failed = await runOf(['failed', 1, 'x'])
    await finalise(failed)
    await announce(failed)
    expect((await timesOf()).staleAlertedAt).not.toBeNull()
    const clean = await runOf(['success', 1, 'x'])
    await finalise(clean)
    expect((await timesOf()).staleAlertedAt).toBeNull()
    expect(recovered).not.toHaveBeenCalled()
    await announce(clean)
    await announce(await runOf())
    expect(recovered).toHaveBeenCalledTimes(1)
    const next = await runOf()
    await finalise(next)
    await announce(next)
    expect(recovered).toHaveBeenCalledTimes(1)
  })

  it('a number of consecutive failed runs of one external id fires SyncItemStuck, again on each further one', async () => {
    const stuck = vi.fn<(event: IntegrationEvents['SyncItemStuck']) => void>()
    listen(test, 'SyncItemStuck', stuck)
    const told: [externalId: string | null, runs: number][][] = []
    for (let n = 0; n < 4; n += 1) {
      const run = await runOf(['failed', 1, 'x'], ['failed', 2, null], ['failed', 3, `only ${n}`])
      await finalise(run)
      await announce(run)
      told.push(stuck.mock.calls.map(([{ item, consecutiveFailedRuns }]) => [item.externalId, consecutiveFailedRuns]))
      stuck.mockClear()
    }
    expect(told).toEqual([[], [], [['x', 3]], [['x', 4]]])
  })

  it('metadata that others have written is kept', async () => {
    const run = await runOf(['success', 1])
    const other = test.sql`
      update integration_logs set metadata = metadata || '{"noted": 1}'::jsonb where id = ${run.id}`
    await Promise.all([other, finalise(run)])
    expect((await logOf(test, run.id)).metadata).toMatchObject({ noted: 1, success_count: 1, cursor_after: 1 })
  })

  it.each([
    ['clean, with a full listing', { full_listing: { internal_type: null } }, 'success', true],
    ['with failures, with a full listing', { full_listing: { internal_type: null } }, 'failed', false],
    ['clean, without', {}, 'success', false],
  ] as const)('says whether everything was listed: %s', async (_, metadata, status, fullListing) => {
    const run = await makeRun(test, integration.id, metadata)
    await makeItem(test, run, { status })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', fullListing })
  })

  it('hands the checkpoints to the reducer page by page, the result so far in front', async () => {
    const sizes: number[] = []
    reduce = (checkpoints) => {
      sizes.push(checkpoints.length)
      return Math.max(...checkpoints.map(Number))
    }
    const run = await makeRun(test, integration.id)
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, status, checkpoint_value)
      select ${integration.id}, ${run.id}, 'test.thing', 'success', to_jsonb(n) from generate_series(1, 12000) n`
    await finalise(run)
    expect((await timesOf()).cursor).toBe(12_000)
    // The last one holds the result against the cursor, of which there is none.
    expect(sizes).toEqual([5_000, 5_001, 2_001, 1])
  })
})

describe('a run of a stream whose provider has no sync any more', () => {
  const runOfStream = async () => makeRun(test, (await makeIntegration(test, 'former')).id, {}, { stream: 'contacts' })

  it('is finalised', async () => {
    const run = await runOfStream()
    await makeItem(test, run, { status: 'success', stream: 'contacts', checkpointValue: 4 })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', status: 'success' })
    expect(await logOf(test, run.id)).toMatchObject({ status: 'success' })
  })

  it('is cancelled', async () => {
    const run = await runOfStream()
    await test.activities.cancelSyncRun({ integrationId: run.integrationId, syncLogId: run.id })
    expect(await logOf(test, run.id)).toMatchObject({ status: 'cancelled' })
  })
})

describe('an unfinished item of an earlier run', () => {
  it('that is being retried holds the cursor as a failed one does', async () => {
    const earlier = await runOf(['failed', 1, 'x'])
    await finalise(earlier)
    await setItem(earlier, 1, { status: 'processing', claim: 'retry-1:1' })
    await finalise(await runOf(['success', 2]))
    expect((await timesOf()).cursor).toBeNull()
  })

  it('holds the cursor also when its run was cancelled, or the log of its run is gone', async () => {
    const cancelled = await makeRun(test, integration.id, {}, { status: 'cancelled' })
    const item = await makeItem(test, cancelled, { status: 'failed', externalId: 'x' })
    await finalise(await runOf(['success', 2]))
    expect((await timesOf()).cursor).toBeNull()
    await test.sql`delete from integration_logs where id = ${cancelled.id}`
    expect((await itemOf(test, item.id)).syncLogId).toBeNull()
    await finalise(await runOf(['success', 3]))
    expect((await timesOf()).cursor).toBeNull()
    await test.sql`update integration_sync_items set status = 'skipped' where id = ${item.id}`
    await finalise(await runOf(['success', 4]))
    expect((await timesOf()).cursor).toBe(4)
  })

  it('that was made up for is known by the index of failed ones, however often it has failed', async () => {
    const earlier = await makeRun(test, integration.id, {}, { status: 'failed' })
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, status, external_id, payload)
      select ${integration.id}, ${earlier.id}, 'test.thing', 'failed', 'x' || n % 30, to_jsonb(repeat('x', 1000))
      from generate_series(1, 3000) n`
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, status, external_id)
      select ${integration.id}, ${earlier.id}, 'test.thing', 'success', 'x' || n from generate_series(0, 29) n`
    await test.sql.unsafe('vacuum analyze integration_sync_items')
    const run = { ...(await runOf(['success', 2])), stream: null }
    const isHeld = await planned(database.url, (db) => isCursorHeld(db as never, test.framework.tables, run))
    expect(isHeld).toMatchObject({ answer: false, statements: 1 })
    expect(isHeld.plan).toContain('Index Only Scan using integration_sync_items_own_failed_idx')
  })

  it('is not looked for among all items of a new integration, of which statistics know nothing', async () => {
    await test.sql.unsafe('alter table integration_sync_items set (autovacuum_enabled = off)')
    const items = (whose: number, run: number, stream: string, rows: number) => test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, stream, event_class, status, external_id)
      select ${whose}, ${run}, ${stream} || n % 99, 'test.thing', 'success', 'x' || n from generate_series(1, ${rows}) n`
    const old = await runOf(['success', 1])
    await items(integration.id, old.id, 'stream', 1_000)
    await test.sql.unsafe('analyze integration_sync_items')
    integration = await makeIntegration(test, 'acme')
    const run = await runOf(['success', 2])
    await items(integration.id, run.id, 'large', 20_000)
    const of = { ...run, stream: 'small' }
    const { plan } = await planned(database.url, (db) => isCursorHeld(db as never, test.framework.tables, of))
    const removed = [...plan.matchAll(/Rows Removed by Filter: (\d+)/g)].map(([, rows]) => Number(rows))
    expect(Math.max(0, ...removed)).toBeLessThan(100)
    await test.sql.unsafe('alter table integration_sync_items reset (autovacuum_enabled)')
  })

  it('of a backfill does not hold it', async () => {
    const backfill = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    await makeItem(test, backfill, { status: 'failed', externalId: 'x' })
    await finalise(await runOf(['success', 2]))
    expect((await timesOf()).cursor).toBe(2)
  })
})

describe('a late finalisation', () => {
  it('moves the cursor once the failed item succeeded, and nothing else', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await runOf(['success', 2], ['failed', 1, 'x'])
    await finalise(run)
    await announce(run)
    const before = { times: await timesOf(), log: await logOf(test, run.id) }
    expect(await late(run)).toMatchObject({ isFinalisedNow: false, cursorMoved: false })
    await setItem(run, 2, { status: 'success' })
    expect(await late(run)).toMatchObject({ isFinalisedNow: false, cursorMoved: true, cursor: 2 })
    expect(await late(run)).toMatchObject({ cursorMoved: false })
    await announce(run)
    const after = { times: await timesOf(), log: await logOf(test, run.id) }
    expect(after.times).toMatchObject({ cursor: 2, failures: before.times.failures, lastSyncedAt: null })
    expect(after.times.nextSyncAt).toEqual(before.times.nextSyncAt)
    expect(after.log.status).toBe(before.log.status)
    expect(told).toHaveBeenCalledTimes(1)
  })

  it('waits for an item that is being retried', async () => {
    const run = await runOf(['success', 2], ['failed', 1, 'x'])
    await finalise(run)
    await setItem(run, 2, { status: 'processing', claim: 'retry-1:1' })
    expect(await late(run)).toMatchObject({ cursorMoved: false, result: { kind: 'finalised', status: 'partial' } })
  })

  it.each(['cancelled', 'failed'] as const)('never takes the cursor of a run that was %s', async (how) => {
    const run = await runOf(['success', 2], ['pending', 3])
    if (how === 'cancelled') await cancel(run)
    else await fail(run)
    expect((await late(run)).result.kind).toBe('not this time')
    expect((await timesOf()).cursor).toBeNull()
  })
})

describe('a backfill', () => {
  it('ends with status and counts only', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    await setIntegration(test, integration.id, { consecutiveSyncFailures: 2, syncStaleAlertedAt: new Date() })
    const run = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    await makeItem(test, run, { status: 'success', checkpointValue: 9 })
    expect(await finalise(run)).toMatchObject({ kind: 'finalised', status: 'success', succeeded: 1 })
    await announce(run)
    expect(await timesOf()).toMatchObject({ cursor: null, failures: 2, lastSyncedAt: null, nextSyncAt: null })
    expect((await timesOf()).staleAlertedAt).not.toBeNull()
    const { status, metadata } = await logOf(test, run.id)
    expect({ status, metadata }).toMatchObject({ status: 'success', metadata: { success_count: 1 } })
    expect(metadata).not.toHaveProperty('cursor_after')
    expect(told).not.toHaveBeenCalled()
  })

  it.each(['cancelled', 'failed'] as const)('that is %s leaves counter and times', async (how) => {
    const run = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    await (how === 'cancelled' ? cancel(run) : fail(run))
    expect((await logOf(test, run.id)).status).toBe(how)
    expect(await timesOf()).toMatchObject({ failures: 0, nextSyncAt: null })
  })
})

describe('a stuck item', () => {
  it('is counted anew after a success or a skip, whatever the class; runs count once; backfills do not', async () => {
    const stuckOf = async (run: Run) => {
      await finalise(run)
      return ((await logOf(test, run.id)).metadata as { stuck?: unknown }).stuck ?? []
    }
    await stuckOf(await runOf(['failed', 1, 'x'], ['failed', 1, 'x']))
    await stuckOf(await runOf(['failed', 1, 'x']))
    const backfill = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    await makeItem(test, backfill, { status: 'failed', externalId: 'x' })
    expect(await stuckOf(backfill)).toEqual([])
    const third = await runOf(['failed', 1, 'x'], ['failed', 2, 'y'])
    const [first] = await itemsOf(test, third.id)
    expect(await stuckOf(third)).toEqual([{ item_id: first?.id, runs: 3 }])
    const done = await makeRun(test, integration.id)
    await makeItem(test, done, { status: 'skipped', externalId: 'x', eventClass: 'test.other' })
    await finalise(done)
    expect(await stuckOf(await runOf(['failed', 1, 'x']))).toEqual([])
  })
})

describe('a stuck item that has failed very often', () => {
  it('is counted as far as its newest rows say, twenty for each run of the threshold', async () => {
    await test.sql`
      with runs as (
        insert into integration_logs (integration_id, operation, direction, status)
        select ${integration.id}, 'sync', 'inbound', 'failed' from generate_series(1, 200)
        returning id
      )
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status)
      select ${integration.id}, id, 'test.thing', 'x', 'failed' from runs order by id`
    const run = await runOf(['failed', 1, 'x'])
    const [item] = await itemsOf(test, run.id)
    await finalise(run)
    expect((await logOf(test, run.id)).metadata).toMatchObject({ stuck: [{ item_id: item?.id, runs: 60 }] })
  })
})

describe('a run with very many stuck items', () => {
  it('notes a thousand of them, first those that were told of the least, and counts the others', async () => {
    const stuck = vi.fn<(event: IntegrationEvents['SyncItemStuck']) => void>()
    const [old, lately] = [900, 300]
    const fail = async (run: Run, prefix: string, count: number) =>
      test.sql`
        insert into integration_sync_items (integration_id, sync_log_id, event_class, status, external_id, attempts)
        select ${integration.id}, ${run.id}, 'test.thing', 'failed', ${prefix} || n, 3 from generate_series(1, ${count}) n`
    for (let n = 0; n < 3; n += 1) {
      const before = await makeRun(test, integration.id, {}, { status: 'failed' })
      await fail(before, 'old ', old)
      if (n > 0) await fail(before, 'lately ', lately)
    }
    const run = await makeRun(test, integration.id)
    await fail(run, 'old ', old)
    await fail(run, 'lately ', lately)
    await finalise(run)
    const { metadata } = await logOf(test, run.id)
    const noted = (metadata as unknown as { stuck: { item_id: number; runs: number }[] }).stuck
    expect(noted.filter(({ runs }) => runs === 3)).toHaveLength(lately)
    expect(noted.filter(({ runs }) => runs === 4)).toHaveLength(1_000 - lately)
    expect(noted.map(({ item_id }) => item_id)).toEqual(noted.map(({ item_id }) => item_id).sort((a, b) => a - b))
    expect(metadata).toMatchObject({ stuck_untold: old + lately - 1_000 })

    listen(test, 'SyncItemStuck', stuck)
    const linesBefore = test.lines.length
    await announce(run)
    expect(stuck).toHaveBeenCalledTimes(1_000)
    expect(test.lines.slice(linesBefore).map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ event: 'sync.stuck_untold', sync_log: run.id, told: 1_000, untold: 200 }),
    )
  })
})

describe('more items than one run tells of, that became stuck together', () => {
  it('are all told of in a few runs', async () => {
    const many = 1_200
    const fail = async (run: Run) =>
      test.sql`
        insert into integration_sync_items (integration_id, sync_log_id, event_class, status, external_id, attempts)
        select ${integration.id}, ${run.id}, 'test.thing', 'failed', 'many ' || n, 3 from generate_series(1, ${many}) n`
    for (let n = 0; n < 3; n += 1) await fail(await makeRun(test, integration.id, {}, { status: 'failed' }))
    const told = new Set<string>()
    let runs = 0
    // Of 1,200 a run leaves out 200: that one of them is left out twelve times running is less likely than one in a million.
    while (told.size < many && runs < 12) {
      const run = await makeRun(test, integration.id)
      await fail(run)
      await finalise(run)
      runs += 1
      const rows = await test.sql<{ external_id: string }[]>`
        select external_id from integration_sync_items where id in (
          select (noted ->> 'item_id')::bigint from integration_logs, jsonb_array_elements(metadata -> 'stuck') noted
          where id = ${run.id})`
      expect(rows).toHaveLength(1_000)
      for (const { external_id: id } of rows) told.add(id)
    }
    expect(told.size).toBe(many)
  })
})

describe('a run that is older than its log can say', () => {
  const GREATEST = 2_147_483_647

  it.each([25, 400])('ends all the same, however it ends: %i days', async (days) => {
    const old = (metadata = {}, values = {}) =>
      makeRun(test, integration.id, metadata, { createdAt: new Date(Date.now() - days * 86_400_000), ...values })
    const ended = async (run: Run, status: string) =>
      expect(await logOf(test, run.id)).toMatchObject({ status, durationMs: GREATEST })

    const finalised = await old()
    await makeItem(test, finalised, { status: 'success', checkpointValue: 1 })
    expect(await finalise(finalised)).toMatchObject({ kind: 'finalised', status: 'success' })
    await ended(finalised, 'success')

    const failed = await old({ enumerated: false })
    await fail(failed)
    await ended(failed, 'failed')

    const cancelled = await old()
    await cancel(cancelled)
    await ended(cancelled, 'cancelled')

    const slice = await old({}, { operation: 'backfill' })
    expect(await abandonSlice(test.framework, ids(slice), 'its workflow is gone', [])).toBe(true)
    await ended(slice, 'failed')

    const left = await old()
    await makeItem(test, left, { status: 'success', checkpointValue: 2 })
    const opened = await test.activities.openSyncRun({ integrationId: integration.id, runId: `adopts-${days}` })
    expect(opened).toMatchObject({ kind: 'adopted', syncLogId: left.id })
    await test.activities.takeOverSyncRun(ids(left))
    expect(await finalise(left)).toMatchObject({ kind: 'finalised', status: 'success' })
    await ended(left, 'success')
  })
})

describe('a process whose clock is two hours ahead of the database', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * 3_600_000 })
    return () => vi.useRealTimers()
  })

  it('ends a run with the duration that it had, and says what is left of an item’s wait', async () => {
    const run = await runOf(['success', 1])
    await makeItem(test, run, { status: 'processing', attempts: 1 })
    expect(await finalise(run)).toMatchObject({ kind: 'unfinished', waiting: [{ seconds: 10 }] })
    expect(await test.activities.takeOverSyncRun(ids(run))).toMatchObject({ waiting: [{ seconds: 10 }] })
    await setItem(run, 2, { status: 'success' })
    await finalise(run)
    expect((await logOf(test, run.id)).durationMs).toBeLessThan(600_000)
  })

  it('makes an integration that it enables due at once', async () => {
    await integration.enable()
    const [row] =
      await test.sql`select next_sync_at <= clock_timestamp() as due from integrations where id = ${integration.id}`
    expect(row).toEqual({ due: true })
  })

  it('opens no run that is not due in the place of one that died', async () => {
    await test.sql`
      update integrations set next_sync_at = clock_timestamp() + interval '1 hour' where id = ${integration.id}`
    await makeRun(test, integration.id, { enumerated: false })
    const input = { integrationId: integration.id, runId: 'not-due', onlyIfDue: true }
    expect(await test.activities.openSyncRun(input)).toMatchObject({ kind: 'nothing to do' })
  })
})

describe('the announcement', () => {
  it('comes in order: recovered, each stuck item, completed', async () => {
    const names: string[] = []
    for (const name of ['SyncCompleted', 'SyncItemStuck', 'SyncStalenessRecovered'] as const)
      listen(test, name, () => void names.push(name))
    const run = await runOf(['failed', 1, 'x'], ['failed', 1, 'y'])
    const items = await itemsOf(test, run.id)
    const stuck = items.map(({ id }) => ({ item_id: id, runs: 7 }))
    await finalise(run)
    const noted = JSON.stringify({ stuck, staleness_recovered: true })
    await test.sql`update integration_logs set metadata = metadata || ${noted}::text::jsonb where id = ${run.id}`
    await announce(run)
    expect(names).toEqual(['SyncStalenessRecovered', 'SyncItemStuck', 'SyncItemStuck', 'SyncCompleted'])
  })

  it('of two at the same moment tells it once, and sends the other one to look again', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await runOf(['success', 1])
    await finalise(run)
    let second: Promise<unknown> = Promise.resolve()
    listen(test, 'SyncCompleted', () => {
      second = announce(run).catch((error: Error) => error.message)
      return second
    })
    await announce(run)
    expect(await second).toContain('another process is announcing')
    await announce(run)
    expect(told).toHaveBeenCalledTimes(1)
    expect((await logOf(test, run.id)).metadata).not.toHaveProperty('announcing_until')
  })

  it('is made once however long its listeners take: an item that is skipped meanwhile tells nobody again', async () => {
    const told = vi.fn()
    const [listening, over] = [occasion(), occasion()]
    listen(test, 'SyncCompleted', async () => {
      told()
      listening.happen()
      await over.happened
    })
    const run = await runOf(['failed', 1, 'x'], ['success', 2])
    const [failed] = await itemsOf(test, run.id)
    await finalise(run)
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      const announced = announce(run)
      await listening.happened
      // The lease has run out by the database's clock, and its renewal is due.
      await test.sql`
        update integration_logs set metadata = metadata || '{"announcing_until": 1}'::jsonb where id = ${run.id}`
      await vi.advanceTimersByTimeAsync(5_000)
      await expect.poll(leaseLeft).toBeGreaterThan(10)
      await skipSyncItem(test.framework, failed?.id ?? 0)
      over.happen()
      await announced
    } finally {
      over.happen()
      vi.useRealTimers()
    }
    expect(told).toHaveBeenCalledTimes(1)
    const { metadata } = await logOf(test, run.id)
    expect(metadata).toMatchObject({ announced_at: expect.any(String) })
    expect(metadata).not.toHaveProperty('announcing_until')
    expect(metadata).not.toHaveProperty('announcer')

    /** Seconds, by the database's clock. */
    async function leaseLeft(): Promise<number> {
      const [row] = await test.sql`
        select (metadata ->> 'announcing_until')::float8 - extract(epoch from clock_timestamp())::float8 as left
        from integration_logs where id = ${run.id}`
      return row?.left as number
    }
  })

  it('is left to whoever has taken it from a process that stood still', async () => {
    const run = await runOf(['success', 1])
    await finalise(run)
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      listen(test, 'SyncCompleted', async () => {
        await test.sql`
          update integration_logs set metadata = metadata || '{"announcer": "another"}'::jsonb where id = ${run.id}`
        await vi.advanceTimersByTimeAsync(5_000)
      })
      await expect(announce(run)).rejects.toThrow('another process is announcing')
    } finally {
      vi.useRealTimers()
    }
    expect((await logOf(test, run.id)).metadata).toMatchObject({ announcer: 'another' })
    expect((await logOf(test, run.id)).metadata).not.toHaveProperty('announced_at')
  })

  it('is not noted by who has lost it since its last renewal', async () => {
    const run = await runOf(['success', 1])
    await finalise(run)
    listen(
      test,
      'SyncCompleted',
      () => test.sql`
        update integration_logs set metadata = metadata || '{"announcer": "another"}'::jsonb where id = ${run.id}`,
    )
    await expect(announce(run)).rejects.toThrow('another process is announcing')
    expect((await logOf(test, run.id)).metadata).toMatchObject({ announcer: 'another' })
    expect((await logOf(test, run.id)).metadata).not.toHaveProperty('announced_at')
  })

  it('is made again when the one who made it died before it was noted', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await runOf(['success', 1])
    await finalise(run)
    await test.sql`
      update integration_logs set metadata = metadata || '{"announcing_until": 1}'::jsonb where id = ${run.id}`
    await announce(run)
    expect(told).toHaveBeenCalledTimes(1)
  })

  it.each(['cancelled', 'failed'] as const)('says nothing of a run that was %s', async (how) => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await makeRun(test, integration.id, { enumerated: false })
    await (how === 'cancelled' ? cancel(run) : fail(run))
    await announce(run)
    expect(told).not.toHaveBeenCalled()
  })
})

describe('a cancelled run', () => {
  it('leaves an item with its retry by hand while that lives', async () => {
    const run = await runOf(['success', 5, 'done'])
    const retried = { status: 'processing', attempts: 4 } as const
    const held = await makeItem(test, run, { ...retried, claim: 'retry-a:1', externalId: 'held' })
    const waits = await makeItem(test, run, { ...retried, claim: 'retry-b:waiting', externalId: 'waits' })
    const left = await makeItem(test, run, { ...retried, claim: 'retry-c:1', externalId: 'left' })
    for (const { id } of [held, waits]) test.starts.runningItems.add(id)
    await cancel(run)
    for (const row of [held, waits]) expect(await itemOf(test, row.id)).toEqual(row)
    expect(await itemOf(test, left.id)).toMatchObject({ status: 'failed', error: 'cancelled', claim: null })
  })

  it('deletes what had not started, fails what had, and leaves cursor, last clean time and counter', async () => {
    const failures = vi.fn()
    listen(test, 'SyncItemFailed', failures)
    await setIntegration(test, integration.id, { syncCursor: 1, consecutiveSyncFailures: 3 })
    const run = await runOf(['success', 5, 'done'], ['pending', 6])
    await makeItem(test, run, { status: 'processing', attempts: 1, externalId: 'waits' })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'held:1', externalId: 'held' })
    await cancel(run)
    await cancel(run)
    const rows = await itemsOf(test, run.id)
    expect(rows.map(({ externalId, status, error, claim }) => [externalId, status, error, claim])).toEqual([
      ['done', 'success', null, null],
      ['waits', 'failed', 'cancelled', null],
      ['held', 'failed', 'cancelled', null],
    ])
    expect(rows[1]?.completedAt).not.toBeNull()
    expect((await logOf(test, run.id)).status).toBe('cancelled')
    const times = await timesOf()
    expect(times).toMatchObject({ cursor: 1, lastSyncedAt: null, failures: 3 })
    expect(times.nextInMinutes).toBeCloseTo(INTERVAL_MINUTES, 1)
    expect(failures).not.toHaveBeenCalled()
  })

  describe('against a batch that hands its unstarted rows back', () => {
    async function heldRow() {
      const run = await runOf()
      await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'batch:1', externalId: 'unstarted' })
      return run
    }

    it.each([
      ['the queue', { status: 'pending' }, []],
      ['those that wait', { status: 'processing', waitsFor: null }, [['failed', 'cancelled', null]]],
    ] as const)('keeps nothing open when they go to %s at the same moment', async (_, to, left) => {
      const run = await heldRow()
      let cancelled: Promise<void> = Promise.resolve()
      await test.framework.db.transaction(async (batch) => {
        const rows = await itemsOf(test, run.id)
        expect(await handBack(batch, claimedItems(test.framework.tables, to), rows)).toHaveProperty('size', 1)
        cancelled = cancel(run)
        await expect.poll(() => waitingForLocks(test)).toBe(1)
      })
      await cancelled
      const rows = await itemsOf(test, run.id)
      expect(rows.map(({ status, error, claim }) => [status, error, claim])).toEqual(left)
      expect((await logOf(test, run.id)).status).toBe('cancelled')
    })

    it('lets none of them go back once it was first', async () => {
      const run = await heldRow()
      const held = await itemsOf(test, run.id)
      await cancel(run)
      const { db, tables } = test.framework
      expect(await handBack(db, claimedItems(tables), held)).toHaveProperty('size', 0)
      expect((await itemsOf(test, run.id)).map(({ status }) => status)).toEqual(['failed'])
    })
  })

  it('a large one is emptied in parts, each in a transaction of its own, as is one that is given up', async () => {
    await test.sql.unsafe(`
      create table deletions (tx bigint, deleted int);
      create function note_deletion() returns trigger language plpgsql as $$
        begin insert into deletions select txid_current(), count(*) from gone; return null; end $$;
      create trigger note_deletion after delete on integration_sync_items referencing old table as gone
        for each statement execute function note_deletion()`)
    for (const [end, status] of [
      [cancel, 'cancelled'],
      [fail, 'failed'],
    ] as const) {
      const run = await makeRun(test, integration.id)
      await test.sql`
        insert into integration_sync_items (integration_id, sync_log_id, event_class, payload)
        select ${integration.id}, ${run.id}, 'test.thing', '{}' from generate_series(1, 12000)`
      await end(run)
      expect(await itemsOf(test, run.id)).toEqual([])
      expect(await logOf(test, run.id)).toMatchObject({ status, metadata: { enumerated: false } })
      const parts = await test.sql`
        select sum(deleted)::int as deleted from deletions where deleted > 0 group by tx order by tx`
      expect(parts.map(({ deleted }) => deleted)).toEqual([5_000, 5_000, 2_000])
      await test.sql`delete from deletions`
    }
    await test.sql.unsafe('drop trigger note_deletion on integration_sync_items')
  })

  it('while it lists, keeps no row', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    await makeItem(test, run)
    await cancel(run)
    expect(await itemsOf(test, run.id)).toEqual([])
  })

  it('that was finalised before stays finalised', async () => {
    const run = await runOf(['success', 1])
    await finalise(run)
    await cancel(run)
    await fail(run)
    expect((await logOf(test, run.id)).status).toBe('success')
    expect((await timesOf()).failures).toBe(0)
  })
})

/** A run with an item for each of these; by default each has an external id of its own. */
async function runOf(...items: [status: Status, checkpoint: number, externalId?: string | null][]): Promise<Run> {
  const run = await makeRun(test, integration.id)
  for (const [status, checkpointValue, externalId = `item ${checkpointValue}`] of items)
    await makeItem(test, run, { status, checkpointValue, externalId })
  return run
}

/** @param nth from 1 */
async function setItem(run: Run, nth: number, values: { status: Status; claim?: string }): Promise<void> {
  const rows = await itemsOf(test, run.id)
  await test.sql`update integration_sync_items set ${test.sql({ claim: null, ...values })} where id = ${rows[nth - 1]?.id ?? 0}`
}

const ids = (run: Run) => ({ integrationId: run.integrationId, syncLogId: run.id })
const finalise = (run: Run) => test.activities.finaliseSyncRun(ids(run))
const late = (run: Run) => finaliseRun(test.framework, ids(run))
const announce = (run: Run) => test.activities.announceSyncRun(ids(run))
const cancel = (run: Run) => test.activities.cancelSyncRun(ids(run))
const fail = (run: Run) => test.activities.failSyncRun({ ...ids(run), reason: 'it broke' })

/** By the database's clock; the next run by the statement that has planned it, however long ago that was. */
async function timesOf() {
  const [row] = await test.sql`
    select sync_cursor as cursor, last_synced_at as "lastSyncedAt", consecutive_sync_failures as failures,
           sync_stale_alerted_at as "staleAlertedAt", next_sync_at as "nextSyncAt",
           extract(epoch from next_sync_at - updated_at)::float8 / 60 as "nextInMinutes"
    from integrations where id = ${integration.id}`
  return row as unknown as {
    cursor: Json
    lastSyncedAt: Date | null
    failures: number
    staleAlertedAt: Date | null
    nextSyncAt: Date | null
    nextInMinutes: number | null
  }
}
