/** Syncs on a real worker, a real Temporal server and a real Postgres: what only shows when all three are there. */

import { randomBytes } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import type { WorkflowBundle } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readBundle } from '../../src/bundled-workflows.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { partsOf } from '../../src/create-integrations.ts'
import { createWorkers } from '../../src/create-workers.ts'
import type { SyncResult } from '../../src/events/events.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { DispatchResult } from '../../src/syncs/sync-jobs.ts'
import { taskQueue, WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { skipItem, syncProgress } from '../../src/workflows/messages.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import type { Lists } from '../support/providers.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'

/** Many runs at once, and the end of one that waits before its next step, take longer than what {@link SOON} is meant for. */
const IN_TIME = { ...SOON, timeout: 60_000 }
/** A promise; two to four seconds on two cores. */
const PROMISED = { ...SOON, timeout: 15_000 }
/** An item's second and last attempt comes after a second. */
const SYNC = { item_tries: 2, item_backoff: [1] } as const
const encryptionKeys = encryptionKey('test')

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let client: Client
let workflowBundle: WorkflowBundle
/** Most tests share it; each has integrations of its own. */
let ours: Deployment
/** Begun before the tests, which it waits beside: its limits are seconds. */
let cutOff: Promise<void>

/** What an integration's provider lists, and what its listener does with each item. */
interface Script {
  lists: Lists
  listener: (event: ThingSynced) => unknown
}

interface Deployment extends TestIntegrations {
  readonly prefix: string
  /** By integration. */
  readonly scripts: Map<number, Script>
  /** Items whose listener has begun, by integration, in order. */
  readonly begun: Map<number, number[]>
  /** What `SyncCompleted` told, by integration. */
  readonly completed: Map<number, SyncResult[]>
  stop(): Promise<void>
}

beforeAll(async () => {
  silenceTemporal()
  ;[postgres, server, workflowBundle] = await Promise.all([
    sharePostgres(),
    shareDevServer(),
    readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE),
  ])
  database = await createTestDatabase({ adminUrl: postgres.url })
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
  ours = await deploy()
  cutOff = longListingIsCutOff()
  cutOff.catch(() => {})
})

afterAll(async () => {
  await cutOff?.catch(() => {})
  await ours?.stop()
  await client?.connection.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

/** A worker and its Integrations object, under a prefix of their own. */
async function deploy(
  sync: ConfigInput['sync'] = {},
  prefix = `syncs-${randomBytes(4).toString('hex')}`,
  { url } = database,
): Promise<Deployment> {
  const scripts: Deployment['scripts'] = new Map()
  const begun: Deployment['begun'] = new Map()
  const completed: Deployment['completed'] = new Map()
  const test = testIntegrations(url, {
    recordStarts: false,
    encryptionKeys,
    temporal: { address: server.address },
    config: { cache_prefix: prefix, schedules: { enabled: false }, sync: { ...SYNC, ...sync } },
    providers: { [prefix]: syncProvider((session) => scripts.get(session.integration.id)?.lists(session)) },
  })
  test.integrations.on(ThingSynced, (event: ThingSynced) => {
    const { id } = event.integration
    begun.set(id, [...(begun.get(id) ?? []), event.payload.n])
    return scripts.get(id)?.listener(event)
  })
  test.integrations.on('SyncCompleted', ({ integration: { id }, result }) => {
    completed.set(id, [...(completed.get(id) ?? []), result])
  })
  const workers = await createWorkers(test.integrations, { workflowBundle })
  const running = workers.run()
  return Object.assign(test, {
    prefix,
    scripts,
    begun,
    completed,
    async stop() {
      workers.shutdown()
      await running
      await test.close()
    },
  })
}

/** An integration that lists items 1 to `count`, each with its own checkpoint. */
async function integrationWith(
  deployment: Deployment,
  count: number,
  script: Partial<Script> = {},
): Promise<Integration> {
  const made = await makeIntegration(deployment, deployment.prefix)
  deployment.scripts.set(made.id, { lists: lists(count), listener: () => {}, ...script })
  return made
}

function lists(count: number): Lists {
  return async (session) => {
    for (let n = 1; n <= count; n += 1)
      await session.dispatch(new ThingSynced(session.integration, { n }), checkpointOf(n), n)
  }
}

/** Each item changed a second after the one before it. */
function checkpointOf(n: number): string {
  return new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
}

function runOf({ prefix }: Deployment, id: number) {
  return client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: id }))
}

function runLogs({ sql }: Deployment, id: number) {
  return sql<{ id: string; status: string; error: string | null; metadata: Record<string, unknown> }[]>`
    select id, status, error, metadata from integration_logs
    where operation = 'sync' and integration_id = ${id} order by id`
}

function stored({ sql }: Deployment, id: number) {
  return sql<{ cursor: unknown; last_synced_at: Date | null; next_sync_at: Date | null; failures: number }[]>`
    select sync_cursor as cursor, last_synced_at, next_sync_at, consecutive_sync_failures as failures
    from integrations where id = ${id}`.then(([row]) => row)
}

/** How many items there are by status. */
async function statuses({ sql }: Deployment, id: number): Promise<Record<string, number>> {
  const rows = await sql<{ status: string; count: number }[]>`
    select status, count(*)::int as count from integration_sync_items where integration_id = ${id} group by 1`
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

/** Waits until as many runs are over and told. */
async function runsEnded(deployment: Deployment, id: number, statusesInOrder: readonly string[]): Promise<void> {
  await vi.waitFor(async () => {
    expect((await runLogs(deployment, id)).map((log) => log.status)).toEqual(statusesInOrder)
    expect(await deployment.integrations.syncs.progress(id)).toBeNull()
  }, IN_TIME)
}

/** The item that this number became. */
async function itemOf({ sql }: Deployment, id: number, n: number): Promise<{ id: number; status: string }> {
  const [row] = await sql<{ id: number; status: string }[]>`
    select id::int, status from integration_sync_items where integration_id = ${id} and external_id = ${String(n)}
    order by id desc limit 1`
  if (row === undefined) throw new Error(`item ${n} of integration ${id} is not there`)
  return row
}

describe('twenty integrations due at once, one of them with listeners that hang', () => {
  it('leave nobody waiting: the other nineteen are finalised within 15 s', async () => {
    const hung = occasion()
    const slow = await integrationWith(ours, 1_000, { listener: () => hung.happened })
    const others = await Promise.all(Array.from({ length: 19 }, () => integrationWith(ours, 10)))
    const startedAt = performance.now()
    await ours.integrations.syncs.dispatch()
    try {
      await vi.waitFor(async () => {
        const ended = await ours.sql`
          select from integration_logs where operation = 'sync' and status = 'success'
            and integration_id in ${ours.sql(others.map(({ id }) => id))}`
        expect(ended).toHaveLength(19)
      }, PROMISED)
      console.log(`19 runs of 10 items: ${Math.round(performance.now() - startedAt)} ms beside one that hangs`)
      // It has all the lanes that a run may have, and is at work in each of them.
      await vi.waitFor(() => expect(ours.begun.get(slow.id)).toHaveLength(4 * 10), SOON)
      expect(await statuses(ours, slow.id)).toEqual({ processing: 800, pending: 200 })
    } finally {
      hung.happen()
    }
    await runsEnded(ours, slow.id, ['success'])
  })
})

describe('two dispatchers and a start by hand at the same moment', () => {
  it('make one run, in which each item’s listener runs once', async () => {
    const listed = occasion()
    const { id } = await integrationWith(ours, 20, {
      lists: async (session) => {
        await listed.happened
        await lists(20)(session)
      },
    })
    const dispatcher = (name: string) =>
      client.workflow.execute<() => Promise<DispatchResult>>(WORKFLOW.dispatchSyncs, {
        workflowId: `${ours.prefix}:dispatcher-${name}`,
        taskQueue: taskQueue(ours.prefix, 'default'),
      })
    const [one, other, byHand] = await Promise.all([
      dispatcher('one'),
      dispatcher('other'),
      // Without the memory of a start by hand.
      partsOf(ours.integrations).framework.workflows.startSync(id, ours.prefix),
    ])
    listed.happen()
    const started = [one.started, other.started, byHand === 'already running' ? 0 : 1]
    expect(started.filter((count) => count === 1)).toHaveLength(1)
    expect(one.started + one.alreadyRunning).toBe(one.due)
    await runsEnded(ours, id, ['success'])
    expect([...(ours.begun.get(id) ?? [])].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
    expect(ours.completed.get(id)).toHaveLength(1)
  })
})

describe('a listing that takes longer than its time limits', () => {
  it('is ended and logged as failed, stores nothing late, and the next run succeeds', () => cutOff)
})

describe('a pause', () => {
  it('without a run keeps one from starting until it is resumed', async () => {
    const { id } = await integrationWith(ours, 2)
    const { syncs } = ours.integrations
    await syncs.pause(id)
    const held = { phase: 'held', isPaused: true, syncLogId: null }
    await expect.poll(() => syncs.progress(id)).toMatchObject(held)
    expect(await syncs.start(id)).toEqual({ kind: 'remembered' })
    expect((await syncs.dispatch()).alreadyRunning).toBeGreaterThan(0)
    expect(await syncs.resume(id)).toBe('resumed')
    // It was remembered, and follows the pause.
    await runsEnded(ours, id, ['success'])
    expect(await syncs.resume(id)).toBe('not running')
  })

  it('of a run lets what runs end, shows where it stands, and ends by a resume', async () => {
    const opened = occasion()
    const { id } = await integrationWith(ours, 1_000, { listener: () => opened.happened })
    const { syncs } = ours.integrations
    await syncs.start(id)
    await vi.waitFor(() => expect(ours.begun.get(id)?.length ?? 0).toBeGreaterThan(0), SOON)
    await syncs.pause(id)
    opened.happen()
    // A batch may still wait for its turn while none is at work.
    await vi.waitFor(async () => {
      const { pending = 0, processing = 0, success = 0 } = await statuses(ours, id)
      expect([processing, success + pending]).toEqual([0, 1_000])
      expect(pending).toBeGreaterThan(0)
      expect(await syncs.progress(id)).toMatchObject({
        phase: 'processing',
        isPaused: true,
        listed: 1_000,
        succeeded: success,
        failed: 0,
      })
    }, IN_TIME)
    expect(await syncs.resume(id)).toBe('resumed')
    await runsEnded(ours, id, ['success'])
    expect(ours.begun.get(id)).toHaveLength(1_000)
  })
})

describe('a run that is cancelled while its items run', () => {
  it('moves nothing, and the next one lists again', async () => {
    const hung = occasion()
    const { id } = await integrationWith(ours, 1_000, { listener: () => hung.happened })
    const { syncs } = ours.integrations
    await syncs.start(id)
    await vi.waitFor(() => expect(ours.begun.get(id)).toHaveLength(40), SOON)
    const cancelled = syncs.cancel(id)
    await vi.waitFor(async () => {
      const { events } = await runOf(ours, id).fetchHistory()
      expect(events?.some((event) => event.workflowExecutionCancelRequestedEventAttributes != null)).toBe(true)
    }, SOON)
    hung.happen()
    expect(await cancelled).toBe('cancelled')
    await runsEnded(ours, id, ['cancelled'])
    expect(await stored(ours, id)).toMatchObject({ cursor: null, last_synced_at: null, failures: 0 })
    expect((await stored(ours, id))?.next_sync_at).not.toBeNull()
    // Four batches were in hand; no fifth was taken.
    expect(ours.begun.get(id)?.length).toBeLessThanOrEqual(800)
    const { success = 0, failed = 0, ...others } = await statuses(ours, id)
    expect(success + failed).toBeLessThanOrEqual(800)
    expect(others).toEqual({})
    expect(ours.completed.get(id)).toBeUndefined()

    ours.scripts.set(id, { lists: lists(3), listener: () => {} })
    await syncs.start(id)
    await runsEnded(ours, id, ['cancelled', 'success'])
    const [, next] = await runLogs(ours, id)
    expect(next?.metadata).toMatchObject({ listed: 3, success_count: 3, cursor_before: null })
  })
})

describe('a run whose workflow is terminated', () => {
  it('is adopted by the next one, which finishes it', async () => {
    const hung = occasion()
    const { id } = await integrationWith(ours, 5, { listener: ({ payload: { n } }) => (n > 2 ? hung.happened : null) })
    const { syncs } = ours.integrations
    await syncs.start(id)
    await vi.waitFor(async () => expect(await statuses(ours, id)).toEqual({ success: 2, processing: 3 }), SOON)
    await runOf(ours, id).terminate('by hand')
    try {
      ours.scripts.set(id, { lists: lists(9), listener: () => {} })
      // Its workers have had their time: it passes here at once.
      await ours.sql`
        update integration_sync_items set updated_at = updated_at - interval '2 minutes' where integration_id = ${id}`
      expect(await syncs.start(id)).toMatchObject({ kind: 'started' })
      await vi.waitFor(async () => expect((await runLogs(ours, id))[0]?.status).toBe('success'), IN_TIME)
    } finally {
      // The listeners of the dead run say at last that they are done: nobody asks any more.
      hung.happen()
    }
    const [log] = await runLogs(ours, id)
    expect(log?.metadata).toMatchObject({ listed: 5, success_count: 5, cursor_after: checkpointOf(5) })
    const ofFirst = (ours.begun.get(id) ?? []).slice(0, 8)
    expect(ofFirst.sort((a, b) => a - b)).toEqual([1, 2, 3, 3, 4, 4, 5, 5])
    // It listed before the start was asked for: that one is remembered, and follows.
    await runsEnded(ours, id, ['success', 'success'])
    expect(ours.completed.get(id)).toHaveLength(2)
    expect(await stored(ours, id)).toMatchObject({ cursor: checkpointOf(9) })
  })
})

describe('a run that finds a row under a claim of its own that nobody works under', () => {
  it('takes it up, and ends', async () => {
    const hung = occasion()
    const { id } = await integrationWith(ours, 3, {
      listener: ({ payload: { n } }) => (n === 3 ? hung.happened : null),
    })
    await ours.integrations.syncs.start(id)
    await vi.waitFor(async () => expect(await statuses(ours, id)).toEqual({ success: 2, processing: 1 }), SOON)
    const { runId } = await runOf(ours, id).describe()
    // What a worker leaves that stood still, claimed once its batch was another's, and died.
    await ours.sql`
      update integration_sync_items
      set status = 'processing', completed_at = null, claim = ${`${runId}:1`}, updated_at = now() - interval '2 minutes'
      where integration_id = ${id} and external_id = '2'`
    hung.happen()
    await runsEnded(ours, id, ['success'])
    expect(await statuses(ours, id)).toEqual({ success: 3 })
    expect([...(ours.begun.get(id) ?? [])].sort((a, b) => a - b)).toEqual([1, 2, 2, 3])
  })
})

describe('a failed item', () => {
  it('of a finished run is retried by hand: the cursor moves, and the run stays as it ended', async () => {
    let isCured = false
    const { id } = await integrationWith(ours, 3, { listener: ({ payload: { n } }) => failsUnless(n !== 2 || isCured) })
    await ours.integrations.syncs.start(id)
    await runsEnded(ours, id, ['partial'])
    const { id: itemId } = await itemOf(ours, id, 2)
    expect(await ours.integrations.admin.syncItems.retry(itemId)).toMatchObject({ outcome: 'failed', status: 'failed' })
    expect(await stored(ours, id)).toMatchObject({ cursor: null, failures: 1 })
    isCured = true
    expect(await ours.integrations.admin.syncItems.retry(itemId)).toMatchObject({ outcome: 'success', attempts: 4 })
    expect(await stored(ours, id)).toMatchObject({ cursor: checkpointOf(3), failures: 1, last_synced_at: null })
    await runsEnded(ours, id, ['partial'])
    expect(ours.completed.get(id)).toHaveLength(1)
  })

  it('of a finished run is skipped: the cursor moves', async () => {
    const { id } = await integrationWith(ours, 3, { listener: ({ payload: { n } }) => failsUnless(n !== 2) })
    await ours.integrations.syncs.start(id)
    await runsEnded(ours, id, ['partial'])
    const { id: itemId } = await itemOf(ours, id, 2)
    expect(await ours.integrations.admin.syncItems.skip(itemId)).toMatchObject({ integrationId: id, cursorMoved: true })
    expect(await stored(ours, id)).toMatchObject({ cursor: checkpointOf(3), failures: 1 })
    expect(ours.completed.get(id)).toHaveLength(1)
  })

  it('of a living run is retried or skipped, and then the run ends clean', async () => {
    let isCured = false
    const hung = occasion()
    const { id } = await integrationWith(ours, 4, {
      listener: ({ payload: { n } }) => {
        const isSecondRun = ours.begun.get(id)?.filter((begun) => begun === 4).length === 2
        // The last one keeps the run alive once the others have failed for good.
        if (n === 4 && isSecondRun) return hung.happened
        return failsUnless(n === 1 || (n === 2 && isCured))
      },
    })
    await ours.integrations.syncs.start(id)
    try {
      await vi.waitFor(async () => expect((await statuses(ours, id)).failed).toBe(2), SOON)
      isCured = true
      const [retried, skipped] = [await itemOf(ours, id, 2), await itemOf(ours, id, 3)]
      expect(await ours.integrations.admin.syncItems.retry(retried.id)).toMatchObject({ outcome: 'success' })
      await runOf(ours, id).signal(skipItem, { itemId: skipped.id })
      await vi.waitFor(async () => expect((await itemOf(ours, id, 3)).status).toBe('skipped'), SOON)
      expect(await runOf(ours, id).query(syncProgress)).toMatchObject({
        phase: 'processing',
        syncLogId: expect.any(Number),
      })
    } finally {
      hung.happen()
    }
    await runsEnded(ours, id, ['success'])
    const [log] = await runLogs(ours, id)
    expect(log?.metadata).toMatchObject({
      success_count: 3,
      skipped_count: 1,
      failure_count: 0,
      cursor_after: checkpointOf(4),
    })
    expect(await stored(ours, id)).toMatchObject({ cursor: checkpointOf(4), failures: 0 })
    expect(ours.completed.get(id)).toHaveLength(1)
  })
})

/** In a database of its own, whose runs no dispatch of the others starts. */
async function longListingIsCutOff(): Promise<void> {
  const apart = await createTestDatabase({ adminUrl: postgres.url })
  const hasty = await deploy({ job_timeout: 3, lock_ttl: 3 }, undefined, apart)
  let patient: Deployment | undefined
  try {
    const [hung, late] = [occasion(), occasion<unknown>()]
    const { id } = await integrationWith(hasty, 3, {
      // As a provider does that does not look at its signal.
      lists: async (session) => {
        try {
          await lists(500)(session)
          await hung.happened
          await lists(2_000)(session)
          late.happen('stored')
        } catch (error) {
          late.happen(error)
          throw error
        }
      },
    })
    await hasty.integrations.syncs.start(id)
    await runsEnded(hasty, id, ['failed'])
    expect((await runLogs(hasty, id))[0]?.error).toMatch(/it took longer than sync\.(job_timeout|lock_ttl) \(3 s\)/)
    expect(await stored(hasty, id)).toMatchObject({ cursor: null, last_synced_at: null, failures: 1 })
    expect((await stored(hasty, id))?.next_sync_at).not.toBeNull()
    hung.happen()
    expect(await late.happened).toBeInstanceOf(Error)
    expect(await statuses(hasty, id)).toEqual({})

    // Under limits that a machine which stands still does not reach.
    await hasty.stop()
    patient = await deploy({}, hasty.prefix, apart)
    patient.scripts.set(id, { lists: lists(3), listener: () => {} })
    await patient.integrations.syncs.start(id)
    await runsEnded(patient, id, ['failed', 'success'])
    expect(await stored(patient, id)).toMatchObject({ cursor: checkpointOf(3), failures: 0 })
    expect(patient.completed.get(id)).toHaveLength(1)
  } finally {
    await (patient ?? hasty).stop()
    await apart.drop()
  }
}

function failsUnless(isWell: boolean): void {
  if (!isWell) throw new Error('by script')
}
