/**
 * graphile-worker with 24 jobs at once, as it comes or tuning.
 *
 * Both do a job in one prepared statement over the library's own pool: what settles the row and the row of the log that a
 * user would keep of it.
 */
import type { Runner, TaskList } from 'graphile-worker'
import { pino } from 'pino'
import { answerParent } from '../child.ts'
import type { GraphileOptions } from '../graphile.ts'
import { prepared, startGraphile } from '../graphile.ts'
import type { DeliveredJob, StoredJob } from './jobs.ts'
import { TASK } from './jobs.ts'
import { SETTLE, STORE_AS_PROCESSED } from './peer-statements.ts'

let runner: Runner | undefined

const offered = {
  async start(options: GraphileOptions): Promise<void> {
    const taskList: TaskList = {
      async [TASK.stored](payload, { withPgClient }) {
        const startedAt = performance.now()
        const { webhookId } = payload as StoredJob
        const { rowCount } = await prepared(withPgClient, {
          name: 'settle',
          text: SETTLE,
          values: [webhookId, Math.round(performance.now() - startedAt)],
        })
        if (rowCount !== 1) throw new Error(`webhook ${webhookId} was not pending`)
      },
      async [TASK.delivered](payload, { withPgClient }) {
        const startedAt = performance.now()
        const { integrationId, deliveryId, eventType, body, headers } = payload as DeliveredJob
        await prepared(withPgClient, {
          name: 'store',
          text: STORE_AS_PROCESSED,
          values: [integrationId, deliveryId, eventType, body, headers, Math.round(performance.now() - startedAt)],
        })
      },
    }
    const log = pino(
      { level: 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime },
      pino.destination({ fd: process.stdout.fd, sync: true }),
    )
    const levels = { error: 'error', warning: 'warn', info: 'info', debug: 'debug' } as const
    // The library's own lines, one a job, written as ours writes its own.
    runner = await startGraphile(
      options,
      taskList,
      (scope) => (level, message) => log[levels[level]]({ job: scope.jobId }, message),
    )
  },
}
export type GraphileCommands = typeof offered

answerParent(offered, async () => runner?.stop())
