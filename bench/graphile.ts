/** graphile-worker as a peer: 24 jobs at once, as it comes or tuned. A job is one prepared statement over its own pool. */
import type { Runner, TaskList, WithPgClient } from 'graphile-worker'
import { Logger, run } from 'graphile-worker'

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

/** The best of those that were tried; docs/performance.md has them. */
export const TUNED: Tuning = { localQueueSize: 500, completeDelayMs: 0 }

const CONCURRENCY = 24

/** @param tunedLog where the tuned one writes; its console logger formats each line for a terminal */
export function startGraphile(
  { databaseUrl, schema, tuning }: GraphileOptions,
  taskList: TaskList,
  tunedLog: LogFunction,
): Promise<Runner> {
  return run({
    connectionString: databaseUrl,
    schema,
    noHandleSignals: true,
    taskList,
    ...(tuning === null ? {} : { logger: new Logger(tunedLog) }),
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
}

type LogFunction = ConstructorParameters<typeof Logger>[0]

export interface Statement {
  /** A statement with a name is prepared once per connection. */
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

export function prepared(withPgClient: WithPgClient, statement: Statement) {
  return withPgClient((client) => client.query(statement))
}
