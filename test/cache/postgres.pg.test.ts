/** The store that all processes share: entries with an end, and locks with an owner. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withLock } from '../../src/cache/lock.ts'
import { postgresCache } from '../../src/cache/postgres.ts'
import type { CacheStore } from '../../src/cache/store.ts'
import type { Json } from '../../src/core/json.ts'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { occasion } from '../support/integrations.ts'

let database: TestDatabase
let connection: Connection
let store: CacheStore

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connect({ database: database.url })
  store = postgresCache(connection.db, createTables('integration'), 'deployment')
})

afterAll(async () => {
  await connection.close()
  await database.drop()
})

/** Moves the end of an entry to this many seconds from now, by the database's clock. */
const endIn = (key: string, seconds: number) =>
  connection.sql`update integration_cache set expires_at = clock_timestamp() + make_interval(secs => ${seconds}) where key = ${`deployment:${key}`}`

describe('an entry', () => {
  it.each<[string, Json]>([
    ['an object', { a: [1, null] }],
    ['a text of digits', '12345'],
    ['false', false],
    ['null', null],
  ])('gives back %s', async (name, value) => {
    await store.set(`value ${name}`, value, 60)
    expect(await store.get(`value ${name}`)).toEqual(value)
  })

  it('is undefined when there is none, and after delete()', async () => {
    expect(await store.get('never set')).toBeUndefined()
    await store.set('deleted', 1, null)
    await store.delete('deleted')
    expect(await store.get('deleted')).toBeUndefined()
  })

  it('counts as absent from its end on, not before', async () => {
    await store.set('ending', 'here', 60)
    await endIn('ending', 30)
    expect(await store.get('ending')).toBe('here')
    await endIn('ending', 0)
    expect(await store.get('ending')).toBeUndefined()
  })

  it('without an end never expires', async () => {
    await store.set('lasting', 1, 60)
    await store.set('lasting', 2, null)
    const [row] = await connection.sql`select expires_at from integration_cache where key = 'deployment:lasting'`
    expect([await store.get('lasting'), row?.expires_at]).toEqual([2, null])
  })

  it('of another deployment is another one', async () => {
    const other = postgresCache(connection.db, createTables('integration'), 'another')
    await store.set('shared', 'ours', null)
    expect(await other.get('shared')).toBeUndefined()
  })
})

describe('a lock', () => {
  it('is one holder‘s; the same owner does not get it twice', async () => {
    expect(await store.acquire('held', 'a', 60)).toBe(true)
    expect(await store.acquire('held', 'b', 60)).toBe(false)
    expect(await store.acquire('held', 'a', 60)).toBe(false)
  })

  it('is released by its owner‘s token only', async () => {
    await store.acquire('owned', 'a', 60)
    await store.release('owned', 'b')
    expect(await store.acquire('owned', 'b', 60)).toBe(false)
    await store.release('owned', 'a')
    expect(await store.acquire('owned', 'b', 60)).toBe(true)
  })

  it('of a dead holder is free from its end on; the late holder can not release the next one‘s', async () => {
    await store.acquire('dead', 'a', 60)
    await endIn('dead', 0)
    expect(await store.acquire('dead', 'b', 60)).toBe(true)
    await store.release('dead', 'a')
    expect(await store.acquire('dead', 'c', 60)).toBe(false)
  })

  it('goes to one of many who ask at once', async () => {
    const taken = await Promise.all(Array.from({ length: 20 }, (_, n) => store.acquire('contended', `owner ${n}`, 60)))
    expect(taken.filter(Boolean)).toHaveLength(1)
  })
})

describe('work under a lock', () => {
  const lock = { ttlSeconds: 60, waitSeconds: 10 }

  it('is one at a time, and all of it is done', async () => {
    let running = 0
    let most = 0
    const done = await Promise.all(
      Array.from({ length: 5 }, (_, n) =>
        withLock(store, 'serial', lock, async () => {
          running += 1
          most = Math.max(most, running)
          await connection.sql`select 1`
          running -= 1
          return n
        }),
      ),
    )
    expect([most, done]).toEqual([1, [0, 1, 2, 3, 4]])
  })

  it('waits for the holder, then goes on', async () => {
    const holding = occasion()
    const end = occasion()
    const first = withLock(store, 'awaited', lock, async () => {
      holding.happen()
      await end.happened
    })
    await holding.happened
    const second = withLock(store, 'awaited', lock, async () => 'done')
    end.happen()
    await first
    expect(await second).toBe('done')
  })

  it('gives the lock back when it throws', async () => {
    await expect(withLock(store, 'thrown', lock, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await withLock(store, 'thrown', { ...lock, waitSeconds: 0 }, async () => 'free')).toBe('free')
  })

  it.each([
    ['with wait 0 after one try', 0],
    ['when the wait is over', 0.1],
  ])('is LockTimeoutException %s', async (_, waitSeconds) => {
    await store.acquire(`stuck ${waitSeconds}`, 'somebody else', 60)
    let acquired = 0
    const counting = {
      ...store,
      acquire: (...args: Parameters<CacheStore['acquire']>) => {
        acquired += 1
        return store.acquire(...args)
      },
    }
    const work = withLock(counting, `stuck ${waitSeconds}`, { ttlSeconds: 60, waitSeconds }, async () => 'never')
    await expect(work).rejects.toMatchObject({ code: 'lock_timeout', lock: `stuck ${waitSeconds}` })
    if (waitSeconds === 0) expect(acquired).toBe(1)
    else expect(acquired).toBeGreaterThan(1)
  })
})
