/**
 * The work; when it has not ended within the limit, the error that `late` makes.
 *
 * Work that goes on can't be stopped from here: its signal is aborted, for work that listens, and its late result is dropped.
 */
export async function withTimeLimit<T>(
  seconds: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = late()
      // First, so that what the aborted work throws is too late to be the answer.
      reject(error)
      controller.abort(error)
    }, seconds * 1_000)
  })
  try {
    return await Promise.race([work(controller.signal), limit])
  } finally {
    clearTimeout(timer)
  }
}
