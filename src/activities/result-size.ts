/** How large a command's result may be. Rule: docs/behaviour/commands-as-workflows.md, "Result". */
import type { ApplicationFailure } from '@temporalio/activity'
import { failureOf } from './activity-failures.ts'

/** Half of Temporal's limit for a payload: https://docs.temporal.io/cloud/limits#per-message-grpc-limit */
export const MAX_RESULT_BYTES = 1_000_000

/** In bytes of JSON. */
export function sizeOf(result: unknown): number {
  return Buffer.byteLength(JSON.stringify(result) ?? 'null')
}

/**
 * The same result. The server refuses one that is larger than it takes as a fault that may pass, so its activity would be
 * tried again for ever.
 *
 * @throws ApplicationFailure `result_too_large`
 */
export function fittingResult<Result>(command: string, result: Result): Result {
  const bytes = sizeOf(result)
  if (bytes > MAX_RESULT_BYTES) throw tooLarge(command, bytes)
  return result
}

export function tooLarge(command: string, bytes: number): ApplicationFailure {
  const message =
    `The result of ${command} has ${bytes} bytes; a workflow's has at most ${MAX_RESULT_BYTES}. Ask for less, by "limit" or by what chooses, ` +
    'or use the command line. If it was to change something, it has.'
  return failureOf({ message, type: 'result_too_large', nonRetryable: true })
}
