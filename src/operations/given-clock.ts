import { systemClock } from '../core/logger.ts'
import type { Framework } from '../framework.ts'

/**
 * The moment by the clock that a host gave, in milliseconds since the epoch; null: it gave none, and the database's judges
 * the rows.
 */
export function givenNowMs({ clock }: Pick<Framework, 'clock'>): number | null {
  return clock === systemClock ? null : clock.now().getTime()
}
