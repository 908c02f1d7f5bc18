/** What is said of a listing that failed by the provider. Rule: docs/commands.md, "sync". */
import { isIntegrationsError } from '../core/errors.ts'
import { classifyFailure, errorChain, FailureClass } from '../core/failure-class.ts'
import { lostDatabase } from '../core/lost-database.ts'
import { redactLikely, redactText, secretsOf } from '../core/redaction.ts'
import { Refused } from './failure.ts'

/** Of a command that a worker runs it ends up in a history: docs/behaviour/errors.md, "Temporal". */
const MAX_LENGTH = 1_000

/**
 * An API that is away, or answers with a failure, in one line with its causes. Any other error stays as it is: ours have words
 * of their own, and of a mistake in the provider's code whoever writes it wants the stack.
 *
 * @param credentials what the line must not hold
 */
export async function listingFailure(error: unknown, credentials: () => Promise<unknown>): Promise<unknown> {
  if (isIntegrationsError(error) || lostDatabase(error) !== null) return error
  if (classifyFailure({ error, callerAborted: false }) === FailureClass.Unknown) return error
  // Cut when it is redacted: half a secret at the cut would not be known.
  const causes = redactLikely(redactText(causesOf(error), secretsOf(await credentials()))).slice(0, MAX_LENGTH)
  return new Refused('listing_failed', `The provider failed while it was listed: ${causes}. Nothing was stored.`)
}

/** `TypeError: fetch failed, by Error: connect ECONNREFUSED 127.0.0.1:9`. */
function causesOf(error: unknown): string {
  return [...new Set(errorChain(error).map(lineOf))].join(', by ')
}

function lineOf(link: object): string {
  const { name, message, code } = link as {
    readonly name?: unknown
    readonly message?: unknown
    readonly code?: unknown
  }
  // Of several addresses that were refused Node's AggregateError has no message, only their code.
  const text = [message, code].find((each) => typeof each === 'string' && each !== '')
  return [name, text]
    .filter((part) => typeof part === 'string')
    .join(': ')
    .replace(/\s*\n\s*/g, ' ')
}
