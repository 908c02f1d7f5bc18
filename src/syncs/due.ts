/** When integrations are due, as configuration and providers say. Rule: docs/behaviour/sync-scheduling.md, "Due". */

import type { Transaction } from '../db/client.ts'
import { MAX_INTEGER } from '../db/schema/columns.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { errorLine } from '../framework/logger.ts'
import { recordRunTimes } from '../integrations/queries.ts'
import { hasScheduledSync } from '../providers/contracts.ts'
import type { DueRule } from './due-queries.ts'
import { intervalMultiplier } from './run-rules.ts'

export function dueRule(framework: Framework): DueRule {
  const { degraded_backoff: degraded, failing_backoff: failing } = framework.config.health
  return { intervals: defaultIntervals(framework), backoff: { degraded, failing } }
}

/**
 * Default minutes of the providers that can sync, by their identifier. Null: its integrations run only by hand, also where the
 * provider fails to say.
 */
export function defaultIntervals(
  framework: Pick<Framework, 'providers' | 'logger'>,
): ReadonlyMap<string, number | null> {
  return new Map([...declaredIntervals(framework)].map(([key, minutes]) => [key, minutes ?? null]))
}

/** The same. Undefined: the provider fails to say, so nothing follows from it. */
export function declaredIntervals({
  providers,
  logger,
}: Pick<Framework, 'providers' | 'logger'>): ReadonlyMap<string, number | null | undefined> {
  const intervals = new Map<string, number | null | undefined>()
  for (const [key, provider] of providers.entries()) {
    if (!hasScheduledSync(provider)) continue
    try {
      intervals.set(key, checked(provider.defaultSyncInterval?.() ?? null))
    } catch (error) {
      // One provider's mistake must not stop the integrations of others, nor those with an interval of their own.
      intervals.set(key, undefined)
      logger.error(
        { event: 'sync.interval_unusable', provider: key, error: errorLine(error, 300) },
        'the default interval of a provider can not be used; its integrations run by hand, or by an interval of their own',
      )
    }
  }
  return intervals
}

function checked(minutes: unknown): number | null {
  // The column of an integration's own interval holds no more.
  if (minutes === null || (typeof minutes === 'number' && minutes >= 1 && minutes <= MAX_INTEGER)) return minutes
  throw new RangeError(
    `defaultSyncInterval() gives minutes from 1 to ${MAX_INTEGER}, or null; ${String(minutes)} was given`,
  )
}

/** `cancelled` leaves the counter, and the next run comes after one interval. */
export type RunEnding = 'clean' | 'with failures' | 'cancelled'

/**
 * Writes the times and the counter of a run that ends, under the lock of its integration.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Finalisation".
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
  const interval = row.syncIntervalMinutes ?? defaultIntervals(framework).get(row.provider) ?? null
  const before = row.consecutiveSyncFailures
  const counted = { clean: 0, 'with failures': Math.min(before + 1, MAX_INTEGER), cancelled: before }
  const consecutiveFailures = counted[ending]
  const multiplier =
    ending === 'cancelled' ? 1 : intervalMultiplier(consecutiveFailures, config.sync.failure_backoff_max_multiplier)
  await recordRunTimes(tx, tables, row.id, {
    clean: ending === 'clean',
    consecutiveFailures,
    intervalMinutes: interval === null ? null : interval * multiplier,
    ...(cursor === undefined ? {} : { cursor }),
  })
}
