/** A provider's code that Temporal tries three times, and workers that stop while it runs: the stops are none of the tries. */
import { randomUUID } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import type { WorkflowBundle } from '@temporalio/worker'
import { NativeConnection, Worker } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keptAlive } from '../../src/activities/heartbeat.ts'
import { temporalSurroundings } from '../../src/activities/surroundings.ts'
import { withUncountedStops } from '../../src/activities/uncounted-stops.ts'
import { untilAborted } from '../../src/operations/until-aborted.ts'
import type { ReconciledIntegration } from '../../src/operations/webhook-reconciliation.ts'
import { bundleWorkflows } from '../../src/worker.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { occasion } from '../support/integrations.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const RECONCILED: ReconciledIntegration = { seen: 1, known: 1, inserted: 0, tooLarge: 0, capped: false }
/** Three workers start and stop; each may wait a minute for its long polls. */
const LIMIT_MS = 300_000

let server: Awaited<ReturnType<typeof shareDevServer>>
let connection: Connection
let native: NativeConnection
let workflowBundle: WorkflowBundle

beforeAll(async () => {
  silenceTemporal()
  server = await shareDevServer()
  const { address } = server
  // One after the other: bundling holds the thread up for longer than a connection waits.
  connection = await Connection.connect({ address, connectTimeout: '60 seconds' })
  native = await NativeConnection.connect({ address })
  workflowBundle = await bundleWorkflows()
}, LIMIT_MS)

afterAll(async () => {
  await native?.close()
  await connection?.close()
  await server?.release()
})

/** A worker of the same queue. @returns stops it */
async function startWorker(
  taskQueue: string,
  reconcileIntegration: () => Promise<ReconciledIntegration>,
): Promise<() => Promise<void>> {
  const worker = await Worker.create({
    connection: native,
    taskQueue,
    workflowBundle,
    activities: { listReconcilable: async () => ({ integrationIds: [7] }), reconcileIntegration },
    shutdownGraceTime: 0,
    stickyQueueScheduleToStartTimeout: '1 second',
  })
  const ended = worker.run()
  return async () => {
    worker.shutdown()
    await ended
  }
}

describe('an activity that Temporal tries three times', () => {
  it(
    'goes on elsewhere when its worker stops, and knows how often that was',
    async () => {
      const taskQueue = `stops-${randomUUID()}`
      const seen: { attempt: number; details: unknown }[] = []
      const activity = (onBegin: () => void, work: (signal: AbortSignal) => Promise<ReconciledIntegration>) =>
        keptAlive(() => {
          const context = temporalSurroundings()
          const { attempt, heartbeatDetails } = context.info
          seen.push({ attempt, details: heartbeatDetails })
          onBegin()
          return withUncountedStops(
            context,
            () => work(context.cancellationSignal),
            (error) => error as Error,
          )
        })

      let run: { result(): Promise<unknown> } | undefined
      for (let stops = 0; stops < 2; stops += 1) {
        const begun = occasion()
        const stop = await startWorker(
          taskQueue,
          activity(begun.happen, (signal) => untilAborted(new Promise(() => {}), signal)),
        )
        const start = { taskQueue, workflowId: taskQueue, args: [{}] }
        run ??= await new Client({ connection }).workflow.start(WORKFLOW.reconcileWebhooks, start)
        await begun.happened
        await stop()
      }
      const stop = await startWorker(
        taskQueue,
        activity(
          () => {},
          async () => RECONCILED,
        ),
      )
      expect(await run?.result()).toMatchObject({ integrations: 1, seen: 1, failed: 0 })
      await stop()
      expect(seen).toEqual([
        { attempt: 1, details: undefined },
        { attempt: 2, details: { stops: 1 } },
        { attempt: 3, details: { stops: 2 } },
      ])
    },
    LIMIT_MS,
  )
})
