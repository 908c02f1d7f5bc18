/** A worker process: runs the workflows and activities until it is told to stop. */

import type { RunningWorkers } from '../create-workers.ts'
import { createWorkers, installTemporalLogger } from '../create-workers.ts'
import { errorLine } from '../framework/logger.ts'
import { startTracing } from '../observability/tracing-start.ts'
import { loadHost } from './host.ts'
import { lastSteps, onStop, runProcess } from './run.ts'
import { startWorkerMetrics } from './worker-metrics.ts'

await runProcess(async () => {
  const { integrations, workflowsPath } = await loadHost()
  const { logger } = integrations.admin
  let workers: RunningWorkers | undefined
  const stopping = onStop(logger, (why) => {
    logger.info({ event: 'worker.stopping', why }, 'worker takes nothing new; what runs finishes or goes back')
    workers?.shutdown()
  })
  await integrations.ready()
  const tracing = await startTracing({ service: 'integrations-worker', logger })
  const metrics = await startWorkerMetrics(integrations, (sdkMetrics) =>
    installTemporalLogger(integrations, sdkMetrics),
  )
  let failure: { error: unknown } | undefined
  if (!stopping.isAsked()) {
    const workflowBundlePath = process.env.INTEGRATIONS_WORKFLOW_BUNDLE || undefined
    workers = await createWorkers(integrations, {
      ...(workflowsPath === undefined ? {} : { workflowsPath }),
      ...(workflowBundlePath === undefined ? {} : { workflowBundlePath }),
    })
    metrics.watch(workers)
    // Asked while they were made: they end at once.
    if (stopping.isAsked()) workers.shutdown()
    try {
      await workers.run()
    } catch (error) {
      failure = { error }
      logger.error({ event: 'worker.failed', error: errorLine(error, 300) }, 'a worker failed; the process ends')
    }
  }
  const exitCode = await lastSteps(logger, stopping, {
    steps: [() => metrics.close(), () => integrations.close(), () => tracing.end()],
    ...(failure === undefined ? {} : { failure }),
  })
  logger.info({ event: 'worker.stopped' }, 'worker has stopped')
  process.exit(exitCode)
})
