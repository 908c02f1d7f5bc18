/** Two streams of one integration on a real worker, a real Temporal server and a real Postgres. Rule: docs/behaviour/sync-streams.md. */
import { randomBytes } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { readBundle } from '../../src/bundled-workflows.ts'
import { createWorkers } from '../../src/create-workers.ts'
import type { SyncStream } from '../../src/providers/contracts.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { taskQueue, workflowId } from '../../src/workflows/ids.ts'
import { syncProgress } from '../../src/workflows/messages.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const IN_TIME = { ...SOON, timeout: 60_000 }
const AT = '2026-01-01T00:00:00.000Z'
const prefix = `streams-${randomBytes(4).toString('hex')}`

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let client: Client
let test: TestIntegrations
let stop: () => Promise<void>
let id: number
/** What a listing waits for, by stream; none: it lists at once. */
let held: Record<string, Promise<void>>
let windows: string[]

function stream(name: string): SyncStream {
  const list = async (session: SyncSession) => {
    await held[name]
    await session.dispatch(new ThingSynced(session.integration, { n: 1 }), AT, 'one')
  }
  return {
    everySeconds: 60,
    events: [ThingSynced],
    reduceCheckpoints: reduceCheckpointsByMax,
    sync: (_, session) => list(session),
    syncWindow: async (_, session, { from }) => {
      windows.push(`${name} ${from.toISOString()}`)
      await list(session)
    },
  }
}

beforeAll(async () => {
  silenceTemporal()
  ;[postgres, server] = await Promise.all([sharePostgres(), shareDevServer()])
  const workflowBundle = await readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE)
  database = await createTestDatabase({ adminUrl: postgres.url })
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
  const streams = { contacts: stream('contacts'), deals: stream('deals') }
  test = testIntegrations(database.url, {
    recordStarts: false,
    encryptionKeys: encryptionKey('test'),
    temporal: { address: server.address },
    config: { cache_prefix: prefix, schedules: { enabled: false } },
    providers: { crm: { defaultRateLimit: () => null, streams } },
  })
  const workers = await createWorkers(test.integrations, { workflowBundle })
  const running = workers.run()
  stop = async () => {
    workers.shutdown()
    await running
    await test.close()
  }
})

afterAll(async () => {
  await stop?.()
  await client?.connection.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

beforeEach(async () => {
  // What another test's integrations would be due for.
  await test.sql`update integrations set is_active = false`
  id = (await makeIntegration(test, 'crm')).id
  held = {}
  windows = []
})

/** Operation and status of each run of the stream, oldest first. */
async function runs(name: string): Promise<string[]> {
  const found: string[] = []
  for await (const { operation, status } of test.integrations.syncs.runs({ integrationId: id, stream: name }))
    found.unshift(`${operation} ${status}`)
  return found
}

/** Waits until the runs are these, and none lives. */
const over = (name: string, ...expected: string[]) =>
  vi.waitFor(async () => {
    expect(await runs(name)).toEqual(expected)
    expect(await test.integrations.syncs.progress(id, { stream: name })).toBeNull()
  }, IN_TIME)

const allDue = () => test.sql`update integration_streams set next_sync_at = now() where integration_id = ${id}`

describe('two streams', () => {
  it('are both begun by a dispatch, and each moves its own cursor', async () => {
    expect(await test.integrations.syncs.dispatch()).toMatchObject({ due: 2, started: 2 })
    await over('contacts', 'sync success')
    await over('deals', 'sync success')
    const standings = await test.integrations.admin.operator.streams(id)
    expect(standings.map((each) => [each.stream, each.syncCursor, each.interval?.seconds])).toEqual([
      ['contacts', AT, 60],
      ['deals', AT, 60],
    ])
  })

  it('go on beside each other: one is held by a pause, and the other is not', async () => {
    await test.integrations.syncs.pause(id, { stream: 'contacts' })
    await test.integrations.syncs.dispatch()
    await over('deals', 'sync success')
    await allDue()
    expect(await test.integrations.syncs.dispatch()).toMatchObject({ due: 2, started: 1, alreadyRunning: 1 })
    await over('deals', 'sync success', 'sync success')
    expect(await test.integrations.syncs.progress(id, { stream: 'contacts' })).toMatchObject({ phase: 'held' })
    expect(await test.integrations.syncs.resume(id, { stream: 'deals' })).toBe('not running')
    expect(await test.integrations.syncs.resume(id, { stream: 'contacts' })).toBe('resumed')
    // What held its place is over then, and the next dispatch begins a run.
    await over('contacts')
    expect(await test.integrations.syncs.dispatch()).toMatchObject({ due: 1, started: 1 })
    await over('contacts', 'sync success')
  })

  it('tell each how far it is by the id of its workflow', async () => {
    const gate = occasion()
    held = { contacts: gate.happened }
    await test.integrations.syncs.start(id)
    const run = client.workflow.getHandle(`${prefix}:sync:${id}:contacts`)
    try {
      await over('deals', 'sync success')
      await vi.waitFor(async () => expect(await run.query(syncProgress)).toMatchObject({ phase: 'listing' }), IN_TIME)
    } finally {
      gate.happen()
    }
    await over('contacts', 'sync success')
  })

  it('are started one by one by the command, as a workflow', async () => {
    const document = await client.workflow.execute('integrations:sync', {
      workflowId: `${prefix}:start-sync:${id}`,
      taskQueue: taskQueue(prefix, 'default'),
      args: [{ integrationId: id, stream: 'deals' }],
    })
    expect(document).toEqual({
      integration_id: id,
      stream: 'deals',
      outcome: 'started',
      started: 1,
      already_running: false,
    })
    await over('deals', 'sync success')
    expect(await runs('contacts')).toEqual([])
  })

  it('are listed again one by one by a backfill', async () => {
    const from = '2026-01-01T00:00:00.000Z'
    const window = { from, to: '2026-01-02T00:00:00.000Z' }
    expect(await test.integrations.syncs.backfill({ integrationId: id, stream: 'deals', ...window })).toBe('started')
    const of = { integrationId: id, stream: 'deals' }
    expect(await client.workflow.getHandle(workflowId.backfillSync(prefix, of)).result()).toMatchObject({
      succeeded: 1,
    })
    expect(windows).toEqual([`deals ${from}`])
    expect(await runs('deals')).toEqual(['backfill success'])
    expect(await runs('contacts')).toEqual([])
  })
})
