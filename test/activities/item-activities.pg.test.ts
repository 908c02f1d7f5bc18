/** One batch of a run's items as a worker runs it: claim, listeners, settlement. */

import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import type { ItemBatch, ItemBatchResult } from '../../src/activities/item-activities.ts'
import { handBack } from '../../src/claims/claimed-rows.ts'
import { connect } from '../../src/db/client.ts'
import type { LogRow } from '../../src/db/schema/tables.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { CircuitOpenException, NonRetryable, NotYet, RateLimitExceededException } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import type { CurrentSyncItem } from '../../src/providers/sync-session.ts'
import { currentSyncItem } from '../../src/providers/sync-session.ts'
import { claimedItems, claimPendingItems } from '../../src/syncs/items/item-queries.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, occasion, testIntegrations } from '../support/integrations.ts'
import { OtherSynced, syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { countStatements, itemOf, logsOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const limit = (seconds: number) => new RateLimitExceededException({ id: 1, provider: 'acme', name: 'x' }, seconds, null)
const TRIES = 3
const BACKOFF = [10, 30]
const WINDOW_SECONDS = 1_000

/** A class of version 3 that knows how to read versions 1 and 2. */
class Versioned extends SyncItemEvent<{ name: string }> {
  static override readonly type = 'test.versioned'
  static override readonly version = 3
  static override readonly schema = z.object({ name: z.string() })
  static override upgrade(data: unknown, from: number): unknown {
    if (from === 1) throw new Error('version 1 is too old')
    return { name: (data as { title?: unknown }).title }
  }
}
class WithoutUpgrade extends SyncItemEvent<unknown> {
  static override readonly type = 'test.without_upgrade'
  static override readonly version = 2
}
class BaseThing extends SyncItemEvent<unknown> {}
class DerivedThing extends BaseThing {
  static override readonly type = 'test.derived'
}

/** Several Integrations objects read the same credentials. */
const encryptionKeys = encryptionKey('test')

let database: TestDatabase
let test: TestIntegrations
/** The same, where an item's time limit is to run out: elsewhere a machine that stands still must not reach it. */
let hasty: TestIntegrations
let integration: Integration
let run: LogRow
let batches = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const classes = [ThingSynced, OtherSynced, Versioned, WithoutUpgrade, DerivedThing]
  const providers = { acme: syncProvider(() => {}, { syncItemEvents: () => classes }) }
  const sync = { item_tries: TRIES, item_backoff: BACKOFF, item_retry_window: WINDOW_SECONDS, item_concurrency: 4 }
  test = testIntegrations(database.url, { encryptionKeys, providers, config: { sync } })
  hasty = testIntegrations(database.url, { encryptionKeys, providers, config: { sync: { ...sync, item_timeout: 1 } } })
})

afterAll(async () => {
  await hasty.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  run = await makeRun(test, integration.id)
})

describe('a claim', () => {
  it('takes pending items of the run by id, up to its limit', async () => {
    const items = [await item(), await item(), await item()]
    expect(await batch({ kind: 'pending', limit: 2 })).toEqual({
      claimed: 2,
      claimedUpTo: items[1]?.id,
      succeeded: 2,
      failed: 0,
      waiting: [],
      deferredSeconds: 0,
    })
    expect(await Promise.all(items.map(statusOf))).toEqual(['success', 'success', 'pending'])
  })

  it('takes nothing up to the id that it begins after', async () => {
    const items = [await item(), await item(), await item()]
    const after = items[0]?.id
    expect(await batch({ kind: 'pending', limit: 1, after })).toMatchObject({ claimed: 1, claimedUpTo: items[1]?.id })
    expect(await batch({ kind: 'pending', limit: 5, after })).toMatchObject({ claimed: 1, claimedUpTo: items[2]?.id })
    expect(await Promise.all(items.map(statusOf))).toEqual(['pending', 'success', 'success'])
    expect(await batch({ kind: 'pending', limit: 5, after })).not.toHaveProperty('claimedUpTo')
  })

  it('takes nothing before the listing is complete', async () => {
    run = await makeRun(test, integration.id, { enumerated: false })
    const row = await item()
    expect(await batch()).toMatchObject({ claimed: 0 })
    await test.sql`update integration_logs set metadata = metadata || '{"enumerated": true}' where id = ${run.id}`
    expect(await batch()).toMatchObject({ claimed: 1, succeeded: 1 })
    expect(await statusOf(row)).toBe('success')
  })

  it('shares no item with another batch at the same moment', async () => {
    for (let n = 0; n < 40; n += 1) await item()
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const take = { kind: 'pending', limit: 25 } as const
    const results = await Promise.all([batch(take), batch(take), batch(take)])
    expect(results.reduce((sum, { claimed }) => sum + claimed, 0)).toBe(40)
    expect(heard).toHaveBeenCalledTimes(40)
  })

  it.each([
    ['of which statistics know nothing', 0, false],
    ['of which half was claimed and statistics know nothing', 12_000, false],
    ['of which half was claimed, known to statistics', 12_000, true],
  ])('reads no more than it takes of a large listing, %s', async (_, claimed, isAnalyzed) => {
    const other = await makeRun(test, integration.id)
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, payload)
      select ${integration.id}, case when n % 2 = 0 then ${run.id}::bigint else ${other.id} end, 'test.thing', '{}'
      from generate_series(1, 24000) n`
    const [before] = await test.sql`select min(id) as id from integration_sync_items`
    const after = claimed === 0 ? 0 : Number(before?.id) + claimed
    if (isAnalyzed) await test.sql`analyze integration_sync_items`
    // As deep as with 100,000 of them: from there on other indexes look cheaper.
    await test.sql`alter index integration_sync_items_pending_idx set (fillfactor = 10)`
    await test.sql`reindex index integration_sync_items_pending_idx`
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    const { tables } = test.framework
    const claiming = { syncLogId: run.id, claim: 'plan:1', limit: 200, after, refusals: [] }
    await claimPendingItems(drizzle(test.sql, { logger: { logQuery } }) as never, tables, claiming)
    const [query] = asked
    const plan = await test.sql.unsafe(`explain (analyze, costs off) ${query?.text}`, query?.parameters as never[])
    const lines = plan.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(lines).toMatch(/Index Scan using integration_sync_items_pending_idx .*rows=200/)
    expect(lines).not.toContain('Sort')
  })

  it('takes no more than its limit whatever plan Postgres chooses', async () => {
    for (let n = 0; n < 5; n += 1) await item()
    const apart = connect({ database: database.url })
    const claimed = await apart.db.transaction(async (tx) => {
      for (const plan of ['hashjoin', 'mergejoin', 'hashagg', 'material', 'sort'])
        await tx.execute(`set local enable_${plan} = off`)
      const input = { syncLogId: run.id, claim: 'plan:1', limit: 2, refusals: [] }
      return claimPendingItems(tx as never, test.framework.tables, input)
    })
    await apart.close()
    expect(claimed).toHaveLength(2)
  })

  it('moves a pending item to processing: held by this claim, the attempt counted, by the database clock', async () => {
    const { id } = await item({ error: 'of an attempt before' })
    const seen = vi.fn()
    listen(test, ThingSynced, async () => seen(await itemOf(test, id)))
    await batch({ kind: 'pending', limit: 1 }, { claim: 'run-a:1' })
    expect(seen.mock.calls).toEqual([
      [
        expect.objectContaining({
          status: 'processing',
          attempts: 1,
          claim: 'run-a:1',
          error: null,
          completedAt: null,
        }),
      ],
    ])
  })

  it('of 200 items without a listener costs a handful of statements', async () => {
    for (let n = 0; n < 200; n += 1) await item()
    const startedAt = performance.now()
    const statements = await countStatements(test, async () => expect(await batch()).toMatchObject({ succeeded: 200 }))
    const tookMs = performance.now() - startedAt
    // What an earlier try holds, the claim, the integration, and 4 settlements of 50; on a slow machine the integration is
    // read again, and fewer outcomes come in 100 ms.
    expect(statements).toBeLessThanOrEqual(7 + tookMs / 250 + tookMs / 100)
  })

  it('of items that are due takes those named that wait, and no other', async () => {
    const waits = await item({ status: 'processing', attempts: 1 })
    const alsoWaits = await item({ status: 'processing', attempts: 1 })
    const held = await item({ status: 'processing', attempts: 1, claim: 'another:1' })
    const done = await item({ status: 'success', attempts: 1 })
    const result = await batch({ kind: 'due', ids: [waits.id, held.id, done.id] })
    expect(result).toMatchObject({ claimed: 1, succeeded: 1 })
    expect(await itemOf(test, waits.id)).toMatchObject({ status: 'success', attempts: 2 })
    expect(await itemOf(test, held.id)).toEqual(held)
    expect(await itemOf(test, alsoWaits.id)).toEqual(alsoWaits)
  })
})

describe('listeners', () => {
  it('get the event with its payload, and the integration as it is now', async () => {
    const heard = vi.fn<(event: ThingSynced) => void>()
    listen(test, ThingSynced, heard)
    await item({ payload: { v: 1, data: { n: 5 } } })
    await test.integrations.update(integration.id, { name: 'renamed' })
    await batch()
    const event = heard.mock.calls[0]?.[0]
    expect(event).toBeInstanceOf(ThingSynced)
    expect([event?.payload, event?.integration.name]).toEqual([{ n: 5 }, 'renamed'])
  })

  it('run one after the other, by order, then by registration; a parent class matches', async () => {
    const order: string[] = []
    const note = (name: string) => async () => {
      order.push(`${name} begins`)
      await test.sql`select 1`
      order.push(`${name} ends`)
    }
    listen(test, DerivedThing, note('second'))
    listen(test, BaseThing as never, note('third'))
    listen(test, DerivedThing, note('first'), { order: -1 })
    await item({ eventClass: 'test.derived' })
    await batch()
    expect(order).toEqual(['first', 'second', 'third'].flatMap((name) => [`${name} begins`, `${name} ends`]))
  })

  it('stop at the first throw; a retry runs all of them again', async () => {
    const [first, third] = [vi.fn(), vi.fn()]
    const second = vi.fn().mockRejectedValueOnce(new Error('not yet'))
    for (const listener of [first, second, third]) listen(test, ThingSynced, listener)
    const { id } = await item()
    await batch()
    expect([first, second, third].map((listener) => listener.mock.calls.length)).toEqual([1, 1, 0])
    await batch({ kind: 'due', ids: [id] })
    expect([first, second, third].map((listener) => listener.mock.calls.length)).toEqual([2, 2, 1])
  })
})

describe('an outcome', () => {
  it('is success once all listeners have completed: completed_at is set', async () => {
    const heard: string[] = []
    for (const name of ['first', 'second']) listen(test, ThingSynced, () => heard.push(name))
    const row = await item()
    expect(await batch()).toMatchObject({ succeeded: 1, failed: 0 })
    expect(heard).toEqual(['first', 'second'])
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'success', attempts: 1, completedAt: expect.any(Date) })
  })

  it('without a listener is success: done, held by nobody, no error, no log line', async () => {
    const row = await item({ error: 'of an attempt before' })
    await batch()
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'success',
      attempts: 1,
      error: null,
      claim: null,
      completedAt: expect.any(Date),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it.each([
    [1, 10],
    [2, 30],
  ])(
    'of a failed attempt %i is another one in %i s: processing, error null, one log line',
    async (attempt, seconds) => {
      listen(test, ThingSynced, throwing(new TypeError('bad')))
      const row = await item({ status: 'processing', attempts: attempt - 1, externalId: 'x-1' })
      expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({
        failed: 0,
        waiting: [{ id: row.id, seconds }],
        deferredSeconds: 0,
      })
      expect(await itemOf(test, row.id)).toMatchObject({
        status: 'processing',
        attempts: attempt,
        claim: null,
        error: null,
        completedAt: null,
      })
      expect(await logsOf(test, integration.id, 'sync_item')).toEqual([
        expect.objectContaining({
          status: 'failed',
          parentId: run.id,
          attempt,
          maxAttempts: TRIES,
          externalId: 'x-1',
          error: 'TypeError: bad',
        }),
      ])
    },
  )

  it.each<[string, () => unknown, string]>([
    ['its own class', () => new (class QuotaSpent extends Error {})('none left'), 'QuotaSpent: none left'],
    ['its name', () => Object.assign(new Error('none left'), { name: 'Quota' }), 'Quota: none left'],
    ['no code', () => Object.assign(new TypeError('none left'), { code: 'E_QUOTA' }), 'TypeError: none left'],
    ['no class, if it is no error', () => 'none left', 'none left'],
  ])('of the last attempt says %s', async (_, thrown, error) => {
    listen(test, ThingSynced, throwing(thrown() as Error))
    const row = await item({ status: 'processing', attempts: TRIES - 1, externalId: 'x' })
    await batch({ kind: 'due', ids: [row.id] })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', error })
  })

  it('of the last attempt is failed, and SyncItemFailed is told', async () => {
    const told = vi.fn<(event: IntegrationEvents['SyncItemFailed']) => void>()
    listen(test, 'SyncItemFailed', told)
    const error = new TypeError('bad')
    listen(test, ThingSynced, throwing(error))
    const row = await item({ status: 'processing', attempts: TRIES - 1, externalId: 'x', checkpointValue: 'c' })
    expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({ failed: 1, waiting: [] })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: TRIES,
      error: 'TypeError: bad',
      completedAt: expect.any(Date),
    })
    expect(told).toHaveBeenCalledTimes(1)
    const stored = await itemOf(test, row.id)
    expect(told.mock.calls[0]?.[0].item).toEqual({
      ...{ id: row.id, integrationId: integration.id, batchId: null, syncLogId: run.id, externalId: 'x' },
      ...{ eventClass: ThingSynced.type, checkpointValue: 'c', status: 'failed', error: 'TypeError: bad' },
      ...{ attempts: TRIES, completedAt: stored?.completedAt, createdAt: stored?.createdAt },
      updatedAt: stored?.updatedAt,
    })
    expect(told.mock.calls[0]?.[0].error).toBe(error)
  })

  it.each([
    ['ends its wait within the window', WINDOW_SECONDS - 10 - 60, 'processing'],
    ['would wait past the window', WINDOW_SECONDS - 9, 'failed'],
  ])('of an item that %s', async (_, ageSeconds, status) => {
    listen(test, ThingSynced, throwing(new Error('bad')))
    const row = await item({ createdAt: new Date(Date.now() - ageSeconds * 1_000) })
    const told: unknown[] = []
    listen(test, 'SyncItemFailed', ({ item: { id } }: { item: { id: number } }) => told.push(id))
    await batch()
    const isFailed = status === 'failed'
    expect(await itemOf(test, row.id)).toMatchObject({
      status,
      error: isFailed ? 'Error: bad' : null,
      completedAt: isFailed ? expect.any(Date) : null,
    })
    expect(told).toEqual(isFailed ? [row.id] : [])
  })

  it('of an item within the window waits, also where the clock of the process is ahead of the database', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * WINDOW_SECONDS * 1_000 })
    onTestFinished(() => void vi.useRealTimers())
    listen(test, ThingSynced, throwing(new Error('bad')))
    const row = await item()
    await batch()
    expect(await statusOf(row)).toBe('processing')
  })

  it('counts as one of more than the column of the log can say', async () => {
    listen(test, ThingSynced, throwing(new Error('bad')))
    const row = await item({ attempts: 32_767, status: 'failed' })
    const retry = { itemId: row.id, claim: 'retry-many:1', attempt: 1, tries: 1_000 }
    expect(await runActivity(test.activities.processOneSyncItem, retry)).toMatchObject({ outcome: 'failed' })
    expect(await logsOf(test, integration.id, 'sync_item')).toMatchObject([{ attempt: 32_767, maxAttempts: 32_767 }])
  })

  it('past the window: the first attempt runs all the same', async () => {
    const row = await item({ createdAt: new Date(Date.now() - 2 * WINDOW_SECONDS * 1_000) })
    await batch()
    expect(await statusOf(row)).toBe('success')
  })

  it.each([
    ['thrown', (error: Error) => error],
    ['as a cause', (error: Error) => new Error('outer', { cause: new Error('inner', { cause: error }) })],
  ])('of a rate limit %s is a deferral: no attempt, no log line, the run waits', async (_, wrap) => {
    const limited = new RateLimitExceededException({ id: integration.id, provider: 'acme', name: 'x' }, 77, null)
    listen(test, ThingSynced, throwing(wrap(limited)))
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 0, waiting: [{ id: row.id, seconds: 77 }], deferredSeconds: 77 })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 0, error: null, claim: null })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('is what its row says while it waits: the error, the attempt, the next one; and one line for many of a kind', async () => {
    listen(test, ThingSynced, ({ payload }: ThingSynced) => {
      throw new TypeError(`relation "things" does not exist (row ${payload.n})`)
    })
    const rows = []
    for (const n of [1, 2, 3]) rows.push(await item({ payload: { v: 1, data: { n } } }))
    const before = test.lines.length
    const result = await batch()
    const last = rows[2]
    expect(result.lastFailure).toMatchObject({ attempt: 1, error: expect.stringContaining('"things" does not exist') })
    const waits = await itemOf(test, last?.id ?? 0)
    expect(waits).toMatchObject({
      status: 'processing',
      attempts: 1,
      error: null,
      lastError: 'TypeError: relation "things" does not exist (row 3)',
    })
    expect((waits.nextAttemptAt?.getTime() ?? 0) - waits.updatedAt.getTime()).toBeCloseTo(10_000, -2)
    const told = test.lines.slice(before).filter(({ fields }) => fields.event === 'item.attempt_failed')
    expect(told).toMatchObject([
      {
        level: 'warn',
        fields: { integration: integration.id, attempt: 1, max_attempts: TRIES, retry_after_seconds: 10, times: 1 },
      },
    ])
    await test.sql`update integration_sync_items set attempts = ${TRIES - 1} where id = ${waits.id}`
    await batch({ kind: 'due', ids: [waits.id] })
    expect(await itemOf(test, waits.id)).toMatchObject({ status: 'failed', lastError: null, nextAttemptAt: null })
  })

  it.each([
    ['thrown', (error: Error) => error],
    ['as a cause', (error: Error) => new Error('outer', { cause: error })],
    ['because of a limit', () => new NonRetryable('never', { cause: limit(5) })],
  ])('of NonRetryable %s fails the item at once, and counts', async (_, wrap) => {
    const thrown = wrap(new NonRetryable('never'))
    listen(test, ThingSynced, throwing(thrown))
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 1, waiting: [], deferredSeconds: 0 })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 1,
      error: expect.stringMatching(new RegExp(`^${thrown.name}: ${thrown.message}`)),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toHaveLength(1)
  })

  it('of NotYet puts the item off: no attempt, no log line, and nothing else waits for it; 20 times', async () => {
    listen(
      test,
      ThingSynced,
      throwing(new Error('outer', { cause: new NotYet('no customer yet', { retryAfterSeconds: 7 }) })),
    )
    const row = await item()
    expect(await batch()).toMatchObject({
      failed: 0,
      waiting: [{ id: row.id, seconds: 7, isPutOff: true }],
      deferredSeconds: 0,
    })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'processing',
      attempts: 0,
      putOff: 1,
      error: null,
      lastError: 'Error: outer',
      nextAttemptAt: expect.any(Date),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
    await test.sql`update integration_sync_items set put_off = 20 where id = ${row.id}`
    expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({ waiting: [{ id: row.id, seconds: 10 }] })
    expect(await itemOf(test, row.id)).toMatchObject({ attempts: 1, putOff: 20 })
  })

  it('names its run and its attempt in what its listener logs', async () => {
    listen(test, ThingSynced, async ({ integration: own }: ThingSynced) => {
      const outer = await own.startOperation({ operation: 'import', direction: 'inbound' })
      const inner = await outer.run(() => own.startOperation({ operation: 'part', direction: 'inbound' }))
      await inner.succeed()
      await outer.fail(new Error('no'))
    })
    await item({ attempts: 1 })
    await batch()
    const common = { attempt: null, maxAttempts: TRIES }
    const [outer] = await logsOf(test, integration.id, 'import')
    expect(outer).toMatchObject({ ...common, attempt: 2, parentId: run.id })
    expect(await logsOf(test, integration.id, 'part')).toMatchObject([{ ...common, parentId: outer?.id }])
    const outside = await integration.startOperation({ operation: 'outside', direction: 'inbound' })
    await outside.fail(new Error('no'))
    expect(await logsOf(test, integration.id, 'outside')).toMatchObject([
      { attempt: null, maxAttempts: null, parentId: null },
    ])
  })

  it.each([0, -5, Number.NaN, Number.POSITIVE_INFINITY])(
    'of a rate limit of %s s waits a second, not none',
    async (seconds) => {
      const limited = new RateLimitExceededException({ id: integration.id, provider: 'acme', name: 'x' }, seconds, null)
      listen(test, ThingSynced, throwing(limited))
      const row = await item()
      expect(await batch()).toMatchObject({ waiting: [{ id: row.id, seconds: 1 }], deferredSeconds: 1 })
    },
  )

  it.each([
    ['at least the rest of the cooldown', (open: Error) => open, 200, 200],
    ['so also as a cause', (open: Error) => new Error('outer', { cause: open }), 200, 200],
    ['the backoff where that is longer', (open: Error) => open, 3, 10],
    ['the backoff when nobody knows the rest', (open: Error) => open, null, 10],
  ])('of an open circuit waits %s, and counts', async (_, wrap, restSeconds, waitSeconds) => {
    const circuit = { id: integration.id, provider: 'acme', name: 'x' }
    listen(test, ThingSynced, throwing(wrap(new CircuitOpenException(circuit, new Date(), 300, restSeconds))))
    const row = await item()
    expect(await batch()).toMatchObject({ waiting: [{ id: row.id, seconds: waitSeconds }], deferredSeconds: 0 })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 1 })
  })

  it('of one item is nothing to the others', async () => {
    listen(test, ThingSynced, ({ payload }: ThingSynced) => {
      if (payload.n === 2) throw new Error('bad')
    })
    const rows = []
    for (const n of [1, 2, 3]) rows.push(await item({ payload: { v: 1, data: { n } } }))
    expect(await batch()).toMatchObject({ claimed: 3, succeeded: 2, waiting: [{ id: rows[1]?.id, seconds: 10 }] })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['success', 'processing', 'success'])
  })

  it('of a deferral past the window is failed now', async () => {
    const limited = new RateLimitExceededException(
      { id: integration.id, provider: 'acme', name: 'x' },
      WINDOW_SECONDS + 1,
      null,
    )
    listen(test, ThingSynced, throwing(limited))
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 1, deferredSeconds: 0 })
    expect(await statusOf(row)).toBe('failed')
  })

  it('of listeners that outlive sync.item_timeout is a failed attempt', async () => {
    const late = occasion()
    listen(hasty, ThingSynced, () => late.happened)
    const row = await item()
    expect(await batch(undefined, { by: hasty })).toMatchObject({ waiting: [{ id: row.id, seconds: 10 }] })
    expect((await logsOf(test, integration.id, 'sync_item'))[0]?.error).toMatch(/^ItemTimedOut: .*1 s/)
    const before = await itemOf(test, row.id)
    late.happen()
    // The next batch comes after whatever a late result would write.
    await batch()
    expect(await itemOf(test, row.id)).toEqual(before)
  })

  it.each([
    ['a credential', new Error(`sent ${TOKEN}`), 'Error: sent [REDACTED]'],
    [
      'a credential at the cut',
      new Error(`${'x'.repeat(985)} ${TOKEN}`),
      expect.not.stringContaining(TOKEN.slice(0, 5)),
    ],
    ['more than 1,000 characters', new Error('x'.repeat(2_000)), `Error: ${'x'.repeat(993)}`],
    ['a pair that the cut halves', new Error(`${'x'.repeat(992)}😀`), `Error: ${'x'.repeat(992)}\ufffd`],
    ['U+0000 in a thrown text', 'a\0b', 'ab'],
  ])('with an error of %s is stored as one line', async (_, thrown, stored) => {
    listen(test, ThingSynced, throwing(thrown))
    const row = await item({ status: 'processing', attempts: TRIES - 1 })
    await batch({ kind: 'due', ids: [row.id] })
    expect((await itemOf(test, row.id)).error).toEqual(stored)
    expect((await logsOf(test, integration.id, 'sync_item'))[0]?.error).toEqual(stored)
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })
})

describe('an event class with a queued listener', () => {
  const REFUSED = /^SyncListenerMustNotBeQueuedException: /

  it('is refused before any claim: failed at once, attempts 0, no listener runs, no log row, SyncItemFailed', async () => {
    const [heard, told] = [vi.fn(), vi.fn<(event: IntegrationEvents['SyncItemFailed']) => void>()]
    listen(test, 'SyncItemFailed', told)
    listen(test, ThingSynced, heard)
    listen(test, ThingSynced, heard, { queued: true })
    const row = await item()
    expect(await batch()).toMatchObject({ claimed: 1, failed: 1, waiting: [] })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 0,
      claim: null,
      error: expect.stringMatching(REFUSED),
      completedAt: expect.any(Date),
    })
    expect(heard).not.toHaveBeenCalled()
    expect(told).toHaveBeenCalledTimes(1)
    expect(told.mock.calls[0]?.[0].item).toMatchObject({
      id: row.id,
      attempts: 0,
      error: expect.stringMatching(REFUSED),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('stands in the way of no other class', async () => {
    listen(test, ThingSynced, vi.fn(), { queued: true })
    const refused = await item()
    const other = await item({ eventClass: 'test.other' })
    expect(await batch()).toMatchObject({ claimed: 2, succeeded: 1, failed: 1 })
    expect([await statusOf(refused), await statusOf(other)]).toEqual(['failed', 'success'])
  })

  it('is one also by its parent class', async () => {
    listen(test, BaseThing as never, vi.fn(), { queued: true })
    const row = await item({ eventClass: 'test.derived' })
    await batch()
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', attempts: 0 })
  })

  it('is refused also where an item waits, or is taken up from a lost worker: its attempts stay', async () => {
    listen(test, ThingSynced, vi.fn(), { queued: true })
    const waits = await item({ status: 'processing', attempts: 2 })
    const held = await item({ status: 'processing', attempts: 1, claim: 'run-q:1' })
    expect(await batch({ kind: 'due', ids: [waits.id] }, { claim: 'run-q:1' })).toMatchObject({ failed: 2 })
    expect(await itemOf(test, waits.id)).toMatchObject({ status: 'failed', attempts: 2 })
    expect(await itemOf(test, held.id)).toMatchObject({ status: 'failed', attempts: 0 })
  })
})

describe('what a listener knows', () => {
  async function known(
    values = {},
    take: ItemBatch['take'] = { kind: 'pending', limit: 10 },
  ): Promise<CurrentSyncItem> {
    const seen: (CurrentSyncItem | null)[] = []
    listen(test, ThingSynced, async () => {
      await test.sql`select 1`
      seen.push(currentSyncItem())
    })
    const row = await item(values)
    await batch(take.kind === 'due' ? { kind: 'due', ids: [row.id] } : take)
    expect(seen).toHaveLength(1)
    return seen[0] as CurrentSyncItem
  }

  it('is the item, its run and its attempt, after an await too', async () => {
    const current = await known({ externalId: 'x-9' })
    expect(current).toMatchObject({
      attempt: 1,
      maxAttempts: TRIES,
      integrationId: integration.id,
      syncLogId: run.id,
      externalId: 'x-9',
      isLikelyFinalAttempt: false,
    })
    expect((await itemOf(test, current.syncItemId)).externalId).toBe('x-9')
    expect(current.signal.aborted).toBe(false)
  })

  it.each([
    ['by count: before the last try', TRIES - 2, 0, false],
    ['by count: at the last try', TRIES - 1, 0, true],
    ['by the window: another one fits', 0, WINDOW_SECONDS - 10 - 60, false],
    ['by the window: another one would be too late', 0, WINDOW_SECONDS - 9, true],
  ])('is whether it is likely the final attempt, %s', async (_, attempts, ageSeconds, isLikelyFinalAttempt) => {
    const createdAt = new Date(Date.now() - ageSeconds * 1_000)
    const current = await known({ status: 'processing', attempts, createdAt }, { kind: 'due', ids: [] })
    expect(current).toMatchObject({ attempt: attempts + 1, isLikelyFinalAttempt })
  })

  it('is nothing outside of it', () => {
    expect(currentSyncItem()).toBeNull()
  })

  it('is that sync.item_timeout is over: its signal is aborted', async () => {
    const over = occasion<unknown>()
    listen(hasty, ThingSynced, async () => {
      const signal = currentSyncItem()?.signal
      signal?.addEventListener('abort', () => over.happen(signal.reason))
      await over.happened
    })
    await item()
    await batch(undefined, { by: hasty })
    expect(await over.happened).toMatchObject({ code: 'item_timed_out' })
  })
})

describe('a stored payload', () => {
  const read = async (eventClass: string, payload: unknown) => {
    const heard = vi.fn<(event: SyncItemEvent<unknown>) => void>()
    for (const each of [Versioned, ThingSynced, WithoutUpgrade]) listen(test, each, heard)
    const row = await item({ eventClass, payload })
    await batch()
    return { row: await itemOf(test, row.id), payload: heard.mock.calls[0]?.[0].payload }
  }

  it('of this version is read by its schema', async () => {
    expect(await read('test.thing', { v: 1, data: { n: 1, more: true } })).toMatchObject({
      row: { status: 'success' },
      payload: { n: 1 },
    })
  })

  it('of an older version is upgraded, then read', async () => {
    expect(await read('test.versioned', { v: 2, data: { title: 'old' } })).toMatchObject({
      row: { status: 'success' },
      payload: { name: 'old' },
    })
  })

  it.each([
    ['does not fit its schema', 'test.thing', { v: 1, data: { n: 'one' } }, /does not fit test.thing: n: /],
    ['does not fit after its upgrade', 'test.versioned', { v: 2, data: { title: 5 } }, /does not fit test.versioned/],
    ['breaks its upgrade', 'test.versioned', { v: 1, data: {} }, /upgrade\(\) .* threw Error: version 1 is too old/],
    ['is older and has no upgrade', 'test.without_upgrade', { v: 1, data: {} }, /has no upgrade\(\)/],
  ])('that %s is terminal at once, and a counted attempt', async (_, eventClass, payload, error) => {
    const { row } = await read(eventClass, payload)
    expect(row).toMatchObject({ status: 'failed', attempts: 1, error: expect.stringMatching(error) })
    expect(await logsOf(test, integration.id, 'sync_item')).toHaveLength(1)
  })

  it.each([
    ['of a newer version', 'test.thing', { v: 2, data: { n: 1 } }],
    ['of an unknown type', 'test.of_a_newer_release', { v: 1, data: {} }],
  ])('%s is an ordinary failed attempt: a newer worker heals it', async (_, eventClass, payload) => {
    const { row } = await read(eventClass, payload)
    expect(row).toMatchObject({ status: 'processing', attempts: 1, error: null })
    expect(await logsOf(test, integration.id, 'sync_item')).toHaveLength(1)
  })
})

describe('a settlement of a batch', () => {
  it('whose answer was lost has taken effect: each outcome is counted, and none is called superseded', async () => {
    const limited = new RateLimitExceededException({ id: integration.id, provider: 'acme', name: 'x' }, 77, null)
    listen(test, ThingSynced, ({ payload }: ThingSynced) => {
      if (payload.n > 1) throw payload.n === 4 ? limited : new Error('bad')
    })
    const data = (n: number) => ({ payload: { v: 1, data: { n } } })
    const deferred = await item({ status: 'processing', attempts: 1, ...data(4) })
    const good = await item({ status: 'processing', ...data(1) })
    const waits = await item({ status: 'processing', ...data(2) })
    const fails = await item({ status: 'processing', attempts: TRIES - 1, ...data(3) })
    const { db } = test.framework
    const execute = db.execute.bind(db)
    let settlements = 0
    Object.assign(db, {
      async execute(statement: Parameters<typeof execute>[0]) {
        const answer = await execute(statement)
        settlements += 1
        if (settlements === 1) throw new Error('the answer was lost')
        return answer
      },
    })
    const before = test.lines.length
    try {
      const ids = [deferred, good, waits, fails].map(({ id }) => id)
      expect(await batch({ kind: 'due', ids })).toMatchObject({
        succeeded: 1,
        failed: 1,
        waiting: [
          { id: deferred.id, seconds: 77 },
          { id: waits.id, seconds: 10 },
        ],
        deferredSeconds: 77,
      })
    } finally {
      Object.assign(db, { execute })
    }
    expect(test.lines.slice(before).map(({ message }) => message)).toEqual([
      'a settlement failed; it is tried again',
      'an attempt of a sync item failed, and it is tried again',
      'sync item failed',
    ])
  })

  it.each([
    ['another claim', sql`claim = 'another:1'`],
    ['another attempt', sql`attempts = 2`],
    ['a cancelled run', sql`status = 'failed', error = 'cancelled', claim = null`],
    ['an erasure', sql`status = 'failed', error = 'erased', claim = null, payload = null`],
  ])('that loses to %s is one warning and no count', async (_, change) => {
    const row = await item()
    let moved: unknown
    listen(test, ThingSynced, async () => {
      const { db, tables } = test.framework
      await db.execute(sql`update ${tables.syncItems} set ${change} where id = ${row.id}`)
      moved = await itemOf(test, row.id)
      throw new Error('too late')
    })
    const before = test.lines.length
    expect(await batch()).toMatchObject({ claimed: 1, succeeded: 0, failed: 0, waiting: [] })
    expect(await itemOf(test, row.id)).toEqual(moved)
    expect(test.lines.slice(before).map(({ fields }) => fields.event)).toEqual(['item.superseded'])
  })

  it('of a last attempt that loses to a cancelled run is not taken for the same failure', async () => {
    const row = await item({ status: 'processing', attempts: TRIES - 1 })
    listen(test, ThingSynced, async () => {
      await test.sql`
        update integration_sync_items set status = 'failed', error = 'cancelled', claim = null where id = ${row.id}`
      throw new Error('too late')
    })
    expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({ claimed: 1, failed: 0 })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', error: 'cancelled' })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('of other items does not wait for a listener of SyncItemFailed', async () => {
    const [untold, settled] = [occasion(), occasion()]
    listen(test, 'SyncItemFailed', () => untold.happened)
    listen(test, ThingSynced, async ({ payload }: ThingSynced) => {
      if (payload.n === 1) throw new Error('bad')
      // Runs on until the failed one is settled, so the settlement of this one comes after it.
      await vi.waitFor(async () => expect(await statusOf(first)).toBe('failed'), SOON)
    })
    const first = await item({ status: 'processing', attempts: TRIES - 1, payload: { v: 1, data: { n: 1 } } })
    const second = await item({ status: 'processing', payload: { v: 1, data: { n: 2 } } })
    const working = batch({ kind: 'due', ids: [first.id, second.id] })
    void vi.waitFor(async () => expect(await statusOf(second)).toBe('success'), SOON).then(() => settled.happen())
    await settled.happened
    untold.happen()
    expect(await working).toMatchObject({ succeeded: 1, failed: 1 })
  })
})

describe('a second try of the same batch', () => {
  const claim = 'run-x:7'

  it('runs rows of a first loss beside each other', async () => {
    const both = occasion()
    let running = 0
    listen(test, ThingSynced, async () => {
      running += 1
      if (running === 2) both.happen()
      await both.happened
    })
    for (let n = 0; n < 2; n += 1) await item({ status: 'processing', attempts: 1, claim })
    expect(await batch({ kind: 'pending', limit: 10 }, { claim })).toMatchObject({ claimed: 0, succeeded: 2 })
  })

  it('runs one at a time what has lost more than one worker', async () => {
    let running = 0
    listen(test, ThingSynced, async () => {
      running += 1
      expect(running).toBe(1)
      await test.sql`select 1`
      running -= 1
    })
    for (let n = 0; n < 2; n += 1) await item({ status: 'processing', attempts: 1, claim: `${claim}:1` })
    expect(await batch({ kind: 'pending', limit: 10 }, { claim })).toMatchObject({ succeeded: 2, waiting: [] })
  })

  it.each([
    ['its first loss', claim, 'success'],
    ['its fourth loss', `${claim}:3`, 'success'],
    ['its fifth loss', `${claim}:4`, 'failed'],
  ])('takes up its own rows: at %s', async (_, by, status) => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const row = await item({ status: 'processing', attempts: 1, claim: by })
    await batch({ kind: 'pending', limit: 10 }, { claim })
    expect(await itemOf(test, row.id)).toMatchObject({
      status,
      // A lost worker is no attempt of the listener.
      attempts: 1,
      error: status === 'failed' ? 'worker lost' : null,
    })
    expect(heard).toHaveBeenCalledTimes(status === 'failed' ? 0 : 1)
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('leaves rows of another batch alone', async () => {
    const row = await item({ status: 'processing', attempts: 1, claim: 'run-x:70' })
    await batch({ kind: 'pending', limit: 10 }, { claim })
    expect(await itemOf(test, row.id)).toEqual(row)
  })
})

describe('a cancelled batch', () => {
  it('takes nothing new in, lets run what runs, and gives the rest back: pending, the attempt not counted', async () => {
    const rows = []
    for (let n = 0; n < 6; n += 1) rows.push(await item())
    expect(await cancelledOnceFourRun({ kind: 'pending', limit: 50 })).toMatchObject({
      // The lane must come again for what is pending.
      claimed: 50,
      succeeded: 4,
      waiting: [],
    })
    expect(await Promise.all(rows.map(statusOf))).toEqual([...Array(4).fill('success'), 'pending', 'pending'])
    expect(await itemOf(test, rows[5]?.id ?? 0)).toMatchObject({ attempts: 0, claim: null })
  })

  it('gives what waited back to those that wait, those without a counted attempt too', async () => {
    const rows = []
    for (const attempts of [1, 1, 1, 1, 0, 1]) rows.push(await item({ status: 'processing', attempts }))
    const [deferred, later] = [rows[4]?.id, rows[5]?.id]
    const { waiting, ...tally } = await cancelledOnceFourRun({ kind: 'due', ids: rows.map(({ id }) => id) })
    expect(tally).toMatchObject({ claimed: 6, succeeded: 4 })
    // In no order of its own: they are handed back by one statement.
    expect(new Set(waiting)).toEqual(
      new Set([
        { id: deferred, seconds: 0 },
        { id: later, seconds: 0 },
      ]),
    )
    expect(await itemOf(test, deferred ?? 0)).toMatchObject({ status: 'processing', attempts: 0, claim: null })
    expect(await itemOf(test, later ?? 0)).toMatchObject({ status: 'processing', attempts: 1, claim: null })
  })

  it.each([
    ['a later try has taken up', { claim: 'run-z:1:1' }],
    ['another attempt holds', { attempts: 2 }],
    ['has ended', { status: 'failed' as const, claim: null }],
  ])('gives nothing back that %s meanwhile', async (_, now) => {
    const { db, tables } = test.framework
    const row = await item({ status: 'processing', attempts: 1, claim: 'run-z:1', ...now })
    const asClaimed = { id: row.id, attempts: 1, claim: 'run-z:1' }
    expect(await handBack(db, claimedItems(tables), [asClaimed])).toEqual(new Set())
    expect(await itemOf(test, row.id)).toEqual(row)
  })

  it('gives up what still runs 30 s later: its signal is aborted, it counts as no attempt and runs again', async () => {
    const patient = testIntegrations(database.url, { encryptionKeys, providers: { acme: syncProvider(() => {}) } })
    const begun = occasion<AbortSignal>()
    patient.integrations.on(ThingSynced, async () => {
      begun.happen(currentSyncItem()?.signal as AbortSignal)
      await occasion().happened
    })
    const row = await item()
    let cancel = (): void => {}
    const working = runActivity(
      patient.activities.processSyncItems,
      { syncLogId: run.id, claim: 'run-30:1', take: { kind: 'pending', limit: 10 } } as ItemBatch,
      {
        onStart: (stop) => {
          cancel = stop
        },
      },
    )
    const signal = await begun.happened
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      cancel()
      // The activity sees it after the microtasks of this turn.
      await new Promise(setImmediate)
      vi.advanceTimersByTime(29_999)
      expect(signal.aborted).toBe(false)
      vi.advanceTimersByTime(1)
      expect(signal.aborted).toBe(true)
    } finally {
      vi.useRealTimers()
    }
    expect(await working).toMatchObject({ succeeded: 0, failed: 0, waiting: [{ id: row.id, seconds: 0 }] })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 0, claim: null, error: null })
    await patient.close()
  })

  function cancelledOnceFourRun(take: ItemBatch['take']): Promise<ItemBatchResult> {
    let cancel = (): void => {}
    const cancelled = occasion()
    let running = 0
    listen(test, ThingSynced, async () => {
      running += 1
      if (running === 4) cancel()
      await cancelled.happened
    })
    const onStart = (stop: () => void): void => {
      cancel = () => {
        stop()
        // The activity sees it after the microtasks of this turn.
        setImmediate(() => cancelled.happen())
      }
    }
    return batch(take, { onStart })
  }
})

function item(values = {}) {
  return makeItem(test, run, values)
}

function batch(
  take: ItemBatch['take'] = { kind: 'pending', limit: 200 },
  { by = test, claim, onStart }: { by?: TestIntegrations; claim?: string; onStart?: (cancel: () => void) => void } = {},
): Promise<ItemBatchResult> {
  batches += 1
  const input = { syncLogId: run.id, claim: claim ?? `run:${batches}`, take }
  return runActivity(by.activities.processSyncItems, input, { ...(onStart && { onStart }) })
}

async function statusOf(row: { id: number }): Promise<string> {
  return (await itemOf(test, row.id)).status
}

function throwing(error: unknown): () => never {
  return () => {
    throw error
  }
}
