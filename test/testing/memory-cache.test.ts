/** The store of one process. */
import { describe, expect, it } from 'vitest'
import { memoryCache } from '../../src/testing/memory-cache.ts'
import { describeCacheStore } from '../cache/conformance.ts'

describeCacheStore((_prefix, clock) => memoryCache(clock))

describe('the store of one process', () => {
  it('goes by the system’s clock unless it is given one', async () => {
    const store = memoryCache()
    await store.set('lasting', 1, 3600)
    await store.set('over', 1, 0)
    expect([await store.get('lasting'), await store.get('over')]).toEqual([1, undefined])
  })
})
