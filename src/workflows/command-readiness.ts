/**
 * The first step of a command that has a workflow of its own: a database that is away before anything was begun ends the
 * workflow, so that whoever waits for it is told. Code and Schedules start the same work without this step, and it waits.
 *
 * Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
import {
  ActivityFailure,
  ApplicationFailure,
  patched,
  proxyLocalActivities,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow'
import type { DatabaseCheckActivities } from '../activities/database-check.ts'
import { plainFailure } from './plain-failure.ts'
import { SIX_TRIES } from './run-command.ts'

const UNREACHABLE = 'backend_unreachable'

/**
 * Local: one marker in the history, and never asked of a worker of a release that does not know it. A database that takes
 * connections and answers nothing is away as well: the time is that of all tries together.
 */
const { checkDatabase } = proxyLocalActivities<DatabaseCheckActivities>({
  scheduleToCloseTimeout: '45 seconds',
  // Each wait is a durable timer: none holds up the worker.
  localRetryThreshold: '100 milliseconds',
  retry: SIX_TRIES,
})

/** The same workflow behind the check. One that goes on in a new history has begun, and waits for the database as before. */
export function onceReachable<Input extends unknown[], Result>(
  workflow: (...input: Input) => Promise<Result>,
): (...input: Input) => Promise<Result> {
  return async (...input) => {
    const { continuedFromExecutionRunId } = workflowInfo()
    // Releases before the patch began at once, and waited until the database was back.
    if (continuedFromExecutionRunId === undefined && patched('database-first')) await reach()
    return workflow(...input)
  }
}

async function reach(): Promise<void> {
  try {
    await checkDatabase()
  } catch (error) {
    // Of a local activity the failure may come as it is.
    const why = reasonOf(error instanceof ActivityFailure ? error.cause : error)
    if (why === null) throw error
    const message = `${why} Nothing has been begun: start it again once Postgres is back.`
    throw plainFailure({
      message,
      type: UNREACHABLE,
      details: [{ error: { code: UNREACHABLE, message } }],
      nonRetryable: true,
    })
  }
}

/** Null: it was cancelled. */
function reasonOf(cause: unknown): string | null {
  if (cause instanceof ApplicationFailure) return cause.message
  return cause instanceof TimeoutFailure ? 'Postgres did not answer in time.' : null
}
