/**
 * Whether a call is made inside a sync: by a listing, or by the listener of an item. There, work that would wait for long is put off
 * instead. Rule: docs/behaviour/requests.md, "Inside a sync".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Database } from '../db/client.ts'
import type { CurrentSyncItem } from '../providers/sync-session.ts'

export interface SyncWork {
  /** Aborted when the worker stops or the run is cancelled: then no call waits any longer. */
  readonly signal: AbortSignal
  /** The stream that it is of; null, or not given: the integration's own. Streams take turns in the line for admission. */
  readonly stream?: string | null
  /** The item whose listeners run, and its database: a process may serve two. */
  readonly item?: { readonly db: Database; readonly current: CurrentSyncItem }
  /** When its time is over (`sync.item_timeout`, `sync.job_timeout`), as `performance.now()`. Not given: it has no end. */
  readonly endsAt?: number
}

const work = new AsyncLocalStorage<SyncWork>()

/** Runs a listing, or the listeners of an item. */
export function insideSync<T>(sync: SyncWork, run: () => Promise<T>): Promise<T> {
  return work.run(sync, run)
}

/**
 * Milliseconds that a call may wait for capacity: half of the time that is left, so that the work after the wait has time, too. A longer
 * wait puts the work off: to run out of time would count as its failure.
 */
export function longestWaitMs({ endsAt = Number.POSITIVE_INFINITY }: SyncWork): number {
  return Math.max(0, (endsAt - performance.now()) / 2)
}

/** Null: outside. */
export function currentSync(): SyncWork | null {
  return work.getStore() ?? null
}
