/**
 * Records the histories that test/workflows/replay.workflow.test.ts replays: `npx tsx --conditions=durable-source
 * scripts/record-histories.ts [anomalies|attributes|commands|inbox|incidents|outbox|stalled|sync|dispatch|jobs|items|orphans|pruning|subscriptions|tokens …]`. Without a name it records all, and removes
 * what is left over.
 *
 * They stand for runs that are under way while a new release is deployed. Record again only when a workflow was changed on
 * purpose in a way that old runs can't follow, and say so in the CHANGELOG.
 */
import { spawn } from 'node:child_process'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { fileURLToPath } from 'node:url'
import { ApplicationFailure, Context } from '@temporalio/activity'
import type { WorkflowHandle } from '@temporalio/client'
import { Client, Connection } from '@temporalio/client'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { startTemporalServer } from '../dev/temporal-server.ts'
import { findTemporalBinary } from '../dev/temporal-server-binary.ts'
import type { Activities } from '../src/activities/index.ts'
import type { FirstSteps } from '../src/activities/small-run.ts'
import { bundleWorkflows } from '../src/bundled-workflows.ts'
import type { IncidentSight } from '../src/incidents/incident-jobs.ts'
import type { SubscriptionSight } from '../src/subscriptions/subscription-jobs.ts'
import type { Finalisation } from '../src/syncs/finalisation.ts'
import { WORKFLOW } from '../src/workflows/ids.ts'
import {
  cancel,
  escalate,
  look,
  pause,
  pumpCalls,
  pumpedQueueState,
  recovered,
  resume,
  retryItem,
  skipItem,
  syncProgress,
} from '../src/workflows/messages.ts'
import { ScriptedPumps } from '../test/workflows/scripted-pumps.ts'
import { ScriptedSync } from '../test/workflows/scripted-sync.ts'
import type { Scene, Stage } from '../test/workflows/stage.ts'
import { handleOf, openStage, startSync, wakeInbox, wakeOutbox } from '../test/workflows/stage.ts'
import { playStalled } from '../test/workflows/stalled-worker.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = new URL('../test/workflows/histories/', import.meta.url)

/** A history of so many events is continued in a new run: makes short ones that go on. */
const SHORT = '30'

async function save(name: string, { events }: Awaited<ReturnType<WorkflowHandle['fetchHistory']>>): Promise<void> {
  const lines = (events ?? []).map((event) => JSON.stringify(event, anonymous))
  const text = `{"events": [\n${lines.join(',\n')}\n]}\n`
  for (const secret of [`@${hostname()}`, root]) if (text.includes(secret)) throw new Error(`${name} names ${secret}`)
  await writeFile(new URL(`${name}.json`, folder), text)
  console.log(`${name}: ${lines.length} events, ${Math.ceil(text.length / 1024)} KiB`)
}

/** Who ran it and where is of no interest: `pid@host`, and paths in stacks. */
function anonymous(key: string, value: unknown): unknown {
  if (key === 'identity') return 'recorder'
  if (key === 'stackTrace') return ''
  // A sticky queue is named for the worker, too: this process, or one of ours.
  return typeof value === 'string' ? value.replaceAll(new RegExp(`\\d+@${hostname()}`, 'g'), 'recorder') : value
}

async function recordInbox(stage: Stage): Promise<void> {
  await recordPumps(stage, 'webhook-inbox-idle', new ScriptedPumps(3))

  let scene: Scene | undefined
  const busy = new ScriptedPumps(20, async (pump, claim) => {
    // A helper, a successor, a worker that stops, and a signal that comes too late for the last pump.
    if (pump === 1) await handleOf(scene as Scene).signal(pumpCalls, { claim, needs: 'help' })
    if (pump === 2) await handleOf(scene as Scene).signal(pumpCalls, { claim, needs: 'successor' })
    if (pump <= 3) await until(async () => busy.claims.length >= 3)
    if (pump === 4) await wakeInbox(scene as Scene)
    return pump === 2 ? 'relieved' : pump === 3 ? 'stopped' : 'empty'
  })
  await recordPumps(stage, 'webhook-inbox-busy', busy, (played) => {
    scene = played
  })

  // Nothing renews the promise: signals open three more beside it.
  const dead = new ScriptedPumps(5, async () => {
    while (dead.claims.length < 4) {
      Context.current().heartbeat()
      await wakeInbox(scene as Scene)
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
    return 'empty'
  })
  await recordPumps(stage, 'webhook-inbox-dead-pumps', dead, (played) => {
    scene = played
  })

  const endless = new ScriptedPumps(0, async (pump) => {
    endless.pending += 1
    return pump < 102 ? 'stopped' : 'empty'
  })
  await stage.play(endless, async (played) => {
    const inbox = await wakeInbox(played)
    await inbox.result()
    await saveBoth('webhook-inbox-continued', played, inbox.signaledRunId)
  })
}

async function recordPumps(
  stage: Stage,
  name: string,
  pumps: ScriptedPumps,
  on: (scene: Scene) => void = () => {},
): Promise<void> {
  await stage.play(pumps, async (scene) => {
    on(scene)
    const inbox = await wakeInbox(scene)
    await inbox.result()
    await save(name, await inbox.fetchHistory())
  })
}

/** Longer than a workflow task may take. */
const STALL_MS = 12_000

/** The worker stands still for 12 s, and the inbox is signalled meanwhile: its task times out, and the worker goes on with it. */
async function recordStalledInbox(stage: Stage): Promise<void> {
  const address = stage.env.connection.options.address
  const binary = await findTemporalBinary()
  let scene: Scene | undefined
  const pumps = new ScriptedPumps(3, async (pump) => {
    if (pump > 1) return 'empty'
    const signal = `'${binary}' workflow signal --address ${address} --workflow-id '${scene?.workflowId}' --name arrived`
    // By another process: this one stands still.
    const signalling = spawn('sh', ['-c', `for wait in 1 2 3 4 4; do ${signal}; sleep $wait; done`], {
      stdio: 'inherit',
    })
    const ended = new Promise((resolve) => signalling.once('exit', resolve))
    const until = performance.now() + STALL_MS
    while (performance.now() < until);
    await ended
    return 'empty'
  })
  await stage.play(pumps, async (played) => {
    scene = played
    const inbox = await wakeInbox(played)
    await inbox.result()
    await save('webhook-inbox-stalled', await inbox.fetchHistory())
  })
}

/** What signals about one item set off. */
const ITEM_ACTS: Partial<Activities> = {
  processOneSyncItem: async ({ itemId, attempt }) => ({
    itemId,
    outcome: attempt === 1 ? 'failed' : 'success',
    status: attempt === 1 ? 'processing' : 'success',
    attempts: 3 + attempt,
    error: null,
    waitSeconds: attempt === 1 ? 60 : null,
    isCounted: true,
  }),
  skipFailedItem: async ({ itemId }) => ({
    itemId,
    integrationId: 7,
    stream: null,
    cursorMoved: false,
    reducerThrew: null,
  }),
}

async function recordSync(stage: Stage): Promise<void> {
  let playing: Scene | undefined
  await record('sync-retries', new ScriptedSync(900, { attempt: unreliable }))
  await record('sync-empty', new ScriptedSync(0))
  await record('sync-small', new ScriptedSync(2), (sync) => ({
    async openSyncRun() {
      const first: FirstSteps = {
        listing: { kind: 'listed', listed: 2, duplicatesDropped: 0 },
        batch: { claimed: 2, succeeded: 2, failed: 0, waiting: [], deferredSeconds: 0 },
        end: { kind: 'finalised', status: 'success', succeeded: 2, failed: 0, skipped: 0, fullListing: false },
      }
      return { kind: 'open', syncLogId: 70, settings: sync.settings(), first }
    },
  }))
  await record('sync-small-waiting', new ScriptedSync(1), (sync) => ({
    async openSyncRun() {
      sync.pending = 0
      sync.waiting.add(1)
      const first: FirstSteps = {
        listing: { kind: 'listed', listed: 1, duplicatesDropped: 0 },
        batch: { claimed: 1, succeeded: 0, failed: 0, waiting: [{ id: 1, seconds: 5 }], deferredSeconds: 0 },
      }
      return { kind: 'open', syncLogId: 70, settings: sync.settings(), first }
    },
  }))
  await record('sync-nothing-to-do', new ScriptedSync(0), () => ({
    openSyncRun: async () => ({ kind: 'nothing to do', reason: 'the integration is switched off' }),
  }))
  await record('sync-listing-failed', new ScriptedSync(1), () => ({
    listSyncItems: async () => {
      throw ApplicationFailure.nonRetryable('the token was refused', 'client')
    },
  }))
  await record('sync-listing-deferred', new ScriptedSync(450, { attempt: unreliable }), (sync) => ({
    listSyncItems: async ({ attempt }) => {
      if (attempt === 2) throw new Error('the second page is down')
      if (attempt === 4) throw ApplicationFailure.create({ type: 'WorkerShutdown', message: 'the worker stops' })
      if (attempt < 6) return { kind: 'deferred', retryAfterSeconds: 60, isBookmarked: attempt > 1 }
      return sync.listSyncItems()
    },
  }))
  await record('sync-full-listing', new ScriptedSync(2_050), (sync) => {
    sync.fullListing = true
    return {}
  })
  await record('sync-adopted', new ScriptedSync(250), (sync) => ({
    openSyncRun: async () => ({ kind: 'adopted', syncLogId: 69, settings: sync.settings(), waitSeconds: 60 }),
  }))
  await record('sync-reclaimed', new ScriptedSync(1), () => ({
    openSyncRun: async () => ({ kind: 'reclaimed', syncLogIds: [61, 64] }),
  }))
  const throwing: Finalisation = { kind: 'reducer threw', reason: 'Error: no order' }
  await record('sync-reducer-threw', new ScriptedSync(1), () => ({ finaliseSyncRun: async () => throwing }))
  let looks = 0
  await record('sync-unfinished', new ScriptedSync(3), (sync) => ({
    finaliseSyncRun: async () => {
      looks += 1
      if (looks === 1) {
        sync.ended.delete(2)
        sync.waiting.add(2)
        return { kind: 'unfinished', pending: 1, waiting: [{ id: 2, seconds: 600 }] }
      }
      return looks === 2 ? { kind: 'unfinished', pending: 0, waiting: [] } : sync.finaliseSyncRun()
    },
  }))
  await recordSignalled(
    'sync-paused',
    new ScriptedSync(900, { attempt: unreliable, during: pauseOnce() }),
    async (scene) => {
      await until(async () => (await handleOf(scene).query(syncProgress)).succeeded > 0)
      await handleOf(scene).signal(resume)
    },
  )
  await recordSignalled(
    'sync-cancelled',
    new ScriptedSync(1, { attempt: () => ({ retryAfter: 86_400 }) }),
    async (scene) => {
      await until(async () => (await handleOf(scene).query(syncProgress)).waiting === 1)
      await handleOf(scene).signal(cancel)
    },
  )
  await recordSignalled(
    'sync-item-signals',
    new ScriptedSync(1, { attempt: () => ({ retryAfter: 3_600 }) }),
    async (scene) => {
      await until(async () => (await handleOf(scene).query(syncProgress)).waiting === 1)
      await handleOf(scene).signal(retryItem, { itemId: 5, tries: 2 })
      await handleOf(scene).signal(skipItem, { itemId: 6 })
      const isStarted = async () => {
        const { events } = await handleOf(scene).fetchHistory()
        return events?.some((event) => event.childWorkflowExecutionStartedEventAttributes != null) ?? false
      }
      await until(isStarted)
      // Whoever waits for a result lets the server skip time.
      await scene.client.getHandle(scene.workflowId.replace(/sync:7$/, 'sync-item:5')).result()
      await handleOf(scene).cancel()
    },
  )
  const unopened = new ScriptedSync(1)
  await stage.play(unopened.activities(), async (scene) => {
    const { client, ...options } = scene
    const held = await client.signalWithStart(WORKFLOW.syncIntegration, {
      ...options,
      args: [{ integrationId: 7 }],
      signal: pause,
      signalArgs: [],
    })
    await until(async () => (await handleOf(scene).query(syncProgress)).phase === 'held')
    await handleOf(scene).signal(resume)
    await held.result()
    await save('sync-held', await held.fetchHistory())
  })

  /** Pauses the run in its first batch. */
  function pauseOnce(): () => Promise<void> {
    let isPaused = false
    return async () => {
      if (isPaused || playing === undefined) return
      isPaused = true
      await handleOf(playing).signal(pause)
    }
  }

  async function recordSignalled(
    name: string,
    sync: ScriptedSync,
    signal: (scene: Scene) => Promise<void>,
  ): Promise<void> {
    await stage.play(sync.activities(ITEM_ACTS), async (scene) => {
      sync.scene = scene
      playing = scene
      const run = await startSync(scene)
      await signal(scene)
      await run.result().catch(() => {})
      await save(name, await run.fetchHistory())
    })
  }

  async function record(
    name: string,
    sync: ScriptedSync,
    replaced: (sync: ScriptedSync) => Partial<Activities> = () => ({}),
  ): Promise<void> {
    await stage.play(sync.activities(replaced(sync)), async (scene) => {
      sync.scene = scene
      const run = await startSync(scene)
      await run.result().catch(() => {})
      await save(name, await run.fetchHistory())
    })
  }
}

function unreliable(id: number, attempt: number) {
  if (id === 7 && attempt === 1) return { deferredBy: 900 }
  if (id % 100 === 3 && attempt < 3) return { retryAfter: attempt * 60 }
  return id % 250 === 5 ? 'fails' : 'succeeds'
}

async function recordDispatch(stage: Stage): Promise<void> {
  const startDueSyncs = async () => ({ due: 2, started: 1, alreadyRunning: 1 })
  const evaluateStaleness = async () => ({ stale: [{ integrationId: 4, lastSyncedAt: null }], recovered: [9] })
  const rewakeFollowers = async () => {}
  await stage.play({ startDueSyncs, evaluateStaleness, rewakeFollowers }, async ({ client, ...options }) => {
    const run = await client.start(WORKFLOW.dispatchSyncs, options)
    await run.result()
    await save('dispatch-syncs', await run.fetchHistory())
  })
}

const INCIDENT: IncidentSight = {
  incidentId: 3,
  status: 'open',
  source: 'health',
  reason: 'health_degraded',
  peakSeverity: 'degraded',
  openedAt: '2026-03-01T00:00:00.000Z',
  lastErrorAt: '2026-03-01T00:00:00.000Z',
  closedAt: null,
  autoCloseInSeconds: 7 * 86_400,
}
const CLOSED_INCIDENT: IncidentSight = {
  ...INCIDENT,
  status: 'closed',
  closedAt: '2026-03-03T00:00:00.000Z',
  autoCloseInSeconds: null,
}

function tellIncident({ client, ...options }: Scene, signal: typeof escalate | typeof recovered) {
  return client.signalWithStart(WORKFLOW.incident, {
    ...options,
    args: [{ integrationId: 7 }],
    signal,
    signalArgs: [],
  })
}

/** Two days, an escalation, and another incident in the same life. */
async function recordIncidents(stage: Stage): Promise<void> {
  let playing: Scene | undefined
  let looks = 0
  const followIncident: Activities['followIncident'] = async () => {
    looks += 1
    if (looks === 1) return INCIDENT
    if (looks === 2) return { ...INCIDENT, peakSeverity: 'failing' }
    if (looks === 3 && playing !== undefined) {
      await tellIncident(playing, escalate)
      return CLOSED_INCIDENT
    }
    if (looks === 4) return { ...INCIDENT, incidentId: 4, autoCloseInSeconds: 3_600 }
    throw new Error('it is read no more than four times')
  }
  let days = 0
  const closeIncidentWhenWell: Activities['closeIncidentWhenWell'] = async () => {
    days += 1
    if (playing !== undefined && days === 1) await tellIncident(playing, escalate)
    if (playing !== undefined && days === 2) await tellIncident(playing, recovered)
    return days < 3 ? INCIDENT : { ...CLOSED_INCIDENT, incidentId: 4 }
  }
  await stage.play({ followIncident, closeIncidentWhenWell }, async (scene) => {
    playing = scene
    const run = await tellIncident(scene, escalate)
    await run.result()
    await save('incident-life', await run.fetchHistory())
  })
}

/** Both runs of a life that goes on in a new one. */
async function recordContinuedIncidents(stage: Stage): Promise<void> {
  let looks = 0
  const sight = async (): Promise<IncidentSight> => {
    looks += 1
    return looks < 7 ? { ...INCIDENT, autoCloseInSeconds: 1 } : CLOSED_INCIDENT
  }
  await stage.play({ followIncident: sight, closeIncidentWhenWell: sight }, async (scene) => {
    const run = await tellIncident(scene, escalate)
    await run.result()
    const { events } = await scene.client.getHandle(scene.workflowId, run.signaledRunId).fetchHistory()
    await save('incident-continued-1', { events: events ?? [] })
    const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
    await save('incident-continued-2', await scene.client.getHandle(scene.workflowId, next ?? '').fetchHistory())
  })
}

/** A creation, a renewal, a failure, a signal during the look that removes, and the end. */
async function recordSubscriptions(stage: Stage): Promise<void> {
  let playing: Scene | undefined
  let looks = 0
  const keepWebhookSubscription: Activities['keepWebhookSubscription'] = async () => {
    looks += 1
    if (looks === 1) return { ...SUBSCRIPTION, did: 'created' }
    if (looks === 2) return { ...SUBSCRIPTION, did: 'renewed' }
    if (looks === 3) return { ...SUBSCRIPTION, standing: 'failing', error: 'http_error', nextLookInSeconds: 5 }
    if (looks === 4 && playing !== undefined) {
      await tellSubscription(playing)
      return { ...REMOVED_SUBSCRIPTION, did: 'removed' }
    }
    return REMOVED_SUBSCRIPTION
  }
  await stage.play({ keepWebhookSubscription }, async (scene) => {
    playing = scene
    const run = await tellSubscription(scene)
    await run.result()
    await save('webhook-subscription-life', await run.fetchHistory())
  })
}

async function recordContinuedSubscriptions(stage: Stage): Promise<void> {
  let looks = 0
  const keepWebhookSubscription: Activities['keepWebhookSubscription'] = async () => {
    looks += 1
    return looks < 7 ? { ...SUBSCRIPTION, nextLookInSeconds: 1 } : REMOVED_SUBSCRIPTION
  }
  await stage.play({ keepWebhookSubscription }, async (scene) => {
    const run = await tellSubscription(scene)
    await run.result()
    const { events } = await scene.client.getHandle(scene.workflowId, run.signaledRunId).fetchHistory()
    await save('webhook-subscription-continued-1', { events: events ?? [] })
    const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
    const second = scene.client.getHandle(scene.workflowId, next ?? '')
    await save('webhook-subscription-continued-2', await second.fetchHistory())
  })
}

const SUBSCRIPTION: SubscriptionSight = {
  integrationId: 7,
  standing: 'registered',
  did: 'nothing',
  subscriptionId: 'sub_1',
  expiresAt: '2026-03-04T00:00:00.000Z',
  error: null,
  nextLookInSeconds: 45,
}
const REMOVED_SUBSCRIPTION: SubscriptionSight = {
  ...SUBSCRIPTION,
  standing: 'removed',
  subscriptionId: null,
  expiresAt: null,
  nextLookInSeconds: null,
}

function tellSubscription({ client, ...options }: Scene) {
  return client.signalWithStart(WORKFLOW.webhookSubscription, {
    ...options,
    args: [{ integrationId: 7 }],
    signal: look,
    signalArgs: [],
  })
}

/** Both runs of a life whose start had search attributes. The time-skipping server knows no such attributes. */
async function recordAttributes(stage: Stage): Promise<void> {
  const sync = new ScriptedSync(2_500, {
    attempt: (id, attempt) => (id === 7 && attempt === 1 ? { retryAfter: 3 } : 'succeeds'),
  })
  await stage.play(sync.activities(), async (scene) => {
    sync.scene = scene
    const run = await scene.client.start(WORKFLOW.syncIntegration, {
      workflowId: scene.workflowId,
      taskQueue: scene.taskQueue,
      args: [{ integrationId: 7 }],
      typedSearchAttributes: [
        { key: { name: 'IntegrationId', type: 'INT' }, value: 7 },
        { key: { name: 'IntegrationProvider', type: 'KEYWORD' }, value: 'github' },
      ],
    })
    await run.result()
    await saveBoth('sync-search-attributes', scene, run.firstExecutionRunId)
  })
}

/** A run, and the one that it went on in. */
async function saveBoth(name: string, scene: Scene, firstRunId: string): Promise<void> {
  const { events } = await handleOf(scene, firstRunId).fetchHistory()
  await save(`${name}-1`, { events: events ?? [] })
  const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
  await save(`${name}-2`, await handleOf(scene, next ?? '').fetchHistory())
}

async function recordTokens(stage: Stage): Promise<void> {
  const refreshTokensNow = async () => ({ checked: 3, refreshed: 1, failed: 1, reauthRequired: 1 })
  await stage.play({ refreshTokensNow }, async ({ client, ...options }) => {
    const run = await client.start(WORKFLOW.refreshTokens, { ...options, args: [{ integrationId: 7 }] })
    await run.result()
    await save('refresh-tokens', await run.fetchHistory())
  })
}

async function recordJobs(stage: Stage): Promise<void> {
  let tries = 0
  await stage.play(
    {
      readWebhookState: async () => ({ status: 'failed', attempts: 1 }),
      async processOneWebhook({ webhookId }) {
        tries += 1
        if (tries === 1) throw new Error('webhook 12 went back to pending before its handler ran')
        return { webhookId, outcome: 'processed', status: 'processed', attempts: 2 }
      },
      recoverStuckWebhooks: async () => ({ processing: 1, pending: 0, failed: 2 }),
      listReconcilable: async () => ({ integrationIds: [1, 2, 3, 4, 5, 6] }),
      async reconcileIntegration({ integrationId }) {
        if (integrationId === 2) throw ApplicationFailure.nonRetryable('the token was refused', 'client')
        return { seen: integrationId, known: 0, inserted: integrationId, tooLarge: 0, capped: false }
      },
    },
    async ({ client, ...options }) => {
      const jobs = {
        'process-webhook': [WORKFLOW.processWebhook, { webhookId: 12 }],
        'process-webhook-replay': [WORKFLOW.processWebhook, { webhookId: 12, replay: true }],
        'recover-webhooks': [WORKFLOW.recoverWebhooks],
        'reconcile-webhooks': [WORKFLOW.reconcileWebhooks, {}],
      } as const
      for (const [name, [workflow, ...args]] of Object.entries(jobs)) {
        const run = await client.start(workflow, { ...options, args })
        await run.result()
        await save(name, await run.fetchHistory())
      }
    },
  )
}

async function recordItems(stage: Stage): Promise<void> {
  await stage.play(
    {
      ...ITEM_ACTS,
      listFailedSyncItems: async () => [],
      advanceSyncCursor: async () => ({ runs: 2, from: '1', to: '2', reclaimed: 1 }),
    },
    async ({ client, ...options }) => {
      const jobs = {
        'process-sync-item': [WORKFLOW.processSyncItem, { itemId: 5, tries: 2 }],
        'skip-sync-item': [WORKFLOW.skipSyncItem, { itemId: 6 }],
        'list-failed-items': [WORKFLOW.listFailedItems, { integrationId: 7 }],
        'advance-cursor': [WORKFLOW.advanceCursor, { integrationId: 7, reclaimStale: true }],
      } as const
      for (const [name, [workflow, ...args]] of Object.entries(jobs)) {
        const run = await client.start(workflow, { ...options, args })
        await run.result()
        await save(name, await run.fetchHistory())
      }
    },
  )
}

async function recordAnomalies(stage: Stage): Promise<void> {
  const evaluateFailureRatesNow: Activities['evaluateFailureRatesNow'] = async () => ({
    enabled: true,
    checked: 12,
    elevated: [{ integrationId: 7, failureRate: 37.5, requests: 48, dominantClass: 'upstream' }],
    recovered: [9],
  })
  await stage.play({ evaluateFailureRatesNow }, async ({ client, ...options }) => {
    const run = await client.start(WORKFLOW.evaluateFailures, options)
    await run.result()
    await save('evaluate-failures', await run.fetchHistory())
  })
}

async function recordOrphans(stage: Stage): Promise<void> {
  await stage.play(
    { findOrphanRows: async ({ model }) => ({ model, scanned: 3, orphans: 1, rows: [{ id: '2', createdAt: null }] }) },
    async ({ client, ...options }) => {
      const run = await client.start(WORKFLOW.findOrphans, { ...options, args: [{ model: 'note' }] })
      await run.result()
      await save('find-orphans', await run.fetchHistory())
    },
  )
}

const PRUNING: Partial<Activities> = {
  async pruneStep({ step }) {
    if (step === 'logs') throw ApplicationFailure.nonRetryable('permission denied for table integration_logs', '42501')
    return step === 'requests' ? 1_000 : 0
  },
  readPrunedRows: async () => 20,
}

async function recordPruning(stage: Stage): Promise<void> {
  await stage.play(PRUNING, async ({ client, ...options }) => {
    const run = await client.start(WORKFLOW.prune, options)
    await run.result()
    await save('prune', await run.fetchHistory())
  })
}

/** As a person starts it: under the command's name. */
async function recordCommands(stage: Stage): Promise<void> {
  await stage.play(PRUNING, async ({ client, ...options }) => {
    const run = await client.start('integrations:prune', options)
    await run.result()
    await save('prune-command', await run.fetchHistory())
  })
}

const openSlice = (sync: ScriptedSync): Partial<Activities> => ({
  async openBackfillSlice() {
    sync.begin(4)
    return { kind: 'open', syncLogId: 70, settings: sync.settings() }
  },
})

/** Both runs of a backfill that goes on in a new one. */
async function recordContinuedItems(stage: Stage): Promise<void> {
  const sync = new ScriptedSync(4, {
    attempt: (id, attempt) => (id === 2 && attempt === 1 ? { retryAfter: 1 } : 'succeeds'),
  })
  await stage.play(sync.activities(openSlice(sync)), async (scene) => {
    sync.scene = scene
    const { client, ...options } = scene
    const args = [{ integrationId: 7, from: '2026-03-01T00:00:00Z', to: '2026-03-03T06:00:00Z' }]
    const run = await client.start(WORKFLOW.backfillSync, { ...options, args })
    await run.result()
    const { events } = await client.getHandle(options.workflowId, run.firstExecutionRunId).fetchHistory()
    await save('backfill-sync-continued-1', { events: events ?? [] })
    const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
    await save('backfill-sync-continued-2', await client.getHandle(options.workflowId, next ?? '').fetchHistory())
  })
}

async function recordContinuedJobs(stage: Stage): Promise<void> {
  const listed = Array.from({ length: 12 }, (_, index) => index + 1)
  await stage.play(
    {
      listReconcilable: async () => ({ integrationIds: listed }),
      reconcileIntegration: async () => ({ seen: 1, known: 1, inserted: 0, tooLarge: 0, capped: false }),
    },
    async ({ client, ...options }) => {
      const run = await client.start(WORKFLOW.reconcileWebhooks, { ...options, args: [{}] })
      await run.result()
      const first = client.getHandle(options.workflowId, run.firstExecutionRunId)
      const { events } = await first.fetchHistory()
      await save('reconcile-webhooks-continued-1', { events: events ?? [] })
      const next = events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
      await save(
        'reconcile-webhooks-continued-2',
        await client.getHandle(options.workflowId, next ?? '').fetchHistory(),
      )
    },
  )
}

async function recordOutbox(stage: Stage): Promise<void> {
  // Sleeps until a try is due; is woken while it sleeps; and a pump of before asks for another one.
  let scene: Scene | undefined
  const waits = [10_000, 3_600_000, 3_600_000]
  const retries: ScriptedPumps = new ScriptedPumps(20, async (pump, claim) => {
    if (pump === 4) await handleOf(scene as Scene).signal(pumpCalls, { claim, needs: 'help' })
    retries.nextDueInMs = waits[pump - 1] ?? null
    return 'empty'
  })
  await stage.play(retries, async (played) => {
    scene = played
    const outbox = await wakeOutbox(played)
    const asleepAfter = (ended: number) =>
      until(async () => {
        const state = await outbox.query(pumpedQueueState)
        return state.ended === ended && state.nextDueAt !== null
      })
    await asleepAfter(1)
    await stage.env.sleep('11 seconds')
    await asleepAfter(2)
    await wakeOutbox(played)
    await asleepAfter(3)
    await handleOf(played).signal(pumpCalls, { claim: 'pump:of-before:1', needs: 'help' })
    await outbox.result()
    await save('event-outbox-retries', await outbox.fetchHistory())
  })
}

async function recordContinuedSync(stage: Stage): Promise<void> {
  const sync = new ScriptedSync(2_500, {
    attempt: (id, attempt) => (id === 7 && attempt === 1 ? { retryAfter: 3 } : 'succeeds'),
  })
  await stage.play(sync.activities(), async (scene) => {
    sync.scene = scene
    const run = await startSync(scene)
    await run.result()
    const first = handleOf(scene, run.firstExecutionRunId)
    await save('sync-continued-1', await first.fetchHistory())
    const next = (await first.fetchHistory()).events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes
    await save('sync-continued-2', await handleOf(scene, next?.newExecutionRunId ?? '').fetchHistory())
  })
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20))
}

/** What a worker had under way that stood still for 12 s while signals arrived. */
async function recordStalled(): Promise<void> {
  const bundle = `${root}.data/stalled-bundle.js`
  await writeFile(bundle, (await bundleWorkflows()).code)
  const scenes = [
    { kind: 'sync', step: 'openSyncRun' },
    { kind: 'sync', step: 'finaliseSyncRun' },
    { kind: 'incident', step: 'followIncident' },
  ] as const
  const stalledServer = await startTemporalServer({ binary: await findTemporalBinary(), port: 0, uiPort: null })
  const connection = await Connection.connect({ address: stalledServer.address })
  const options = {
    client: new Client({ connection }).workflow,
    address: stalledServer.address,
    taskQueue: 'stalled',
    bundle,
    script: ['--import=tsx', `${root}test/workflows/stalled-worker-process.ts`] as const,
  }
  await playStalled(options, scenes, async (workflows) => {
    for (const [at, name] of ['sync-stalled-opening', 'sync-stalled-finalising', 'incident-stalled'].entries()) {
      await workflows[at]?.result()
      await save(name, (await workflows[at]?.fetchHistory()) ?? {})
    }
  })
  await connection.close()
  await stalledServer.stop()
  await rm(bundle)
}

/** What is recorded with skipped time, and on a server that soon asks for a new history. */
const RECORDINGS = {
  inbox: { skipping: recordInbox, real: recordStalledInbox },
  outbox: { skipping: recordOutbox, real: null },
  incidents: { skipping: recordIncidents, real: recordContinuedIncidents },
  subscriptions: { skipping: recordSubscriptions, real: recordContinuedSubscriptions },
  stalled: { skipping: null, real: recordStalled },
  sync: { skipping: recordSync, real: recordContinuedSync },
  dispatch: { skipping: recordDispatch, real: null },
  jobs: { skipping: recordJobs, real: recordContinuedJobs },
  items: { skipping: recordItems, real: recordContinuedItems },
  tokens: { skipping: recordTokens, real: null },
  attributes: { skipping: null, real: recordAttributes },
  commands: { skipping: recordCommands, real: null },
  anomalies: { skipping: recordAnomalies, real: null },
  orphans: { skipping: recordOrphans, real: null },
  pruning: { skipping: recordPruning, real: null },
} as const

const names = process.argv.slice(2)
const unknown = names.filter((name) => !(name in RECORDINGS))
if (unknown.length > 0)
  throw new Error(`${Object.keys(RECORDINGS).join(', ')} can be recorded, ${unknown.join(', ')} was asked for`)
const asked = Object.entries(RECORDINGS).filter(([name]) => names.length === 0 || names.includes(name))
await mkdir(folder, { recursive: true })
if (names.length === 0) for (const name of await readdir(folder)) await rm(new URL(name, folder))

const skipping = await openStage()
for (const [, recording] of asked) await recording.skipping?.(skipping)
await skipping.close()

const server = await startTemporalServer({
  binary: await findTemporalBinary(),
  port: 0,
  uiPort: null,
  dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': SHORT },
})
const { address } = server
const real = await openStage(() => TestWorkflowEnvironment.createFromExistingServer({ address }))
for (const [, recording] of asked) await recording.real?.(real)
await real.close()
await server.stop()
