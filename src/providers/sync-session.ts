import { AsyncLocalStorage } from 'node:async_hooks'
import type { Json } from '../framework/json.ts'
import type { ExternalId, Integration } from './integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from './provider-events.ts'

/** What a provider's `sync()` works with: where to start, and where to hand the items in. */
export interface SyncSession {
  readonly integration: Integration
  /** The run's row in `integration_logs`. */
  readonly syncLogId: number
  /** Aborted when the listing should end: the run was cancelled, its time is over, or the worker stops. */
  readonly signal: AbortSignal
  /** The stored cursor; null on the first run and after a reset. */
  cursor(): Json
  /**
   * Hands one item in. It is stored, and processed on its own once the listing is complete.
   *
   * @param checkpointValue the cursor that this item stands for; null takes no part in the next cursor
   * @param externalId at most 500 characters; of two items of the same class and id in a run the newer copy is kept
   * @throws InvalidArgumentException at once, for an unregistered event, a checkpoint or payload that is no JSON, or
   *   one too large; SyncSessionClosed after `sync()` returned
   */
  dispatch(event: SyncItemEvent<unknown>, checkpointValue?: Json, externalId?: ExternalId | null): Promise<void>
  /**
   * Whether an item of this class and external id was handed in in this run, items of earlier tries included that a bookmark
   * keeps: a provider need not fetch it again.
   *
   * @throws InvalidArgumentException for an external id that `dispatch()` refuses
   */
  has(eventClass: SyncItemEventClass, externalId: ExternalId): boolean
  /**
   * Says that all that was handed in so far is whole, such as after each page: a listing that has to end here, as by a limit
   * of the provider, goes on from there. Stores what is buffered first.
   *
   * @param position where to go on, for `resumeFrom()` of the next try: any JSON but null, at most 64 KiB
   */
  bookmark(position: Json): Promise<void>
  /** The last bookmark of an earlier try of this run; null: begin at the beginning. */
  resumeFrom(): Json
  /**
   * Says that this run lists everything that there is, so that what it does not name is gone at the provider. For
   * providers with `handleMissing()`.
   *
   * @param internalType only mappings of this model count; default: all of the integration
   */
  fullListing(internalType?: string): void
  /**
   * A warning in the host's log, for what the listing met and went on from. It names the integration and the run; credentials in it
   * are redacted.
   */
  warn(fields: Readonly<Record<string, string | number | boolean | null>>, message: string): void
  /** Items handed in so far, dropped duplicates not counted. */
  readonly count: number
  readonly isEmpty: boolean
  /** Copies of items of this run that were not kept. */
  readonly duplicatesDropped: number
}

/** The sync item whose listeners run, and their attempt. Rule: docs/behaviour/sync-items.md, "What a listener knows". */
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
