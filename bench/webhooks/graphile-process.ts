/**
 * graphile-worker with 24 jobs at once, as it comes or tuning.
 *
 * Both do a job in one prepared statement over the library's own pool: what settles the row and the row of the log that a
 * user would keep of it.
 */
import type { Runner, WithPgClient } from 'graphile-worker'
import { Logger, run } from 'graphile-worker'
import { pino } from 'pino'
import { answerParent } from '../child.ts'
import type { DeliveredJob, StoredJob } from './graphile-jobs.ts'
import { TASK } from './graphile-jobs.ts'
import { SETTLE, STORE_AS_PROCESSED } from './peer-statements.ts'

export interface GraphileOptions {
  readonly databaseUrl: string
  readonly schema: string
  /** Null: as it comes. */
  readonly tuning: Tuning | null
}

export interface Tuning {
  readonly localQueueSize: number
  readonly completeDelayMs: number
}

const CONCURRENCY = 24

let runner: Runner | undefined

const offered = {
  async start({ databaseUrl, schema, tuning }: GraphileOptions): Promise<void> {
    runner = await run({
      connectionString: databaseUrl,
      schema,
      noHandleSignals: true,
      taskList: {
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
      },
      ...(tuning === null ? {} : { logger: pinoLogger() }),
      preset: {
        worker: {
          concurrentJobs: CONCURRENCY,
          // As it advises; with fewer it warns at its start.
          maxPoolSize: CONCURRENCY + 2,
          ...(tuning === null
            ? {}
            : {
                localQueue: { size: tuning.localQueueSize },
                completeJobBatchDelay: tuning.completeDelayMs,
                failJobBatchDelay: tuning.completeDelayMs,
              }),
        },
      },
    })
  },
}
export type GraphileCommands = typeof offered

interface Statement {
  /** A statement with a name is prepared once per connection. */
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

function prepared(withPgClient: WithPgClient, statement: Statement) {
  return withPgClient((client) => client.query(statement))
}

/** The library's own lines, one a job, written as ours writes its own: its console logger formats each for a terminal. */
function pinoLogger(): Logger {
  const log = pino(
    { level: 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: process.stdout.fd, sync: true }),
  )
  const levels = { error: 'error', warning: 'warn', info: 'info', debug: 'debug' } as const
  return new Logger((scope) => (level, message) => log[levels[level]]({ job: scope.jobId }, message))
}

answerParent(offered, async () => runner?.stop())
