/** A listing, try by try: what it stores, what it keeps for the next try, and who may store at all. */
import { CancelledFailure } from '@temporalio/activity'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Database } from '../../../src/db/client.ts'
import type { LogRow } from '../../../src/db/schema/tables.ts'
import {
  CircuitOpenException,
  HttpError,
  InvalidArgumentException,
  RateLimitExceededException,
} from '../../../src/framework/errors.ts'
import type { Json } from '../../../src/framework/json.ts'
import type { HasBackfill } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { SyncSession } from '../../../src/providers/sync-session.ts'
import { deletePendingItems } from '../../../src/syncs/end-queries.ts'
import { listedKeys, storeListed } from '../../../src/syncs/listing/listing-queries.ts'
import type { ActivityRun } from '../../support/activities.ts'
import { runActivity } from '../../support/activities.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../../support/integrations.ts'
import { ODD_ERRORS } from '../../support/odd-errors.ts'
import { planModesAround, planned } from '../../support/plans.ts'
import { incrementalProvider, OtherSynced, syncProvider, ThingSynced, TOKEN } from '../../support/providers.ts'
import { itemsOf, logOf, makeIntegration, makeItem, makeRun, setIntegration } from '../../support/rows.ts'

const INTERVAL_MINUTES = 10

let database: TestDatabase
let test: TestIntegrations
/** A second worker of the same deployment. */
let other: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> | void
const syncWindow = vi.fn<HasBackfill['syncWindow']>()

beforeAll(async () => {
  database = await createTestDatabase()
  const byTest = (session: SyncSession) => lists(session)
  const options = {
    providers: {
      acme: syncProvider(byTest, { defaultSyncInterval: () => INTERVAL_MINUTES }),
      incremental: incrementalProvider(() => {
        throw new Error('sync() was called')
      }, byTest),
      windows: { ...syncProvider(byTest), syncWindow } satisfies HasBackfill,
    },
    encryptionKeys: `test:${Buffer.alloc(32, 7).toString('base64')}`,
  }
  test = testIntegrations(database.url, options)
  other = testIntegrations(database.url, options)
})

afterAll(async () => {
  await Promise.all([test.close(), other.close()])
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  lists = () => {}
})

const things = async (session: SyncSession, ...numbers: number[]) => {
  for (const n of numbers) await session.dispatch(new ThingSynced(session.integration, { n }), n, n)
}
const unlisted = (metadata: Record<string, unknown> = {}, id = integration.id) =>
  makeRun(test, id, { enumerated: false, ...metadata })
const list = (run: LogRow, attempt = 1, options: ActivityRun = {}) =>
  runActivity(
    test.activities.listSyncItems,
    { integrationId: run.integrationId as number, syncLogId: run.id, attempt },
    options,
  )
const idsOf = async (run: LogRow) => (await itemsOf(test, run.id)).map(({ externalId }) => externalId)
const lost = () => Object.assign(new Error('connection lost'), { code: 'ECONNRESET' })
const limited = () => new RateLimitExceededException(integration, 42, null)

const planOf = async (ask: (db: Database) => Promise<unknown>) => (await planned(database.url, ask)).plan

describe('a listing', () => {
  it('stores the items, marks the run as enumerated and names its requests', async () => {
    const run = await unlisted()
    lists = async (session) => {
      await session.integration.request('things?page=1', 'GET', () => ({ ok: true }))
      await things(session, 1, 2)
      await session.integration.request('things?page=2', 'GET', () => ({ ok: true }))
    }
    expect(await list(run)).toEqual({ kind: 'listed', listed: 2, duplicatesDropped: 0 })
    const requests =
      await test.sql`select id from integration_requests where integration_id = ${integration.id} order by id`
    expect((await logOf(test, run.id)).metadata).toMatchObject({
      enumerated: true,
      listed: 2,
      request_ids: requests.map(({ id }) => Number(id)),
    })
    expect(requests).toHaveLength(2)
    const { run_id } = run.metadata as { run_id: string }
    expect((await itemsOf(test, run.id)).map((row) => row.batchId)).toEqual([run_id, run_id])
  })

  it('uses syncIncremental() where the provider has it', async () => {
    const run = await unlisted({}, (await makeIntegration(test, 'incremental')).id)
    lists = (session) => things(session, 1)
    expect(await list(run)).toMatchObject({ listed: 1 })
  })

  it('of nothing is complete with no item', async () => {
    const run = await unlisted()
    expect(await list(run)).toEqual({ kind: 'listed', listed: 0, duplicatesDropped: 0 })
    expect((await logOf(test, run.id)).metadata).toMatchObject({ enumerated: true, listed: 0 })
  })

  it('that is complete is not made again', async () => {
    const run = await unlisted()
    lists = (session) => things(session, 1)
    await list(run)
    lists = () => {
      throw new Error('listed again')
    }
    expect(await list(run, 2)).toEqual({ kind: 'listed', listed: 1, duplicatesDropped: 0 })
  })

  it('stores payloads of 1 MiB in chunks that a statement can carry', async () => {
    const run = await unlisted()
    let most = 0
    lists = async (session) => {
      for (let n = 0; n < 9; n += 1) {
        await session.dispatch(new OtherSynced(session.integration, 'x'.repeat(1_048_574)), null, n)
        most = Math.max(most, session.count - (await idsOf(run)).length)
      }
    }
    expect(await list(run)).toMatchObject({ listed: 9 })
    expect(most).toBeLessThan(5)
  })

  it('stores a chunk with kept plans of its foreign key checks', async () => {
    const run = await unlisted({ listing_attempt: 1 })
    const item = { eventClass: 'test.thing', externalId: '7', checkpoint: '7', payload: '{}', isRepeat: false }
    const of = { integrationId: integration.id, stream: null, syncLogId: run.id, batchId: 'a batch', attempt: 1 }
    const modes = await planModesAround(test.framework.db, (tx) =>
      storeListed(tx as never, test.framework.tables, of, { items: [item], note: null, lastId: 0 }),
    )
    expect(modes).toEqual(['force_custom_plan', 'auto'])
    expect(await idsOf(run)).toEqual(['7'])
  })

  it.each([
    ['a lost connection', lost, false],
    ['an ordinary error', () => new Error('a bug'), false],
    ['a client fault', () => Object.assign(new Error('no such repository'), { status: 404 }), true],
    ['a bad argument', () => new InvalidArgumentException('cursor', 'bad'), true],
  ])('that throws %s may be tried again or not; how often is the workflow‘s to say', async (_, error, nonRetryable) => {
    const run = await unlisted()
    lists = () => {
      throw error()
    }
    await expect(list(run, 7)).rejects.toMatchObject({ nonRetryable })
  })

  it.each([
    ['the rest of its cooldown', 48, [{ tookMs: expect.any(Number), minimumWaitSeconds: 48 }]],
    ['as after any fault where its end is not known', null, [{ tookMs: expect.any(Number), minimumWaitSeconds: 0 }]],
  ])('that meets an open circuit is tried again after %s', async (_, retryAfterSeconds, details) => {
    lists = (session) => {
      const open = new CircuitOpenException(session.integration, new Date(), 60, retryAfterSeconds)
      throw new Error('page 2', { cause: open })
    }
    await expect(list(await unlisted())).rejects.toMatchObject({ nonRetryable: false, details })
  })

  it('fails without a credential in the message, and without a stack', async () => {
    const run = await unlisted()
    lists = () => {
      throw new Error(`refused ${TOKEN}`)
    }
    const failure = await list(run).catch((error: Error) => error)
    expect(failure).toMatchObject({ message: 'Error: refused [REDACTED]', stack: '' })
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })

  it.each(ODD_ERRORS)('that throws %s fails like any other', async (_, { make, line }) => {
    lists = () => {
      throw make()
    }
    test.lines.length = 0
    await expect(list(await unlisted())).rejects.toMatchObject({ message: line, nonRetryable: false })
    expect(test.lines.map(({ fields }) => [fields.event, fields.error])).toContainEqual(['sync.listing_failed', line])
  })

  it('given up leaves a failed log, no item, cursor and last_synced_at as they were, and plans the next run', async () => {
    await setIntegration(test, integration.id, { syncCursor: 'c1', consecutiveSyncFailures: 1 })
    const run = await unlisted()
    await makeItem(test, { integrationId: integration.id, id: run.id })
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const fail = () =>
      test.activities.failSyncRun({ integrationId: integration.id, syncLogId: run.id, reason: 'it broke' })
    await fail()
    expect(await logOf(test, run.id)).toMatchObject({ status: 'failed', error: 'it broke' })
    expect(await itemsOf(test, run.id)).toEqual([])
    const times = async () =>
      (
        await test.sql`
          select sync_cursor as cursor, last_synced_at as synced, consecutive_sync_failures as failures,
                 extract(epoch from next_sync_at - updated_at)::float8 / 60 as next
          from integrations where id = ${integration.id}`
      )[0]
    expect(await times()).toMatchObject({ cursor: 'c1', synced: null, failures: 2 })
    expect((await times())?.next).toBeCloseTo(2 * INTERVAL_MINUTES, 1)
    await fail()
    expect((await times())?.failures).toBe(2)
    expect(told).not.toHaveBeenCalled()
  })
})

describe('a try after one that failed', () => {
  it('without a bookmark begins at the beginning: what was stored goes', async () => {
    const run = await unlisted()
    lists = async (session) => {
      for (let n = 0; n < 500; n += 1) await session.dispatch(new ThingSynced(session.integration, { n }))
      throw lost()
    }
    await expect(list(run)).rejects.toMatchObject({ nonRetryable: false })
    expect(await itemsOf(test, run.id)).toHaveLength(500)
    lists = async (session) => {
      expect([session.resumeFrom(), session.count]).toEqual([null, 0])
      await things(session, 7, 8)
    }
    await list(run, 2)
    expect(await idsOf(run)).toEqual(['7', '8'])
  })

  it('deletes only what it finds at its beginning, however long that takes: a later try stores meanwhile', async () => {
    const run = await unlisted()
    const store = (count: number) => test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, payload)
      select ${integration.id}, ${run.id}, 'test.thing', n, '{}' from generate_series(1, ${count}::int) n`
    await store(12_000)
    const { db, tables } = test.framework
    let asked = 0
    const slow = {
      execute: async (statement: Parameters<Database['execute']>[0]) => {
        asked += 1
        if (asked === 3) await store(2)
        return db.execute(statement)
      },
    }
    expect(await deletePendingItems(slow as never, tables, run.id)).toBe(12_000)
    expect(await idsOf(run)).toEqual(['1', '2'])
  })

  it('with a bookmark goes on there: what it vouches for stays, what came after it goes', async () => {
    const run = await unlisted()
    lists = async (session) => {
      await session.integration.request('things?page=1', 'GET', () => ({ ok: true }))
      await things(session, 1, 2, 2)
      await session.bookmark({ page: 2 })
      for (let n = 100; n < 700; n += 1) await things(session, n)
      throw lost()
    }
    await expect(list(run)).rejects.toMatchObject({ nonRetryable: false })
    expect(await idsOf(run)).toHaveLength(502)
    lists = async (session) => {
      expect(session.resumeFrom()).toEqual({ page: 2 })
      expect([session.count, session.duplicatesDropped, session.isEmpty]).toEqual([2, 1, false])
      await things(session, 3)
    }
    expect(await list(run, 2)).toEqual({ kind: 'listed', listed: 3, duplicatesDropped: 1 })
    expect(await idsOf(run)).toEqual(['1', '2', '3'])
    const { metadata } = await logOf(test, run.id)
    expect(metadata).toMatchObject({ listed: 3, duplicates_dropped: 1, request_ids: [expect.any(Number)] })
    expect(metadata).not.toHaveProperty('bookmark')
  })

  it.each([
    ['before statistics know them', false],
    ['with statistics', true],
  ])('reads the keys before its bookmark page by page, and each row once, %s', async (_, isAnalyzed) => {
    const run = await unlisted()
    await test.sql`truncate integration_sync_items`
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, payload)
      select ${integration.id}, ${run.id}, 'test.thing', '{}' from generate_series(1, 12000)`
    if (isAnalyzed) await test.sql`analyze integration_sync_items`
    const plan = await planOf((db) => listedKeys(db, test.framework.tables, run.id, 1_000).next())
    expect(plan).toMatch(/Index Scan using integration_sync_items_pending_idx .*rows=1000\b/)
    expect(plan).not.toContain('Sort')
  })

  it('without a bookmark of its own goes on at the one before', async () => {
    const run = await unlisted()
    const seen: Json[] = []
    const failsAfter = (position: Json | undefined, n: number) => {
      lists = async (session) => {
        seen.push(session.resumeFrom())
        await things(session, n)
        if (position !== undefined) await session.bookmark(position)
        throw lost()
      }
    }
    for (const [attempt, position] of [
      [1, 'a'],
      [2, undefined],
      [3, 'b'],
      [4, undefined],
    ] as const) {
      failsAfter(position, attempt)
      await expect(list(run, attempt)).rejects.toThrow()
    }
    expect(seen).toEqual([null, 'a', 'a', 'b'])
    lists = (session) => things(session, 5)
    await list(run, 5)
    expect(await idsOf(run)).toEqual(['1', '3', '5'])
  })

  it('drops what an earlier try named already, by class and external id', async () => {
    const run = await unlisted()
    const odd = 'half a pair \ud83d'
    lists = async (session) => {
      await things(session, 1)
      await session.dispatch(new OtherSynced(session.integration, 'x'), null, odd)
      await session.dispatch(new OtherSynced(session.integration, 'without an id'))
      await session.bookmark(1)
      throw lost()
    }
    await expect(list(run)).rejects.toThrow()
    lists = async (session) => {
      await things(session, 1, 2)
      await session.dispatch(new OtherSynced(session.integration, 'y'), null, 1)
      await session.dispatch(new OtherSynced(session.integration, 'x'), null, odd)
      await session.dispatch(new OtherSynced(session.integration, 'without an id'))
      expect(session.duplicatesDropped).toBe(2)
    }
    expect(await list(run, 2)).toEqual({ kind: 'listed', listed: 6, duplicatesDropped: 2 })
    expect(await idsOf(run)).toEqual(['1', 'half a pair \ufffd', null, '2', '1', null])
  })

  it('keeps the newer copy of what an earlier try named before its bookmark', async () => {
    const run = await unlisted()
    const item = (session: SyncSession, n: number, second: number, id: string) =>
      session.dispatch(new ThingSynced(session.integration, { n }), `2026-01-01T00:00:0${second}Z`, id)
    lists = async (session) => {
      await item(session, 1, 1, 'edited')
      await item(session, 1, 5, 'read backwards')
      await session.bookmark(1)
      throw lost()
    }
    await expect(list(run)).rejects.toThrow()
    lists = async (session) => {
      await item(session, 2, 9, 'edited')
      await item(session, 2, 4, 'read backwards')
    }
    expect(await list(run, 2)).toEqual({ kind: 'listed', listed: 2, duplicatesDropped: 2 })
    expect(await itemsOf(test, run.id)).toMatchObject([
      { externalId: 'edited', checkpointValue: '2026-01-01T00:00:09Z', payload: { data: { n: 2 } } },
      { externalId: 'read backwards', checkpointValue: '2026-01-01T00:00:05Z', payload: { data: { n: 1 } } },
    ])
  })

  it('finds the row of a repeat by its external id, although statistics know nothing of its run', async () => {
    const { id: elsewhere } = await makeIntegration(test, 'acme')
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status)
      select ${elsewhere}, 'sync', 'inbound', 'success' from generate_series(1, 200)`
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status)
      select integration_id, l.id, 'test.thing', n, 'success'
      from integration_logs l cross join generate_series(1, 10) n
      where integration_id = ${elsewhere}`
    await test.sql`analyze integration_sync_items`
    const run = await unlisted({ listing_attempt: 1 })
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, payload)
      select ${integration.id}, ${run.id}, 'test.thing', n, '{}' from generate_series(1, 12000) n`
    const key = { eventClass: 'test.thing', externalId: '7' }
    const again = { ...key, checkpoint: '7', payload: '{"again":true}', isRepeat: true }
    const of = { integrationId: integration.id, stream: null, syncLogId: run.id, batchId: 'a batch', attempt: 1 }
    const plan = await planOf((db) =>
      storeListed(db, test.framework.tables, of, { items: [again], note: null, lastId: 12_000 }),
    )
    expect(plan).toContain('integration_sync_items_external_id_idx')
    expect(plan).not.toMatch(/sync_items_(log|pending|status|created_at)_idx|Seq Scan on integration_sync_items/)
    const rows = await itemsOf(test, run.id)
    expect(rows.filter(({ payload }) => JSON.stringify(payload) !== '{}')).toMatchObject([
      { externalId: '7', checkpointValue: 7, payload: { again: true } },
    ])
  })

  it('began when the try began that set the first bookmark, and without one when the last try did', async () => {
    const beganAt = async (isBookmarked: boolean) => {
      const run = await unlisted()
      lists = async (session) => {
        if (isBookmarked) await session.bookmark(1)
        throw lost()
      }
      await expect(list(run)).rejects.toThrow()
      const [between] = await test.sql<{ at: Date }[]>`select clock_timestamp() - interval '5 minutes' as at`
      lists = (session) => things(session, 1)
      await list(run, 2)
      const { metadata } = await logOf(test, run.id)
      return Date.parse((metadata as { listing_began_at: string }).listing_began_at) - (between?.at.getTime() ?? 0)
    }
    expect(await beganAt(true)).toBeLessThanOrEqual(0)
    expect(await beganAt(false)).toBeGreaterThanOrEqual(0)
  })

  it('says what an earlier try handed in before its bookmark, and no more', async () => {
    const run = await unlisted()
    const odd = 'half a pair \ud83d'
    lists = async (session) => {
      await things(session, 1)
      await session.dispatch(new OtherSynced(session.integration, 'x'), null, odd)
      await session.bookmark(1)
      await things(session, 2)
      throw lost()
    }
    await expect(list(run)).rejects.toThrow()
    let said: boolean[] = []
    lists = (session) => {
      said = [session.has(ThingSynced, 1), session.has(ThingSynced, 2), session.has(OtherSynced, 1)]
      said.push(session.has(OtherSynced, odd))
    }
    await list(run, 2)
    expect(said).toEqual([true, false, false, true])
  })

  it('knows what fullListing() was told before the bookmark', async () => {
    const run = await unlisted()
    lists = async (session) => {
      session.fullListing()
      await session.bookmark(1)
      throw lost()
    }
    await expect(list(run)).rejects.toThrow()
    lists = () => {}
    await list(run, 2)
    expect((await logOf(test, run.id)).metadata).toMatchObject({ full_listing: { internal_type: null } })
  })
})

describe('of two tries that overlap', () => {
  it('the earlier one can store nothing once the later one has begun', async () => {
    const run = await unlisted()
    const [paused, go] = [occasion(), occasion()]
    let thrown: unknown
    lists = async (session) => {
      await things(session, 1)
      await session.bookmark('first')
      paused.happen()
      await go.happened
      await things(session, 2)
      thrown = await session.bookmark('second').catch((error: unknown) => error)
      await things(session, 3)
    }
    const zombie = list(run)
    await paused.happened
    lists = async (session) => {
      expect(session.resumeFrom()).toBe('first')
      go.happen()
      await expect(zombie).rejects.toMatchObject({ type: 'listing_superseded', nonRetryable: false })
      await things(session, 20)
    }
    expect(await list(run, 2)).toMatchObject({ kind: 'listed', listed: 2 })
    expect(thrown).toMatchObject({ code: 'listing_superseded' })
    expect(await idsOf(run)).toEqual(['1', '20'])
  })

  it('the earlier one that waits for the row of the log while the later one takes it over stores nothing', async () => {
    const run = await unlisted()
    const begun = occasion<SyncSession>()
    lists = async (session) => {
      begun.happen(session)
      await things(session, 1)
      await session.bookmark('too late')
    }
    let held: Promise<void> | undefined
    const zombie = (async () => {
      const [locked, release] = [occasion(), occasion()]
      const first = lists
      lists = async (session) => {
        held = test.sql.begin(async (tx) => {
          await tx`update integration_logs set metadata = metadata || '{"listing_attempt": 2}' where id = ${run.id}`
          locked.happen()
          await release.happened
        }) as Promise<void>
        await locked.happened
        const store = first(session)
        // The chunk's statement has begun and stands before the lock.
        await waiting(1)
        release.happen()
        await store
      }
      return list(run)
    })()
    await expect(zombie).rejects.toMatchObject({ type: 'listing_superseded' })
    await held
    await begun.happened
    expect(await idsOf(run)).toEqual([])
    expect((await logOf(test, run.id)).metadata).not.toHaveProperty('bookmark')
  })

  it('a chunk that waits while something else is noted in the log is stored with both', async () => {
    const run = await unlisted()
    lists = async (session) => {
      await test.sql
        .begin(async (tx) => {
          await tx`update integration_logs set metadata = metadata || '{"noted": true}' where id = ${run.id}`
          const stored = things(session, 1).then(() => session.bookmark('kept'))
          await expect
            .poll(async () => {
              const rows = await tx`
              select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
              return rows.length
            })
            .toBe(1)
          return { stored }
        })
        .then(({ stored }) => stored)
      expect((await logOf(test, run.id)).metadata).toMatchObject({ noted: true, bookmark: { position: 'kept' } })
    }
    expect(await list(run)).toMatchObject({ listed: 1 })
  })

  it('the later one waits for what the earlier one is storing, and goes on behind its bookmark', async () => {
    const run = await unlisted()
    const [stuck, release, begun] = [occasion(), occasion(), occasion()]
    lists = async (session) => {
      await things(session, 1)
      const holder = test.sql.begin(async (tx) => {
        // The check of the foreign key is the last thing that storing an item does.
        await tx`select 1 from integrations where id = ${integration.id} for update`
        stuck.happen()
        await release.happened
      })
      await stuck.happened
      await session.bookmark('first').finally(() => holder)
      // Else it may end its listing first: the statement that waits does not queue for the row's new version.
      await begun.happened
    }
    const earlier = list(run)
    await stuck.happened
    // It stands at the row of the integration, and has that of the log.
    await waiting(1)
    lists = (session) => {
      begun.happen()
      return things(session, 2)
    }
    const input = { integrationId: integration.id, syncLogId: run.id, attempt: 2 }
    const later = runActivity(other.activities.listSyncItems, input)
    await waiting(2)
    release.happen()
    const [first, second] = await Promise.allSettled([earlier, later])
    expect(second).toMatchObject({ status: 'fulfilled', value: { kind: 'listed', listed: 2 } })
    expect(first).toMatchObject({ status: 'rejected', reason: { type: 'listing_superseded' } })
    expect(await idsOf(run)).toEqual(['1', '2'])
  })

  it.each([
    ['an earlier number than the one that is at work', { listing_attempt: 3 }, {}, false],
    ['the number of the one that is at work', { listing_attempt: 2 }, {}, false],
    ['a run that was given up', {}, { status: 'failed' }, true],
    ['a run that was cancelled', {}, { status: 'cancelled' }, true],
  ])('one with %s is refused and asks the provider nothing', async (_, metadata, values, nonRetryable) => {
    const run = await makeRun(test, integration.id, { enumerated: false, ...metadata }, values)
    const asked = vi.fn()
    lists = asked
    await expect(list(run, 2)).rejects.toMatchObject({ type: 'listing_superseded', nonRetryable })
    expect(asked).not.toHaveBeenCalled()
  })

  it('one whose run is ended meanwhile stores nothing, and its signal says so', async () => {
    const run = await unlisted()
    let reason: unknown
    lists = async (session) => {
      await test.activities.failSyncRun({ integrationId: integration.id, syncLogId: run.id, reason: 'given up' })
      await things(session, 1)
      await session.bookmark(1).catch(() => {})
      reason = session.signal.reason
    }
    await expect(list(run)).rejects.toMatchObject({ type: 'listing_superseded' })
    expect(reason).toMatchObject({ code: 'listing_superseded' })
    expect(await idsOf(run)).toEqual([])
    expect(await logOf(test, run.id)).toMatchObject({ status: 'failed', error: 'given up' })
  })
})

describe('the provider’s limit, met while listing,', () => {
  it.each([
    ['itself', () => limited()],
    ['as a cause', () => new Error('page 3 failed', { cause: new Error('wrapped', { cause: limited() }) })],
    ['among several', () => new AggregateError([new Error('one'), limited()], 'two failed')],
  ])('%s puts the listing off instead of failing it', async (_, error) => {
    const run = await unlisted()
    lists = async (session) => {
      await things(session, 1)
      throw error()
    }
    expect(await list(run)).toEqual({
      kind: 'deferred',
      retryAfterSeconds: 42,
      isBookmarked: false,
      tookMs: expect.any(Number),
    })
    expect(await logOf(test, run.id)).toMatchObject({ status: 'processing', metadata: { enumerated: false } })
  })

  it('says whether this try set a new bookmark', async () => {
    const run = await unlisted()
    const until = (position: Json) => {
      lists = async (session) => {
        await things(session, 1)
        await session.bookmark(position)
        throw limited()
      }
    }
    const deferred = (isBookmarked: boolean) => ({ kind: 'deferred', retryAfterSeconds: 42, isBookmarked })
    until({ page: 2, since: null })
    expect(await list(run, 1)).toMatchObject(deferred(true))
    until({ since: null, page: 2 })
    expect(await list(run, 2)).toMatchObject(deferred(false))
    until({ page: 3, since: null })
    expect(await list(run, 3)).toMatchObject(deferred(true))
  })

  it('a throttled answer of the provider ends the try at once, instead of sleeping', async () => {
    const run = await unlisted()
    lists = async (session) => {
      await session.integration.request('things', 'GET', () =>
        Promise.reject(new HttpError(429, new Headers({ 'retry-after': '90' }), null)),
      )
    }
    expect(await list(run)).toMatchObject({ kind: 'deferred', retryAfterSeconds: 90, isBookmarked: false })
  })
})

describe('a listing that is to end', () => {
  const stopped = async (work: (session: SyncSession) => Promise<void>) => {
    const run = await unlisted()
    let stop = (): void => {}
    lists = async (session) => {
      stop()
      await work(session)
    }
    const onStart = (cancel: () => void): void => {
      stop = cancel
    }
    return { run, error: await list(run, 1, { onStart }).catch((error: unknown) => error) }
  }

  it('by its cancellation or the stop of its worker is told to Temporal as that, not as a fault of the provider', async () => {
    const { run, error } = await stopped(async (session) => {
      await session.dispatch(new ThingSynced(session.integration, { n: 1 }))
      throw new Error('the page was cut off')
    })
    expect(error).toBeInstanceOf(CancelledFailure)
    expect(await idsOf(run)).toEqual([])
  })

  it('does not wait for a provider that passes over the signal; what that hands in later is refused', async () => {
    let late: SyncSession | undefined
    const never = new Promise<void>(() => {})
    const { run, error } = await stopped(async (session) => {
      late = session
      await never
    })
    expect(error).toBeInstanceOf(CancelledFailure)
    expect(late?.signal.aborted).toBe(true)
    const thing = new ThingSynced(integration, { n: 1 })
    await expect(late?.dispatch(thing)).rejects.toBeInstanceOf(CancelledFailure)
    await expect(late?.bookmark(1)).rejects.toBeInstanceOf(CancelledFailure)
    expect(() => late?.fullListing()).toThrow(CancelledFailure)
    expect(await idsOf(run)).toEqual([])
  })

  it('keeps its bookmark for the next try', async () => {
    const { run } = await stopped(async () => {})
    lists = async (session) => {
      await things(session, 1)
      await session.bookmark('here')
      throw lost()
    }
    await expect(list(run, 2)).rejects.toThrow()
    let from: Json = null
    lists = (session) => {
      from = session.resumeFrom()
    }
    await list(run, 3)
    expect(from).toBe('here')
  })
})

describe('the listing of a slice of a backfill', () => {
  const window = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-02T00:00:00.000Z' }
  const slice = async (provider: string) =>
    makeRun(test, (await makeIntegration(test, provider)).id, { enumerated: false, window }, { operation: 'backfill' })

  it('asks for its window', async () => {
    syncWindow.mockImplementationOnce(async (_integration, session, asked) => {
      expect(asked).toEqual({ from: new Date(window.from), to: new Date(window.to) })
      await things(session, 1)
    })
    expect(await list(await slice('windows'))).toMatchObject({ kind: 'listed', listed: 1 })
  })

  it('is never a full one', async () => {
    syncWindow.mockImplementationOnce(async (_integration, session) => session.fullListing())
    await expect(list(await slice('windows'))).rejects.toMatchObject({ type: 'invalid_argument', nonRetryable: true })
  })

  it('by a provider without syncWindow() is refused for good', async () => {
    await expect(list(await slice('acme'))).rejects.toMatchObject({
      type: 'unsupported_by_provider',
      nonRetryable: true,
    })
  })
})

/** Until so many sessions of this database wait for a lock. */
function waiting(count: number): Promise<void> {
  return expect
    .poll(async () => {
      const rows = await test.sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      return rows.length
    })
    .toBe(count)
}
