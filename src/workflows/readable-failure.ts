/**
 * A workflow's failure in words that help: the activity's own message, and the command that mends it.
 *
 * Rule: docs/behaviour/workflows.md, "Failures".
 */
import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow'
import { codeOf, remedyFor } from '../framework/remedies.ts'

/**
 * Runs `work`. When an activity fails, the workflow fails with the activity's message and its remedy, in place of Temporal's
 * "Activity task failed", which hides both one level deeper.
 */
export async function readably<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw readable(error)
  }
}

function readable(error: unknown): unknown {
  if (!(error instanceof ActivityFailure) || isCancellation(error)) return error
  const { activityType, cause } = error
  if (cause instanceof ApplicationFailure)
    return plainFailure({
      message: withRemedy(cause.message, cause.type ?? ''),
      // The type of an error of ours that was thrown unconverted is its class name.
      ...(cause.type == null ? {} : { type: remedyFor(cause.type) === '' ? cause.type : codeOf(cause.type) }),
      ...(cause.details == null ? {} : { details: cause.details }),
      nonRetryable: cause.nonRetryable === true,
      cause,
    })
  const why = cause instanceof TimeoutFailure ? 'did not end in time' : 'failed'
  return plainFailure({
    message: `The activity ${activityType} ${why}: ${cause?.message ?? error.message}. \`integrations doctor\` says what is wrong around it; then start this workflow again.`,
    type: 'ActivityGivenUp',
    cause: error,
  })
}

/** A failure without a stack: the stack would be one of the bundle, and the history would keep it. */
export function plainFailure(words: Parameters<typeof ApplicationFailure.create>[0]): ApplicationFailure {
  const failure = ApplicationFailure.create(words)
  failure.stack = ''
  return failure
}

/**
 * The message as a sentence, with the remedy of its type unless the message names a command already.
 *
 * @param integrationId for a remedy whose command takes it, where it is known
 */
export function withRemedy(message: string, type: string, integrationId?: number): string {
  const general = remedyFor(type)
  const remedy = integrationId === undefined ? general : general.replace(/\bID\b/, String(integrationId))
  const isEnough = remedy === '' || /`integrations [a-z]/.test(message)
  return isEnough ? sentence(message) : `${sentence(message)} ${remedy}`
}

function sentence(message: string): string {
  return /[.!?]$/.test(message) ? message : `${message}.`
}
