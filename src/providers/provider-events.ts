/**
 * Events that an adapter defines itself, by class.
 *
 * `ProviderEvent` is for anything an adapter wants to tell its host (a webhook came in). `SyncItemEvent` is one item of
 * a sync run: it is stored between listing and processing, so it must survive JSON.
 */
import type { z } from 'zod'
import type { Json } from '../framework/json.ts'
import { currentArrival } from './arrival.ts'
import type { Integration } from './integration.ts'

/**
 * Something an adapter tells the host. Emit it with `await integration.emit(new MyEvent(integration, …))`: listeners run
 * in order, awaited, and the first one that throws makes `emit()` throw, so a webhook handler that emits fails with its
 * listeners and can be tried again.
 */
export abstract class ProviderEvent {
  /** Stable name, unique in the host. */
  static readonly type: string
  /** Whether it comes of a delivery or an item that says only what we wrote ourselves. Rule: docs/behaviour/echoes.md. */
  readonly isOwn: boolean = currentArrival()?.isOwn ?? false
  constructor(readonly integration: Integration) {}
}

/**
 * What a record is since it was handled last. `reappeared`: the provider had been told that it is gone. A record that is gone is
 * told by `handleMissing()`: it has no payload.
 */
export type RecordChange = 'added' | 'updated' | 'reappeared'

/**
 * One item of a sync run. Its listeners run inside the item's own job, one after the other, and must be idempotent.
 *
 * @typeParam P the payload: JSON, at most 1 MiB
 */
export abstract class SyncItemEvent<P = Json> {
  /** Stable name, stored in `event_class`; never the class name, which a minifier may change. */
  static readonly type: string
  /** Raise it when the payload's shape changes; `upgrade` then brings stored ones along. */
  static readonly version: number = 1
  /** Checks the payload at dispatch and again when it is read back. */
  static readonly schema?: z.ZodType
  /** Brings the data of an older version to this one. */
  static upgrade?(data: unknown, from: number): unknown

  /** Null where its stream has no `skipUnchanged`, or it has no external id. */
  readonly change: RecordChange | null = null
  /** Of the payload, SHA-256 in hex; null as `change` is. */
  readonly hash: string | null = null
  /** Of what was handled last; null: nothing was. */
  readonly previousHash: string | null = null
  /** Whether it says only what we wrote ourselves. Rule: docs/behaviour/echoes.md. */
  readonly isOwn: boolean = currentArrival()?.isOwn ?? false

  constructor(
    readonly integration: Integration,
    readonly payload: P,
  ) {}
}

/** A concrete event class. */
export interface ProviderEventClass<E extends ProviderEvent = ProviderEvent> {
  readonly type: string
  /** A subclass may take further arguments of any type. */
  new (integration: Integration, ...rest: never[]): E
}

export interface SyncItemEventClass<E extends SyncItemEvent<unknown> = SyncItemEvent<unknown>> {
  readonly type: string
  readonly version: number
  readonly schema?: z.ZodType
  upgrade?(data: unknown, from: number): unknown
  /** The payload's type is the subclass's own. */
  new (integration: Integration, payload: never): E
}

/** How a sync item's payload is stored: its version and the data. */
export interface StoredPayload {
  readonly v: number
  readonly data: Json
}
