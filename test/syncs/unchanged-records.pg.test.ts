/** Records that are as they were handled last are counted, not run. Rule: docs/behaviour/sync-changes.md. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { Json } from '../../src/framework/json.ts'
import type { HasBackfill, SkipUnchanged } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { recordHash } from '../../src/syncs/record-hash-rules.ts'
import { markUnchanged } from '../../src/syncs/record-queries.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { planned } from '../support/plans.ts'
import { OtherSynced, syncProvider } from '../support/providers.ts'
import { itemsOf, logOf, makeIntegration, makeRun } from '../support/rows.ts'

type Lists = (session: SyncSession) => Promise<void> | void

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let lists: Lists
let fails: (payload: Json) => boolean
let told: [payload: Json, change: string | null, previous: string | null][]

beforeAll(async () => {
  database = await createTestDatabase()
  const provider = {
    ...syncProvider((session) => lists(session), { skipUnchanged: { except: ['seen', 'stats.views'] } }),
    syncWindow: async (_integration, session) => lists(session),
  } satisfies HasBackfill
  test = testIntegrations(database.url, {
    providers: { acme: provider, loud: syncProvider((session) => lists(session)) },
    config: { sync: { item_tries: 1 } },
  })
  test.integrations.on(OtherSynced, ({ payload, change, previousHash }) => {
    told.push([payload, change, previousHash])
    if (fails(payload)) throw new Error('it fails')
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  lists = () => {}
  fails = () => false
  told = []
})

const run = async () => {
  told = []
  return runSync(test.framework, new ManualClock(new Date().toISOString()), { integrationId: integration.id })
}
const listing =
  (...records: readonly (readonly [id: string | null, payload: Json, at?: string])[]): Lists =>
  async (session) => {
    for (const [id, payload, at = null] of records)
      await session.dispatch(new OtherSynced(session.integration, payload), at, id)
  }
const hashOf = (data: Json, skip: SkipUnchanged = true) => recordHash(JSON.stringify({ v: 1, data }), skip)
const ids = () => told.map(([payload]) => (payload as { id: string }).id)
const metadataOf = async (syncLogId: number) => (await logOf(test, syncLogId)).metadata

describe('the hash of a record', () => {
  it.each<[string, Json, Json, SkipUnchanged, boolean]>([
    ['the order of keys does not count', { a: 1, b: 2 }, { b: 2, a: 1 }, true, true],
    ['the order of a list does', [1, 2], [2, 1], true, false],
    ['a field that is left out does not count', { a: 1, at: 1 }, { a: 1, at: 2 }, { except: ['at'] }, true],
    ['nor whether it is there', { a: 1, at: 1 }, { a: 1 }, { except: ['at'] }, true],
    ['nor an inner one', { s: { v: 1, w: 1 } }, { s: { v: 2, w: 1 } }, { except: ['s.v'] }, true],
    ['another inner one does', { s: { v: 1, w: 1 } }, { s: { v: 1, w: 2 } }, { except: ['s.v'] }, false],
    ['nor one of each element', { l: [{ v: 1 }, { v: 2 }] }, { l: [{ v: 3 }, { v: 4 }] }, { except: ['l.*.v'] }, true],
    ['a field of that name elsewhere does', { b: { at: 1 } }, { b: { at: 2 } }, { except: ['at'] }, false],
    ['a name with a dot is escaped', { 'a.b': 1 }, { 'a.b': 2 }, { except: ['a\\.b'] }, true],
    ['null is not nothing', { a: null }, {}, true, false],
  ])('%s', (_, a, b, skip, same) => {
    expect(hashOf(a, skip) === hashOf(b, skip)).toBe(same)
  })

  it('is another one in another version of the event class', () => {
    expect(recordHash('{"v":2,"data":{"a":1}}', true)).not.toBe(hashOf({ a: 1 }))
  })
})

describe('a record', () => {
  const at = (n: number) => `2026-01-0${n}T00:00:00Z`

  it('runs once while it stays the same; what changed is told with the hash before', async () => {
    lists = listing(['a', { id: 'a', n: 1, seen: 1 }, at(1)], ['b', { id: 'b', n: 1 }, at(1)])
    await run()
    expect(told).toEqual([
      [{ id: 'a', n: 1, seen: 1 }, 'added', null],
      [{ id: 'b', n: 1 }, 'added', null],
    ])
    lists = listing(['a', { id: 'a', n: 1, seen: 2 }, at(2)], ['b', { id: 'b', n: 2 }, at(2)])
    const syncLogId = await run()
    expect(told).toEqual([[{ id: 'b', n: 2 }, 'updated', hashOf({ id: 'b', n: 1 })]])
    expect(await metadataOf(syncLogId)).toMatchObject({ listed: 2, unchanged: 1, success_count: 1 })
    expect((await logOf(test, syncLogId)).summary).toBe('1 succeeded, 0 failed, 0 skipped, 1 unchanged')
    expect(await itemsOf(test, syncLogId)).toHaveLength(1)
  })

  it('that is unchanged moves the cursor as a finished one does, also alone', async () => {
    lists = listing(['a', { id: 'a' }, at(1)])
    await run()
    lists = listing(['a', { id: 'a' }, at(3)])
    const results: IntegrationEvents['SyncCompleted'][] = []
    listen(test, 'SyncCompleted', (event) => void results.push(event))
    await run()
    expect((await integration.refresh()).syncCursor).toBe(at(3))
    expect(results).toMatchObject([{ result: { kind: 'success', successCount: 0, unchangedCount: 1, cursor: at(3) } }])
  })

  it('that failed is tried again, though it is as it was before the failure', async () => {
    lists = listing(['a', { id: 'a', n: 1 }, at(1)])
    await run()
    fails = () => true
    lists = listing(['a', { id: 'a', n: 2 }, at(2)])
    await run()
    // It is put back: what the failed attempt has left at the host is not known.
    lists = listing(['a', { id: 'a', n: 1 }, at(3)])
    fails = () => false
    await run()
    expect(told).toEqual([[{ id: 'a', n: 1 }, 'updated', hashOf({ id: 'a', n: 1 })]])
    expect((await integration.refresh()).syncCursor).toBe(at(3))
    await run()
    expect(told).toEqual([])
  })

  it('runs again after the retry of an older item while a younger one of it has failed', async () => {
    lists = listing(['a', { id: 'a' }, at(1)])
    fails = () => true
    const [first, second] = [await run(), await run()]
    fails = () => false
    const [older] = await itemsOf(test, first)
    const retry = { itemId: older?.id ?? 0, claim: 'retry-older:1', attempt: 1, tries: 1 }
    expect(await runActivity(test.activities.processOneSyncItem, retry)).toMatchObject({ outcome: 'success' })
    expect(await itemsOf(test, second)).toMatchObject([{ status: 'failed' }])
    await run()
    expect(ids()).toEqual(['a'])
    expect((await integration.refresh()).syncCursor).toBe(at(1))
    await run()
    expect(told).toEqual([])
  })

  it('that failed at its first time is still added', async () => {
    lists = listing(['a', { id: 'a' }])
    fails = () => true
    await run()
    fails = () => false
    await run()
    expect(told).toEqual([[{ id: 'a' }, 'added', null]])
  })

  it('without an external id runs each time, and so does each of a provider that does not ask for it', async () => {
    lists = listing([null, { id: 'x' }])
    await run()
    await run()
    expect(told).toEqual([[{ id: 'x' }, null, null]])
    integration = await makeIntegration(test, 'loud')
    lists = listing(['a', { id: 'a' }])
    await run()
    await run()
    expect(told).toEqual([[{ id: 'a' }, null, null]])
    expect(await test.sql`select from integration_record_hashes where integration_id = ${integration.id}`).toEqual([])
  })

  it('runs again in a backfill, and its hash stays what was handled last', async () => {
    lists = listing(['a', { id: 'a' }])
    await run()
    told = []
    const { syncLogId } = (await test.activities.openBackfillSlice({
      integrationId: integration.id,
      from: '2026-01-01T00:00:00Z',
      to: '2026-01-02T00:00:00Z',
      runId: 'backfill',
      startedAt: new Date().toISOString(),
    } as never)) as { syncLogId: number }
    await runActivity(test.activities.listSyncItems, { integrationId: integration.id, syncLogId, attempt: 1 })
    const take = { kind: 'pending', limit: 10 } as const
    await runActivity(test.activities.processSyncItems, { syncLogId, claim: 'b:1', take })
    expect(ids()).toEqual(['a'])
    await run()
    expect(told).toEqual([])
  })

  it('runs while another copy of it waits in a backfill, and then keeps that copy from being handled last', async () => {
    lists = listing(['a', { id: 'a', n: 1 }], ['b', { id: 'b' }])
    await run()
    lists = listing(['a', { id: 'a', n: 2 }])
    const { syncLogId } = (await test.activities.openBackfillSlice({
      integrationId: integration.id,
      from: '2026-01-01T00:00:00Z',
      to: '2026-01-02T00:00:00Z',
      runId: 'backfill',
      startedAt: new Date().toISOString(),
    } as never)) as { syncLogId: number }
    await runActivity(test.activities.listSyncItems, { integrationId: integration.id, syncLogId, attempt: 1 })
    lists = listing(['a', { id: 'a', n: 1 }], ['b', { id: 'b' }])
    await run()
    expect(ids()).toEqual(['a'])
    const take = { kind: 'pending', limit: 10 } as const
    await runActivity(test.activities.processSyncItems, { syncLogId, claim: 'b:1', take, isBackfill: true })
    expect(told.map(([payload]) => payload)).toEqual([{ id: 'a', n: 1 }])
    expect((await itemsOf(test, syncLogId)).map(({ status }) => status)).toEqual(['skipped'])
  })

  it('of an erased integration is added again: no hash stays', async () => {
    lists = listing(['a', { id: 'a' }])
    const syncLogId = await run()
    await test.integrations.admin.erase(integration.id)
    const hashes = await test.sql`
      select hash from integration_record_hashes where integration_id = ${integration.id}
      union all select record_hash from integration_sync_items where sync_log_id = ${syncLogId}`
    expect(hashes).toEqual([{ hash: null }, { hash: null }])
    await test.integrations.enable(integration.id)
    await run()
    expect(told).toEqual([[{ id: 'a' }, 'added', null]])
  })
})

describe('a listing', () => {
  it('that names a record twice stores the changed copy once, and counts an unchanged one once', async () => {
    lists = listing(['a', { id: 'a', n: 1 }], ['b', { id: 'b', n: 1 }])
    await run()
    // Parts of a listing are stored together; a bookmark ends one.
    lists = async (session) => {
      await listing(['a', { id: 'a', n: 1 }], ['b', { id: 'b', n: 1 }])(session)
      await session.bookmark(1)
      expect(session.has(OtherSynced, 'a')).toBe(true)
      await listing(['a', { id: 'a', n: 2 }], ['b', { id: 'b', n: 1 }])(session)
    }
    const syncLogId = await run()
    expect(ids()).toEqual(['a'])
    expect(await metadataOf(syncLogId)).toMatchObject({ listed: 2, unchanged: 1, duplicates_dropped: 2 })
  })

  it('that goes on from a bookmark knows the unchanged ones before it, and their checkpoints', async () => {
    lists = listing(['a', { id: 'a' }, '1'], ['b', { id: 'b' }, '1'], ['c', { id: 'c' }, '1'])
    await run()
    let tries = 0
    let has: boolean[] = []
    lists = async (session) => {
      tries += 1
      if (session.resumeFrom() === null) {
        await listing(['a', { id: 'a' }, '9'])(session)
        await session.bookmark('behind a')
        await listing(['b', { id: 'b' }, '5'])(session)
        // Stored, and not vouched for.
        await session.bookmark('behind a')
        if (tries === 1) throw new Error('the listing breaks off')
      }
      has = ['a', 'b', 'c'].map((id) => session.has(OtherSynced, id))
      await listing(['c', { id: 'c', n: 2 }, '2'])(session)
    }
    const syncLogId = await run()
    expect(has).toEqual([true, true, false])
    expect(ids()).toEqual(['c'])
    expect(await metadataOf(syncLogId)).toMatchObject({ listed: 3, unchanged: 2 })
    expect((await integration.refresh()).syncCursor).toBe('9')
  })

  it('that begins again counts what it names itself, not what the first try named', async () => {
    lists = listing(['a', { id: 'a' }], ['b', { id: 'b' }], ['c', { id: 'c' }])
    await run()
    let tries = 0
    let has: boolean[] = []
    lists = async (session) => {
      tries += 1
      if (tries === 1) {
        // As many as are stored together, without a bookmark: the next try begins at the beginning.
        const others = Array.from({ length: 499 }, (_, n) => [`x${n}`, { id: `x${n}` }] as const)
        await listing(['a', { id: 'a' }], ...others)(session)
        throw new Error('the listing breaks off')
      }
      if (tries === 2) {
        await listing(['b', { id: 'b' }])(session)
        await session.bookmark('behind b')
        throw new Error('the listing breaks off')
      }
      has = ['a', 'b', 'c'].map((id) => session.has(OtherSynced, id))
      await listing(['c', { id: 'c' }], ['a', { id: 'a' }])(session)
    }
    const syncLogId = await run()
    expect(has).toEqual([false, true, false])
    expect(await metadataOf(syncLogId)).toMatchObject({ listed: 3, unchanged: 3, duplicates_dropped: 0 })
  })

  it.each([
    ['another change', 3],
    ['what was handled last', 1],
  ])('that goes on behind a changed copy of an unchanged record takes a third one, %s, in its place', async (_, n) => {
    lists = listing(['a', { id: 'a', n: 1 }, '1'])
    await run()
    lists = async (session) => {
      if (session.resumeFrom() === null) {
        await listing(['a', { id: 'a', n: 1 }, '1'])(session)
        await session.bookmark('behind the unchanged one')
        await listing(['a', { id: 'a', n: 2 }, '2'])(session)
        await session.bookmark('behind the changed one')
        throw new Error('the listing breaks off')
      }
      await listing(['a', { id: 'a', n }, '3'])(session)
    }
    const syncLogId = await run()
    expect(told).toEqual([[{ id: 'a', n }, 'updated', hashOf({ id: 'a', n: 1 })]])
    expect(await itemsOf(test, syncLogId)).toMatchObject([{ checkpointValue: '3' }])
    expect(await metadataOf(syncLogId)).toMatchObject({ listed: 1, unchanged: 0, duplicates_dropped: 2 })
  })
})

it.each([[false], [{}], [{ except: 'a' }], [{ except: [''] }]])(
  'a provider with skipUnchanged %j is refused',
  (skip) => {
    const bad = syncProvider(() => {}, { skipUnchanged: skip as never })
    expect(() => test.integrations.register('bad', bad)).toThrow('skipUnchanged is true, or { except: [dot paths] }')
  },
)

it('looks each record up by its key, with the statistics of before the first run', async () => {
  const { id } = integration
  const { id: syncLogId } = await makeRun(test, id)
  await test.sql`
    insert into integration_record_hashes (integration_id, stream, external_id, event_class, hash, is_handled)
    select ${id}, '', 'r' || n, 'test.thing', 'h' || n % 2, true from generate_series(1, 3000) n`
  const listed = Array.from({ length: 100 }, (_, n) => ({
    eventClass: 'test.thing',
    externalId: `r${n + 1}`,
    hash: 'h1',
  }))
  const { plan, answer } = await planned(database.url, (db) =>
    markUnchanged(db, test.framework.tables, { integrationId: id, stream: null }, { syncLogId, part: 1 }, listed),
  )
  expect(answer).toHaveLength(50)
  // Of a table that was never analyzed.
  const read = [...plan.matchAll(/integration_record_hashes.*rows=(\d+)[^ ]* loops=(\d+)/g)].map(
    ([, rows, loops]) => Number(rows) * Number(loops),
  )
  expect(Math.max(...read)).toBeLessThanOrEqual(100)
  expect(plan).not.toContain('Seq Scan on integration_record_hashes')
})
