/**
 * The first step of a command that has a workflow of its own: a database that is away before anything was begun ends the
 * workflow, so that whoever waits for it is told. Code and Schedules start the same work without this step, and it waits.
 *
 * Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
import {
  ActivityFailure,
  ApplicationFailure,
  proxyActivities,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow'
import type { DatabaseCheckActivities } from '../activities/database-check.ts'
import { plainFailure } from './plain-failure.ts'
import { SIX_TRIES } from './run-command.ts'

const UNREACHABLE = 'backend_unreachable'

/**
 * A database that takes connections and answers nothing is away as well: six tries of 5 s and the waits between them make
 * 47 s. The time limit is that of one try, not of all: a busy worker may take up a try late.
 */
const { checkDatabase } = proxyActivities<DatabaseCheckActivities>({
  startToCloseTimeout: '10 seconds',
  retry: SIX_TRIES,
})

/** The same workflow behind the check. One that goes on in a new history has begun, and waits for the database as before. */
export function onceReachable<Input extends unknown[], Result>(
  workflow: (...input: Input) => Promise<Result>,
): (...input: Input) => Promise<Result> {
  return async (...input) => {
    const { continuedFromExecutionRunId } = workflowInfo()
    if (continuedFromExecutionRunId === undefined) await reach()
    return workflow(...input)
  }
}

async function reach(): Promise<void> {
  try {
    await checkDatabase()
  } catch (error) {
    const why = error instanceof ActivityFailure ? reasonOf(error.cause) : null
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
