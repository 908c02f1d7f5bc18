/** The command line's program as an activity. Rule: docs/behaviour/commands-as-workflows.md. */
import type { ApplicationFailure } from '@temporalio/activity'
import type { CommandAnswer, CommandRunner, RunCommandInput, RunCommandResult } from '../commands/command-jobs.ts'
import { COMMAND_EXIT } from '../commands/command-jobs.ts'
import { untilGivenUp } from '../framework/waiting.ts'
import { failureOf } from './activity-failures.ts'
import { keptAlive } from './heartbeat.ts'
import { MAX_RESULT_BYTES, sizeOf, tooLarge } from './result-size.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Notes are for people; a page of them is enough. */
const MAX_NOTES_LENGTH = 10_000
/** The columns that say who acted hold this; the ids of Temporal's workflows may be longer. */
const MAX_ACTOR_LENGTH = 255

export type CommandActivities = ReturnType<typeof commandActivities>

export function commandActivities(run: CommandRunner, surroundings = temporalSurroundings) {
  return {
    /**
     * May be run twice, after a lost worker: most commands set a state and are harmless a second time. A command that creates or
     * removes something then refuses.
     *
     * @throws ApplicationFailure with the code of the command line; only an unreachable backend is tried again
     */
    runCommand: keptAlive(async ({ command, input, workflowId }: RunCommandInput): Promise<RunCommandResult> => {
      const { cancellationSignal: signal } = surroundings()
      const givenUp = new AbortController()
      const call = { command, input, by: `workflow:${workflowId}`.slice(0, MAX_ACTOR_LENGTH), signal }
      const answer = await untilGivenUp(givenUp.signal, () => run(call))
      const { exitCode, document, notes } = answer
      // The command was interrupted and has not ended: its work stops at the next step. An operator's cancellation ends the activity;
      // a stopping worker leaves it to another one. A command that ended meanwhile has its own exit code.
      if (exitCode === COMMAND_EXIT.interrupted) {
        givenUp.abort(signal.reason)
        throw signal.reason
      }
      const bytes = sizeOf(document)
      if (exitCode !== COMMAND_EXIT.done) throw failedCommand(command, answer, bytes <= MAX_RESULT_BYTES)
      if (bytes > MAX_RESULT_BYTES) throw tooLarge(command, bytes)
      return { document, notes: fitting(notes) }
    }),
  }
}

function failedCommand(
  command: string,
  { exitCode, document, notes }: CommandAnswer,
  isDocumentKept: boolean,
): ApplicationFailure {
  const error = errorIn(document)
  const { message, type } =
    error === null
      ? { message: partFailed(command, notes, isDocumentKept), type: 'part_failed' }
      : { message: error.message, type: error.code }
  const nonRetryable = exitCode !== COMMAND_EXIT.unreachable
  return failureOf({ message, type, nonRetryable, ...(isDocumentKept ? { details: [document] } : {}) })
}

function partFailed(command: string, notes: readonly string[], isDocumentKept: boolean): string {
  const where = isDocumentKept
    ? 'the details of this failure hold its result'
    : 'its result is larger than a history takes; the command line prints it'
  return [`${command} is done, and a part of it failed: ${where}.`, ...fitting(notes)].join('\n')
}

/** As the command line prints a failure. */
function errorIn(document: unknown): { readonly code: string; readonly message: string } | null {
  if (typeof document !== 'object' || document === null || !('error' in document)) return null
  const { error } = document
  if (typeof error !== 'object' || error === null || !('code' in error) || !('message' in error)) return null
  return { code: String(error.code), message: String(error.message) }
}

function fitting(notes: readonly string[]): readonly string[] {
  return notes.join('').length <= MAX_NOTES_LENGTH ? notes : [`${notes.join('\n').slice(0, MAX_NOTES_LENGTH)} …`]
}
