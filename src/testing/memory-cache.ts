/**
 * The cache of one process, for the testing kit: the same rules as the Postgres one, nothing shared.
 *
 * No method waits between reading and writing, so each is as atomic as a statement.
 * test/cache/conformance.ts holds both to the rules.
 */

import type { CacheStore } from '../cache/store.ts'
import { heldAsLock } from '../cache/store.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Json } from '../framework/json.ts'
import type { Clock } from '../framework/logger.ts'
import { systemClock } from '../framework/logger.ts'

interface Entry {
  /** As JSON: each reader gets a copy. */
  readonly json: string
  /** Null for a value. */
  readonly owner: string | null
  readonly expiresAtMs: number
}

export function memoryCache(clock: Clock = systemClock): CacheStore {
  const entries = new Map<string, Entry>()

  function living(key: string): Entry | undefined {
    const entry = entries.get(key)
    if (entry === undefined || entry.expiresAtMs > clock.now().getTime()) return entry
    entries.delete(key)
    return undefined
  }
  function put(key: string, value: Json, owner: string | null, ttlSeconds: number | null): void {
    const expiresAtMs = ttlSeconds === null ? Number.POSITIVE_INFINITY : clock.now().getTime() + ttlSeconds * 1000
    entries.set(key, { json: jsonText(value), owner, expiresAtMs })
  }
  function storedValue(key: string): Json | undefined {
    const entry = living(key)
    return entry === undefined || entry.owner !== null ? undefined : (JSON.parse(entry.json) as Json)
  }
  const isHeldBy = (key: string, owner: string): boolean => living(key)?.owner === owner

  const store: CacheStore = {
    async get(key) {
      return storedValue(key)
    },
    async getMany(keys) {
      const found = new Map<string, Json>()
      for (const key of keys) {
        const value = storedValue(key)
        if (value !== undefined) found.set(key, value)
      }
      return found
    },
    async set(key, value, ttlSeconds) {
      if ((living(key)?.owner ?? null) !== null) throw heldAsLock(key)
      put(key, value, null, ttlSeconds)
    },
    async add(key, value, ttlSeconds) {
      if (living(key) !== undefined) return false
      put(key, value, null, ttlSeconds)
      return true
    },
    async take(key) {
      const value = storedValue(key)
      if (value !== undefined) entries.delete(key)
      return value
    },
    async delete(key) {
      if (living(key)?.owner === null) entries.delete(key)
    },
    async deleteOf(keyPrefix, { limit, keepLocks }) {
      const keys = [...entries]
        .filter(([key, { owner }]) => key.startsWith(keyPrefix) && !(keepLocks && owner !== null))
        .slice(0, limit)
      for (const [key] of keys) entries.delete(key)
      return keys.length
    },
    async acquire(key, owner, ttlSeconds) {
      if (living(key) !== undefined) return false
      put(key, null, owner, ttlSeconds)
      return true
    },
    async extend(key, owner, ttlSeconds) {
      if (!isHeldBy(key, owner)) return false
      put(key, null, owner, ttlSeconds)
      return true
    },
    async release(key, owner) {
      if (isHeldBy(key, owner)) entries.delete(key)
    },
    within: () => store,
  }
  return store
}
