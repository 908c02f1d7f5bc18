/** Waiting for work, within a limit: a time, a signal, or patience with a database that is away. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from './logger.ts'
import { errorLine } from './logger.ts'

/** Nearly 25 days. Node takes a longer timer for 1 ms: https://nodejs.org/api/timers.html#settimeoutcallback-delay-args */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/**
 * The result of the work. Rejects with the error of `late` when the time is over, and with the reason of `enough` when that is aborted.
 *
 * The work can't be stopped from here. Its signal is aborted, for work that listens, and a late result is dropped.
 *
 * @param late makes the error when it is needed: its stack is costly, and most work ends in time
 */
export async function withTimeLimit<T>(
  seconds: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
  enough?: AbortSignal,
): Promise<T> {
  if (enough?.aborted === true) throw enough.reason
  const controller = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let stop = (): void => {}
  const limit = new Promise<never>((_, reject) => {
    const end = (error: unknown): void => {
      // First, so that what the aborted work throws is too late to be the answer.
      reject(error)
      controller.abort(error)
    }
    timer = setTimeout(() => end(late()), Math.min(seconds * 1_000, LONGEST_TIMER_MS))
    if (enough === undefined) return
    stop = () => end(enough.reason)
    mayHaveManyListeners(enough)
    enough.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work(controller.signal), limit])
  } finally {
    clearTimeout(timer)
    enough?.removeEventListener('abort', stop)
  }
}

/**
 * The result of the work, or the signal's reason as soon as it is aborted.
 *
 * For code of a host that may never end: it can't be stopped from here, and a late result is dropped.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(signal.reason as Error)
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
  })
}

/** What the promise gives; null once the time is over. A late result is dropped. */
export async function inTime<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null)
  })
  try {
    return await Promise.race([promise, over])
  } finally {
    clearTimeout(timer)
  }
}

/** The listed values, one at a time, until the signal is aborted: also when the listing itself does not listen to the signal. */
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
    // A listing that threw is over. One that was only aborted is not.
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
 * A signal that is aborted with the first of the two, until it is released. Undefined when both are.
 *
 * Of one signal it is that signal: most callers have no other, and a controller is costly. `AbortSignal.any()` would gather memory
 * on a signal that outlives many calls (https://github.com/nodejs/node/issues/55351).
 */
export function eitherSignal(
  first: AbortSignal | undefined,
  second: AbortSignal | undefined,
): { readonly either: AbortSignal | undefined; readonly release: () => void } {
  const signals = [first, second].filter((signal) => signal !== undefined)
  for (const signal of signals) mayHaveManyListeners(signal)
  if (signals.length < 2) return { either: signals[0], release: () => {} }
  const controller = new AbortController()
  const releases = signals.map((signal) => {
    const follow = (): void => controller.abort(signal.reason)
    if (signal.aborted) follow()
    signal.addEventListener('abort', follow, { once: true })
    return () => signal.removeEventListener('abort', follow)
  })
  return {
    either: controller.signal,
    release: () => {
      for (const release of releases) release()
    },
  }
}

/** Many calls at once may share a signal. Node takes more than ten listeners for a leak. */
function mayHaveManyListeners(signal: AbortSignal): void {
  setMaxListeners(0, signal)
}

/** Sleeps until the time is over or one of the signals is aborted. @returns whether the whole time has passed */
export async function pause(ms: number, first?: AbortSignal, second?: AbortSignal): Promise<boolean> {
  const { either, release } = eitherSignal(first, second)
  try {
    await sleep(ms, undefined, either === undefined ? {} : { signal: either })
    return true
  } catch (error) {
    if (either?.aborted === true) return false
    throw error
  } finally {
    release()
  }
}

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000

/**
 * Does the work again until it succeeds. For statements around a handler: when Postgres is away for a moment, no row may fail
 * and no handler may run again.
 *
 * @throws the last error, once the signal is aborted
 */
export async function patiently<T>(
  what: string,
  work: () => Promise<T>,
  { signal, logger }: { signal: AbortSignal; logger: Logger },
): Promise<T> {
  for (let wait = FIRST_RETRY_MS; ; wait = Math.min(wait * 2, LAST_RETRY_MS))
    try {
      return await work()
    } catch (error) {
      if (signal.aborted) throw error
      logger.warn({ event: 'database.retried', error: errorLine(error, 300) }, `${what} failed; it is tried again`)
      await sleep(wait, undefined, { signal }).catch(() => {})
    }
}

/**
 * Aborted when a command's caller has given it up: it was cancelled, or the worker stops, and its time to end is over. Long work looks
 * here between two statements, so that it does not go on behind its caller. Rule: docs/behaviour/commands-as-workflows.md, "Result".
 */
const givenUpWork = new AsyncLocalStorage<AbortSignal>()

/** Runs work that may be given up. */
export function untilGivenUp<T>(givenUp: AbortSignal, run: () => Promise<T>): Promise<T> {
  return givenUpWork.run(givenUp, run)
}

/** @throws the reason with which the work was given up. Outside of {@link untilGivenUp} it never throws */
export function throwIfGivenUp(): void {
  givenUpWork.getStore()?.throwIfAborted()
}
