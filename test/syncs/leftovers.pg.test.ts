/** Items in flight for too long. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Config } from '../../src/config/schema.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { reclaimAbandonedItems } from '../../src/syncs/leftovers.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

const RECLAIM_AFTER = 43_200
/** For a run that asks and has no log yet. */
const NO_LOG = 0

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

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
})

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const OLD = ago(RECLAIM_AFTER + 60)
const HELD = { status: 'processing', claim: 'dead:1', attempts: 1, createdAt: OLD } as const

it('an item in flight for too long fails as abandoned, with a warning and no SyncItemFailed', async () => {
  const told = vi.fn()
  listen(test, 'SyncItemFailed', told)
  const run = await makeRun(test, integration.id)
  const [held, waiting] = [await makeItem(test, run, HELD), await makeItem(test, run, { ...HELD, claim: null })]
  expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toEqual({
    items: 2,
    syncLogIds: [run.id],
  })
  for (const { id } of [held, waiting])
    expect(await itemOf(test, id)).toMatchObject({
      status: 'failed',
      error: 'abandoned',
      claim: null,
      attempts: 1,
      completedAt: expect.any(Date),
    })
  expect(test.lines.filter((line) => line.fields.event === 'item.abandoned' && line.level === 'warn')).toHaveLength(2)
  expect(told).not.toHaveBeenCalled()
})

describe('is never applied', () => {
  it.each([
    [
      'younger than that',
      {
        ...HELD,
        // When it is asked for: the table is made long before its tests run.
        get createdAt() {
          return ago(RECLAIM_AFTER - 60)
        },
      },
    ],
    ['not begun', { ...HELD, status: 'pending', claim: null, attempts: 0 }],
    ['ended', { ...HELD, status: 'success', claim: null }],
  ] as const)('to an item that is %s', async (_, values) => {
    const item = await makeItem(test, await makeRun(test, integration.id), values)
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toEqual({
      items: 0,
      syncLogIds: [],
    })
    expect((await itemOf(test, item.id)).status).toBe(values.status)
  })

  it('below the retry window plus one hour', async () => {
    const slow = withConfig({ item_reclaim_after: 60, item_retry_window: 50_000 })
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { ...HELD, createdAt: ago(53_500) })
    expect(await reclaimAbandonedItems(slow, { integrationId: integration.id }, NO_LOG)).toMatchObject({ items: 0 })
    await makeItem(test, run, { ...HELD, createdAt: ago(53_700) })
    expect(await reclaimAbandonedItems(slow, { integrationId: integration.id }, NO_LOG)).toMatchObject({ items: 1 })
  })

  it('to items of the run that asks', async () => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, HELD)
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, run.id)).toMatchObject({
      items: 0,
    })
  })

  it('to items of a run that lives by what Temporal says, a paused one too; to those of a dead one it is', async () => {
    const dead = await makeRun(test, integration.id, {}, { status: 'partial' })
    const living = await makeRun(test, integration.id)
    await makeItem(test, dead, HELD)
    await makeItem(test, living, HELD)
    test.starts.running.add(integration.id)
    const reclaim = () => reclaimAbandonedItems(test.framework, { integrationId: integration.id }, null)
    expect(await reclaim()).toEqual({ items: 1, syncLogIds: [dead.id] })
    test.starts.running.delete(integration.id)
    expect(await reclaim()).toEqual({ items: 1, syncLogIds: [living.id] })
  })

  it('to an item whose own workflow lives, also between two attempts', async () => {
    const run = await makeRun(test, integration.id)
    const items = [
      await makeItem(test, run, { ...HELD, claim: 'retry-a:1' }),
      await makeItem(test, run, { ...HELD, claim: 'retry-b:waiting' }),
    ]
    for (const { id } of items) test.starts.runningItems.add(id)
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toMatchObject({
      items: 0,
    })
    for (const { id } of items) test.starts.runningItems.delete(id)
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toMatchObject({
      items: 2,
    })
  })

  it('to items of a backfill, which its own workflow goes on with', async () => {
    await makeItem(test, await makeRun(test, integration.id, {}, { operation: 'backfill' }), HELD)
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toMatchObject({
      items: 0,
    })
  })

  it('to an item that was claimed anew meanwhile', async () => {
    const run = await makeRun(test, integration.id)
    const item = await makeItem(test, run, { ...HELD, claim: 'retry-c:1' })
    vi.spyOn(test.framework.workflows, 'isSyncItemRunning').mockImplementation(async () => {
      await test.sql`update integration_sync_items set claim = 'retry-d:1' where id = ${item.id}`
      return false
    })
    expect(await reclaimAbandonedItems(test.framework, { integrationId: integration.id }, NO_LOG)).toMatchObject({
      items: 0,
    })
    expect((await itemOf(test, item.id)).status).toBe('processing')
  })
})

function withConfig(sync: Partial<Config['sync']>) {
  const { config } = test.framework
  return { ...test.framework, config: { ...config, sync: { ...config.sync, ...sync } } }
}
