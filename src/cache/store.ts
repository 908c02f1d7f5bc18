import type { Json } from '../core/json.ts'

/**
 * State that processes share, by key. An entry whose time is over counts as absent.
 *
 * Keys begin with the deployment's `cache_prefix`; external ids and tokens enter them only as SHA-256.
 */
export interface CacheStore {
  get(key: string): Promise<Json | undefined>
  /** @param ttlSeconds null: never expires */
  set(key: string, value: Json, ttlSeconds: number | null): Promise<void>
  delete(key: string): Promise<void>
  /** Takes a lock that is free or whose time is over. False: somebody else holds it. */
  acquire(key: string, owner: string, ttlSeconds: number): Promise<boolean>
  /** Gives a lock back, if it is still this owner's. */
  release(key: string, owner: string): Promise<void>
}
