/** The store that all processes share: the rules of every store, by the database's clock, for several processes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withLock } from '../../src/cache/lock.ts'
import { postgresCache } from '../../src/cache/postgres.ts'
import type { CacheStore } from '../../src/cache/store.ts'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { testIntegrations } from '../support/integrations.ts'
import { describeCacheStore } from './conformance.ts'

/** Two pools, as two processes have them. */
let connections: readonly [Connection, Connection]
let database: TestDatabase
let store: CacheStore

const storeOn = (connection: Connection, prefix: string) =>
  postgresCache(connection.db, createTables('integration'), prefix)

beforeAll(async () => {
  database = await createTestDatabase()
  connections = [connect({ database: database.url }), connect({ database: database.url })]
  store = storeOn(connections[0], 'deployment')
})

afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close()))
  await database.drop()
})

describeCacheStore((prefix, clock) => postgresCache(connections[0].db, createTables('integration'), prefix, clock), {
  propertyRuns: 50,
})

describe("the database's clock", () => {
  /** Moves the end of an entry to this many seconds from now. */
  const endIn = (key: string, seconds: number) =>
    connections[0].sql`
      update integration_cache set expires_at = clock_timestamp() + make_interval(secs => ${seconds})
      where key = ${`deployment:${key}`}`

  it('says when a value is over', async () => {
    await store.set('ending', 'here', 60)
    await endIn('ending', 30)
    expect(await store.get('ending')).toBe('here')
    await endIn('ending', 0)
    expect([await store.get('ending'), await store.take('ending')]).toEqual([undefined, undefined])
    expect(await store.add('ending', 'next', 60)).toBe(true)
  })

  it('says so also where the end was rounded up, into the half of a millisecond to come', async () => {
    const still = await createTestDatabase()
    const setup = connect({ database: still.url, pool: { max: 1 } })
    await setup.sql`create schema frozen`
    await setup.sql`create function frozen.clock_timestamp() returns timestamptz language sql
      as $$ select timestamptz '2026-06-01T12:00:00.0007Z' $$`
    const [row] = await setup.sql<{ name: string }[]>`select current_database() as name`
    // Found before Postgres' own clock by every connection from here on.
    await setup.sql.unsafe(`alter database ${row?.name} set search_path = frozen, pg_catalog, public`)
    await setup.close()
    const connection = connect({ database: still.url })
    try {
      const frozen = storeOn(connection, 'deployment')
      await frozen.set('ending', 'here', 60)
      await connection.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s'`
      expect(await frozen.get('ending')).toBeUndefined()
      expect(await frozen.add('ending', 'next', 60)).toBe(true)
      expect(await frozen.get('ending')).toBe('next')
    } finally {
      await connection.close()
      await still.drop()
    }
  })

  it('says when a lock is over', async () => {
    await store.acquire('dead', 'a', 60)
    await endIn('dead', 30)
    expect([await store.acquire('dead', 'b', 60), await store.extend('dead', 'a', 60)]).toEqual([false, true])
    await endIn('dead', 0)
    expect([await store.extend('dead', 'a', 60), await store.acquire('dead', 'b', 60)]).toEqual([false, true])
  })

  it('gives an entry its end', async () => {
    await store.set('for a minute', 1, 60)
    await store.set('for ever', 1, null)
    const rows = await connections[0].sql`
      select key, round(extract(epoch from expires_at - updated_at))::int as seconds from integration_cache
      where key in ('deployment:for a minute', 'deployment:for ever') order by key`
    expect(rows.map((row) => row.seconds)).toEqual([60, null])
  })

  it("gives way to the host's, where it has one", async () => {
    let now = new Date('2001-01-01T00:00:00Z')
    const test = testIntegrations(database.url, { clock: { now: () => now } })
    try {
      await test.framework.cache.set('k', 1, 60)
      expect(await test.framework.cache.get('k')).toBe(1)
      now = new Date('2001-01-01T00:01:00Z')
      expect(await test.framework.cache.get('k')).toBeUndefined()
    } finally {
      await test.close()
    }
  })
})

describe('two processes', () => {
  const INCREMENTS = 20

  it('lose no update that is made under a lock', { timeout: 120_000 }, async () => {
    const { sql } = connections[0]
    await sql`create table counter (n int not null)`
    await sql`insert into counter values (0)`
    await Promise.all(
      Array.from({ length: INCREMENTS }, (_, i) => {
        const connection = connections[i % 2] as Connection
        return withLock(
          storeOn(connection, 'deployment'),
          'counter',
          { ttlSeconds: 600, waitSeconds: 100 },
          async () => {
            const [row] = await connection.sql<{ n: number }[]>`select n from counter`
            await connection.sql`update counter set n = ${(row?.n ?? 0) + 1}`
          },
        )
      }),
    )
    expect(await sql`select n from counter`).toEqual([{ n: INCREMENTS }])
  })

  it.each([0, 0.5])('wait %s s for a lock, then LockTimeoutException', async (waitSeconds) => {
    const [holder, waiter] = connections.map((connection) => storeOn(connection, `wait-${waitSeconds}`))
    await holder?.acquire('stuck', 'somebody else', 60)
    let tries = 0
    const counting: CacheStore = {
      ...(waiter as CacheStore),
      acquire: (...args) => {
        tries += 1
        return (waiter as CacheStore).acquire(...args)
      },
    }
    const startedAt = performance.now()
    // Its holder keeps it: the wait ends by itself.
    const work = withLock(counting, 'stuck', { ttlSeconds: 60, waitSeconds }, async () => 'never')
    await expect(work).rejects.toMatchObject({ code: 'lock_timeout', lock: 'stuck' })
    expect((performance.now() - startedAt) / 1000).toBeGreaterThanOrEqual(waitSeconds)
    if (waitSeconds === 0) expect(tries).toBe(1)
    // 50, 75, 113, 169 and the rest of 500 ms: six looks at most, fewer where each takes long. Which ones: lock.test.ts.
    else expect(tries).toBeLessThanOrEqual(6)
  })

  it('see what one stores within a transaction once that is committed, and nothing of one that is rolled back', async () => {
    const [one, other] = connections.map((connection) => storeOn(connection, 'within')) as [CacheStore, CacheStore]
    const work = connections[0].db.transaction(async (tx) => {
      expect(await one.within(tx).add('rolled back', 1, null)).toBe(true)
      expect(await other.get('rolled back')).toBeUndefined()
      throw new RangeError('by the test')
    })
    await expect(work).rejects.toThrow(RangeError)
    expect(await other.get('rolled back')).toBeUndefined()
    await connections[0].db.transaction(async (tx) => {
      expect(await one.within(tx).add('committed', 1, null)).toBe(true)
    })
    expect(await other.get('committed')).toBe(1)
  })

  it('see what the other holds and stores', async () => {
    const [one, other] = connections.map((connection) => storeOn(connection, 'both')) as [CacheStore, CacheStore]
    expect(await one.acquire('l', 'a', 60)).toBe(true)
    expect(await other.acquire('l', 'b', 60)).toBe(false)
    await one.set('k', { n: 1 }, 60)
    expect(await other.take('k')).toEqual({ n: 1 })
    expect(await one.get('k')).toBeUndefined()
  })

  it('get one token once, however many of both ask', async () => {
    await store.set('token', 'once', 60)
    const taken = await Promise.all(
      Array.from({ length: 20 }, (_, i) => storeOn(connections[i % 2] as Connection, 'deployment').take('token')),
    )
    expect(taken.filter((value) => value !== undefined)).toEqual(['once'])
  })
})
