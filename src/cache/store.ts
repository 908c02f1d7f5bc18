import type { Transaction } from '../db/client.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'

/**
 * State that processes share, by key. An entry whose time is over counts as absent, from that very moment on.
 *
 * A key holds a value or a lock, never both: whichever is there first keeps the other out until it is over.
 * Keys begin with the deployment's `cache_prefix`; external ids and tokens enter them only as SHA-256.
 * Rule: docs/behaviour/locks.md.
 */
export interface CacheStore {
  /** Undefined when there is no value, or a lock. */
  get(key: string): Promise<Json | undefined>
  /** The values that there are, by key, for all of them in one question. */
  getMany(keys: readonly string[]): Promise<Map<string, Json>>
  /**
   * @param ttlSeconds null: never expires
   * @throws InvalidArgumentException where somebody holds a lock by this key
   */
  set(key: string, value: Json, ttlSeconds: number | null): Promise<void>
  /** Stores the value unless there is something already. Of many who ask at once, one is told true. */
  add(key: string, value: Json, ttlSeconds: number | null): Promise<boolean>
  /** Reads and removes the value, for what may be used once. Of many who ask at once, one gets it. */
  take(key: string): Promise<Json | undefined>
  /** Removes a value; a lock stays. */
  delete(key: string): Promise<void>

  /** Takes a lock that is free or whose time is over. False: somebody holds it, this owner included. */
  acquire(key: string, owner: string, ttlSeconds: number): Promise<boolean>
  /** Makes the lock end so long from now. False: it is not this owner's, or no longer. */
  extend(key: string, owner: string, ttlSeconds: number): Promise<boolean>
  /** Gives a lock back, if it is still this owner's. */
  release(key: string, owner: string): Promise<void>

  /** The same entries; what is written is there if and only if the transaction commits. One process' memory writes at once. */
  within(tx: Transaction): CacheStore
}

/** What a store throws where a value would take the place of a lock. */
export function heldAsLock(key: string): InvalidArgumentException {
  return new InvalidArgumentException('key', `expected one that is no lock; "${key}" is held as a lock.`)
}
