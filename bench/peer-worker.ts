/** A Temporal worker of a peer's own workflow, with every default. */
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import type { Logger } from 'pino'

export interface PeerWorker {
  stop(): Promise<void>
}

/** Once per process: it installs the SDK's logger. */
export async function startPeerWorker(
  where: { readonly temporalAddress: string; readonly taskQueue: string },
  code: { readonly workflows: URL; readonly activities: object },
  log: Logger,
): Promise<PeerWorker> {
  Runtime.install({ logger: new DefaultLogger('WARN', ({ message }) => log.warn({}, message)) })
  const connection = await NativeConnection.connect({ address: where.temporalAddress })
  const worker = await Worker.create({
    connection,
    taskQueue: where.taskQueue,
    workflowBundle: await bundleWorkflowCode({
      workflowsPath: fileURLToPath(code.workflows),
      logger: new DefaultLogger('WARN'),
    }),
    activities: code.activities,
  })
  const running = worker.run()
  return {
    async stop() {
      worker.shutdown()
      await running
      await connection.close()
    },
  }
}
