/** The log of a backfill's slice, and telling a provider what is gone. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ItemBatch } from '../../src/activities/item-activities.ts'
import { InvalidArgumentException } from '../../src/framework/errors.ts'
import type { HandlesMissing, HasBackfill } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { itemOf, itemsOf, logOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const DAY = { from: '2031-01-01T00:00:00.000Z', to: '2031-01-02T00:00:00.000Z' }
const NEXT_DAY = { from: '2031-01-02T00:00:00.000Z', to: '2031-01-03T00:00:00.000Z' }

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** What the provider was told, chunk by chunk. */
let told: (readonly string[])[]
let whenTold: () => Promise<void>

beforeAll(async () => {
  database = await createTestDatabase()
  const provider: HasBackfill & HandlesMissing = {
    ...syncProvider(() => {}),
    syncWindow: async () => {},
    async handleMissing(_integration, externalIds) {
      await whenTold()
      told.push(externalIds)
    },
  }
  test = testIntegrations(database.url, {
    providers: { acme: provider, plain: syncProvider(() => {}) },
    config: { sync: { item_queue: 'items' } },
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  told = []
  whenTold = async () => {}
})

describe('opening a slice of a backfill', () => {
  const open = (window = DAY, runId = 'a-backfill', integrationId = integration.id) =>
    test.activities.openBackfillSlice({ integrationId, runId, startedAt: new Date().toISOString(), ...window })

  it('writes a log of its own: backfill, inbound, with the window, not enumerated', async () => {
    await integration.updateSyncCursor('c1')
    const opened = await open()
    expect(opened).toMatchObject({ kind: 'open', settings: { itemTaskQueue: 'integrations-items' } })
    expect(await logsOf(test, integration.id, 'backfill')).toEqual([
      expect.objectContaining({
        id: opened.kind === 'open' ? opened.syncLogId : null,
        direction: 'inbound',
        status: 'processing',
        metadata: { run_id: 'a-backfill', window: DAY, incremental: false, cursor_before: 'c1', enumerated: false },
      }),
    ])
  })

  it('notes where the whole window ends: the doctor names what is left of it', async () => {
    const until = '2031-02-01T00:00:00.000Z'
    const asked = { integrationId: integration.id, runId: 'a-backfill', startedAt: new Date().toISOString() }
    await test.activities.openBackfillSlice({ ...asked, ...DAY, until })
    expect(await logsOf(test, integration.id, 'backfill')).toMatchObject([{ metadata: { window: { ...DAY, until } } }])
  })

  it('is done once per run and window, however often it is tried', async () => {
    const first = await open()
    const second = await open(NEXT_DAY)
    expect(await open()).toEqual(first)
    expect(await open(NEXT_DAY)).toEqual(second)
    expect(await open(DAY, 'another-backfill')).not.toEqual(first)
    expect(await open({ ...DAY, to: '2031-01-01T12:00:00.000Z' })).not.toEqual(first)
    expect(await open({ ...DAY, from: '2031-01-01T12:00:00.000Z' })).not.toEqual(first)
    expect(await logsOf(test, integration.id, 'backfill')).toHaveLength(5)
  })

  it('is done once when two tries overlap', async () => {
    const tries = await Promise.all(Array.from({ length: 8 }, () => open()))
    expect(new Set(tries.map((opened) => JSON.stringify(opened))).size).toBe(1)
    expect(await logsOf(test, integration.id, 'backfill')).toHaveLength(1)
  })

  it.each([
    ['is gone', async () => ({ id: 999_999 }), 'no integration'],
    ['is switched off', async () => integration.disable().then(() => integration), 'switched off'],
    [
      'was disabled by its health',
      async () => setIntegration(test, integration.id, { healthStatus: 'disabled' }).then(() => integration),
      'switched off',
    ],
    [
      'has no registered provider',
      async () => setIntegration(test, integration.id, { provider: 'gone' }).then(() => integration),
      'not registered',
    ],
    ['has a provider without syncWindow()', () => makeIntegration(test, 'plain'), 'no syncWindow()'],
  ])('is not done when the integration %s', async (_, target, reason) => {
    const { id } = await target()
    expect(await open(DAY, 'a-backfill', id)).toEqual({
      kind: 'nothing to do',
      reason: expect.stringContaining(reason),
    })
    expect(await logsOf(test, id, 'backfill')).toEqual([])
  })
})

describe('what a terminated backfill left open', () => {
  const open = (runId: string, window = DAY, startedAt = new Date()) =>
    test.activities.openBackfillSlice({
      integrationId: integration.id,
      runId,
      startedAt: startedAt.toISOString(),
      ...window,
    })

  it('is not the slice of one that has taken the place of who asks', async () => {
    const before = new Date(Date.now() - 60_000)
    await open('dead', DAY, before)
    const next = await open('next')
    if (next.kind !== 'open') throw new Error('not opened')
    // A try of the dead one's last activity that had stood still.
    await open('dead', NEXT_DAY, before)
    expect((await logOf(test, next.syncLogId)).status).toBe('processing')
  })

  it('is ended by the next one: the log failed, what had not started gone, what had begun failed', async () => {
    const dead = await open('dead')
    if (dead.kind !== 'open') throw new Error('not opened')
    const run = { id: dead.syncLogId, integrationId: integration.id }
    await test.sql`update integration_logs set metadata = metadata || '{"enumerated": true}'::jsonb where id = ${run.id}`
    const done = await makeItem(test, run, { status: 'success', externalId: 'done' })
    await makeItem(test, run, { externalId: 'pending' })
    const waits = await makeItem(test, run, { status: 'processing', attempts: 1, externalId: 'waits' })
    const held = await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'dead:1', externalId: 'held' })
    const own = await makeItem(test, run, { status: 'processing', attempts: 4, claim: 'retry-1:1', externalId: 'own' })
    test.starts.runningItems.add(own.id)
    const linesBefore = test.lines.length

    const next = await open('next', NEXT_DAY)
    expect(await open('next', NEXT_DAY)).toEqual(next)

    expect((await itemsOf(test, run.id)).map(({ id, status, error, claim }) => [id, status, error, claim])).toEqual([
      [done.id, 'success', null, null],
      [waits.id, 'failed', 'abandoned', null],
      [held.id, 'failed', 'abandoned', null],
      [own.id, 'processing', null, 'retry-1:1'],
    ])
    expect(await logOf(test, run.id)).toMatchObject({
      status: 'failed',
      error: 'the workflow of the backfill ended before this slice was done',
      durationMs: expect.any(Number),
      metadata: { enumerated: false },
    })
    const told = test.lines.slice(linesBefore).filter(({ fields }) => fields.event === 'backfill.abandoned')
    expect(told.map(({ level, fields }) => [level, fields.sync_log])).toEqual([['warn', run.id]])
    expect((await logsOf(test, integration.id, 'backfill')).map(({ status }) => status)).toEqual([
      'failed',
      'processing',
    ])
  })

  it('is no slice of the same backfill, no ended one, no ordinary run, and nothing of another integration', async () => {
    const other = await makeIntegration(test, 'acme')
    const startedAt = new Date().toISOString()
    await test.activities.openBackfillSlice({ integrationId: other.id, runId: 'of another', startedAt, ...DAY })
    await open('mine')
    const ordinary = await makeRun(test, integration.id)
    await makeRun(test, integration.id, { run_id: 'ended' }, { operation: 'backfill', status: 'success' })
    await open('mine', NEXT_DAY)
    expect((await logsOf(test, integration.id, 'backfill')).map(({ status }) => status)).toEqual([
      'processing',
      'success',
      'processing',
    ])
    expect((await logsOf(test, other.id, 'backfill')).map(({ status }) => status)).toEqual(['processing'])
    expect((await logOf(test, ordinary.id)).status).toBe('processing')
  })
})

describe('an item of a backfill', () => {
  const hears = (): number[] => {
    const heard: number[] = []
    listen(test, ThingSynced, ({ payload }: ThingSynced) => heard.push(payload.n))
    return heard
  }
  const slice = () => makeRun(test, integration.id, { window: DAY }, { operation: 'backfill' })
  const work = (syncLogId: number, take: ItemBatch['take'] = { kind: 'pending', limit: 10 }) =>
    runActivity(test.activities.processSyncItems, { syncLogId, claim: `slice-${syncLogId}:1`, take, isBackfill: true })
  const statuses = ['success', 'skipped', 'pending', 'processing'] as const

  it.each(statuses)('writes no old data over a newer copy of a later run that is %s: it is skipped', async (status) => {
    const heard = hears()
    const run = await slice()
    const old = await makeItem(test, run, { externalId: 'r' })
    await makeItem(test, run, { externalId: 'other', payload: { v: 1, data: { n: 2 } } })
    await makeItem(test, await makeRun(test, integration.id), { externalId: 'r', status })
    expect(await work(run.id)).toMatchObject({ claimed: 2, succeeded: 1, failed: 0, waiting: [] })
    expect(heard).toEqual([2])
    expect(await itemOf(test, old.id)).toMatchObject({
      status: 'skipped',
      error: 'a later run has a newer copy',
      attempts: 0,
      claim: null,
      completedAt: expect.any(Date),
    })
  })

  it('is skipped also between two attempts, and after its worker was lost', async () => {
    const heard = hears()
    const run = await slice()
    const waits = await makeItem(test, run, { externalId: 'r', status: 'processing', attempts: 1 })
    const claim = `slice-${run.id}:1`
    const lost = await makeItem(test, run, { externalId: 's', status: 'processing', attempts: 1, claim })
    const ordinary = await makeRun(test, integration.id)
    for (const externalId of ['r', 's']) await makeItem(test, ordinary, { externalId, status: 'success' })
    await work(run.id, { kind: 'due', ids: [waits.id] })
    expect(heard).toEqual([])
    expect((await itemsOf(test, run.id)).map(({ id, status, attempts }) => [id, status, attempts])).toEqual([
      [waits.id, 'skipped', 1],
      [lost.id, 'skipped', 0],
    ])
  })

  it('runs beside an older copy, a failed newer one, and one of another class', async () => {
    const ordinary = await makeRun(test, integration.id)
    await makeItem(test, ordinary, { externalId: 'r', status: 'success' })
    const run = await slice()
    const item = await makeItem(test, run, { externalId: 'r' })
    await makeItem(test, ordinary, { externalId: 'r', status: 'failed' })
    await makeItem(test, ordinary, { externalId: 'r', status: 'success', eventClass: 'test.other' })
    expect(await work(run.id)).toMatchObject({ succeeded: 1 })
    expect((await itemOf(test, item.id)).status).toBe('success')
  })
})

describe('telling a provider what is gone', () => {
  /** Two full listings of `a`, while `a` and `b` have been mapped: `b` is gone. */
  async function twoListings(): Promise<number> {
    await test.sql`
      insert into integration_mappings (integration_id, external_id, internal_type, internal_id, created_at)
      select ${integration.id}, id, 'note', id, now() - interval '1 day' from unnest(array['a', 'b']) id`
    let last = 0
    for (let run = 0; run < 2; run += 1) {
      const log = await makeRun(
        test,
        integration.id,
        { full_listing: { internal_type: null }, listed: 1 },
        { status: 'success' },
      )
      await makeItem(test, log, { externalId: 'a', status: 'success' })
      last = log.id
    }
    return last
  }
  const handle = (syncLogId: number, onStart?: (cancel: () => void) => void) =>
    runActivity(
      test.activities.handleMissingItems,
      { integrationId: integration.id, syncLogId },
      onStart === undefined ? {} : { onStart },
    )

  it('is done once it was noted, not again', async () => {
    const syncLogId = await twoListings()
    expect(await handle(syncLogId)).toEqual({ missing: 1 })
    expect(await handle(syncLogId)).toEqual({ missing: 0 })
    expect(told).toEqual([['b']])
    expect((await logOf(test, syncLogId)).metadata).toMatchObject({
      missing_handled_at: expect.any(String),
      missing: 1,
    })
  })

  it('is done again from the beginning when the provider threw, and its fault shows no credential', async () => {
    const syncLogId = await twoListings()
    whenTold = async () => {
      throw new Error(`no answer to ${TOKEN}`)
    }
    await expect(handle(syncLogId)).rejects.toMatchObject({
      message: expect.not.stringContaining(TOKEN),
      nonRetryable: false,
    })
    expect((await logOf(test, syncLogId)).metadata).not.toHaveProperty('missing_handled_at')
    whenTold = async () => {}
    expect(await handle(syncLogId)).toEqual({ missing: 1 })
  })

  it('is not tried again after a fault that stays', async () => {
    const syncLogId = await twoListings()
    whenTold = async () => {
      throw new InvalidArgumentException('externalIds', 'the provider takes numbers')
    }
    await expect(handle(syncLogId)).rejects.toMatchObject({ type: 'invalid_argument', nonRetryable: true })
  })

  it('ends when the worker stops', async () => {
    const syncLogId = await twoListings()
    let stop: () => void = () => {}
    whenTold = () =>
      new Promise((_, reject) => {
        stop()
        reject(new Error('cut off'))
      })
    await expect(
      handle(syncLogId, (cancel) => {
        stop = cancel
      }),
    ).rejects.toMatchObject({ name: 'CancelledFailure' })
    expect(told).toEqual([])
    expect((await logOf(test, syncLogId)).metadata).not.toHaveProperty('missing_handled_at')
  })
})
