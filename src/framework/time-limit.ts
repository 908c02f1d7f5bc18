/** Nearly 25 days; what is longer is taken for 1 ms: https://nodejs.org/api/timers.html#settimeoutcallback-delay-args */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/**
 * The work; when it has not ended within the limit, the error that `late` makes; when `enough` is aborted first, its reason.
 *
 * Work that goes on can't be stopped from here: its signal is aborted, for work that listens, and its late result is dropped.
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
    stop = () => end(enough?.reason)
    enough?.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work(controller.signal), limit])
  } finally {
    clearTimeout(timer)
    enough?.removeEventListener('abort', stop)
  }
}
