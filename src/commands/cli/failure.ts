/** What a failed command says and ends with. Rule: docs/commands.md, "Exit codes". */
import { CommanderError } from 'commander'
import { classifyFailure, FailureClass } from '../../calls/failure-class-rules.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import { lostDatabase } from '../../framework/lost-database.ts'
import { COMMAND_EXIT } from '../command-jobs.ts'
import { Refused } from '../refused.ts'

/** Somebody pressed Ctrl-C, or broke a question off. */
export class Interrupted extends Error {
  readonly code = 'interrupted'
  constructor() {
    super('Interrupted.')
  }
}

/** What `--json` prints of a failure. */
export interface FailureDocument {
  readonly error: { readonly code: string; readonly message: string; readonly problems?: readonly unknown[] }
}

export interface Failure {
  readonly exitCode: number
  readonly document: FailureDocument
  /** For people; a stack only for what is no error of ours. */
  readonly text: string
}

export function failureOf(error: unknown): Failure {
  if (error instanceof Interrupted) return failure(COMMAND_EXIT.interrupted, error.code, error.message)
  if (error instanceof Refused) return failure(COMMAND_EXIT.refused, error.code, error.message)
  if (error instanceof CommanderError) return failure(COMMAND_EXIT.refused, 'usage', usageMessage(error))
  if (isIntegrationsError(error)) {
    const exitCode = isUnanswered(error) ? COMMAND_EXIT.unreachable : COMMAND_EXIT.refused
    return failure(exitCode, error.code, error.message, problemsOf(error))
  }
  const lost = lostDatabase(error)
  if (lost !== null) return failure(COMMAND_EXIT.unreachable, 'backend_unreachable', lostMessage(lost))
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error))
  return { ...failure(COMMAND_EXIT.refused, 'unexpected_error', `${name}: ${message}`), text: stack ?? message }
}

/** Temporal or the worker does not answer. */
export const isUnanswered = (error: unknown): error is Error =>
  isIntegrationsError(error, 'backend_unreachable') || isIntegrationsError(error, 'no_worker_answered')

function lostMessage(code: string): string {
  return `Postgres was lost while the command ran (${code}). What was done until then may stand; most commands can be run again. \`integrations doctor\` says whether it is back.`
}

function usageMessage({ code, message }: CommanderError): string {
  if (code === 'commander.help') return 'A command is missing. `integrations --help` lists them.'
  // What follows the equals sign of a mistyped option may be a credential.
  const shown = code === 'commander.unknownOption' ? message.replace(/('-[^=\n]*)=[\s\S]*?'(?=\n\(|$)/, "$1'") : message
  return shown.replace(/^error: /, '')
}

function failure(exitCode: number, code: string, message: string, problems: readonly unknown[] = []): Failure {
  return {
    exitCode,
    document: { error: { code, message, ...(problems.length === 0 ? {} : { problems }) } },
    text: message,
  }
}

/** Each fault of its own, where an error lists several. */
function problemsOf(error: object): readonly unknown[] {
  if ('problems' in error && Array.isArray(error.problems)) return error.problems
  if ('issues' in error && Array.isArray(error.issues)) return error.issues
  return []
}

/**
 * What the command says of a listing that failed. Rule: docs/commands.md, "sync".
 *
 * A provider that is away or answers with a failure: one line with the causes. Any other error stays as it is: our own errors have
 * their words, and the author of a provider wants the stack of a mistake.
 *
 * @param causes as the sample tells them; null: the command failed before the listing
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
