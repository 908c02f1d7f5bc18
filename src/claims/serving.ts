/** Says in the database that the holder of a claim lives. Rule: docs/behaviour/webhooks.md, "Claims". */
import { randomUUID } from 'node:crypto'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'

/** How often it says so, and for how long that counts. */
export const SAY_EVERY_MS = 5_000
export const SILENCE_SECONDS = 20

/** @returns ends it; null: another holder of the claim lives */
export async function serving({ cache, logger }: Framework, claim: string): Promise<(() => Promise<void>) | null> {
  const owner = randomUUID()
  const take = (): Promise<boolean> => cache.acquire(claim, owner, SILENCE_SECONDS)
  if (!(await take())) return null
  const say = async (): Promise<void> => {
    try {
      // The claim has lapsed, and no other holder has taken it.
      if (!(await cache.extend(claim, owner, SILENCE_SECONDS))) await take()
    } catch (error) {
      logger.warn(
        { event: 'database.retried', error: errorLine(error, 300) },
        'a claim could not be renewed; it is tried again',
      )
    }
  }
  const timer = setInterval(() => void say(), SAY_EVERY_MS)
  return async () => {
    clearInterval(timer)
    await cache.release(claim, owner).catch(() => {})
  }
}
