/**
 * The edge at which a person starts a command's workflow. What was typed is no JSON object, or has a name too many: refused
 * before anything is done; the kinds of its fields are checked where they are used.
 *
 * Rule: docs/behaviour/commands-as-workflows.md.
 */
import { plainFailure } from './plain-failure.ts'

/** A workflow that a person starts: without an input it gets `{}`. */
export type Answering<Input, Carried extends unknown[], Result> = (
  input?: Input,
  ...carried: Carried
) => Promise<Result>

/** @param names those that the input may have */
export function answering<Input, Carried extends unknown[], Result>(
  workflow: (input: Input, ...carried: Carried) => Promise<Result>,
  names: readonly string[],
): Answering<Input, Carried, Result> {
  return async (input, ...carried) => {
    const given: unknown = input ?? {}
    const problem = problemOf(given, names)
    if (problem !== null) throw plainFailure({ message: problem, type: 'invalid_argument', nonRetryable: true })
    return workflow(given as Input, ...carried)
  }
}

/** A workflow that takes no input. */
export function answeringNothing<Result>(workflow: () => Promise<Result>): Answering<object, [], Result> {
  return answering<object, [], Result>(() => workflow(), [])
}

/** In the words of the activities, for a field that none of them checks. */
export function refuseUnlessCount(name: string, given: unknown): void {
  if (typeof given === 'number' && Number.isSafeInteger(given) && given >= 1) return
  const what = given === undefined ? 'nothing' : typeof given === 'number' ? String(given) : kindOf(given)
  throw plainFailure({
    message: `"${name}": a whole number of at least 1 is allowed, ${what} was given.`,
    type: 'invalid_argument',
    nonRetryable: true,
  })
}

/** Null: it is as it should be. */
function problemOf(given: unknown, names: readonly string[]): string | null {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return `The input is one JSON object${names[0] === undefined ? '' : ` of ${names.join(', ')}`}; ${kindOf(given)} was given.`
  const unknown = Object.keys(given).filter((name) => !names.includes(name))
  if (unknown.length === 0) return null
  const allowed = names.length === 0 ? 'This command takes no input' : `Allowed are ${names.join(', ')}`
  return `${allowed}; ${unknown.join(', ')} was given.`
}

function kindOf(given: unknown): string {
  return Array.isArray(given) ? 'a list' : `a ${typeof given}`
}
