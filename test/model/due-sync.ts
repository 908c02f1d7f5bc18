/**
 * A model of when an integration's next run is due. The product decides in SQL (src/syncs/due.ts);
 * test/activities/sync-dispatch.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/sync-scheduling.md, "Due" and "Waiting for health".
 */
import type { HealthStatus } from '../../src/integrations/rules.ts'
import type { HealthBackoff } from '../../src/syncs/due.ts'

export interface SyncPlan {
  readonly isActive: boolean
  readonly health: HealthStatus
  /** The integration's own. */
  readonly intervalMinutes: number | null
  /** The provider's; null also when the provider is unknown or can't sync. */
  readonly defaultIntervalMinutes: number | null
  /** Null: never planned. */
  readonly nextSyncAt: Date | null
  /** End of the last clean run. */
  readonly lastSyncedAt: Date | null
  /** End of the last run that was finalised, clean or not. */
  readonly lastRunEndedAt: Date | null
}

/** Null: no time makes it due. An instant that is reached counts. */
export function dueFrom(plan: SyncPlan, backoff: HealthBackoff): Date | null {
  const interval = plan.intervalMinutes ?? plan.defaultIntervalMinutes
  if (!plan.isActive || interval === null || plan.health === 'disabled') return null
  // Failure backoff is in `nextSyncAt` already: the two are not multiplied, the later governs.
  return later(plan.nextSyncAt, healthWaitEnd(plan, interval, backoff)) ?? ALWAYS
}

/** Until then an unhealthy integration is left alone; null: nothing to wait for. */
function healthWaitEnd(
  { health, lastSyncedAt, lastRunEndedAt }: Pick<SyncPlan, 'health' | 'lastSyncedAt' | 'lastRunEndedAt'>,
  intervalMinutes: number,
  backoff: HealthBackoff,
): Date | null {
  if (health !== 'degraded' && health !== 'failing') return null
  const since = later(lastSyncedAt, lastRunEndedAt)
  if (since === null) return null
  return new Date(since.getTime() + Math.min(intervalMinutes * backoff[health] * 60_000, LONGEST_WAIT_MS))
}

const ALWAYS = new Date(0)
/** A hundred years: a moment that a `Date` and Postgres can hold. */
const LONGEST_WAIT_MS = 3_155_760_000_000

function later(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other
  return one > other ? one : other
}
