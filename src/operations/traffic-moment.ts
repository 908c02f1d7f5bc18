import { systemClock } from '../core/logger.ts'
import type { Framework } from '../framework.ts'

/** By which clock rows of the request log are chosen: the one that dated them. Null: the database's. */
export function momentOf({ clock }: Framework): number | null {
  return clock === systemClock ? null : clock.now().getTime()
}
