/** When the next run is due. Rule: docs/behaviour/sync-cursor.md, "Finalisation". */

import type { Transaction } from '../db/client.ts'
import { MAX_INTEGER } from '../db/schema/columns.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { recordRunTimes } from '../integrations/queries.ts'
import { defaultIntervals } from './due.ts'
import { effectiveIntervalMinutes, intervalMultiplier } from './run-rules.ts'

/** `cancelled` leaves the counter, and the next run comes after one interval. */
export type RunEnding = 'clean' | 'with failures' | 'cancelled'

/**
 * Writes the times and the counter of a run that ends, under the lock of its integration.
 *
 * @param row as it was locked
 * @param cursor undefined: it stays
 */
export async function planNext(
  framework: Framework,
  tx: Transaction,
  row: IntegrationRow,
  ending: RunEnding,
  cursor?: Json,
): Promise<void> {
  const { config, tables } = framework
  const interval = effectiveIntervalMinutes(
    row.syncIntervalMinutes,
    defaultIntervals(framework).get(row.provider) ?? null,
  )
  const before = row.consecutiveSyncFailures
  const consecutiveFailures = { clean: 0, 'with failures': Math.min(before + 1, MAX_INTEGER), cancelled: before }[
    ending
  ]
  const multiplier =
    ending === 'cancelled' ? 1 : intervalMultiplier(consecutiveFailures, config.sync.failure_backoff_max_multiplier)
  await recordRunTimes(tx, tables, row.id, {
    clean: ending === 'clean',
    consecutiveFailures,
    intervalMinutes: interval === null ? null : interval * multiplier,
    ...(cursor === undefined ? {} : { cursor }),
  })
}
