/** What an operator does with a failed item: skip it, or have it retried. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { LogRow, SyncItemRow } from '../../../src/db/schema/tables.ts'
import { BackendUnreachable } from '../../../src/framework/errors.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { finaliseRun } from '../../../src/syncs/finalisation.ts'
import { retrySyncItem, skipSyncItem, startItemRetry } from '../../../src/syncs/items/item-acts.ts'
import type { ProcessSyncItemResult } from '../../../src/syncs/sync-jobs.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, testIntegrations } from '../../support/integrations.ts'
import { syncProvider } from '../../support/providers.ts'
import { itemOf, logOf, makeIntegration, makeItem, makeRun, waitingForLocks } from '../../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let run: LogRow

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: syncProvider(() => {}) } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  run = await makeRun(test, integration.id, {}, { status: 'failed' })
})

describe('skipping', () => {
  it('moves a failed item to skipped: done now, its error and attempts kept', async () => {
    const row = await failed({ completedAt: new Date('2026-01-01') })
    expect(await skipSyncItem(test.framework, row.id)).toEqual({
      itemId: row.id,
      integrationId: integration.id,
      stream: null,
      cursorMoved: false,
      reducerThrew: null,
    })
    const skipped = await itemOf(test, row.id)
    expect(skipped).toMatchObject({ status: 'skipped', attempts: 3, error: 'Error: bad' })
    expect(skipped.completedAt?.getTime()).toBeGreaterThan(new Date('2026-01-01').getTime())
  })

  it.each(['pending', 'processing', 'success', 'skipped'] as const)('refuses what is %s, by name', async (status) => {
    const row = await failed({ status })
    await expect(skipSyncItem(test.framework, row.id)).rejects.toMatchObject({
      code: 'sync_item_not_failed',
      message: expect.stringContaining(status),
    })
    expect(await itemOf(test, row.id)).toEqual(row)
  })

  it('refuses what there is not', async () => {
    await expect(skipSyncItem(test.framework, 987_654)).rejects.toMatchObject({ code: 'sync_item_not_found' })
  })

  it('takes an erased item too: nothing of it is left to retry', async () => {
    const row = await failed({ payload: null, error: 'erased' })
    await skipSyncItem(test.framework, row.id)
    expect((await itemOf(test, row.id)).status).toBe('skipped')
  })

  it('is done by one of two that ask at once', async () => {
    const row = await failed()
    const both = await Promise.allSettled([skipSyncItem(test.framework, row.id), skipSyncItem(test.framework, row.id)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  })

  it('of the last failed item lets the cursor move past a run that was finalised: nobody is told again', async () => {
    await makeItem(test, run, { status: 'success', checkpointValue: '2026-01-01' })
    const [one, other] = [
      await failed({ checkpointValue: '2026-01-02' }),
      await failed({ checkpointValue: '2026-01-03' }),
    ]
    const completed = vi.fn()
    listen(test, 'SyncCompleted', completed)
    expect(await skipSyncItem(test.framework, one.id)).toMatchObject({ cursorMoved: false })
    expect(await cursor()).toBeNull()
    expect(await skipSyncItem(test.framework, other.id)).toMatchObject({ cursorMoved: true })
    expect(await cursor()).toBe('2026-01-03')
    expect((await logOf(test, run.id)).status).toBe('failed')
    expect(completed).not.toHaveBeenCalled()
  })

  it('finalises and tells a run whose workflow is over before it had', async () => {
    run = await makeRun(test, integration.id)
    const row = await failed({ checkpointValue: '2026-01-02' })
    const completed = vi.fn()
    listen(test, 'SyncCompleted', completed)
    expect(await skipSyncItem(test.framework, row.id)).toMatchObject({ cursorMoved: true })
    expect((await logOf(test, run.id)).status).toBe('success')
    expect(completed).toHaveBeenCalledTimes(1)
  })

  it('says what reduceCheckpoints() threw, so that the cursor stays', async () => {
    const throwing = testIntegrations(database.url, {
      providers: {
        acme: syncProvider(() => {}, {
          reduceCheckpoints: () => {
            throw new Error('bad cursor')
          },
        }),
      },
    })
    const row = await failed({ checkpointValue: '2026-01-02' })
    expect(await skipSyncItem(throwing.framework, row.id)).toMatchObject({
      cursorMoved: false,
      reducerThrew: 'Error: bad cursor',
    })
    await throwing.close()
  })

  it('leaves a living run to itself, and wakes it', async () => {
    run = await makeRun(test, integration.id)
    test.starts.running.add(integration.id)
    const row = await failed()
    await skipSyncItem(test.framework, row.id)
    test.starts.running.delete(integration.id)
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(test.starts.signals.at(-1)).toEqual({ signal: 'itemsChanged', integrationId: integration.id })
  })

  it('while its run is being finalised waits for that, so that the cursor is made up for', async () => {
    run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', checkpointValue: '2026-01-01' })
    const row = await failed({ checkpointValue: '2026-01-02' })
    test.starts.running.add(integration.id)
    // Where a finalisation writes its end, it has counted the item as failed.
    await test.sql.unsafe(`
      create function held_end() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(4711); return new; end $$;
      create trigger held_end before update on integration_logs for each row
        when (old.status = 'processing' and new.status <> 'processing') execute function held_end()`)
    const gate = await test.sql.reserve()
    try {
      await gate`select pg_advisory_lock(4711)`
      const finalised = finaliseRun(test.framework, { integrationId: integration.id, syncLogId: run.id })
      await expect.poll(() => waitingForLocks(test)).toBe(1)
      const skipped = skipSyncItem(test.framework, row.id)
      await expect.poll(() => waitingForLocks(test)).toBe(2)
      expect((await itemOf(test, row.id)).status).toBe('skipped')
      await gate`select pg_advisory_unlock(4711)`
      expect((await finalised).result).toMatchObject({ kind: 'finalised', status: 'partial', failed: 1 })
      expect(await skipped).toMatchObject({ cursorMoved: true })
      expect(await cursor()).toBe('2026-01-02')
    } finally {
      await gate`select pg_advisory_unlock_all()`
      gate.release()
      test.starts.running.delete(integration.id)
      await test.sql`drop function held_end cascade`
    }
  })

  it('is done although Temporal does not answer: a run that may live is left to itself', async () => {
    run = await makeRun(test, integration.id)
    const row = await failed()
    const away = () => Promise.reject(new BackendUnreachable('Temporal', 'nowhere:7233', { remedy: 'Start it.' }))
    const before = test.lines.length
    await withWorkflows({ isSyncRunning: away, nudgeSync: away }, () => skipSyncItem(test.framework, row.id))
    expect((await itemOf(test, row.id)).status).toBe('skipped')
    expect((await logOf(test, run.id)).status).toBe('processing')
    expect(test.lines.slice(before).map(({ fields }) => fields.event)).toEqual([
      'item.skipped',
      'sync.not_asked',
      'sync.not_nudged',
    ])
  })

  it('outlives the log of its run', async () => {
    const row = await failed({ syncLogId: null })
    expect(await skipSyncItem(test.framework, row.id)).toMatchObject({ cursorMoved: false })
  })

  it('says so when the checkpoints can not be reduced: the item is skipped, the cursor stays', async () => {
    const key = 'unreducible'
    test.integrations.register(
      key,
      syncProvider(() => {}, {
        reduceCheckpoints: () => {
          throw new Error('no order')
        },
      }),
    )
    integration = await makeIntegration(test, key)
    run = await makeRun(test, integration.id)
    const row = await failed({ checkpointValue: 'c' })
    const before = test.lines.length
    expect(await skipSyncItem(test.framework, row.id)).toMatchObject({ cursorMoved: false })
    expect(test.lines.slice(before).map(({ fields }) => fields.event)).toContain('sync.not_finalised')
    expect((await itemOf(test, row.id)).status).toBe('skipped')
  })
})

describe('retrying', () => {
  const result: ProcessSyncItemResult = { itemId: 0, outcome: 'success', status: 'success', attempts: 4, error: null }

  it("asks for the item's own workflow, with its tries, and waits for its end", async () => {
    const row = await failed()
    const runProcessSyncItem = vi.fn(async () => ({ ...result, itemId: row.id }))
    const given = await withWorkflows({ runProcessSyncItem }, () => retrySyncItem(test.framework, row.id, { tries: 4 }))
    expect(given).toEqual({ ...result, itemId: row.id })
    expect(runProcessSyncItem.mock.calls).toEqual([
      [
        { itemId: row.id, tries: 4 },
        { integrationId: row.integrationId, provider: 'acme' },
      ],
    ])
  })

  it('is started without waiting: one try unless more are asked for', async () => {
    const row = await failed()
    expect(await startItemRetry(test.framework, row.id, names)).toEqual({
      itemId: row.id,
      integrationId: integration.id,
      workflowId: 'retry',
    })
    expect(test.starts.itemJobs.at(-1)).toEqual({ itemId: row.id, tries: 1 })
  })

  it.each(['pending', 'processing', 'success', 'skipped'] as const)('refuses what is %s, by name', async (status) => {
    const row = await failed({ status })
    for (const retry of [retry1, start1])
      await expect(retry(row)).rejects.toMatchObject({
        code: 'sync_item_not_failed',
        message: expect.stringContaining(status),
      })
  })

  it('refuses what there is not, and what has been erased', async () => {
    const erased = await failed({ payload: null, error: 'erased' })
    await expect(retry1({ id: 987_654 })).rejects.toMatchObject({ code: 'sync_item_not_found' })
    await expect(retry1(erased)).rejects.toMatchObject({ code: 'sync_item_not_failed', isErased: true })
  })

  it.each([0, -1, 1.5, 1_001, Number.NaN])('refuses %d tries', async (tries) => {
    const row = await failed()
    await expect(startItemRetry(test.framework, row.id, names, { tries })).rejects.toMatchObject({
      code: 'invalid_argument',
      argument: 'tries',
    })
  })

  it('refuses what another retry has', async () => {
    const row = await failed()
    test.starts.runningItems.add(row.id)
    await expect(start1(row)).rejects.toMatchObject({ code: 'sync_item_not_failed', status: 'processing' })
    const already = { runProcessSyncItem: async () => 'already running' as const }
    await expect(withWorkflows(already, () => retry1(row))).rejects.toMatchObject({ status: 'processing' })
  })

  it.each(['success', 'skipped', 'pending', 'processing'] as const)(
    'refuses what a later run has a newer copy of that is %s, unless forced',
    async (status) => {
      const row = await failed({ externalId: 'a' })
      const newer = await makeItem(test, run, { status, externalId: 'a' })
      for (const retry of [retry1, start1])
        await expect(retry(row)).rejects.toMatchObject({ code: 'sync_item_outdated', by: newer.id, byStatus: status })
      await startItemRetry(test.framework, row.id, names, { force: true })
      expect(test.starts.itemJobs.at(-1)).toEqual({ itemId: row.id, tries: 1, force: true })
    },
  )

  it.each([
    ['has failed, too', { status: 'failed' as const, externalId: 'a' }],
    ['is of another class', { status: 'success' as const, externalId: 'a', eventClass: 'test.other' }],
    ['has another external id', { status: 'success' as const, externalId: 'b' }],
  ])('takes what a later item is of that %s', async (_, values) => {
    const row = await failed({ externalId: 'a' })
    await makeItem(test, run, values)
    expect(await start1(row)).toMatchObject({ itemId: row.id })
  })

  it('has what waits tried now, by whoever has it', async () => {
    const waits = { status: 'processing', error: null, nextAttemptAt: new Date(), lastError: 'Error: bad' }
    const ofRun = await failed(waits)
    test.starts.running.add(integration.id)
    expect(await start1(ofRun)).toMatchObject({ itemId: ofRun.id, workflowId: 'run' })
    expect(await retry1(ofRun)).toMatchObject({ outcome: 'tried now', status: 'processing' })
    run = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    const ofBackfill = await failed(waits)
    expect(await start1(ofBackfill)).toMatchObject({ workflowId: 'backfill' })
    test.starts.running.delete(integration.id)
    const ofRetry = await failed({ ...waits, claim: 'retry-x:waiting' })
    test.starts.runningItems.add(ofRetry.id)
    expect(await start1(ofRetry)).toMatchObject({ workflowId: 'retry' })
  })

  it('makes what waits due in its row: its run may not have it in its list', async () => {
    const later = new Date(Date.now() + 3_600_000)
    const row = await failed({ status: 'processing', error: null, nextAttemptAt: later })
    test.starts.running.add(integration.id)
    await start1(row)
    test.starts.running.delete(integration.id)
    const { nextAttemptAt, status, attempts } = await itemOf(test, row.id)
    expect(nextAttemptAt?.getTime()).toBeLessThan(later.getTime() - 3_000_000)
    expect({ status, attempts }).toEqual({ status: 'processing', attempts: row.attempts })
  })

  it('says what the item is when it was moved on meanwhile', async () => {
    const row = await failed()
    const runProcessSyncItem = async (): Promise<ProcessSyncItemResult> => {
      await skipSyncItem(test.framework, row.id)
      return { ...result, outcome: 'not failed', status: 'skipped' }
    }
    await expect(withWorkflows({ runProcessSyncItem }, () => retry1(row))).rejects.toMatchObject({ status: 'skipped' })
  })

  it('takes what a retry has left behind that is over, and not what one holds that lives', async () => {
    const row = await failed({ status: 'processing', claim: 'retry-dead:waiting' })
    test.starts.runningItems.add(row.id)
    await expect(start1(row)).rejects.toMatchObject({ status: 'processing' })
    test.starts.runningItems.delete(row.id)
    expect(await start1(row)).toMatchObject({ itemId: row.id })
  })

  const retry1 = ({ id }: { id: number }) => retrySyncItem(test.framework, id)
  const start1 = ({ id }: { id: number }) => startItemRetry(test.framework, id, names)
})

const names = () => ({ retry: 'retry', run: 'run', backfill: 'backfill' })

function failed(values = {}): Promise<SyncItemRow> {
  return makeItem(test, run, { status: 'failed', attempts: 3, error: 'Error: bad', ...values })
}

async function cursor(): Promise<unknown> {
  return (await test.integrations.get(integration.id))?.syncCursor ?? null
}

/** Temporal answers so meanwhile. */
async function withWorkflows<T>(
  given: Partial<TestIntegrations['framework']['workflows']>,
  work: () => Promise<T>,
): Promise<T> {
  const { workflows } = test.framework
  const before = { ...workflows }
  Object.assign(workflows, given)
  try {
    return await work()
  } finally {
    Object.assign(workflows, before)
  }
}
