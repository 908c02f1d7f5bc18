/** Setting the cursor by hand, and finalising what nobody finalised. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Json } from '../../src/framework/json.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { advanceCursor, finaliseOneRun, setSyncCursor } from '../../src/syncs/by-hand.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { itemOf, logOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let reduce: (checkpoints: readonly Json[]) => Json

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider(() => {}, { reduceCheckpoints: (checkpoints) => reduce(checkpoints) }),
      unscheduled: {},
    },
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

describe('setting the cursor', () => {
  it.each([
    ['a value', { page: 2 }],
    ['a reset', null],
  ])('%s: says from and to, and writes who did it into a log row', async (_, to) => {
    await setIntegration(test, integration.id, { syncCursor: 'c1' })
    expect(await setSyncCursor(test.framework, integration.id, to)).toEqual({ from: 'c1', to })
    expect(await cursorOf()).toEqual(to)
    expect(await logsOf(test, integration.id, 'cursor')).toEqual([
      expect.objectContaining({ status: 'success', metadata: { from: 'c1', to, by: 'operator' } }),
    ])
  })

  it('is refused while a run lives, unless it is forced: then the run is ended first', async () => {
    test.starts.running.add(integration.id)
    await expect(setSyncCursor(test.framework, integration.id, 1)).rejects.toMatchObject({ code: 'integration_busy' })
    expect(await cursorOf()).toBeNull()
    await setSyncCursor(test.framework, integration.id, 1, { force: true })
    expect(test.starts.cancelled).toContain(integration.id)
    expect(await cursorOf()).toBe(1)
  })

  const nested = (levels: number): Json => Array.from({ length: levels }).reduce<Json>((inner) => [inner], 1)

  it.each<[string, Json]>([
    ['the greatest numbers', [2 ** 53 + 2, -(2 ** 63), 1.7976931348623157e308, 5e-324, 0.1]],
    ['texts of every kind', 'a\\u0000 \\ud83d 😀 \ufffd "'],
    ['500 levels', nested(500)],
  ])('stores %s as they were given', async (_, cursor) => {
    await setSyncCursor(test.framework, integration.id, cursor)
    expect(await cursorOf()).toEqual(cursor)
    await (await test.integrations.get(integration.id)).updateSyncCursor(cursor)
    expect(await cursorOf()).toEqual(cursor)
  })

  it.each<[string, unknown]>([
    ['half of a surrogate pair', 'a\ud83d'],
    ['the other half, in a key', { '\ude00': 1 }],
    ['U+0000', { page: ['a\0b'] }],
    ['501 levels', nested(501)],
    ['a bigint', 2n ** 64n],
  ])('refuses %s, by an operator and by code', async (_, cursor) => {
    await setSyncCursor(test.framework, integration.id, 'before')
    const refused = { code: 'invalid_argument', argument: 'cursor' }
    await expect(setSyncCursor(test.framework, integration.id, cursor as Json)).rejects.toMatchObject(refused)
    const handle = await test.integrations.get(integration.id)
    await expect(handle.updateSyncCursor(cursor as Json)).rejects.toMatchObject(refused)
    expect(await cursorOf()).toBe('before')
  })

  it('refuses what is no JSON, and an integration that is not there', async () => {
    await expect(setSyncCursor(test.framework, integration.id, undefined as never)).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(setSyncCursor(test.framework, 999_999, 1)).rejects.toMatchObject({ code: 'integration_not_found' })
    expect(await logsOf(test, integration.id, 'cursor')).toEqual([])
  })

  it('ends no run for what is no JSON', async () => {
    test.starts.running.add(integration.id)
    await expect(
      setSyncCursor(test.framework, integration.id, undefined as never, { force: true }),
    ).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(test.starts.cancelled).not.toContain(integration.id)
  })

  it('closes the log of a run that could only be terminated: nothing of it is gone on with', async () => {
    // The starters of this test end a run as a termination does: nothing more of it happens.
    test.starts.running.add(integration.id)
    const open = await doneRun('processing', 8)
    await setSyncCursor(test.framework, integration.id, 3, { force: true })
    expect(await logOf(test, open.id)).toMatchObject({ status: 'cancelled', metadata: { enumerated: false } })
    expect(await advanceCursor(test.framework, { integrationId: integration.id })).toMatchObject({ runs: 0, to: 3 })
  })

  it('keeps every run that began before from it, whatever comes of it later', async () => {
    const [open, late] = [await doneRun('processing', 8), await doneRun('partial', 9)]
    await setSyncCursor(test.framework, integration.id, 3)
    expect(await advanceCursor(test.framework, { integrationId: integration.id })).toMatchObject({ runs: 1, to: 3 })
    await finaliseOneRun(test.framework, late.id)
    expect(await cursorOf()).toBe(3)
    expect((await logOf(test, open.id)).status).toBe('success')
  })
})

describe('advancing the cursor', () => {
  it('finalises complete runs that nobody finalised, announces them, and says from and to', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    await setIntegration(test, integration.id, { syncCursor: 1 })
    const runs = [await doneRun('processing', 4), await doneRun('processing', 6)]
    const unlisted = await makeRun(test, integration.id, { enumerated: false })
    expect(await advanceCursor(test.framework, { integrationId: integration.id })).toEqual({
      runs: 2,
      from: 1,
      to: 6,
      reclaimed: 0,
    })
    expect(told).toHaveBeenCalledTimes(2)
    for (const run of runs) expect((await logOf(test, run.id)).metadata).toHaveProperty('announced_at')
    expect((await logOf(test, unlisted.id)).status).toBe('processing')
    expect(await advanceCursor(test.framework, { integrationId: integration.id })).toMatchObject({ runs: 0, to: 6 })
    expect(told).toHaveBeenCalledTimes(2)
  })

  it('moves the cursor where a skip came late, and leaves what is held', async () => {
    const run = await doneRun('partial', 4)
    const item = await makeItem(test, run, { status: 'failed', externalId: 'x', checkpointValue: 2 })
    const later = await doneRun('success', 7)
    const advance = () => advanceCursor(test.framework, { integrationId: integration.id })
    expect(await advance()).toMatchObject({ runs: 0, to: null })
    await test.sql`update integration_sync_items set status = 'skipped' where id = ${item.id}`
    expect(await advance()).toMatchObject({ runs: 0, from: null, to: 7 })
    expect((await logOf(test, later.id)).status).toBe('success')
  })

  it('announces a run that was finalised by a process that died before it told anybody', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await doneRun('processing', 4)
    await test.activities.finaliseSyncRun({ integrationId: integration.id, syncLogId: run.id })
    expect(told).not.toHaveBeenCalled()
    expect(await advanceCursor(test.framework, { integrationId: integration.id })).toMatchObject({ runs: 0 })
    expect(told).toHaveBeenCalledTimes(1)
  })

  it('of a run whose provider is no longer registered stays, and the run ends', async () => {
    const run = await doneRun('processing', 4)
    await setIntegration(test, integration.id, { provider: 'gone' })
    await test.activities.finaliseSyncRun({ integrationId: integration.id, syncLogId: run.id })
    expect((await logOf(test, run.id)).status).toBe('success')
    const [row] = await test.sql`select sync_cursor from integrations where id = ${integration.id}`
    expect(row).toEqual({ sync_cursor: null })
  })

  it('looks at so many runs, the newest ones', async () => {
    const [older, newer] = [await doneRun('processing', 4), await doneRun('processing', 6)]
    await advanceCursor(test.framework, { integrationId: integration.id, limit: 1 })
    expect((await logOf(test, older.id)).status).toBe('processing')
    expect((await logOf(test, newer.id)).status).toBe('success')
  })

  it('fails what is in flight for too long first, if it is told to', async () => {
    const run = await makeRun(test, integration.id)
    const createdAt = new Date(Date.now() - 86_400_000 * 3)
    const item = await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'dead:1', createdAt })
    const advance = (reclaimStale: boolean) =>
      advanceCursor(test.framework, { integrationId: integration.id, reclaimStale })
    expect(await advance(false)).toMatchObject({ runs: 0, reclaimed: 0 })
    expect(await advance(true)).toMatchObject({ runs: 1, reclaimed: 1 })
    expect(await itemOf(test, item.id)).toMatchObject({ status: 'failed', error: 'abandoned' })
    expect((await logOf(test, run.id)).status).toBe('failed')
  })

  it('says that the reducer threw, and changes nothing', async () => {
    reduce = () => {
      throw new Error('the reducer broke')
    }
    const run = await doneRun('processing', 4)
    await expect(advanceCursor(test.framework, { integrationId: integration.id })).rejects.toMatchObject({
      code: 'checkpoints_not_reduced',
      message: expect.stringContaining('the reducer broke'),
    })
    expect((await logOf(test, run.id)).status).toBe('processing')
  })

  it('refuses an integration that is not there, and a provider without sync()', async () => {
    await expect(advanceCursor(test.framework, { integrationId: 999_999 })).rejects.toMatchObject({
      code: 'integration_not_found',
    })
    const { id } = await makeIntegration(test, 'unscheduled')
    await expect(advanceCursor(test.framework, { integrationId: id })).rejects.toMatchObject({
      code: 'unsupported_by_provider',
    })
  })
})

describe('finalising one run', () => {
  it('finalises and announces it', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const run = await doneRun('processing', 4)
    expect(await finaliseOneRun(test.framework, run.id)).toEqual({ runs: 1, from: null, to: 4, reclaimed: 0 })
    expect(told).toHaveBeenCalledTimes(1)
  })

  it('leaves a run with unfinished items', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'pending' })
    expect(await finaliseOneRun(test.framework, run.id)).toMatchObject({ runs: 0 })
    expect((await logOf(test, run.id)).status).toBe('processing')
  })

  it('refuses what is no run', async () => {
    await integration.updateSyncCursor(1)
    const [cursorLog] = await logsOf(test, integration.id, 'cursor')
    for (const id of [999_999, cursorLog?.id ?? 0])
      await expect(finaliseOneRun(test.framework, id)).rejects.toMatchObject({ code: 'sync_run_not_found' })
  })
})

/** A run whose one item is done. */
async function doneRun(status: string, checkpointValue: number) {
  const run = await makeRun(
    test,
    integration.id,
    status === 'processing' ? {} : { success_count: 1, announced_at: 'x' },
    {
      status,
    },
  )
  await makeItem(test, run, { status: 'success', externalId: `item ${checkpointValue}`, checkpointValue })
  return run
}

async function cursorOf(): Promise<Json> {
  return (await integration.refresh()).syncCursor
}
