/**
 * Which attempt of which sync item a listener runs in.
 *
 * Rule: docs/behaviour/sync-items.md, "What a listener knows".
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface CurrentSyncItem {
  /** From 1; deferrals are no attempts. */
  readonly attempt: number
  /** `sync.item_tries`; of a retry by hand, the last one it gets. */
  readonly maxAttempts: number
  readonly syncItemId: number
  readonly integrationId: number
  readonly syncLogId: number | null
  readonly externalId: string | null
  /** A failure of this attempt would be the last, by count or by the retry window. */
  readonly isLikelyFinalAttempt: boolean
  /** Aborted when `sync.item_timeout` is over, or the run is cancelled. */
  readonly signal: AbortSignal
}

const current = new AsyncLocalStorage<CurrentSyncItem>()

/** Runs the listeners of an item. */
export function withSyncItem<T>(item: CurrentSyncItem, run: () => Promise<T>): Promise<T> {
  return current.run(item, run)
}

/** Null: outside of a sync item's listeners. */
export function currentSyncItem(): CurrentSyncItem | null {
  return current.getStore() ?? null
}
