/** When integrations are due, as configuration and providers say. Rule: docs/behaviour/sync-scheduling.md, "Due". */

import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { hasScheduledSync } from '../providers/contracts.ts'
import type { DueRule } from './due-queries.ts'

/** What an integration's own may be at most: the column is an integer. */
const MAX_MINUTES = 2_147_483_647

export function dueRule(framework: Framework): DueRule {
  const { degraded_backoff: degraded, failing_backoff: failing } = framework.config.health
  return { intervals: defaultIntervals(framework), backoff: { degraded, failing } }
}

/** Minutes by identifier, of the providers that can sync; null: only by hand, or not to be had. */
export function defaultIntervals(
  framework: Pick<Framework, 'providers' | 'logger'>,
): ReadonlyMap<string, number | null> {
  return new Map([...declaredIntervals(framework)].map(([key, minutes]) => [key, minutes ?? null]))
}

/** The same; undefined is what a provider fails to say: nothing may be concluded from it. */
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
      // One provider's mistake must not keep the others' integrations from running; those with an interval of their own run too.
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
  if (minutes === null || (typeof minutes === 'number' && minutes >= 1 && minutes <= MAX_MINUTES)) return minutes
  throw new RangeError(
    `defaultSyncInterval() gives minutes from 1 to ${MAX_MINUTES}, or null; ${String(minutes)} was given`,
  )
}
