import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delayAfter } from '../../src/core/sync-item.ts'

describe('the wait after an attempt', () => {
  it.each([
    { attempt: 1, delays: [10, 60, 300], waits: 10 },
    { attempt: 2, delays: [10, 60, 300], waits: 60 },
    { attempt: 3, delays: [10, 60, 300], waits: 300 },
    { attempt: 4, delays: [10, 60, 300], waits: 300 },
    { attempt: 1_000, delays: [10, 60, 300], waits: 300 },
    { attempt: 5, delays: [0], waits: 0 },
  ])('is entry $attempt of $delays, the last one reused: $waits s', ({ attempt, delays, waits }) => {
    expect(delayAfter(attempt, delays)).toBe(waits)
  })

  it('is always an entry of the list', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2_000 }),
        fc.array(fc.nat(), { minLength: 1, maxLength: 100 }),
        (attempt, delays) => {
          expect(delays).toContain(delayAfter(attempt, delays))
        },
      ),
    )
  })
})
