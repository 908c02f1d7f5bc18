import type { Json } from '../core/json.ts'
import type { SyncItemEvent } from './events.ts'
import type { ExternalId, Integration } from './integration.ts'

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
   * @param externalId at most 500 characters; a second item of the same class and id in a run is dropped
   * @throws InvalidArgumentException at once, for an unregistered event, a checkpoint or payload that is no JSON, or
   *   one too large; SyncSessionClosed after `sync()` returned
   */
  dispatch(event: SyncItemEvent<unknown>, checkpointValue?: Json, externalId?: ExternalId | null): Promise<void>
  /** Items handed in so far, dropped duplicates not counted. */
  readonly count: number
  readonly isEmpty: boolean
  readonly duplicatesDropped: number
}
