/** What is said of a listing that failed by the provider. Rule: docs/commands.md, "sync". */
import { isIntegrationsError } from '../core/errors.ts'
import { classifyFailure, FailureClass } from '../core/failure-class.ts'
import { lostDatabase } from '../core/lost-database.ts'
import { Refused } from './failure.ts'

/**
 * An API that is away, or answers with a failure, in one line with its causes. Any other error stays as it is: ours have words
 * of their own, and of a mistake in the provider's code whoever writes it wants the stack.
 *
 * @param causes as the sample tells them; null: it failed before its listing
 */
export function listingFailure(error: unknown, causes: string | null): unknown {
  if (causes === null || lostDatabase(error) !== null) return error
  // Its words are the provider's, though its class is ours.
  const asksAgain = isIntegrationsError(error, 'retryable')
  if (!asksAgain) {
    if (isIntegrationsError(error)) return error
    if (classifyFailure({ error, callerAborted: false }) === FailureClass.Unknown) return error
  }
  return new Refused('listing_failed', `The provider failed while it was listed: ${causes}. Nothing was stored.`)
}
