import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow'
import { codeOf, remedyFor } from '../core/remedies.ts'
import { plainFailure } from './plain-failure.ts'

/**
 * Runs what a workflow consists of. An activity's failure ends the workflow with the activity's own words and the command that
 * mends it, in place of Temporal's "Activity task failed", under which a reader would have to look for them.
 *
 * Rule: docs/behaviour/workflows.md, "Failures".
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
      // An error of ours that was thrown as it is has its class for a type.
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

/**
 * The message as a sentence, and what mends it unless the message names a command already.
 *
 * @param integrationId for a command that takes it, where it is known
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
