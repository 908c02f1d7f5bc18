/**
 * Errors as Temporal keeps them. A history is read by people and kept for days: it gets the class, the code and a
 * redacted message, never a stack, a cause or a credential.
 */
import type { ApplicationFailure } from '@temporalio/activity'
import type { Duration } from '@temporalio/common'
import { isIntegrationsError } from '../framework/errors.ts'
import { redactedErrorLine, redactedMessage } from '../framework/redacted-error.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { sdk } from './surroundings.ts'

const MAX_MESSAGE_LENGTH = 1_000

/** A refusal with its own message, and its code as the type. */
export function asRefusal(error: unknown): ApplicationFailure {
  return failureOf({ message: redactedMessage(error, [], MAX_MESSAGE_LENGTH), type: typeOf(error), nonRetryable: true })
}

export function asFailure(
  error: unknown,
  { secrets, ...given }: { secrets: readonly string[] } & Omit<Parameters<typeof failureOf>[0], 'message' | 'type'>,
): ApplicationFailure {
  return failureOf({ message: redactedErrorLine(error, secrets, MAX_MESSAGE_LENGTH), type: typeOf(error), ...given })
}

function typeOf(error: unknown): string {
  if (isIntegrationsError(error)) return error.code
  return thrownTexts(error).name ?? 'Error'
}

/** A failure in our own words, without a stack. */
export function failureOf(words: {
  message: string
  type: string
  nonRetryable: boolean
  details?: unknown[]
  /** Of a failure that we have logged ourselves: the SDK writes no line of its own. */
  category?: 'BENIGN'
}): ApplicationFailure {
  const failure = sdk().ApplicationFailure.create(words)
  failure.stack = ''
  return failure
}

const NOT_ITS_TURN = 'not_its_turn'

/** A try that cannot run here and now. This is no fault: Temporal soon makes another try, without a limit on their number. */
export function notItsTurn(why: string, nextRetryDelay: Duration): Error {
  return sdk().ApplicationFailure.create({ message: why, type: NOT_ITS_TURN, nextRetryDelay, category: 'BENIGN' })
}

export function isNotItsTurn(error: unknown): boolean {
  return error instanceof sdk().ApplicationFailure && error.type === NOT_ITS_TURN
}
