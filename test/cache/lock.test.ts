/** When who waits for a lock looks, by a clock of the test's own. Rule: docs/behaviour/locks.md, "How long a lock lasts". */
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { withLock } from '../../src/cache/lock.ts'
import { memoryCache } from '../../src/testing/memory-cache.ts'

let nowMs = 0
beforeEach(() => {
  nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  vi.spyOn(timers, 'setTimeout').mockImplementation(async (ms = 0, value) => {
    nowMs += ms
    return value as never
  })
  // Who has imported it by its name learns of it only so.
  syncBuiltinESMExports()
})
afterEach(() => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
})

it.each([
  [0, [0]],
  [0.5, [0, 50, 125, 238, 406, 500]],
  [1.5, [0, 50, 125, 238, 406, 656, 906, 1_156, 1_406, 1_500]],
])(
  'a wait of %s s looks after %j ms: ever more slowly, and a last time when it is over',
  async (waitSeconds, expected) => {
    const looks: number[] = []
    const heldByAnother = {
      ...memoryCache(),
      acquire: async () => {
        looks.push(Math.round(nowMs))
        return false
      },
    }
    const work = withLock(heldByAnother, 'stuck', { ttlSeconds: 60, waitSeconds }, async () => 'never')
    await expect(work).rejects.toMatchObject({ code: 'lock_timeout', lock: 'stuck' })
    expect(looks).toEqual(expected)
  },
)
