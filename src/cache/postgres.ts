import { and, eq, sql } from 'drizzle-orm'
import type { Json } from '../core/json.ts'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { CacheStore } from './store.ts'

/** The store that all processes share, by the database's clock. Needs no session, so a transaction pooler will do. */
export function postgresCache(db: Database, { cache }: Tables, prefix: string): CacheStore {
  const full = (key: string): string => `${prefix}:${key}`
  const inSeconds = (ttlSeconds: number | null) =>
    ttlSeconds === null ? null : sql`clock_timestamp() + make_interval(secs => ${ttlSeconds}::double precision)`
  const isAbsent = sql`${cache.expiresAt} is not null and ${cache.expiresAt} <= clock_timestamp()`

  return {
    async get(key) {
      const [row] = await db
        .select({ value: cache.value })
        .from(cache)
        .where(and(eq(cache.key, full(key)), sql`not (${isAbsent})`))
      return row === undefined ? undefined : (row.value as Json)
    },
    async set(key, value, ttlSeconds) {
      const entry = { value, owner: null, expiresAt: inSeconds(ttlSeconds) as never }
      await db
        .insert(cache)
        .values({ key: full(key), ...entry })
        .onConflictDoUpdate({ target: cache.key, set: entry })
    },
    async delete(key) {
      await db.delete(cache).where(eq(cache.key, full(key)))
    },
    async acquire(key, owner, ttlSeconds) {
      const entry = { value: null, owner, expiresAt: inSeconds(ttlSeconds) as never }
      const rows = await db
        .insert(cache)
        .values({ key: full(key), ...entry })
        .onConflictDoUpdate({ target: cache.key, set: entry, setWhere: isAbsent })
        .returning({ key: cache.key })
      return rows.length === 1
    },
    async release(key, owner) {
      await db.delete(cache).where(and(eq(cache.key, full(key)), eq(cache.owner, owner)))
    },
  }
}
