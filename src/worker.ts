/** Runs the workflows and activities: one Temporal Worker per distinct task queue. */
import { fileURLToPath } from 'node:url'
import type { WorkflowBundle } from '@temporalio/worker'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { createActivities } from './activities/index.ts'
import { BackendUnreachable } from './core/errors.ts'
import { errorLine } from './core/logger.ts'
import type { Integrations } from './integrations.ts'
import { partsOf } from './integrations.ts'
import { checkTemporal, connectionOptions, temporalAddress } from './temporal/connection.ts'
import { ensureSchedules } from './temporal/schedules.ts'
import { sweepPending } from './temporal/sweep.ts'
import { taskQueuesOf } from './temporal/task-queues.ts'

/** How long activities may go on once the worker is told to stop; then they are cancelled and give their rows back. */
const SHUTDOWN_GRACE = '10 seconds'
/**
 * How long a workflow waits for the worker that has it in memory before any other may go on with it. After a `kill -9`
 * this is dead time, so less than the SDK's 10 s.
 */
const STICKY_TIMEOUT = '3 seconds'
/** Signs of life are sent this often: the SDK would hold them back for most of the heartbeat timeout, and a late one costs a batch. */
const HEARTBEAT_EVERY = '5 seconds'

export interface WorkerOptions {
  /** Path of a module that re-exports `durable-integrations/workflows` beside the host's own workflows. */
  readonly workflowsPath?: string
  /** A bundle made before; saves the bundling at every start. */
  readonly workflowBundle?: WorkflowBundle
}

export interface RunningWorkers {
  readonly taskQueues: readonly string[]
  /** Ends when all workers have ended; throws what ended one of them. */
  run(): Promise<void>
  /** Takes nothing new; what runs finishes or goes back. */
  shutdown(): void
}

/** @throws BackendUnreachable when Temporal does not answer */
export async function createWorkers(integrations: Integrations, options: WorkerOptions = {}): Promise<RunningWorkers> {
  const { framework, temporal, client, needs } = partsOf(integrations)
  const { config, logger } = framework
  const where = temporalAddress(temporal)
  await checkTemporal(client(), where)
  const connection = await NativeConnection.connect(connectionOptions(temporal)).catch((cause: unknown) => {
    throw new BackendUnreachable('Temporal', where.address, { cause, remedy: errorLine(cause, 200) })
  })
  await ensureSchedules(client(), config, needs)

  const workflowBundle = options.workflowBundle ?? (await bundleWorkflows(options.workflowsPath))
  const activities = createActivities(framework)
  const queues = taskQueuesOf(config)
  const workers: Worker[] = []
  for (const queue of queues)
    workers.push(
      await Worker.create({
        connection,
        namespace: where.namespace,
        taskQueue: queue,
        workflowBundle,
        activities,
        shutdownGraceTime: SHUTDOWN_GRACE,
        stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
        maxHeartbeatThrottleInterval: HEARTBEAT_EVERY,
      }),
    )
  logger.info({ event: 'worker.ready', task_queues: queues, pid: process.pid }, 'worker ready')

  return {
    taskQueues: queues,
    async run() {
      const endSweep = sweepPending(integrations)
      try {
        await Promise.all(workers.map((worker) => worker.run()))
      } finally {
        endSweep()
        await connection.close()
      }
    },
    shutdown() {
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
    },
  }
}

/** Puts the SDK's own warnings and errors into the same log. Once per process, before the first worker. */
export function installTemporalLogger(integrations: Integrations): void {
  const { logger } = partsOf(integrations).framework
  Runtime.install({
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      if (level === 'ERROR') logger.error(fields(meta), message)
      else logger.warn(fields(meta), message)
    }),
  })
}

/** The workflow code as one bundle, made by the SDK's bundler. */
export function bundleWorkflows(workflowsPath?: string): Promise<WorkflowBundle> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  return bundleWorkflowCode({
    workflowsPath: workflowsPath ?? fileURLToPath(new URL(`./workflows/index.${extension}`, import.meta.url)),
    // Its progress lines are of no use to whoever runs a worker.
    logger: new DefaultLogger('WARN'),
  })
}

function fields(meta: object | undefined): Record<string, unknown> {
  const { error, ...rest } = (meta ?? {}) as { error?: unknown }
  return error === undefined ? rest : { ...rest, error: errorLine(error, 300) }
}
