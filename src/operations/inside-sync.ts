/**
 * Whether a call is made inside a sync: by a listing, or by the listener of an item. There, work that would have to wait for
 * long is put off instead. Rule: docs/behaviour/requests.md, "Inside a sync".
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface SyncWork {
  /** Aborted when the worker stops or the run is cancelled: nobody waits on. */
  readonly signal: AbortSignal
}

const work = new AsyncLocalStorage<SyncWork>()

/** Runs a listing, or the listeners of an item. */
export function insideSync<T>(sync: SyncWork, run: () => Promise<T>): Promise<T> {
  return work.run(sync, run)
}

/** Null: outside. */
export function currentSync(): SyncWork | null {
  return work.getStore() ?? null
}
