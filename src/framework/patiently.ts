import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from './logger.ts'
import { errorLine } from './logger.ts'

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000

/**
 * Does the work again until it succeeds. For statements around a handler: that Postgres is away for a moment must neither
 * fail a row nor make a handler run again.
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
