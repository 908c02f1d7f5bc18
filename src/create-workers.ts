/** Runs the workflows and activities: one Temporal Worker per distinct task queue. */

import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { WorkflowBundle } from '@temporalio/worker'
import { DefaultLogger, NativeConnection, Runtime, TransportError, Worker } from '@temporalio/worker'
import { commandActivities } from './activities/command-activities.ts'
import { databaseCheckActivities } from './activities/database-check.ts'
import { createActivities } from './activities/index.ts'
import { tracedActivity } from './activities/traced.ts'
import { bundleWorkflows, readBundle, shippedBundle } from './bundled-workflows.ts'
import { HANDOVER_MS } from './claims/pump.ts'
import { createCommandRunner } from './commands/cli/in-worker.ts'
import type { Integrations } from './create-integrations.ts'
import { partsOf } from './create-integrations.ts'
import { errorLine } from './framework/logger.ts'
import { redactLikely } from './framework/redaction.ts'
import { RepeatedWarnings } from './framework/repeated-warnings.ts'
import { passesOfWorker } from './rollups/roll-up.ts'
import { rememberedStarts } from './syncs/remembered-starts.ts'
import { noteSchedulePause } from './syncs/standing-queries.ts'
import { checkTemporal, connectionOptions, temporalAddress, temporalUnreachable } from './temporal/connection.ts'
import { ensureSchedulesAtStart } from './temporal/keep-schedules.ts'
import { ensureSearchAttributes } from './temporal/search-attributes.ts'
import { sweepPending, sweepRollUps, sweepSchedulePause, sweepStarts } from './temporal/sweep.ts'
import { taskQueuesOf } from './temporal/workflow-starts.ts'
import { workerSizes } from './worker-sizes.ts'

/**
 * How long a workflow waits for the worker that has it in memory before any other may go on with it. After a `kill -9`
 * this is dead time, so less than the SDK's 10 s.
 */
const STICKY_TIMEOUT = '3 seconds'
/** Signs of life are sent this often: the SDK would hold them back for most of the heartbeat timeout, and a late one costs a batch. */
const HEARTBEAT_EVERY = '5 seconds'
/** Whether the SDK has begun to stop a worker. */
const LOOK_EVERY_MS = 500
/** What the SDK does once a worker has failed takes no longer. */
const FAILED_MS = 5_000
/**
 * A stopping worker goes on with its workflows until its pumps have handed over, and until the inbox has been told. A task that
 * Temporal has given to a worker that asks no more is lost, and its workflow stands still for 10 s.
 */
const TOLD_MS = 200
const HANDED_OVER_MS = HANDOVER_MS + TOLD_MS
const MS_PER_SECOND = 1_000
/** At these signals the SDK stops its workers by itself, at once. Pumps would have no time to hand over. */
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGUSR2']

/** What the SDK said of workers that have failed, by task queue. */
const FAULTS = new WeakMap<Integrations, Map<string, unknown>>()

/** Of an error's text, before it is redacted and cut. */
const MAX_READ = 20_000

export { bundleWorkflows } from './bundled-workflows.ts'

export interface WorkerOptions {
  /** Path of a module that re-exports `durable-integrations/workflows` beside the host's own workflows. */
  readonly workflowsPath?: string
  /** A bundle made before; saves the bundling at every start. */
  readonly workflowBundle?: WorkflowBundle
  /** Path of one that `integrations bundle-workflows` made; in place of `workflowsPath`. */
  readonly workflowBundlePath?: string
}

export interface RunningWorkers {
  readonly taskQueues: readonly string[]
  /** Ends when all workers have ended; throws what ended one of them. */
  run(): Promise<void>
  /** Takes nothing new; what runs finishes or goes back; before `run()`: that ends at once. A signal to stop does the same. Steps and times: docs/behaviour/workers.md, "The end of a worker". */
  shutdown(): void
  /** Whether all of them run and ask Temporal for work; it may be away. False before `run()`, and once they stop. */
  isPolling(): boolean
}

/**
 * The workers of this process: they run webhooks, syncs, events and what is started as a workflow.
 *
 * @example
 * const workers = await createWorkers(integrations)
 * await workers.run() // until SIGTERM, or workers.shutdown()
 *
 * @throws BackendUnreachable when Temporal does not answer
 * @throws InvalidConfiguration when the bundle of `workflowBundlePath` does not fit, or a provider that is named is not registered
 */
export async function createWorkers(integrations: Integrations, options: WorkerOptions = {}): Promise<RunningWorkers> {
  const { framework, temporal, client, needs, reportModels } = partsOf(integrations)
  const { config, logger } = framework
  const where = temporalAddress(temporal)
  takeSignals()
  // Before anything is reached: what does not fit is a fault of the configuration.
  integrations.admin.checkNames()
  const prebuilt = options.workflowBundle ?? prebuiltBundle(options, logger)
  await checkTemporal(client(), where)
  const connection = await NativeConnection.connect(connectionOptions(temporal)).catch((cause: unknown) => {
    throw temporalUnreachable(where, cause)
  })
  const queues = taskQueuesOf(config)
  const workers: Worker[] = []
  const grace = graceOf(config.worker.shutdown_grace)
  const pumps = new Set<Promise<unknown>>()
  const beforeEnd = (work: Promise<unknown>): void => {
    const pump = work.catch(() => {}).finally(() => pumps.delete(pump))
    pumps.add(pump)
  }
  const isHandingOver = (): boolean => pumps.size > 0
  try {
    await ensureSchedulesAtStart(client(), config, needs)
    await ensureSearchAttributes(client(), where, logger)

    const workflowBundle = prebuilt ?? (await bundleWorkflows(options.workflowsPath, logger))
    const activities = {
      ...createActivities(framework, { stopping: grace.begins, graceIsOver: grace.isOver, beforeEnd, isHandingOver }),
      ...commandActivities(createCommandRunner(integrations)),
      ...databaseCheckActivities(() => integrations.ready()),
    }
    for (const queue of queues)
      workers.push(
        await Worker.create({
          connection,
          namespace: where.namespace,
          taskQueue: queue,
          workflowBundle,
          activities,
          ...workerSizes(config.worker),
          stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
          maxHeartbeatThrottleInterval: HEARTBEAT_EVERY,
          interceptors: { activity: [tracedActivity] },
        }),
      )
  } catch (error) {
    // The connection is closed by no one else, and can't be while a worker holds it.
    await discard(workers)
      .then(() => connection.close())
      .catch(() => {})
    throw isUnanswered(error) ? temporalUnreachable(where, error) : error
  }
  await reportModels()
  logger.info({ event: 'worker.ready', task_queues: queues, pid: process.pid }, 'worker ready')

  let isAskedToStop = false
  const stopPolling = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  const shutdown = (): void => {
    isAskedToStop = true
    if (workers.every((worker) => worker.getState() === 'INITIALIZED')) return
    grace.begin()
    if (pumps.size === 0) {
      stopPolling()
      return
    }
    const told = Promise.all(pumps).then(() => sleep(TOLD_MS))
    void Promise.race([told, sleep(HANDED_OVER_MS)]).then(stopPolling)
  }
  const isPolling = (): boolean =>
    !isAskedToStop &&
    workers.every((worker) => {
      const { runState, workflowPollerState, activityPollerState } = worker.getStatus()
      return runState === 'RUNNING' && workflowPollerState === 'POLLING' && activityPollerState === 'POLLING'
    })
  framework.metrics.workersMade(isPolling)
  return {
    taskQueues: queues,
    async run() {
      const faults = FAULTS.get(integrations)
      // What workers of the same object have failed with before is no fault of these.
      for (const queue of queues) faults?.delete(queue)
      const endSweeps = [
        sweepPending(integrations),
        sweepStarts(rememberedStarts(framework), logger),
        sweepRollUps(passesOfWorker(framework), logger),
        sweepSchedulePause(() => noteSchedulePause(framework), logger),
      ]
      const hung = new Set<Worker>()
      const running = workers.map((worker, at) =>
        untilFailed(
          worker,
          () => faults?.get(queues[at] ?? ''),
          () => void hung.add(worker),
        ),
      )
      // One that has failed takes the others with it: half a process would look healthy.
      for (const one of running) one.catch(shutdown)
      // The SDK stops workers by itself, too: after a fault of one, and at a signal where the host has a Runtime of its own.
      const look = setInterval(() => {
        if (workers.some((worker) => worker.getState() !== 'RUNNING')) shutdown()
      }, LOOK_EVERY_MS)
      const signals = Runtime.instance().options.shutdownSignals.length === 0 ? STOP_SIGNALS : []
      for (const signal of signals) process.on(signal, shutdown)
      if (isAskedToStop) shutdown()
      try {
        await Promise.allSettled(running)
        await Promise.all(running)
      } catch (error) {
        throw error instanceof TransportError ? temporalUnreachable(where, error) : error
      } finally {
        clearInterval(look)
        for (const signal of signals) process.off(signal, shutdown)
        grace.release()
        for (const end of endSweeps) end()
        // A worker that hangs holds it, and it can't be closed then: it ends with the process.
        if (hung.size === 0) await connection.close()
      }
    },
    shutdown,
    isPolling,
  }
}

/** Codes of gRPC for a call that has no answer: https://grpc.io/docs/guides/status-codes/ */
const NO_ANSWER: readonly unknown[] = [1, 4, 14]

/** Temporal went away in the middle of the start. What it refuses is an answer. */
function isUnanswered(error: unknown): boolean {
  return (
    error instanceof TransportError || NO_ANSWER.includes((error as { cause?: { code?: unknown } } | null)?.cause?.code)
  )
}

/**
 * Runs a worker. One that has failed, since Temporal refuses it, ends with a fault of the SDK's own in place of why it failed, or
 * waits without an end for calls that are still under way (both seen of `finalizeShutdown()` in @temporalio/worker 1.24): then
 * the process would look healthy without it.
 *
 * @param faultOf what it has failed with, if that is known
 * @param onHang called when it is given up
 */
async function untilFailed(worker: Worker, faultOf: () => unknown, onHang: () => void): Promise<void> {
  let look: NodeJS.Timeout | undefined
  const hangs = new Promise<never>((_, reject) => {
    let sinceMs: number | null = null
    look = setInterval(() => {
      if (worker.getState() !== 'FAILED') return
      sinceMs ??= performance.now()
      if (performance.now() - sinceMs < FAILED_MS) return
      onHang()
      reject(new Error(`the worker of "${worker.options.taskQueue}" has failed; the line temporal.sdk before says why`))
    }, LOOK_EVERY_MS)
  })
  try {
    await Promise.race([worker.run(), hangs])
  } catch (error) {
    throw faultOf() ?? error
  } finally {
    clearInterval(look)
  }
}

/** Temporal tells an activity that its worker stops when its grace is over; some hand over as soon as it begins. */
function graceOf(seconds: number) {
  const beginning = new AbortController()
  const controller = new AbortController()
  // Each activity listens; Node takes more than ten for a leak.
  setMaxListeners(0, beginning.signal, controller.signal)
  let timer: NodeJS.Timeout | undefined
  return {
    begins: beginning.signal,
    isOver: controller.signal,
    begin(): void {
      beginning.abort(new Error('the worker stops'))
      timer ??= setTimeout(() => controller.abort(new Error('the worker stops')), seconds * MS_PER_SECOND)
    },
    release: (): void => clearTimeout(timer),
  }
}

/** Ends workers that were made and never ran. */
async function discard(workers: readonly Worker[]): Promise<void> {
  await Promise.allSettled(
    workers.map((worker) => {
      const running = worker.run()
      worker.shutdown()
      return running
    }),
  )
}

function prebuiltBundle(
  { workflowBundlePath, workflowsPath }: WorkerOptions,
  logger: Integrations['admin']['logger'],
): WorkflowBundle | null {
  if (workflowBundlePath === undefined) return workflowsPath === undefined ? shippedBundle(logger) : null
  if (workflowsPath !== undefined)
    logger.warn(
      { event: 'worker.bundle_ignores_path', bundle: workflowBundlePath, workflows_path: workflowsPath },
      'INTEGRATIONS_WORKFLOW_BUNDLE goes before the workflowsPath that the configuration exports: what has changed there since the bundle was made does not run',
    )
  return readBundle(workflowBundlePath)
}

/**
 * Puts the SDK's own warnings and errors into the same log, those of its native part too, and the lines of workflows, which come
 * by the SDK. Once per process, before the first worker.
 *
 * @param sdkMetrics `host:port` at which the SDK serves its own metrics to Prometheus; default: nowhere
 */
export function installTemporalLogger(integrations: Integrations, sdkMetrics?: string): void {
  const { framework, providerOf } = partsOf(integrations)
  const { logger } = framework
  const faults = new Map<string, unknown>()
  FAULTS.set(integrations, faults)
  const retries = new RepeatedWarnings(logger, framework.clock)
  const write = (level: string, given: Record<string, unknown>, said: string): void => {
    if (level === 'ERROR') logger.error({ event: 'temporal.sdk', ...given }, said)
    else if (level === 'WARN') logger.warn({ event: 'temporal.sdk', ...given }, said)
    else logger.info(given, said)
  }
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('INFO', ({ level, message, meta }) => {
      if (message === WORKER_FAILED) faults.set(String(meta?.taskQueue), meta?.error)
      const said = redactLikely(message)
      const line = fields(meta)
      // What the SDK itself says at this level is of use to its makers.
      if (level === 'INFO' && typeof line.event !== 'string') return
      const [, call] = RETRIED.exec(message) ?? []
      if (call !== undefined) return retries.warn(call, () => ({ event: 'temporal.sdk', ...line }), said)
      const { integration } = line
      if (typeof integration !== 'number' || line.provider !== undefined) return write(level, line, said)
      // A workflow has no rows, so it knows an integration by its id.
      void providerOf(integration).then((provider) => write(level, { ...line, provider }, said))
    }),
    telemetryOptions: {
      // Without it the native part writes lines of its own to stdout.
      logging: { forward: {} },
      ...(sdkMetrics === undefined ? {} : { metrics: { prometheus: prometheusAt(sdkMetrics) } }),
    },
  })
}

/** Keeps the SDK from its reaction to signals, unless the host has installed a Runtime of its own. */
function takeSignals(): void {
  try {
    Runtime.install({ shutdownSignals: [] })
  } catch (error) {
    // There is one already.
    if (!(error instanceof Error && error.name === 'IllegalStateError')) throw error
  }
}

/** The SDK's words: runInternal() in @temporalio/worker/lib/worker.js. */
const WORKER_FAILED = 'Worker failed'

/**
 * As its native part says it, while Temporal does not answer: each poller of each worker by itself, every few seconds. One line a
 * minute stands for all of them.
 */
const RETRIED = /^gRPC call (\w+) retried \d+ times/

/** Names and units as Prometheus has them: https://prometheus.io/docs/practices/naming/ */
function prometheusAt(bindAddress: string) {
  return { bindAddress, countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true }
}

/** Of its native part: for its makers, and may quote an input. */
const SPANS = 'spanContexts'

function fields(meta: object | undefined): Record<string, unknown> {
  const entries = Object.entries(meta ?? {})
    .filter(([name]) => name !== SPANS)
    .map(([name, value]) => [name, shown(name, value)] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

/** What an activity or a provider threw may be among them, under any name. */
function shown(name: string, value: unknown): unknown {
  if (typeof value === 'string') return redactLikely(value)
  if (name !== 'error' && !(value instanceof Error)) return value
  return value === undefined ? undefined : redactLikely(errorLine(value, MAX_READ)).slice(0, 300)
}
