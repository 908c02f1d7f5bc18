/**
 * A stage for workflow tests: Temporal's time-skipping server and our own bundle. Each test plays with a worker and a task
 * queue of its own, and with activities it scripts itself.
 */
import type {
  WorkflowClient,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
  WorkflowHandleWithSignaledRunId,
} from '@temporalio/client'
import type { TestWorkflowEnvironment } from '@temporalio/testing'
import type { WorkflowBundle } from '@temporalio/worker'
import { DefaultLogger, makeTelemetryFilterString, Runtime, Worker } from '@temporalio/worker'
import type { DatabaseCheckActivities } from '../../src/activities/database-check.ts'
import type { Activities } from '../../src/activities/index.ts'
import { bundleWorkflows } from '../../src/create-workers.ts'
import type { SyncInput, SyncOutcome, SyncProgress } from '../../src/syncs/sync-jobs.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { PumpedQueueInput, PumpedQueueState } from '../../src/workflows/messages.ts'
import { arrived, syncProgress } from '../../src/workflows/messages.ts'
import { SOON } from '../support/soon.ts'
import { createTimeSkippingEnvironment } from '../support/time-skipping.ts'

/** What the SDK warns of (an activity that fails by script) is no news to a test. */
export function silenceTemporal(): void {
  if (isSilent) return
  isSilent = true
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    telemetryOptions: { logging: { filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
  })
}

let isSilent = false

export interface Scene {
  readonly client: WorkflowClient
  readonly taskQueue: string
  readonly workflowId: string
  /** The server's time, skips included. */
  now(): Promise<number>
}

export interface Stage {
  readonly env: TestWorkflowEnvironment
  readonly bundle: WorkflowBundle
  play<Result>(
    activities: Partial<Activities & DatabaseCheckActivities>,
    scene: (scene: Scene) => Promise<Result>,
  ): Promise<Result>
  close(): Promise<void>
}

/** What a workflow that is started by its command's name looks for first. */
const DATABASE_THERE: DatabaseCheckActivities = { checkDatabase: async () => {} }

/** A hook that stops a worker, and a test that plays with one, need more than this. */
export const SHUTDOWN_FORCE_TIME = '90 seconds'

let scenes = 0
/** Made once for the files of a process: the workflows' code is the same for all. */
let bundling: Promise<WorkflowBundle> | undefined

export async function openStage(
  environment: () => Promise<TestWorkflowEnvironment> = createTimeSkippingEnvironment,
): Promise<Stage> {
  silenceTemporal()
  // A failure is of this file alone: the next one tries again.
  bundling ??= bundleWorkflows().catch((error: unknown) => {
    bundling = undefined
    throw error
  })
  const [env, bundle] = await Promise.all([environment(), bundling])
  return {
    env,
    bundle,
    async play(activities, scene) {
      scenes += 1
      const taskQueue = `scene-${scenes}`
      const worker = await Worker.create({
        connection: env.nativeConnection,
        taskQueue,
        workflowBundle: bundle,
        activities: { ...DATABASE_THERE, ...activities },
        // A cancellation reaches an activity with the answer to its sign of life.
        maxHeartbeatThrottleInterval: '100 milliseconds',
        shutdownGraceTime: 0,
        // A worker that stops waits for its long polls, which this server now and then lets run out: after a minute.
        shutdownForceTime: SHUTDOWN_FORCE_TIME,
      })
      const played: Scene = {
        client: env.client.workflow,
        taskQueue,
        // The id of a run names its deployment, of which its items' retries are, too.
        workflowId: `${taskQueue}:sync:7`,
        now: () => env.currentTimeMs(),
      }
      return worker.runUntil(async () => {
        try {
          return await scene(played)
        } catch (error) {
          // A workflow that is left over holds up the time of the scenes to come.
          await handleOf(played)
            .terminate()
            .catch(() => {})
          throw error
        }
      })
    },
    close: () => env.teardown(),
  }
}

type Pumping = (input?: PumpedQueueInput) => Promise<PumpedQueueState>

/** As a process does it once a row is stored. */
export function wake(
  { client, taskQueue, workflowId }: Scene,
  workflow: string,
): Promise<WorkflowHandleWithSignaledRunId<Pumping>> {
  return client.signalWithStart<Pumping>(workflow, {
    workflowId,
    taskQueue,
    args: [{}],
    signal: arrived,
    signalArgs: [],
  })
}

export const wakeInbox = (scene: Scene) => wake(scene, WORKFLOW.webhookInbox)
export const wakeOutbox = (scene: Scene) => wake(scene, WORKFLOW.eventOutbox)

export function startSync(
  { client, taskQueue, workflowId }: Scene,
  input: SyncInput = { integrationId: 7 },
): Promise<WorkflowHandleWithFirstExecutionRunId<(input: SyncInput) => Promise<SyncOutcome>>> {
  return client.start(WORKFLOW.syncIntegration, { workflowId, taskQueue, args: [input] })
}

export function handleOf(scene: Scene, runId?: string): WorkflowHandle {
  return scene.client.getHandle(scene.workflowId, runId, { followRuns: runId === undefined })
}

/** How many events of a kind a run's history holds, and how many in all. */
export async function countEvents(handle: WorkflowHandle, attribute?: string): Promise<number> {
  const { events } = await handle.fetchHistory()
  if (attribute === undefined) return events?.length ?? 0
  return (events ?? []).filter((event) => (event as Record<string, unknown>)[attribute] != null).length
}

/** From a run's start to its end, in the server's time. After a result the server's clock runs far ahead of it. */
export async function lifetimeMs(handle: WorkflowHandle): Promise<number> {
  const { startTime, closeTime } = await handle.describe()
  return (closeTime?.getTime() ?? Number.NaN) - startTime.getTime()
}

/** The most activities that a run had scheduled and not seen ended, at any moment of its history. */
export async function mostActivitiesAtOnce(handle: WorkflowHandle): Promise<number> {
  const { events } = await handle.fetchHistory()
  let open = 0
  let most = 0
  for (const event of events ?? []) {
    if (event.activityTaskScheduledEventAttributes != null) open += 1
    if (event.activityTaskCompletedEventAttributes != null) open -= 1
    most = Math.max(most, open)
  }
  return most
}

/** Asks until it is so; while nobody waits for a result the server's time stands still. */
export async function seen(scene: Scene, isSo: (progress: SyncProgress) => boolean): Promise<SyncProgress> {
  const giveUpAt = performance.now() + SOON.timeout
  for (;;) {
    const progress = await handleOf(scene).query(syncProgress)
    if (isSo(progress)) return progress
    if (performance.now() > giveUpAt) throw new Error(`not seen; it was ${JSON.stringify(progress)}`)
  }
}
