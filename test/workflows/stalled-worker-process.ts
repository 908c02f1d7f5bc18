/**
 * A worker that a test stops in the middle of a step (SIGSTOP) and lets go on later: real workflows, scripted activities. Each
 * integration is held in one step, once, until the parent says `go`.
 */
import { Context } from '@temporalio/activity'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { Activities } from '../../src/activities/index.ts'
import type { IncidentSight } from '../../src/incidents/incident-jobs.ts'
import { WORKFLOW_THREAD } from '../../src/worker-sizes.ts'

export type StalledWorkerSays =
  | { readonly kind: 'ready' }
  | { readonly kind: 'held'; readonly integrationId: number; readonly step: string }
  /** By a workflow, to `console`. */
  | { readonly kind: 'said'; readonly message: string }
  | { readonly kind: 'failed'; readonly message: string }

const { STALLED_ADDRESS: address, STALLED_QUEUE: taskQueue = '', STALLED_BUNDLE: codePath = '' } = process.env
/** Integration → the step in which its workflow is held. */
const holds = JSON.parse(process.env.STALLED_HOLDS ?? '{}') as Record<string, string>

const say = (said: StalledWorkerSays): void => void process.send?.(said)
const gone = new Promise<void>((resolve) => process.on('message', () => resolve()))
const held = async (integrationId: number, step: string): Promise<void> => {
  if (holds[integrationId] !== step) return
  delete holds[integrationId]
  say({ kind: 'held', integrationId, step })
  await gone
}

const ITEMS = 250
/** Of sync runs, by the run's log: its id and the integration's are one number. */
const done = new Map<number, number>()
const looks = new Map<number, number>()

const sight = async (integrationId: number, step: string): Promise<IncidentSight> => {
  await held(integrationId, step)
  const look = (looks.get(integrationId) ?? 0) + 1
  looks.set(integrationId, look)
  return {
    incidentId: 3,
    status: look < 4 ? 'open' : 'closed',
    source: 'health',
    reason: 'health_degraded',
    peakSeverity: 'degraded',
    openedAt: '2026-03-01T00:00:00.000Z',
    lastErrorAt: '2026-03-01T00:00:00.000Z',
    closedAt: null,
    autoCloseInSeconds: look < 4 ? 1 : null,
  }
}

const activities = {
  async openSyncRun({ integrationId }) {
    await held(integrationId, 'openSyncRun')
    const settings = {
      listingTimeoutSeconds: 600,
      listingTotalSeconds: 1_800,
      itemTaskQueue: taskQueue,
      isListenedTo: holds[integrationId] === 'announceSyncRun',
    }
    return { kind: 'open', syncLogId: integrationId, settings }
  },
  async listSyncItems({ integrationId }) {
    await held(integrationId, 'listSyncItems')
    return { kind: 'listed', listed: ITEMS, duplicatesDropped: 0 }
  },
  async processSyncItems({ syncLogId, take }) {
    await held(syncLogId, 'processSyncItems')
    const before = done.get(syncLogId) ?? 0
    const claimed = take.kind === 'due' ? take.ids.length : Math.min(take.limit, ITEMS - before)
    done.set(syncLogId, before + claimed)
    return { claimed, succeeded: claimed, failed: 0, waiting: [], deferredSeconds: 0 }
  },
  async finaliseSyncRun({ integrationId }) {
    await held(integrationId, 'finaliseSyncRun')
    return { kind: 'finalised', status: 'success', succeeded: ITEMS, failed: 0, skipped: 0, fullListing: false }
  },
  async announceSyncRun({ integrationId }) {
    await held(integrationId, 'announceSyncRun')
  },
  async takeOverSyncRun() {
    return { listed: ITEMS, succeeded: 0, failed: 0, pending: 0, waiting: [] }
  },
  async failSyncRun() {},
  async cancelSyncRun() {},
  async skipFailedItem({ itemId }) {
    return { itemId, integrationId: 7, stream: null, cursorMoved: false, reducerThrew: null }
  },
  async processOneSyncItem({ itemId }) {
    return {
      itemId,
      outcome: 'success',
      status: 'success',
      attempts: 4,
      error: null,
      waitSeconds: null,
      isCounted: true,
    }
  },
  followIncident: ({ integrationId }) => sight(integrationId, 'followIncident'),
  closeIncidentWhenWell: ({ integrationId }) => sight(integrationId, 'closeIncidentWhenWell'),
  async advanceSyncCursor({ integrationId }) {
    await held(integrationId, 'advanceSyncCursor')
    return { runs: 2, from: '1', to: '2', reclaimed: 1 }
  },
} satisfies Partial<Activities>

try {
  const logger = new DefaultLogger('ERROR', ({ message, meta }) => {
    if (meta?.event === 'workflow.console') say({ kind: 'said', message })
  })
  Runtime.install({ logger })
  const connection = await NativeConnection.connect({ address: address ?? '' })
  const worker = await Worker.create({
    connection,
    taskQueue,
    workflowBundle: { codePath },
    activities: {
      ...activities,
      async checkDatabase() {
        // Its workflow's id ends with the integration's.
        await held(
          Number(/\d+$/.exec(Context.current().info.workflowExecution?.workflowId ?? '')?.[0]),
          'checkDatabase',
        )
      },
    },
    ...WORKFLOW_THREAD,
    stickyQueueScheduleToStartTimeout: '3 seconds',
    maxHeartbeatThrottleInterval: '5 seconds',
    shutdownGraceTime: 0,
  })
  const running = worker.run()
  say({ kind: 'ready' })
  await running
  await connection.close()
  process.exit(0)
} catch (error) {
  say({ kind: 'failed', message: String(error) })
  process.exit(1)
}
