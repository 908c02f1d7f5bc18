/** What came of a piece of the provider's work, and how the suite speaks of it. */
import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import { errorLine } from '../../framework/logger.ts'

const MAX_LENGTH = 300

export type Outcome<T> =
  | { readonly kind: 'gave'; readonly value: T }
  | { readonly kind: 'threw'; readonly error: unknown }

/** Work that did not end: neither an answer nor a throw, whatever was expected of it. */
export class DidNotEnd extends AssertionError {
  constructor(what: string, patienceSeconds: number) {
    super({ message: `${what} did not end within ${patienceSeconds} s` })
  }
}

/** @throws DidNotEnd, which no expected failure stands for */
export async function outcomeOf<T>(work: () => T | Promise<T>): Promise<Outcome<T>> {
  try {
    return { kind: 'gave', value: await work() }
  } catch (error) {
    if (error instanceof DidNotEnd) throw error
    return { kind: 'threw', error }
  }
}

/** Of what must answer at once: a promise is an answer like any other. */
export function given<T>(work: () => T): Outcome<T> {
  try {
    return { kind: 'gave', value: work() }
  } catch (error) {
    return { kind: 'threw', error }
  }
}

/** `gave 7`, `threw TypeError: …`. */
export function wordsFor(outcome: Outcome<unknown>): string {
  return outcome.kind === 'gave' ? `gave ${shown(outcome.value)}` : `threw ${errorLine(outcome.error, MAX_LENGTH)}`
}

export function shown(value: unknown): string {
  const text = inspect(value, { depth: 4, breakLength: Number.POSITIVE_INFINITY, compact: true })
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}
