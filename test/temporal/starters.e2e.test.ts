import { randomBytes } from 'node:crypto'
import type { AddressInfo, Server, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { ApplicationFailure, Context } from '@temporalio/activity'
import { Client, Connection } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import type { OpenedRun } from '../../src/activities/sync-activities.ts'
import { readBundle } from '../../src/bundled-workflows.ts'
import { EVENT_OUTBOX, WEBHOOK_INBOX } from '../../src/claims/pump-jobs.ts'
import type { Config } from '../../src/config/schema.ts'
import type { WorkflowStarters } from '../../src/framework/context.ts'
import type { Logger } from '../../src/framework/logger.ts'
import { lazyClient } from '../../src/temporal/connection.ts'
import type { StarterOptions } from '../../src/temporal/starters.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import { occasion } from '../support/integrations.ts'
import { loadConfig } from '../support/load-config.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const INTEGRATION = 7
/** A port that is handed to no process, and that nobody listens at. */
const NOBODY = '127.0.0.1:1'
const OWNER = { integrationId: INTEGRATION, provider: 'github' }
const WINDOW = { integrationId: INTEGRATION, from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z' }

let server: Awaited<ReturnType<typeof shareDevServer>>
/** To look with; the starters have connections of their own. No worker runs. */
let client: Client
const cleanups: (() => unknown)[] = []
type AtEnd = (clean: () => Promise<void>) => void
const cleanUpLater: AtEnd = (clean) => void cleanups.push(clean)

beforeAll(async () => {
  silenceTemporal()
  server = await shareDevServer()
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
})
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})
afterAll(async () => {
  await client?.connection.close()
  await server?.release()
})

interface Deployment {
  readonly prefix: string
  readonly starters: WorkflowStarters
  /** `event` of each warning. */
  readonly warnings: string[]
  /** How often a client was asked for. */
  readonly sends: () => number
}

/** @param atEnd takes what closes it; a test that runs beside others gives its own */
function deployment(address = server.address, options: StarterOptions = {}, atEnd: AtEnd = cleanUpLater): Deployment {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const { config } = loadConfig({
    config: { cache_prefix: prefix },
    optionProviderKeys: [],
    middlewareNames: [],
  }) as { config: Config }
  const warnings: string[] = []
  const logger: Logger = {
    debug() {},
    info() {},
    warn: (fields) => warnings.push(String(fields.event)),
    error() {},
  }
  const own = lazyClient({ address })
  let sends = 0
  const starters = temporalStarters(
    () => {
      sends += 1
      return own
    },
    config,
    logger,
    { wakeUpFailed() {}, workflowReplaced() {} },
    options,
  )
  atEnd(() => starters.close())
  return { prefix, starters, warnings, sends: () => sends }
}

/** `arrived` signals in the history of the inbox; 0 when there is none. */
async function signals(prefix: string): Promise<number> {
  const handle = client.workflow.getHandle(workflowId.webhookInbox(prefix))
  const history = await handle.fetchHistory().catch(() => ({ events: [] }))
  return (history.events ?? []).filter(
    (event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'arrived',
  ).length
}

describe('waking the inbox', () => {
  it('sends one signal at a time; all that came meanwhile are one more', async () => {
    const { prefix, starters, warnings, sends } = deployment()
    for (let n = 0; n < 100; n++) starters.wakeInbox()
    expect(sends()).toBe(1)
    await expect.poll(() => signals(prefix)).toBe(2)
    // The third answers one more call, so no further one came of the hundred.
    starters.wakeInbox()
    await expect.poll(() => signals(prefix)).toBe(3)
    expect(sends()).toBe(3)
    expect(warnings).toEqual([])
  })

  it.each([
    { queue: WEBHOOK_INBOX, workflow: WORKFLOW.webhookInbox, id: workflowId.webhookInbox, wakes: 'wakeInbox' },
    { queue: EVENT_OUTBOX, workflow: WORKFLOW.eventOutbox, id: workflowId.eventOutbox, wakes: 'wakeOutbox' },
  ] as const)('sends nothing while a pump of $queue has promised to look', async ({ queue, workflow, id, wakes }) => {
    const relied: (() => void)[] = []
    const promises = {
      [WEBHOOK_INBOX]: { unless: (wake: () => void) => wake() },
      [EVENT_OUTBOX]: { unless: (wake: () => void) => wake() },
      [queue]: { unless: (wake: () => void) => void relied.push(wake) },
    }
    const { prefix, starters, sends } = deployment(server.address, { promises })
    starters[wakes]()
    expect(sends()).toBe(0)
    // The promise is over.
    for (const wake of relied.splice(0)) wake()
    expect(sends()).toBe(1)
    await expect
      .poll(() =>
        client.workflow
          .getHandle(id(prefix))
          .describe()
          .catch(() => null),
      )
      .toMatchObject({ type: workflow, taskQueue: `${prefix}-default` })
  })

  it.each([
    [WEBHOOK_INBOX, workflowId.webhookInbox],
    [EVENT_OUTBOX, workflowId.eventOutbox],
  ] as const)(
    'is what a pump of %s does that asks for another one: with its call, also where its workflow has ended',
    async (queue, id) => {
      const { prefix, starters } = deployment()
      const call = { claim: 'pump:a-run:1', needs: 'successor' } as const
      await starters.callPump(queue, call)
      await starters.callPump(queue, call)
      const { events } = await client.workflow.getHandle(id(prefix)).fetchHistory()
      const calls = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal ?? [])
      expect(calls.map(({ signalName }) => signalName)).toEqual(['pumpCalls', 'pumpCalls'])
      expect(calls.map(({ input }) => JSON.parse(Buffer.from(input?.payloads?.[0]?.data ?? []).toString()))).toEqual([
        call,
        call,
      ])
    },
  )

  it('throws nothing when no client can be made', async () => {
    const warnings: string[] = []
    const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] })
    const warned = new Promise<void>((resolve) => {
      const starters = temporalStarters(
        () => {
          throw new Error('no address')
        },
        config,
        {
          debug() {},
          info() {},
          warn: (fields) => {
            warnings.push(`${fields.event} ${fields.error}`)
            resolve()
          },
          error() {},
        },
        { wakeUpFailed() {}, workflowReplaced() {} },
      )
      starters.wakeInbox()
    })
    await warned
    expect(warnings).toEqual(['inbox.wake_failed Error: no address'])
  })
})

describe('starting a sync', () => {
  it('starts one run of an integration; a second start finds it running', async () => {
    const { prefix, starters } = deployment()
    expect(await starters.startSync(INTEGRATION, 'github')).toEqual({ runId: expect.any(String) })
    expect(await starters.startSync(INTEGRATION, 'github')).toBe('already running')
    const run = client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: INTEGRATION }))
    expect(await run.describe()).toMatchObject({ type: WORKFLOW.syncIntegration, taskQueue: `${prefix}-default` })

    await run.terminate()
    expect(await starters.startSync(INTEGRATION, 'github')).toEqual({ runId: expect.any(String) })
  })

  it('starts one run when two ask at the same moment', async () => {
    const { starters } = deployment()
    const answers = await Promise.all(Array.from({ length: 5 }, () => starters.startSync(INTEGRATION, 'github')))
    expect(answers.filter((answer) => answer !== 'already running')).toHaveLength(1)
    expect(answers.filter((answer) => answer === 'already running')).toHaveLength(4)
  })
})

describe('whether a run lives', () => {
  it('is known from its start to its end', async () => {
    const { prefix, starters } = deployment()
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(false)
    await starters.startSync(INTEGRATION, 'github')
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(true)
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION + 1 })).toBe(false)
    await client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: INTEGRATION })).terminate()
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(false)
  })
})

// Each waits for some seconds: they wait beside each other.
describe.concurrent('a Temporal that is away', () => {
  it('fails for a pump, which goes on without another one then', async ({ onTestFinished }) => {
    const { starters } = deployment(NOBODY, {}, onTestFinished)
    await expect(starters.callPump(WEBHOOK_INBOX, { claim: 'pump:a-run:1', needs: 'help' })).rejects.toMatchObject({
      code: 'backend_unreachable',
    })
  })

  it('never makes a wake-up throw, which is tried again until it is back', async ({ expect, onTestFinished }) => {
    const temporal = await absentAtFirst(server.address, onTestFinished)
    const { prefix, starters, warnings } = deployment(temporal.address, {}, onTestFinished)
    expect(() => starters.wakeInbox()).not.toThrow()
    await expect.poll(() => warnings.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(1)
    expect(new Set(warnings)).toEqual(new Set(['inbox.wake_failed']))
    starters.wakeInbox()

    temporal.comeBack()
    await expect.poll(() => signals(prefix), { timeout: 60_000 }).toBeGreaterThanOrEqual(1)
  })

  it('is told of within 5 s by whatever waits for its answer', async ({ onTestFinished }) => {
    const { starters } = deployment(NOBODY, {}, onTestFinished)
    const asked = [
      starters.startSync(INTEGRATION, 'github'),
      starters.isSyncRunning({ integrationId: INTEGRATION }),
      starters.cancelSync({ integrationId: INTEGRATION }),
      starters.startHandler(
        { workflow: 'triage' },
        { webhookId: 12, integrationId: INTEGRATION, eventType: null },
        null,
      ),
      starters.startProcessWebhook({ webhookId: 12 }, INTEGRATION),
      starters.runProcessWebhook({ webhookId: 12 }, INTEGRATION),
      starters.runRecovery(),
      starters.runReconciliation({}),
      starters.runDispatch(),
      starters.pauseSync({ integrationId: INTEGRATION }, 'github'),
      starters.resumeSync({ integrationId: INTEGRATION }),
      starters.syncProgress({ integrationId: INTEGRATION }),
      starters.nudgeSync({ integrationId: INTEGRATION }),
      starters.startProcessSyncItem({ itemId: 5 }, OWNER),
      starters.runProcessSyncItem({ itemId: 5 }, OWNER),
      starters.isSyncItemRunning(5),
      starters.startBackfill(WINDOW, 'github'),
    ]
    for (const outcome of await Promise.allSettled(asked))
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'backend_unreachable', backend: 'Temporal' },
      })
  })

  it('or has no worker says so to a query', async ({ onTestFinished }) => {
    const { prefix, starters } = deployment(server.address, {}, onTestFinished)
    await starters.startSync(INTEGRATION, 'github')
    const id = workflowId.syncIntegration(prefix, { integrationId: INTEGRATION })
    await expect(starters.syncProgress({ integrationId: INTEGRATION })).rejects.toMatchObject({
      code: 'no_worker_answered',
      message: `Temporal answers, but no worker answered for the workflow ${id} within 5 s. \`integrations doctor\` says whether workers are there: see temporal.workers.`,
    })
    await client.workflow.getHandle(id).terminate()
  })
})

describe('ending a run', () => {
  it('does nothing when there is none, or none any more', async () => {
    const { prefix, starters, warnings } = deployment()
    await starters.cancelSync({ integrationId: INTEGRATION })
    await starters.startSync(INTEGRATION, 'github')
    const run = client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: INTEGRATION }))
    await run.terminate('by hand')
    await starters.cancelSync({ integrationId: INTEGRATION })
    expect((await run.describe()).status.name).toBe('TERMINATED')
    expect(warnings).toEqual([])
  })

  it('lets it close its log first, and waits for that', async () => {
    const { prefix, starters, warnings } = deployment()
    const steps: string[] = []
    const { listing } = await workListings(prefix, steps)
    await starters.startSync(INTEGRATION, 'github')
    await listing
    await starters.cancelSync({ integrationId: INTEGRATION })
    expect(steps).toEqual(['open', 'list', 'cancelled', 'cancel', 'announce'])
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(false)
    expect(warnings).toEqual([])
  })

  it('terminates it when it does not end in time: no worker is there', async () => {
    const { prefix, starters, warnings } = deployment(server.address, { cancelTimeoutMs: 500 })
    await starters.startSync(INTEGRATION, 'github')
    await starters.cancelSync({ integrationId: INTEGRATION })
    expect(await starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(false)
    const run = client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: INTEGRATION }))
    expect((await run.describe()).status.name).toBe('TERMINATED')
    expect(warnings).toEqual(['sync.terminated'])
    expect(await starters.startSync(INTEGRATION, 'github')).toEqual({ runId: expect.any(String) })
  })
})

describe('ending a backfill', () => {
  it('is done as with a run, and leaves a run of the same stream alone', async () => {
    const { prefix, starters, warnings } = deployment(server.address, { cancelTimeoutMs: 500 })
    const of = { integrationId: INTEGRATION }
    await starters.cancelBackfill(of)
    expect(await starters.isBackfillRunning(of)).toBe(false)
    await starters.startSync(INTEGRATION, 'github')
    await starters.startBackfill(WINDOW, 'github')
    expect(await starters.isBackfillRunning(of)).toBe(true)
    await starters.cancelBackfill(of)
    expect([await starters.isBackfillRunning(of), await starters.isSyncRunning(of)]).toEqual([false, true])
    expect(warnings).toEqual(['sync.terminated'])
    await client.workflow.getHandle(workflowId.syncIntegration(prefix, of)).terminate()
  })
})

describe('holding and asking a run', () => {
  it('without one, a pause keeps one from starting until it is ended', async () => {
    const { prefix, starters } = deployment()
    await work(prefix, {})
    expect(await starters.resumeSync({ integrationId: INTEGRATION })).toBe(false)
    expect(await starters.syncProgress({ integrationId: INTEGRATION })).toBeNull()
    await starters.nudgeSync({ integrationId: INTEGRATION })

    await starters.pauseSync({ integrationId: INTEGRATION }, 'github')
    expect(await starters.startSync(INTEGRATION, 'github')).toBe('already running')
    // A worker that stands still answers at the next asking.
    const held = { phase: 'held', isPaused: true, syncLogId: null }
    await expect.poll(() => starters.syncProgress({ integrationId: INTEGRATION })).toMatchObject(held)
    expect(await starters.resumeSync({ integrationId: INTEGRATION })).toBe(true)
    await expect.poll(() => starters.isSyncRunning({ integrationId: INTEGRATION })).toBe(false)
    expect(await starters.syncProgress({ integrationId: INTEGRATION })).toBeNull()
  })
})

describe('the jobs about syncs', () => {
  it('of one item is started once while it lives, and gives its result', async () => {
    const { prefix, starters } = deployment()
    const input = { itemId: 5, tries: 2 }
    const answers = await Promise.all(Array.from({ length: 5 }, () => starters.startProcessSyncItem(input, OWNER)))
    expect(answers.filter((answer) => answer === 'started')).toHaveLength(1)
    expect(await starters.runProcessSyncItem(input, OWNER)).toBe('already running')
    expect(await starters.isSyncItemRunning(5)).toBe(true)
    expect(await starters.isSyncItemRunning(6)).toBe(false)
    const handle = client.workflow.getHandle(workflowId.processSyncItem(prefix, 5))
    expect(await handle.describe()).toMatchObject({ type: WORKFLOW.processSyncItem, taskQueue: `${prefix}-default` })
    await handle.terminate()
    expect(await starters.isSyncItemRunning(5)).toBe(false)

    const result = { itemId: 5, outcome: 'success', status: 'success', attempts: 6, error: null } as const
    await work(prefix, { processOneSyncItem: async () => ({ ...result, waitSeconds: null, isCounted: true }) })
    expect(await starters.runProcessSyncItem(input, OWNER)).toEqual(result)
  })

  it('of a backfill is started once while it lives', async () => {
    const { prefix, starters } = deployment()
    expect(await starters.startBackfill(WINDOW, 'github')).toBe('started')
    expect(await starters.startBackfill(WINDOW, 'github')).toBe('already running')
    const handle = client.workflow.getHandle(workflowId.backfillSync(prefix, { integrationId: INTEGRATION }))
    expect(await handle.describe()).toMatchObject({ type: WORKFLOW.backfillSync })
    // An ordinary run has an id of its own.
    expect(await starters.startSync(INTEGRATION, 'github')).toEqual({ runId: expect.any(String) })
  })

  it('of a dispatch gives what was started; who comes later joins the one that runs', async () => {
    const { prefix, starters } = deployment()
    const started = { due: 3, started: 2, alreadyRunning: 1 }
    const stale = { stale: [{ integrationId: 7, lastSyncedAt: null }], recovered: [8] }
    const both = occasion()
    let dispatches = 0
    await work(prefix, {
      async startDueSyncs() {
        dispatches += 1
        await both.happened
        return started
      },
      evaluateStaleness: async () => stale,
      rewakeFollowers: async () => {},
    })
    const first = starters.runDispatch()
    await expect.poll(() => dispatches).toBe(1)
    const second = starters.runDispatch()
    // By these answers the start before them has reached the server: calls of one connection keep their order.
    for (let n = 0; n < 20; n += 1) await starters.isSyncRunning({ integrationId: INTEGRATION })
    both.happen()
    expect(await Promise.all([first, second])).toEqual([
      { ...started, ...stale },
      { ...started, ...stale },
    ])
    expect(dispatches).toBe(1)
  })
})

describe('starting a host’s workflow as a handler', () => {
  const input = { webhookId: 12, integrationId: INTEGRATION, eventType: 'issues' }

  it('starts one workflow per webhook, also once it has ended', async () => {
    const { prefix, starters } = deployment()
    await starters.startHandler({ workflow: 'triageIssue', taskQueue: 'host' }, input, null)
    const handle = client.workflow.getHandle(workflowId.webhookHandler(prefix, 12))
    const first = await handle.describe()
    expect(first).toMatchObject({ type: 'triageIssue', taskQueue: 'host' })

    await starters.startHandler({ workflow: 'triageIssue', taskQueue: 'host' }, input, null)
    await handle.terminate()
    await starters.startHandler({ workflow: 'triageIssue', taskQueue: 'host' }, input, null)
    expect((await handle.describe()).runId).toBe(first.runId)
  })

  it('starts it once more for each replay, and once only for the attempts of the same replay', async () => {
    const { prefix, starters } = deployment()
    for (const replayAttempt of [null, 2, 2, 5])
      await starters.startHandler({ workflow: 'triageIssue' }, input, replayAttempt)
    const ids = [null, 2, 5].map((replayAttempt) => workflowId.webhookHandler(prefix, 12, replayAttempt))
    expect(ids.map((id) => id.slice(prefix.length))).toEqual([
      ':webhook-handler:12',
      ':webhook-handler:12:2',
      ':webhook-handler:12:5',
    ])
    const runs = await Promise.all(ids.map((id) => client.workflow.getHandle(id).describe()))
    expect(new Set(runs.map(({ runId }) => runId)).size).toBe(3)
  })

  it('is refused for good by a name that Temporal does not take', async () => {
    const { starters } = deployment()
    // Temporal takes names of 1,000 characters at most.
    const refused = starters.startHandler({ workflow: 'x'.repeat(2_000) }, input, null)
    await expect(refused).rejects.toMatchObject({ cause: { code: 3 } })
  })

  it('uses the webhook queue unless the handler names another', async () => {
    const { prefix, starters } = deployment()
    await starters.startHandler({ workflow: 'triageIssue' }, input, null)
    const handle = client.workflow.getHandle(workflowId.webhookHandler(prefix, 12))
    expect(await handle.describe()).toMatchObject({ taskQueue: `${prefix}-default` })
  })
})

describe('the jobs about webhooks', () => {
  it('of one webhook is started once while it lives', async () => {
    const { prefix, starters } = deployment()
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => starters.startProcessWebhook({ webhookId: 12, stuckAttempts: 1 }, INTEGRATION)),
    )
    expect(answers.filter((answer) => answer === 'started')).toHaveLength(1)
    expect(await starters.runProcessWebhook({ webhookId: 12, replay: true }, INTEGRATION)).toBe('already running')
    const handle = client.workflow.getHandle(workflowId.processWebhook(prefix, 12))
    expect(await handle.describe()).toMatchObject({ type: WORKFLOW.processWebhook, taskQueue: `${prefix}-default` })
    await handle.terminate()
    expect(await starters.startProcessWebhook({ webhookId: 12 }, INTEGRATION)).toBe('started')
  })

  it('give their results: a replay, recovery and reconciliation', async () => {
    const { prefix, starters } = deployment()
    const processed = { webhookId: 12, outcome: 'processed', status: 'processed', attempts: 2 } as const
    const recovered = { processing: 1, pending: 2, failed: 3 }
    let recoveries = 0
    const both = occasion()
    await work(prefix, {
      readWebhookState: async () => ({ status: 'failed', attempts: 1 }),
      processOneWebhook: async () => processed,
      async recoverStuckWebhooks() {
        recoveries += 1
        await both.happened
        return recovered
      },
      listReconcilable: async () => ({ integrationIds: [7] }),
      reconcileIntegration: async () => ({ seen: 3, known: 1, inserted: 2, tooLarge: 0, capped: false }),
    })
    expect(await starters.runProcessWebhook({ webhookId: 12, replay: true }, INTEGRATION)).toEqual(processed)
    expect(await starters.runReconciliation({ integrationId: 7 })).toMatchObject({ integrations: 1, inserted: 2 })
    const recovery = client.workflow.getHandle(workflowId.recoverWebhooks(prefix))
    const first = starters.runRecovery()
    await expect.poll(() => recovery.describe().catch(() => null)).not.toBeNull()
    // The second one joins the run that there is.
    const second = starters.runRecovery()
    both.happen()
    expect(await Promise.all([first, second])).toEqual([recovered, recovered])
    expect(recoveries).toBeLessThanOrEqual(2)
  })

  it('say what mends it where they have no result', async () => {
    const { prefix, starters } = deployment()
    await work(prefix, {
      async readWebhookState() {
        throw ApplicationFailure.nonRetryable('the ring of keys has no k2', 'credentials_unreadable')
      },
    })
    await expect(starters.runProcessWebhook({ webhookId: 12, replay: true }, INTEGRATION)).rejects.toThrow(
      `The workflow ${prefix}:webhook:12 has no result: the ring of keys has no k2. \`integrations keys status\` says`,
    )
  })

  it('of reconciliation runs once at a time, and says why it has no result', async () => {
    const { prefix, starters } = deployment()
    const first = starters.runReconciliation({})
    const run = client.workflow.getHandle(workflowId.reconcileWebhooks(prefix))
    await expect.poll(() => run.describe().catch(() => null)).not.toBeNull()
    expect(await starters.runReconciliation({})).toBe('already running')
    await Promise.all([
      expect(first).rejects.toThrow(
        `The workflow ${prefix}:reconcile-webhooks has no result: TerminatedFailure: by hand`,
      ),
      run.terminate('by hand'),
    ])
  })
})

/**
 * A worker with our own workflows, whose listing goes on until it is cancelled.
 *
 * @returns `listing` resolves when one has begun
 */
async function workListings(prefix: string, steps: string[]): Promise<{ readonly listing: Promise<void> }> {
  const listing = occasion()
  await work(prefix, {
    async openSyncRun(): Promise<OpenedRun> {
      steps.push('open')
      const settings = {
        listingTimeoutSeconds: 60,
        listingTotalSeconds: 60,
        itemTaskQueue: `${prefix}-default`,
        isListenedTo: false,
      }
      return { kind: 'open', syncLogId: 1, settings }
    },
    async listSyncItems() {
      steps.push('list')
      const { heartbeat, cancelled } = Context.current()
      // A cancellation comes with the answer to a heartbeat.
      const beats = setInterval(() => heartbeat(), 100)
      listing.happen()
      return cancelled
        .catch((error) => {
          steps.push('cancelled')
          throw error
        })
        .finally(() => clearInterval(beats))
    },
    async cancelSyncRun() {
      steps.push('cancel')
    },
    async announceSyncRun() {
      steps.push('announce')
    },
  })
  return { listing: listing.happened }
}

/** A worker with our own workflows, to the end of the test. */
async function work(prefix: string, activities: Partial<Activities>): Promise<void> {
  const connection = await NativeConnection.connect({ address: server.address })
  const worker = await Worker.create({
    connection,
    taskQueue: `${prefix}-default`,
    workflowBundle: readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE),
    shutdownGraceTime: 0,
    maxHeartbeatThrottleInterval: 100,
    activities,
  })
  const running = worker.run()
  cleanups.push(async () => {
    worker.shutdown()
    await running
    await connection.close()
  })
}

/** An address that ends every connection, and from `comeBack()` on leads to a server. It is held all along: nobody else gets it. */
async function absentAtFirst(address: string, atEnd: AtEnd): Promise<{ readonly address: string; comeBack(): void }> {
  const [host, target] = address.split(':') as [string, string]
  const sockets = new Set<Socket>()
  let isAway = true
  const proxy: Server = createServer((from) => {
    if (isAway) return void from.destroy()
    const to = connect(Number(target), host)
    for (const socket of [from, to]) {
      sockets.add(socket)
      socket.on('error', () => {})
    }
    from.pipe(to).pipe(from)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  atEnd(async () => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  return {
    address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    comeBack() {
      isAway = false
    },
  }
}
