/**
 * The work, or `error` when it has not ended within the limit. Work that goes on is not stopped; its late result is dropped.
 */
export async function withTimeLimit<T>(seconds: number, error: Error, work: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(error), seconds * 1_000)
  })
  try {
    return await Promise.race([work(), limit])
  } finally {
    clearTimeout(timer)
  }
}
