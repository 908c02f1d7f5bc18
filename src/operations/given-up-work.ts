/**
 * A command that a worker has given up: cancelled, or its worker stops, and it had its time to end. Long work looks here between
 * two statements, so that it does not go on behind whoever asked. Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const work = new AsyncLocalStorage<AbortSignal>()

/** Runs work that may be given up. */
export function untilGivenUp<T>(givenUp: AbortSignal, run: () => Promise<T>): Promise<T> {
  return work.run(givenUp, run)
}

/** @throws why it was given up; outside of such work nothing is */
export function throwIfGivenUp(): void {
  work.getStore()?.throwIfAborted()
}
