import type { Transaction } from '../db/client.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'

/**
 * State that processes share, by key. An entry counts as absent from the moment at which its time is over.
 *
 * A key holds a value or a lock, never both: the first one keeps the other out until it is over.
 * Keys begin with the deployment's `cache_prefix`; external ids and tokens enter them only as SHA-256.
 * Rule: docs/behaviour/locks.md.
 */
export interface CacheStore {
  /** Undefined when there is no value, or a lock. */
  get(key: string): Promise<Json | undefined>
  /** The values that exist, by key, in one question. */
  getMany(keys: readonly string[]): Promise<Map<string, Json>>
  /**
   * @param ttlSeconds null: never expires
   * @throws InvalidArgumentException when the key is held as a lock
   */
  set(key: string, value: Json, ttlSeconds: number | null): Promise<void>
  /** Stores the value unless the key holds something. Of many callers at once, one gets true. */
  add(key: string, value: Json, ttlSeconds: number | null): Promise<boolean>
  /** Reads and removes a value that may be used once. Of many callers at once, one gets it. */
  take(key: string): Promise<Json | undefined>
  /** Removes a value; a lock stays. */
  delete(key: string): Promise<void>
  /** Removes at most `limit` entries whose keys begin so, also locks unless they are to be kept. How many there were. */
  deleteOf(keyPrefix: string, options: { readonly limit: number; readonly keepLocks: boolean }): Promise<number>

  /** Takes a lock that is free or whose time is over. False: it is held, maybe by this owner. */
  acquire(key: string, owner: string, ttlSeconds: number): Promise<boolean>
  /** Makes the lock end `ttlSeconds` from now. False: it is not this owner's, or no longer. */
  extend(key: string, owner: string, ttlSeconds: number): Promise<boolean>
  /** Gives a lock back, if it is still this owner's. */
  release(key: string, owner: string): Promise<void>

  /** The same entries, written if and only if the transaction commits. The memory of one process writes at once. */
  within(tx: Transaction): CacheStore

  /** Passes a wait for a lock by the clock. Only a simulation has it. False: the holder lives, wait in real time. */
  passLockWait?(key: string, ms: number): Promise<boolean>
}

/** Thrown where a value would replace a lock. */
export function heldAsLock(key: string): InvalidArgumentException {
  return new InvalidArgumentException('key', `expected one that is no lock; "${key}" is held as a lock.`)
}
