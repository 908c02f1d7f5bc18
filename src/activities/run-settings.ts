import type { Framework } from '../framework.ts'
import type { RunSettings } from './sync-runs.ts'

/** What the announcement of a run may tell. */
const END_EVENTS = ['SyncStalenessRecovered', 'IncidentClosed', 'SyncItemStuck', 'SyncCompleted'] as const

/** As they are when a run opens; they travel with it, so that a replay sees what the run saw. */
export function runSettings({ config, listeners }: Framework): RunSettings {
  return {
    listingTimeoutSeconds: config.sync.job_timeout,
    listingTotalSeconds: config.sync.lock_ttl,
    itemTaskQueue: `${config.cache_prefix}-${config.sync.item_queue ?? config.sync.queue}`,
    isListenedTo: END_EVENTS.some((name) => listeners.has(name)),
  }
}
