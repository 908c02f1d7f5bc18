import {
  ActivityFailure,
  ApplicationFailure,
  log,
  proxyActivities,
  setCurrentDetails,
  workflowInfo,
} from '@temporalio/workflow'
import type { CommandActivities } from '../activities/commands.ts'
import type { RunCommandInput, RunCommandResult } from '../core/command-jobs.ts'
import { pass } from './activity-options.ts'
import { plainFailure } from './plain-failure.ts'
import { readably } from './readable-failure.ts'

/** Tried again where a backend is away or a worker was lost: the waits between six tries make some 20 s. */
export const SIX_TRIES = {
  initialInterval: '1 second',
  backoffCoefficient: 2,
  maximumInterval: '5 seconds',
  maximumAttempts: 6,
} as const

const { runCommand } = proxyActivities<CommandActivities>({ ...pass, retry: SIX_TRIES })

const TYPE_PREFIX = 'integrations:'

/**
 * A command that the command line's own program runs, inside a worker. The type that it was started under says which:
 * `integrations:circuit` is `circuit`.
 *
 * Durable promise: it is run by some worker, its result is the document of `--json`, and a refusal fails the workflow with
 * the words and the code of the command line. A worker that dies with it has another one run it again. One activity, so its
 * history is short; what a terminal would be warned of stands in the workflow's details.
 */
export async function runProgramCommand(input?: unknown): Promise<unknown> {
  const { workflowType, workflowId } = workflowInfo()
  const command = workflowType.slice(TYPE_PREFIX.length)
  const { document, notes } = await readably(() => answered({ command, input: input ?? {}, workflowId }))
  if (notes.length > 0) {
    setCurrentDetails(notes.join('\n\n'))
    log.warn('a command has something to say', { event: 'command.noted', command, notes })
  }
  return document
}

/**
 * A refusal in the words of the command line, which name what helps. Without the activity's failure as its cause: that would
 * hold the document, which may be large, a second time.
 */
async function answered(asked: RunCommandInput): Promise<RunCommandResult> {
  try {
    return await runCommand(asked)
  } catch (error) {
    if (!(error instanceof ActivityFailure) || !(error.cause instanceof ApplicationFailure)) throw error
    const { message, type, details } = error.cause
    throw plainFailure({
      message,
      ...(type ? { type } : {}),
      ...(details ? { details } : {}),
      nonRetryable: true,
    })
  }
}
