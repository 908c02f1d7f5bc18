/** The commands about syncs that go through Temporal, with a worker, real rows and the real workflows. */
import { randomBytes } from 'node:crypto'
import { Worker } from '@temporalio/worker'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { createActivities } from '../../src/activities/index.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import type { Stage } from '../workflows/stage.ts'
import { openStage, SHUTDOWN_FORCE_TIME } from '../workflows/stage.ts'
import { runCommand } from './cli/run.ts'

const prefix = `syncs-${randomBytes(4).toString('hex')}`

let stage: Stage
let database: TestDatabase
let test: TestIntegrations
let stopWorker: () => Promise<void>
let id: number
/** What the provider does before it lists. */
let beforeListing: () => unknown = () => {}
/** What the host does with an item. */
let listener: (event: ThingSynced) => unknown = () => {}

beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
  const demo = syncProvider(
    async (session) => {
      await beforeListing()
      for (const n of [1, 2, 3])
        await session.dispatch(new ThingSynced(session.integration, { n }), `2021-06-0${n}T00:00:00Z`, `thing-${n}`)
    },
    // Only by hand, so that no dispatch meets the integrations of another test.
    { defaultSyncInterval: () => null },
  )
  test = testIntegrations(database.url, {
    recordStarts: false,
    temporal: { address: stage.env.address },
    providers: { demo },
    config: { cache_prefix: prefix, sync: { item_tries: 1 } },
  })
  test.integrations.on(ThingSynced, (event) => listener(event))
  const worker = await Worker.create({
    connection: stage.env.nativeConnection,
    taskQueue: `${prefix}-default`,
    workflowBundle: stage.bundle,
    activities: createActivities(test.framework),
    shutdownGraceTime: 0,
    shutdownForceTime: SHUTDOWN_FORCE_TIME,
  })
  const running = worker.run()
  stopWorker = async () => {
    worker.shutdown()
    await running
  }
  // A new JVM takes seconds to start its first workflow on a busy machine, and a command waits for five.
  await stage.env.client.workflow.execute('dispatchSyncs', { taskQueue: `${prefix}-default`, workflowId: 'warm-up' })
})

afterAll(async () => {
  await stopWorker?.()
  await test?.close()
  await stage?.close()
  await database?.drop()
}, 180_000)

beforeEach(async () => {
  beforeListing = () => {}
  listener = () => {}
  id = (await makeIntegration(test, 'demo')).id
})

const run = (...words: (string | number)[]) => runCommand(test.integrations, [...words.map(String), '--json'])

const newestRun = async () => {
  const [newest] = (await run('list-sync-runs', '--integration', id)).json() as { id: number; status: string }[]
  return newest
}

it('sync starts what is due', async () => {
  await test.integrations.update(id, { syncIntervalMinutes: 60 })
  const ran = await run('sync')
  expect([ran.exitCode, ran.json()]).toMatchObject([0, { due: 1, started: 1, already_running: 0, stale: [] }])
  await vi.waitFor(async () => expect(await newestRun()).toMatchObject({ status: 'success' }), 20_000)
})

it('sync --watch ends with 1 when an item fails; its retry moves the cursor', async () => {
  listener = ({ payload }) => {
    if (payload.n === 2) throw new Error('not now')
  }
  const watched = await run('sync', '--integration', id, '--watch')
  expect(watched.json()).toMatchObject({
    started: 1,
    run: { status: 'partial', listed: 3, succeeded: 2, failed: 1, cursor_after: null },
  })
  expect(watched.exitCode).toBe(1)
  const [item] = (await run('list-failed-items', '--integration', id)).json() as { id: number }[]
  expect(item).toMatchObject({ external_id: 'thing-2', error: 'Error: not now', attempts: 1 })
  const again = await run('retry-sync-item', item?.id ?? 0)
  expect([again.exitCode, again.json()]).toMatchObject([1, [{ outcome: 'failed', attempts: 2 }]])
  listener = () => {}
  const mended = await run('retry-sync-item', item?.id ?? 0)
  expect([mended.exitCode, mended.json()]).toMatchObject([0, [{ outcome: 'success', attempts: 3, error: null }]])
  expect((await test.integrations.get(id)).syncCursor).toBe('2021-06-03T00:00:00Z')
})

it('pause-sync holds a run, which says so; resume-sync lets it go on', async () => {
  const [begun, over] = [occasion(), occasion()]
  listener = () => {
    begun.happen()
    return over.happened
  }
  const watching = run('sync', '--integration', id, '--watch')
  await begun.happened
  expect((await run('pause-sync', id)).exitCode).toBe(0)
  // It takes its time, so that it is no small run.
  const paused = { progress: { phase: 'processing', is_paused: true, listed: 3 } }
  await vi.waitFor(async () => expect((await run('sync-progress', id)).json()).toMatchObject(paused), 20_000)
  expect((await run('sync', '--integration', id)).json()).toMatchObject({ outcome: 'remembered', started: 0 })
  over.happen()
  expect((await run('resume-sync', id)).json()).toMatchObject({ resumed: true })
  expect((await watching).json()).toMatchObject({ run: { status: 'success', succeeded: 3 } })
})

it('pause-sync without a run keeps one from starting, until resume-sync', async () => {
  await run('pause-sync', id)
  expect((await run('sync-progress', id)).json()).toMatchObject({ progress: { phase: 'held', sync_log_id: null } })
  expect((await run('sync', '--integration', id)).json()).toMatchObject({ already_running: true })
  await run('resume-sync', id)
  const watched = await run('sync-progress', id, '--watch')
  expect(watched.exitCode).toBe(0)
  expect(await newestRun()).toBeUndefined()
})

it('cancel-sync ends a run, and nothing of it moves the cursor', async () => {
  const [begun, over] = [occasion(), occasion()]
  beforeListing = () => {
    begun.happen()
    return over.happened
  }
  const watching = run('sync', '--integration', id, '--watch')
  await begun.happened
  await run('pause-sync', id)
  // It takes its time, so that it is no small run.
  await vi.waitFor(
    async () => expect((await run('sync-progress', id)).json()).toMatchObject({ progress: { phase: 'listing' } }),
    20_000,
  )
  over.happen()
  // Its items wait: none of them may be done by the time that the run is told.
  await vi.waitFor(
    async () =>
      expect((await run('sync-progress', id)).json()).toMatchObject({ progress: { is_paused: true, listed: 3 } }),
    20_000,
  )
  const cancelled = await run('cancel-sync', id, '--yes')
  expect([cancelled.exitCode, cancelled.json()]).toEqual([0, { integration_id: id, cancelled: true, forgot: false }])
  const watched = await watching
  expect([watched.exitCode, watched.json()]).toMatchObject([1, { run: { status: 'cancelled' } }])
  expect((await test.integrations.get(id)).syncCursor).toBeNull()
  expect((await run('cancel-sync', id, '--yes')).json()).toMatchObject({ cancelled: false })
})
