/** What every cache store must do: facts about entries and locks, by a clock that the test moves. */
import fc from 'fast-check'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { withLock } from '../../src/cache/lock.ts'
import type { CacheStore } from '../../src/cache/store.ts'
import type { Json } from '../../src/framework/json.ts'
import type { Clock } from '../../src/framework/logger.ts'
import { occasion } from '../support/integrations.ts'

/** Stores of one place, told apart by their prefix alone where the place is shared. */
export type OpenStore = (prefix: string, clock: Clock) => CacheStore

const ACQUIRERS = 20
const START = Date.parse('2026-01-01T00:00:00Z')

export function describeCacheStore(open: OpenStore, { propertyRuns = 100 } = {}): void {
  let made = 0
  let nowMs = START
  const clock: Clock = { now: () => new Date(nowMs) }
  let store: CacheStore
  beforeEach(() => {
    nowMs = START
    made += 1
    store = open(`deployment-${made}`, clock)
  })
  const pass = (seconds: number): void => {
    nowMs += seconds * 1000
  }
  const manyAtOnce = <T>(ask: (n: number) => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: ACQUIRERS }, (_, n) => ask(n)))

  describe('a value', () => {
    it.each<[string, Json]>([
      ['an object', { a: [1, null], b: { c: '' } }],
      ['a list', [[], {}]],
      ['a text of digits', '12345'],
      ['a text that is JSON', '{"a":1}'],
      ['an empty text', ''],
      ['0', 0],
      ['the greatest number', Number.MAX_VALUE],
      ['the smallest number', Number.MIN_VALUE],
      ['false', false],
      ['null', null],
    ])('comes back as it was: %s', async (_, value) => {
      await store.set('k', value, 60)
      expect(await store.get('k')).toEqual(value)
      expect(await store.take('k')).toEqual(value)
    })

    it('comes back whatever JSON it is', async () => {
      await fc.assert(
        fc.asyncProperty(fc.jsonValue(), async (given) => {
          const value = JSON.parse(JSON.stringify(given)) as Json
          await store.set('any', value, null)
          expect(await store.get('any')).toEqual(value)
        }),
        { numRuns: propertyRuns },
      )
    })

    it('holds the replacement character for what jsonb has no place for', async () => {
      await store.set('k', { 'a\u0000': 'b\u0000c', lone: '\ud800', escaped: '\\u0000' }, null)
      expect(await store.get('k')).toEqual({ 'a\ufffd': 'b\ufffdc', lone: '\ufffd', escaped: '\\u0000' })
    })

    it('is a copy: neither writer nor reader can change what is stored', async () => {
      const written = { list: [1] }
      await store.set('k', written, null)
      written.list.push(2)
      const read = (await store.get('k')) as { list: number[] }
      read.list.push(3)
      expect(await store.get('k')).toEqual({ list: [1] })
    })

    it('comes with others that are asked for in one question; locks, and what is over or not there, do not', async () => {
      await store.set('a', { n: 1 }, null)
      await store.set('b', null, 60)
      await store.set('over', 3, 30)
      await store.acquire('lock', 'owner', 60)
      pass(30)
      expect(await store.getMany(['b', 'none', 'lock', 'a', 'over', 'a'])).toEqual(
        new Map<string, Json>([
          ['a', { n: 1 }],
          ['b', null],
        ]),
      )
      expect(await store.getMany([])).toEqual(new Map())
    })

    it('is undefined when there is none, and after delete()', async () => {
      expect(await store.get('k')).toBeUndefined()
      await store.set('k', 1, null)
      await store.delete('k')
      expect(await store.get('k')).toBeUndefined()
    })

    it('is there until its end, and gone at it', async () => {
      await store.set('k', 'here', 60)
      pass(59.999)
      expect(await store.get('k')).toBe('here')
      pass(0.001)
      expect(await store.get('k')).toBeUndefined()
    })

    it('lives for a fraction of a second where that is asked', async () => {
      await store.set('k', 'here', 0.25)
      pass(0.249)
      expect(await store.get('k')).toBe('here')
      pass(0.001)
      expect(await store.get('k')).toBeUndefined()
    })

    it('without an end never expires, also where the one before it would have', async () => {
      await store.set('k', 1, 60)
      await store.set('k', 2, null)
      pass(100 * 365 * 24 * 3600)
      expect(await store.get('k')).toBe(2)
    })

    it('gets a new end when it is set again', async () => {
      await store.set('k', 1, 60)
      pass(59)
      await store.set('k', 2, 60)
      pass(59)
      expect(await store.get('k')).toBe(2)
    })

    it('of another deployment is another one', async () => {
      const other = open(`deployment-${made}-other`, clock)
      await store.set('k', 'ours', null)
      expect(await other.get('k')).toBeUndefined()
      expect(await other.add('k', 'theirs', null)).toBe(true)
      await other.delete('k')
      expect(await other.take('k')).toBeUndefined()
      expect(await store.get('k')).toBe('ours')
      await store.acquire('l', 'a', 60)
      expect(await other.acquire('l', 'b', 60)).toBe(true)
    })
  })

  describe('a value that is added', () => {
    it('stays out where there is one, and comes in once that one is over', async () => {
      expect(await store.add('k', 'first', 60)).toBe(true)
      expect(await store.add('k', 'second', 60)).toBe(false)
      expect(await store.get('k')).toBe('first')
      pass(59.999)
      expect(await store.add('k', 'third', 60)).toBe(false)
      pass(0.001)
      expect(await store.add('k', 'fourth', 60)).toBe(true)
      expect(await store.get('k')).toBe('fourth')
    })

    it('does not lengthen the life of the one that is there', async () => {
      await store.add('k', 'first', 60)
      pass(30)
      await store.add('k', 'second', 60)
      pass(30)
      expect(await store.get('k')).toBeUndefined()
    })

    it('is one of many that are added at once', async () => {
      const added = await manyAtOnce((n) => store.add('k', n, 60))
      expect(added.filter(Boolean)).toHaveLength(1)
      expect(await store.get('k')).toBe(added.indexOf(true))
    })
  })

  describe('a value that is taken', () => {
    it('is there once', async () => {
      await store.set('token', { for: 1 }, 60)
      expect(await store.take('token')).toEqual({ for: 1 })
      expect(await store.take('token')).toBeUndefined()
      expect(await store.get('token')).toBeUndefined()
    })

    it('goes to one of many who ask at once', async () => {
      await store.set('token', 'once', 60)
      const taken = await manyAtOnce(() => store.take('token'))
      expect(taken.filter((value) => value !== undefined)).toEqual(['once'])
    })

    it('is absent from its end on, not before', async () => {
      await store.set('late', 1, 60)
      await store.set('in time', 1, 60.001)
      pass(60)
      expect([await store.take('late'), await store.take('in time')]).toEqual([undefined, 1])
    })
  })

  describe('a lock', () => {
    it("is one holder's; the same owner does not get it twice", async () => {
      expect(await store.acquire('l', 'a', 60)).toBe(true)
      expect(await store.acquire('l', 'b', 60)).toBe(false)
      expect(await store.acquire('l', 'a', 60)).toBe(false)
    })

    it("is released by its owner's token only", async () => {
      await store.acquire('l', 'a', 60)
      await store.release('l', 'b')
      expect(await store.acquire('l', 'b', 60)).toBe(false)
      await store.release('l', 'a')
      expect(await store.acquire('l', 'b', 60)).toBe(true)
    })

    it('of a dead holder is free from its end on, not before', async () => {
      await store.acquire('l', 'dead', 60)
      pass(59.999)
      expect(await store.acquire('l', 'b', 60)).toBe(false)
      pass(0.001)
      expect(await store.acquire('l', 'b', 60)).toBe(true)
    })

    it('that ran out is beyond its late holder: it can neither release nor extend what is the next one’s', async () => {
      await store.acquire('l', 'late', 60)
      pass(60)
      await store.acquire('l', 'next', 60)
      await store.release('l', 'late')
      expect(await store.extend('l', 'late', 600)).toBe(false)
      expect(await store.acquire('l', 'third', 60)).toBe(false)
      pass(60)
      expect(await store.acquire('l', 'third', 60)).toBe(true)
    })

    it('that is extended lasts from then on', async () => {
      await store.acquire('l', 'a', 60)
      pass(59)
      expect(await store.extend('l', 'a', 60)).toBe(true)
      pass(59.999)
      expect(await store.acquire('l', 'b', 60)).toBe(false)
      pass(0.001)
      expect(await store.acquire('l', 'b', 60)).toBe(true)
    })

    it('is not extended once it is over, by a foreign token, or where there is none', async () => {
      await store.acquire('l', 'a', 60)
      expect(await store.extend('l', 'b', 600)).toBe(false)
      pass(60)
      expect(await store.extend('l', 'a', 600)).toBe(false)
      expect(await store.extend('never taken', 'a', 600)).toBe(false)
      expect(await store.acquire('l', 'b', 60)).toBe(true)
      expect(await store.acquire('never taken', 'b', 60)).toBe(true)
    })

    it('goes to one of many who ask at once, free or left by the dead', async () => {
      expect((await manyAtOnce((n) => store.acquire('l', `a${n}`, 60))).filter(Boolean)).toHaveLength(1)
      pass(60)
      expect((await manyAtOnce((n) => store.acquire('l', `b${n}`, 60))).filter(Boolean)).toHaveLength(1)
    })
  })

  describe('a key', () => {
    it('that is held as a lock has no value, and takes none', async () => {
      await store.acquire('k', 'a', 60)
      expect([await store.get('k'), await store.take('k')]).toEqual([undefined, undefined])
      expect(await store.add('k', 1, 60)).toBe(false)
      await expect(store.set('k', 1, 60)).rejects.toMatchObject({ code: 'invalid_argument', argument: 'key' })
      await store.delete('k')
      expect(await store.acquire('k', 'b', 60)).toBe(false)
      await store.release('k', 'a')
      await store.set('k', 1, 60)
      expect(await store.get('k')).toBe(1)
    })

    it('with a value is no lock that anybody could take, extend or release', async () => {
      await store.set('k', 1, 60)
      expect(await store.acquire('k', 'a', 60)).toBe(false)
      expect(await store.extend('k', 'a', 60)).toBe(false)
      await store.release('k', 'a')
      expect(await store.get('k')).toBe(1)
    })

    it('is free for the other use once what it held is over', async () => {
      await store.set('k', 1, 60)
      pass(60)
      expect(await store.acquire('k', 'a', 60)).toBe(true)
      pass(60)
      await store.set('k', 2, 60)
      await store.release('k', 'a')
      expect(await store.get('k')).toBe(2)
    })
  })

  describe('keys that begin the same', () => {
    it('are removed as many at a time as is said, with their locks or without', async () => {
      const other = open(`deployment-${made}-other`, clock)
      await other.set('of:1:a', 'theirs', null)
      for (const key of ['of:1:a', 'of:1:b', 'of:1:%', 'of:12:a']) await store.set(key, key, null)
      await store.acquire('of:1:lock', 'a', 60)
      expect(await store.deleteOf('of:1:', { limit: 2, keepLocks: true })).toBe(2)
      expect(await store.deleteOf('of:1:', { limit: 2, keepLocks: true })).toBe(1)
      expect(await store.acquire('of:1:lock', 'b', 60)).toBe(false)
      expect(await store.deleteOf('of:1:', { limit: 2, keepLocks: false })).toBe(1)
      expect(await store.acquire('of:1:lock', 'b', 60)).toBe(true)
      expect([await store.get('of:12:a'), await other.get('of:1:a')]).toEqual(['of:12:a', 'theirs'])
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
            await store.get('something, meanwhile')
            running -= 1
            return n
          }),
        ),
      )
      expect([most, done]).toEqual([1, [0, 1, 2, 3, 4]])
    })

    it('waits for the holder, then goes on', async () => {
      const holding = occasion()
      const refused = occasion()
      const end = occasion()
      const watched: CacheStore = {
        ...store,
        async acquire(...args) {
          const acquired = await store.acquire(...args)
          if (!acquired) refused.happen()
          return acquired
        },
      }
      const first = withLock(store, 'awaited', lock, async () => {
        holding.happen()
        await end.happened
      })
      await holding.happened
      const second = withLock(watched, 'awaited', lock, async () => 'done')
      await refused.happened
      end.happen()
      await first
      expect(await second).toBe('done')
    })

    it('gives the lock back when it throws', async () => {
      await expect(withLock(store, 'thrown', lock, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
      expect(await withLock(store, 'thrown', { ...lock, waitSeconds: 0 }, async () => 'free')).toBe('free')
    })

    it('ends as it ended, also when the lock can not be given back', async () => {
      const broken: CacheStore = { ...store, release: () => Promise.reject(new Error('no connection')) }
      await expect(withLock(broken, 'b', lock, () => Promise.reject(new Error('the work')))).rejects.toThrow('the work')
      expect(await withLock(broken, 'c', lock, async () => 'done')).toBe('done')
    })

    it('counts what is left of the lock from before the statement that took it', async () => {
      const real = performance.now.bind(performance)
      let stoodStillMs = 0
      vi.spyOn(performance, 'now').mockImplementation(() => real() + stoodStillMs)
      const slow: CacheStore = {
        ...store,
        acquire: async (...given) => {
          stoodStillMs = 40_000
          return store.acquire(...given)
        },
      }
      await withLock(slow, 'slow', lock, async ({ leftMs }) => {
        expect(leftMs()).toBeLessThanOrEqual(lock.ttlSeconds * 1_000 - 40_000)
      })
    })

    it('may extend the lock, and learns when it has run out', async () => {
      const extended: boolean[] = []
      await withLock(store, 'long', lock, async ({ extend }) => {
        pass(59)
        extended.push(await extend())
        pass(59)
        extended.push(await store.acquire('long', 'another', 60))
        pass(1)
        extended.push(await extend())
      })
      expect(extended).toEqual([true, false, false])
    })

    it('is LockTimeoutException after one try with wait 0', async () => {
      await store.acquire('stuck', 'somebody else', 60)
      let tries = 0
      const counting: CacheStore = {
        ...store,
        acquire: (...args) => {
          tries += 1
          return store.acquire(...args)
        },
      }
      const work = withLock(counting, 'stuck', { ttlSeconds: 60, waitSeconds: 0 }, async () => 'never')
      await expect(work).rejects.toMatchObject({ code: 'lock_timeout', lock: 'stuck' })
      expect(tries).toBe(1)
    })
  })
}
