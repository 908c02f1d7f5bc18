/** The table of what each configuration key changes: `effect()` writes a row of it, `OPEN` names what is still to come. */
import { it } from 'vitest'

/**
 * Keys whose meaning is not built yet, each with the issue that ends with an effect test in its place. That a link or the
 * doctor names such a key already is not its effect.
 */
export const OPEN: Readonly<Record<string, number>> = {
  'observability.anomaly_enabled': 9,
  'observability.anomaly_window_minutes': 9,
  'observability.anomaly_failure_rate_threshold': 9,
  'observability.anomaly_minimum_requests': 9,
  'pruning.requests_days': 9,
  'pruning.logs_days': 9,
  'pruning.idempotency_keys_days': 9,
  'pruning.sync_items_days': 9,
  'pruning.incidents_days': 9,
  'pruning.incidents_stale_after_days': 9,
  'pruning.chunk_size': 9,
  'pruning.webhooks_days': 9,
  'notifications.targets': 9,
  'metrics.open': 11,
  'metrics.port': 11,
}

/** Most end within a second or two. */
const TIMEOUT_MS = 30_000

/**
 * One key, two values, two behaviours. effects.test.ts finds the keys by reading these calls: the key is written out.
 *
 * Tests of a file run beside each other, so each has an Integrations object and an integration of its own.
 */
export function effect(key: string, change: string, test: () => Promise<void>): void {
  it.concurrent(`${key} ${change}`, test, TIMEOUT_MS)
}
