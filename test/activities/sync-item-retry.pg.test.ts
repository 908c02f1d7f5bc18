/** One failed item again, under a workflow of its own. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OneItem, OneItemResult } from '../../src/activities/item-activities.ts'
import type { LogRow, SyncItemRow } from '../../src/db/schema/tables.ts'
import { RateLimitExceededException } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { CurrentSyncItem } from '../../src/providers/sync-session.ts'
import { currentSyncItem } from '../../src/providers/sync-session.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { itemOf, logOf, logsOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

const BACKOFF = [10, 30]
const WINDOW_SECONDS = 1_000

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let run: LogRow

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: syncProvider(() => {}) },
    config: { sync: { item_tries: 3, item_backoff: BACKOFF, item_retry_window: WINDOW_SECONDS } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  run = await makeRun(test, integration.id, {}, { status: 'failed' })
})

describe('a failed item', () => {
  it('runs again: processing meanwhile, held by its own claim, no error; then success', async () => {
    const row = await failed()
    const seen = vi.fn()
    listen(test, ThingSynced, async () => seen(await itemOf(test, row.id)))
    expect(await attempt(row)).toEqual({
      itemId: row.id,
      outcome: 'success',
      status: 'success',
      attempts: 4,
      error: null,
      waitSeconds: null,
      isCounted: true,
    })
    expect(seen.mock.calls).toEqual([
      [
        expect.objectContaining({
          status: 'processing',
          attempts: 4,
          claim: 'retry-r:1',
          error: null,
          completedAt: null,
        }),
      ],
    ])
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'success',
      claim: null,
      error: null,
      completedAt: expect.any(Date),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('fails again when its tries are used up, whatever the window: logged, SyncItemFailed told', async () => {
    const told = vi.fn()
    listen(test, 'SyncItemFailed', told)
    listen(test, ThingSynced, throwing(new TypeError('still bad')))
    const row = await failed({ createdAt: new Date(Date.now() - 10 * WINDOW_SECONDS * 1_000) })
    expect(await attempt(row)).toMatchObject({ outcome: 'failed', error: 'TypeError: still bad', waitSeconds: null })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', attempts: 4, claim: null })
    expect(told).toHaveBeenCalledTimes(1)
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([
      expect.objectContaining({ parentId: run.id, attempt: 4, maxAttempts: 4, error: 'TypeError: still bad' }),
    ])
  })

  it('is not run when a later run has made up for it by the time that it is claimed, unless forced', async () => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const row = await failed({ externalId: 'a' })
    await makeItem(test, await makeRun(test, integration.id), { status: 'success', externalId: 'a' })
    expect(await attempt(row)).toMatchObject({ outcome: 'outdated', status: 'failed', attempts: 3, waitSeconds: null })
    expect(await itemOf(test, row.id)).toEqual(row)
    expect(heard).not.toHaveBeenCalled()
    expect(await attempt(row, { force: true })).toMatchObject({ outcome: 'success' })
  })

  it('does not go on when a later run makes up for it between two tries: it has failed again, of what it last failed of', async () => {
    listen(test, ThingSynced, throwing(new TypeError('still bad')))
    const row = await failed({ externalId: 'a' })
    expect(await attempt(row, { attempt: 1, tries: 3 })).toMatchObject({ waitSeconds: 10 })
    await makeItem(test, await makeRun(test, integration.id), { status: 'success', externalId: 'a' })
    expect(await attempt(row, { attempt: 2, tries: 3 })).toMatchObject({ outcome: 'outdated', status: 'failed' })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 4,
      claim: null,
      error: 'TypeError: still bad',
      nextAttemptAt: null,
    })
  })

  it("with more tries waits by the backoff of its own attempts, past the window too, and is nobody else's meanwhile", async () => {
    const told = vi.fn()
    listen(test, 'SyncItemFailed', told)
    const listener = vi.fn().mockRejectedValueOnce(new Error('1')).mockRejectedValueOnce(new Error('2'))
    listen(test, ThingSynced, listener)
    const row = await failed({ createdAt: new Date(Date.now() - 10 * WINDOW_SECONDS * 1_000) })
    for (const [n, waitSeconds] of [
      [1, 10],
      [2, 30],
    ] as const) {
      expect(await attempt(row, { attempt: n, tries: 3 })).toMatchObject({ waitSeconds, isCounted: true })
      expect(await itemOf(test, row.id)).toMatchObject({
        status: 'processing',
        attempts: 3 + n,
        claim: 'retry-r:waiting',
        error: null,
      })
      // A run that finds rows nobody holds takes them up as its own.
      const due = { syncLogId: run.id, claim: 'run:1', take: { kind: 'due', ids: [row.id] } } as const
      expect(
        await runActivity(test.activities.processSyncItems, { ...due, take: { ...due.take, ids: [row.id] } }),
      ).toMatchObject({
        claimed: 0,
      })
    }
    expect(await attempt(row, { attempt: 3, tries: 3 })).toMatchObject({ outcome: 'success', attempts: 6 })
    expect(told).not.toHaveBeenCalled()
  })

  it.each([
    [1, 1, 4, true],
    [1, 2, 5, false],
    [2, 2, 5, true],
  ])('lets its listener know attempt %i of %i', async (number, tries, maxAttempts, isLikelyFinalAttempt) => {
    const seen: (CurrentSyncItem | null)[] = []
    listen(test, ThingSynced, () => void seen.push(currentSyncItem()))
    const row =
      number === 1 ? await failed() : await failed({ status: 'processing', attempts: 4, claim: 'retry-r:waiting' })
    await attempt(row, { attempt: number, tries })
    expect(seen).toEqual([
      expect.objectContaining({ syncItemId: row.id, attempt: 3 + number, maxAttempts, isLikelyFinalAttempt }),
    ])
  })

  it('is deferred by exactly what the provider asks, which is none of its tries', async () => {
    const acme = { id: integration.id, provider: 'acme', name: 'x' }
    const listener = vi.fn().mockRejectedValueOnce(new RateLimitExceededException(acme, 77, null))
    listen(test, ThingSynced, listener)
    const row = await failed()
    expect(await attempt(row)).toMatchObject({ waitSeconds: 77, isCounted: false })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 3, claim: 'retry-r:waiting' })
    expect(await attempt(row, { claim: 'retry-r:2' })).toMatchObject({ outcome: 'success', attempts: 4 })
  })

  it('of a class with a queued listener is refused again: its attempts stay, no listener runs', async () => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard, { queued: true })
    const row = await failed()
    expect(await attempt(row)).toMatchObject({
      outcome: 'failed',
      attempts: 3,
      error: expect.stringContaining('SyncListenerMustNotBeQueuedException'),
    })
    expect(heard).not.toHaveBeenCalled()
  })

  it('is taken by one of two that ask at once', async () => {
    const row = await failed()
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const results = await Promise.all([attempt(row, { claim: 'retry-a:1' }), attempt(row, { claim: 'retry-b:1' })])
    expect(heard).toHaveBeenCalledTimes(1)
    expect(results.map(({ outcome }) => outcome).sort()).toEqual(['not failed', 'success'])
  })
})

describe('what is not failed', () => {
  it.each([
    ['pending', { status: 'pending', attempts: 0 }],
    ['held by a run', { status: 'processing', claim: 'run:1' }],
    ['waiting for a run', { status: 'processing', claim: null }],
    ['done', { status: 'success' }],
    ['skipped', { status: 'skipped' }],
    ['erased', { status: 'failed', payload: null, error: 'erased' }],
  ] as const)('is left as it is: %s', async (_, values) => {
    const row = await failed(values)
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    expect(await attempt(row)).toMatchObject({ outcome: 'not failed', status: row.status, waitSeconds: null })
    expect(await itemOf(test, row.id)).toEqual(row)
    expect(heard).not.toHaveBeenCalled()
  })

  it('is said of one that is gone', async () => {
    const row = await failed()
    await test.sql`delete from integration_sync_items where id = ${row.id}`
    expect(await attempt(row)).toEqual({
      itemId: row.id,
      outcome: 'not failed',
      status: null,
      attempts: null,
      error: null,
      waitSeconds: null,
      isCounted: false,
    })
  })

  it('is not what an earlier retry has left behind: the id of its workflow is the lock, so that one is over', async () => {
    const minutesAgo = new Date(Date.now() - 120_000)
    for (const claim of ['retry-dead:waiting', 'retry-dead:2', 'retry-dead:2:1']) {
      const row = await failed({ status: 'processing', claim, updatedAt: minutesAgo })
      expect(await attempt(row)).toMatchObject({ outcome: 'success' })
    }
  })

  it('is what a retry has held until a moment ago', async () => {
    const row = await failed({ status: 'processing', claim: 'retry-dead:2' })
    expect(await attempt(row)).toMatchObject({ outcome: 'not failed', status: 'processing' })
    expect(await itemOf(test, row.id)).toEqual(row)
  })

  it('is what was failed by somebody else while its retry waited: a later attempt leaves it', async () => {
    const row = await failed({ error: 'cancelled' })
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    expect(await attempt(row, { attempt: 2, tries: 3 })).toMatchObject({ outcome: 'failed', error: 'cancelled' })
    expect(heard).not.toHaveBeenCalled()
  })
})

describe('a second try under the same claim', () => {
  it.each([
    ['its first loss', 'retry-r:1', 'success'],
    ['its fourth loss', 'retry-r:1:3', 'success'],
    ['its fifth loss', 'retry-r:1:4', 'failed'],
  ])('takes up its own row: at %s', async (_, claim, status) => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const row = await failed({ status: 'processing', attempts: 4, claim })
    const result = await attempt(row, {}, 2)
    expect(result).toMatchObject({ outcome: status, attempts: 4, waitSeconds: null })
    expect(result.error).toBe(status === 'failed' ? 'worker lost' : null)
    expect(heard).toHaveBeenCalledTimes(status === 'failed' ? 0 : 1)
  })

  it('says what the first one came to that could not say it', async () => {
    const row = await failed({ status: 'success' })
    expect(await attempt(row, {}, 2)).toMatchObject({ outcome: 'success', waitSeconds: null })
    expect(test.starts.signals.at(-1)).toEqual({ signal: 'itemsChanged', integrationId: integration.id })
  })
})

describe('the run of a retried item', () => {
  it('that is finalised already: its cursor moves, and nothing else; nobody is told again', async () => {
    await makeItem(test, run, { status: 'success', checkpointValue: '2026-01-01' })
    const row = await failed({ checkpointValue: '2026-01-02' })
    const completed = vi.fn()
    listen(test, 'SyncCompleted', completed)
    const before = await test.integrations.get(integration.id)
    await attempt(row)
    const after = await test.integrations.get(integration.id)
    expect([before?.syncCursor, after?.syncCursor]).toEqual([null, '2026-01-02'])
    expect(after).toMatchObject({ lastSyncedAt: before?.lastSyncedAt, nextSyncAt: before?.nextSyncAt })
    expect((await logOf(test, run.id)).status).toBe('failed')
    expect(completed).not.toHaveBeenCalled()
  })

  it('that lives is woken, and finalised by nobody but itself', async () => {
    run = await makeRun(test, integration.id)
    test.starts.running.add(integration.id)
    const row = await failed()
    await attempt(row)
    test.starts.running.delete(integration.id)
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(test.starts.signals.at(-1)).toEqual({ signal: 'itemsChanged', integrationId: integration.id })
  })

  it('whose workflow is over before it had finalised it, is finalised and told, once', async () => {
    run = await makeRun(test, integration.id)
    const completed = vi.fn()
    listen(test, 'SyncCompleted', completed)
    const row = await failed()
    await attempt(row)
    expect((await logOf(test, run.id)).status).toBe('success')
    await attempt(row, {}, 2)
    expect(completed).toHaveBeenCalledTimes(1)
  })

  it('waits for the end of the retry: a try that is to follow finalises nothing', async () => {
    run = await makeRun(test, integration.id)
    listen(test, ThingSynced, throwing(new Error('bad')))
    await attempt(await failed(), { tries: 2 })
    expect((await logOf(test, run.id)).status).toBe('processing')
  })
})

it('a cancelled retry puts its item back to wait when no listener has seen it', async () => {
  const row = await failed()
  const heard = vi.fn()
  listen(test, ThingSynced, heard)
  const stopped = occasion()
  const working = runActivity(test.activities.processOneSyncItem, input(row), {
    onStart: (cancel) => {
      cancel()
      stopped.happen()
    },
  })
  await stopped.happened
  expect(await working).toMatchObject({ waitSeconds: 0, isCounted: false })
  expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 3, claim: 'retry-r:waiting' })
  expect(heard).not.toHaveBeenCalled()
})

it('a list of failed items that a history does not take is refused at once, and says how to ask for less', async () => {
  for (let n = 0; n < 3; n += 1) await failed({ error: 'x'.repeat(400_000) })
  const list = (limit: number) =>
    runActivity(test.activities.listFailedSyncItems, { integrationId: integration.id, limit })
  await expect(list(3)).rejects.toMatchObject({
    type: 'result_too_large',
    nonRetryable: true,
    message: expect.stringContaining('Ask for less, by "limit"'),
  })
  expect(await list(2)).toHaveLength(2)
})

function failed(values = {}): Promise<SyncItemRow> {
  return makeItem(test, run, { status: 'failed', attempts: 3, error: 'of an attempt before', ...values })
}

function input(row: SyncItemRow, given: Partial<OneItem> = {}): OneItem {
  const n = given.attempt ?? 1
  return { itemId: row.id, claim: `retry-r:${n}`, attempt: n, tries: 1, ...given }
}

function attempt(row: SyncItemRow, given: Partial<OneItem> = {}, activityAttempt = 1): Promise<OneItemResult> {
  return runActivity(test.activities.processOneSyncItem, input(row, given), { attempt: activityAttempt })
}

function throwing(error: unknown): () => never {
  return () => {
    throw error
  }
}
