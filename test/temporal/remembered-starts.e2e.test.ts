/** Starts that are remembered while a run lives: on a real worker, a real Temporal server and a real Postgres. */

import { randomBytes } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import type { WorkflowBundle } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readBundle } from '../../src/bundled-workflows.ts'
import { createWorkers } from '../../src/create-workers.ts'
import { InvalidArgumentException } from '../../src/framework/errors.ts'
import type { SyncSession } from '../../src/provider.ts'
import { workflowId } from '../../src/workflows/ids.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const IN_TIME = { ...SOON, timeout: 60_000 }
/** A promise: a remembered run begins within a second of the end of the one before; on a busy machine a little later. */
const AT_ONCE_MS = 5_000
const encryptionKeys = encryptionKey('test')
const prefix = `starts-${randomBytes(4).toString('hex')}`

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let workflowBundle: WorkflowBundle
let database: TestDatabase
let client: Client
let ours: Deployment

interface Deployment extends TestIntegrations {
  stop(): Promise<void>
}
type Occasion = ReturnType<typeof occasion<void>>
type Lists = (session: SyncSession) => Promise<void> | void
/** By integration. */
const lists = new Map<number, Lists>()

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
})
afterAll(async () => {
  await ours?.stop()
  await client?.connection.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

/** A worker and its Integrations object, all under one prefix. */
async function deploy(): Promise<Deployment> {
  const test = testIntegrations(database.url, {
    recordStarts: false,
    encryptionKeys,
    temporal: { address: server.address },
    config: {
      cache_prefix: prefix,
      schedules: { enabled: false },
      sync: { item_tries: 1, item_backoff: [1] },
    },
    providers: { acme: syncProvider((session) => lists.get(session.integration.id)?.(session)) },
  })
  const workers = await createWorkers(test.integrations, { workflowBundle })
  const running = workers.run()
  return Object.assign(test, {
    async stop() {
      workers.shutdown()
      await running
      await test.close()
    },
  })
}

/** An integration whose listing waits for an occasion of each run. */
async function gated(runs: number): Promise<{ id: number; begun: Occasion[]; over: Occasion[] }> {
  const { id } = await makeIntegration(ours, 'acme')
  const [begun, over] = [0, 1].map(() => Array.from({ length: runs }, () => occasion()))
  let run = 0
  lists.set(id, async ({ signal }) => {
    const at = run
    run += 1
    begun?.[at]?.happen()
    const aborted = new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    })
    await Promise.race([over?.[at]?.happened, aborted])
  })
  return { id, begun: begun ?? [], over: over ?? [] }
}

const runsOf = (id: number) => ours.sql<{ status: string; at: Date; ended: Date; run_id: string }[]>`
  select status, created_at as at, updated_at as ended, metadata ->> 'run_id' as run_id from integration_logs
  where operation = 'sync' and integration_id = ${id} order by id`

/** Waits until these runs are over, and nothing is remembered. */
async function runsEnded(id: number, statuses: readonly string[]): Promise<void> {
  await vi.waitFor(async () => {
    expect((await runsOf(id)).map(({ status }) => status)).toEqual(statuses)
    expect(await ours.sql`select from integration_sync_starts where integration_id = ${id}`).toEqual([])
    expect(await ours.integrations.syncs.progress(id)).toBeNull()
  }, IN_TIME)
}

/** Long enough for any further run that there should not be. */
async function noMoreThan(id: number, runs: number): Promise<void> {
  await new Promise((passed) => setTimeout(passed, 2_500))
  expect(await runsOf(id)).toHaveLength(runs)
}

const start = (id: number, ask?: Parameters<typeof ours.integrations.syncs.start>[1]) =>
  ours.integrations.syncs.start(id, ask)

async function firstRun(id: number, begun: Occasion | undefined): Promise<void> {
  expect(await start(id)).toMatchObject({ kind: 'started' })
  await begun?.happened
}

/** Beside each other: each has an integration of its own, and waits; one for half a minute. */
describe.concurrent('asks during a run', () => {
  it('fifty at once are exactly one further run, which follows at once', async () => {
    const { id, begun, over } = await gated(2)
    const first = await start(id)
    await begun[0]?.happened
    const answers = await Promise.all(Array.from({ length: 50 }, () => start(id)))
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['remembered']))
    over[0]?.happen()
    await begun[1]?.happened
    const [one, two] = await runsOf(id)
    expect(first).toEqual({ kind: 'started', runId: one?.run_id })
    const waitedMs = Number(two?.at) - Number(one?.ended)
    console.log(`the second run began ${waitedMs} ms after the end of the first`)
    expect(waitedMs).toBeLessThan(AT_ONCE_MS)
    over[1]?.happen()
    await runsEnded(id, ['success', 'success'])
    await noMoreThan(id, 2)
  })

  it('in the last moments of it, again and again, are never lost: a listing begins after each', async () => {
    const { id } = await makeIntegration(ours, 'acme')
    let listings = 0
    let listedAt = 0
    lists.set(id, () => {
      listings += 1
      listedAt = performance.now()
    })
    const kinds: Record<string, number> = {}
    for (let round = 0; round < 40; round += 1) {
      const before = listings
      await start(id)
      // From the middle of a run to after its end: a run takes some 30 ms.
      await new Promise((passed) => setTimeout(passed, (round * 7) % 120))
      const askedAt = performance.now()
      const { kind } = await start(id)
      kinds[kind] = (kinds[kind] ?? 0) + 1
      await vi.waitFor(() => {
        expect(listings).toBeGreaterThan(before)
        expect(listedAt).toBeGreaterThan(askedAt)
      }, SOON)
    }
    console.log('40 rounds:', kinds)
    await vi.waitFor(async () => expect(await ours.integrations.syncs.progress(id)).toBeNull(), IN_TIME)
  })

  it('are kept when the listing fails for good, and the next run succeeds', async () => {
    const { id } = await makeIntegration(ours, 'acme')
    const [begun, over] = [occasion(), occasion()]
    lists.set(id, async () => {
      begun.happen()
      await over.happened
      lists.set(id, () => {})
      throw new InvalidArgumentException('cursor', 'by script: no other try of it')
    })
    await firstRun(id, begun)
    expect(await start(id)).toEqual({ kind: 'remembered' })
    over.happen()
    await runsEnded(id, ['failed', 'success'])
  })

  it('are kept when the workflow of the run is terminated, whose log stays open', async () => {
    const { id, begun, over } = await gated(2)
    await firstRun(id, begun[0])
    await start(id)
    await client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: id })).terminate('by hand')
    over[1]?.happen()
    await runsEnded(id, ['failed', 'success'])
    over[0]?.happen()
  })

  it('follow a cancelled run, unless they are forgotten with it', async () => {
    const { id, begun, over } = await gated(4)
    await firstRun(id, begun[0])
    await start(id)
    expect(await ours.integrations.syncs.cancel(id)).toBe('cancelled')
    await begun[1]?.happened
    over[1]?.happen()
    await runsEnded(id, ['cancelled', 'success'])

    await firstRun(id, begun[2])
    await start(id)
    expect(await ours.integrations.syncs.cancel(id, { forget: true })).toBe('cancelled')
    await runsEnded(id, ['cancelled', 'success', 'cancelled'])
    await noMoreThan(id, 3)
  })

  it('wait for the end of a pause', async () => {
    const { id, begun, over } = await gated(2)
    await firstRun(id, begun[0])
    await ours.integrations.syncs.pause(id)
    expect(await start(id)).toEqual({ kind: 'remembered' })
    over[0]?.happen()
    await vi.waitFor(async () => {
      expect(await ours.integrations.syncs.progress(id)).toMatchObject({ isPaused: true })
    }, SOON)
    await noMoreThan(id, 1)
    await ours.integrations.syncs.resume(id)
    await begun[1]?.happened
    over[1]?.happen()
    await runsEnded(id, ['success', 'success'])
  })

  it('are forgotten when the integration is switched off', async () => {
    const { id, begun, over } = await gated(2)
    await firstRun(id, begun[0])
    await start(id)
    await (await ours.integrations.get(id)).disable()
    over[0]?.happen()
    await runsEnded(id, ['success'])
    await noMoreThan(id, 1)
    const told = ours.lines.filter(({ fields }) => fields.event === 'sync.start_forgotten' && fields.integration === id)
    expect(told).toHaveLength(1)
  })
})

describe.concurrent('a start for later', () => {
  it('begins once its moment has come, not before', async () => {
    const { id, over } = await gated(1)
    over[0]?.happen()
    const notBefore = new Date(Date.now() + 3_000)
    expect(await start(id, { notBefore })).toEqual({ kind: 'later', at: notBefore })
    await runsEnded(id, ['success'])
    const [run] = await runsOf(id)
    expect(Number(run?.at)).toBeGreaterThanOrEqual(notBefore.getTime())
    expect(Number(run?.at)).toBeLessThan(notBefore.getTime() + AT_ONCE_MS)
  })

  it('that is asked for without an end begins after ten times its debounce', async () => {
    const { id } = await makeIntegration(ours, 'acme')
    const listed = occasion()
    lists.set(id, () => void listed.happen())
    const startedAt = performance.now()
    let isListed = false
    void listed.happened.then(() => {
      isListed = true
    })
    while (!isListed) {
      expect(performance.now() - startedAt).toBeLessThan(5_000 + AT_ONCE_MS)
      expect(await start(id, { debounceSeconds: 0.5 })).toMatchObject({ kind: 'later' })
      await new Promise((passed) => setTimeout(passed, 100))
    }
    expect(performance.now() - startedAt).toBeGreaterThan(4_500)
    await vi.waitFor(async () => expect((await runsOf(id))[0]?.status).toBe('success'), SOON)
  })
})

// Last, and alone: it stops the worker of the others.
it('asks outlive the worker: the next one begins the run', async () => {
  const { id, begun, over } = await gated(2)
  await firstRun(id, begun[0])
  await start(id)
  const stopped = ours.stop()
  over[0]?.happen()
  await stopped
  ours = await deploy()
  await vi.waitFor(async () => expect((await runsOf(id)).length).toBeGreaterThan(1), IN_TIME)
  over[1]?.happen()
  await runsEnded(id, ['success', 'success'])
})
