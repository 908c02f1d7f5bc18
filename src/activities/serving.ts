/** Says in the database that the holder of a claim lives, for as long as it does. Rule: docs/behaviour/webhooks.md, "Claims". */
import { errorLine } from '../core/logger.ts'
import type { LeaseOf } from '../db/queries/pump-claims.ts'
import { endClaim, keepClaim } from '../db/queries/pump-claims.ts'
import type { Framework } from '../framework.ts'

/** How often it says so, and for how long that counts. */
export const SAY_EVERY_MS = 5_000
export const SILENCE_SECONDS = 20

/** @returns ends it */
export function serving({ db, tables, logger }: Framework, lease: LeaseOf): () => Promise<void> {
  const say = async (): Promise<void> => {
    try {
      await keepClaim(db, tables, lease, SILENCE_SECONDS)
    } catch (error) {
      logger.warn(
        { event: 'database.retried', error: errorLine(error, 300) },
        'a claim could not be renewed; it is tried again',
      )
    }
  }
  const first = say()
  const timer = setInterval(() => void say(), SAY_EVERY_MS)
  return async () => {
    clearInterval(timer)
    await first
    await endClaim(db, tables, lease).catch(() => {})
  }
}
