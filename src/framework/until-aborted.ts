import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * The end of the work, or the signal's reason as soon as it is aborted.
 *
 * For a host's code that may never end: it can't be stopped from here, and what becomes of it later is dropped.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(signal.reason as Error)
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
  })
}

/** What somebody lists, one at a time, until the signal is aborted: then nobody waits for a listing that does not listen to it. */
export async function* listedUntilAborted<T>(listed: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = listed[Symbol.asyncIterator]()
  let isOver = false
  try {
    for (;;) {
      const next = await untilAborted(iterator.next(), signal)
      if (next.done === true) {
        isOver = true
        return
      }
      yield next.value
    }
  } catch (error) {
    // One that threw is over; one that goes on is not.
    isOver = !signal.aborted
    throw error
  } finally {
    const closed = isOver ? undefined : iterator.return?.()
    // A generator closes when its call has ended, which may be never.
    if (signal.aborted) closed?.catch(() => {})
    else if (closed !== undefined) await untilAborted(closed, signal)
  }
}

/**
 * A command that its worker has given up: it was cancelled or the worker stops, and its time to end is over. Long work looks here
 * between two statements, so that it does not go on behind its caller. Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
const givenUpWork = new AsyncLocalStorage<AbortSignal>()

/** Runs work that may be given up. */
export function untilGivenUp<T>(givenUp: AbortSignal, run: () => Promise<T>): Promise<T> {
  return givenUpWork.run(givenUp, run)
}

/** @throws why the work was given up. Outside of {@link untilGivenUp} it never throws */
export function throwIfGivenUp(): void {
  givenUpWork.getStore()?.throwIfAborted()
}
