import { and, eq, inArray, isNull, or, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { clockNow, intervalOf } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'
import type { Clock } from '../framework/logger.ts'
import type { CacheStore } from './store.ts'
import { heldAsLock } from './store.ts'

/**
 * The store that all processes share. Needs no session, so a transaction pooler will do.
 *
 * Each method is one statement. The clock is the database's, read when the row is locked, so that processes agree on when an
 * entry ends, although their own clocks differ.
 *
 * @param clock takes the place of the database's
 */
export function postgresCache(db: Database | Transaction, tables: Tables, prefix: string, clock?: Clock): CacheStore {
  const { cache } = tables
  const full = (key: string): string => `${prefix}:${key}`
  const now = () => (clock === undefined ? clockNow() : sql`${clock.now().toISOString()}::timestamp with time zone`)
  const inSeconds = (ttlSeconds: number | null) =>
    ttlSeconds === null ? null : sql`${now()} + ${intervalOf(sql`${ttlSeconds}`)}`
  const isPresent = () => sql<boolean>`(${cache.expiresAt} is null or ${cache.expiresAt} > ${now()})`
  const isAbsent = () => sql`not ${isPresent()}`
  const isValue = isNull(cache.owner)

  /** False: the key holds an entry that may not be replaced. */
  async function put(
    key: string,
    entry: { value: Json; owner: string | null; ttlSeconds: number | null },
    mayReplace = isAbsent(),
  ): Promise<boolean> {
    const { ttlSeconds, ...columns } = entry
    const row = { ...columns, expiresAt: inSeconds(ttlSeconds) as never }
    const rows = await db
      .insert(cache)
      .values({ key: full(key), ...row })
      .onConflictDoUpdate({ target: cache.key, set: row, setWhere: mayReplace })
      .returning({ key: cache.key })
    return rows.length === 1
  }

  return {
    async get(key) {
      const [row] = await db
        .select({ value: cache.value })
        .from(cache)
        .where(and(eq(cache.key, full(key)), isValue, isPresent()))
      return row === undefined ? undefined : (row.value as Json)
    },
    async getMany(keys) {
      if (keys.length === 0) return new Map()
      const rows = await db
        .select({ key: cache.key, value: cache.value })
        .from(cache)
        .where(and(inArray(cache.key, keys.map(full)), isValue, isPresent()))
      return new Map(rows.map((row) => [row.key.slice(full('').length), row.value as Json]))
    },
    async set(key, value, ttlSeconds) {
      if (!(await put(key, { value, owner: null, ttlSeconds }, or(isValue, isAbsent())))) throw heldAsLock(key)
    },
    add: (key, value, ttlSeconds) => put(key, { value, owner: null, ttlSeconds }),
    async take(key) {
      // Deletes an entry that is over, too. `returning` asks whether it is: then the row is locked.
      const [row] = await db
        .delete(cache)
        .where(and(eq(cache.key, full(key)), isValue))
        .returning({ value: cache.value, isPresent: isPresent() })
      return row?.isPresent ? (row.value as Json) : undefined
    },
    async delete(key) {
      await db.delete(cache).where(and(eq(cache.key, full(key)), isValue))
    },
    async deleteOf(keyPrefix, { limit, keepLocks }) {
      // Reads the whole table, unless the database's collation is "C": in any other one the index is in no order of
      // beginnings. A second index would be written with each new entry, for the rare end of an integration.
      const kept = keepLocks ? sql`and owner is null` : sql``
      const rows = await db.execute(sql`
        delete from ${cache} where key in (
          select key from ${cache} where starts_with(key, ${full(keyPrefix)}) ${kept} limit ${limit}
        ) returning 1`)
      return rows.length
    },
    acquire: (key, owner, ttlSeconds) => put(key, { value: null, owner, ttlSeconds }),
    async extend(key, owner, ttlSeconds) {
      const rows = await db
        .update(cache)
        .set({ expiresAt: inSeconds(ttlSeconds) as never })
        .where(and(eq(cache.key, full(key)), eq(cache.owner, owner), isPresent()))
        .returning({ key: cache.key })
      return rows.length === 1
    },
    async release(key, owner) {
      await db.delete(cache).where(and(eq(cache.key, full(key)), eq(cache.owner, owner)))
    },
    within: (tx) => postgresCache(tx, tables, prefix, clock),
  }
}
