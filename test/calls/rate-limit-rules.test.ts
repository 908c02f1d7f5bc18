import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'

describe('a rate limit', () => {
  it.each([
    ['perMinute(5)', RateLimit.perMinute(5), 5, 60],
    ['perHour(5000)', RateLimit.perHour(5_000), 5_000, 3_600],
    ['perDay(1)', RateLimit.perDay(1), 1, 86_400],
    ['per(3, 10)', RateLimit.per(3, 10), 3, 10],
    ['per(1, 1)', RateLimit.per(1, 1), 1, 1],
  ])('%s', (_, rateLimit, limit, seconds) => {
    expect({ ...rateLimit }).toEqual({ limit, seconds, window: 'fixed' })
  })

  it('makes copies by sliding() and fixed()', () => {
    const fixed = RateLimit.perMinute(5)
    const sliding = fixed.sliding()
    expect({ ...sliding }).toEqual({ limit: 5, seconds: 60, window: 'sliding' })
    expect(fixed.window).toBe('fixed')
    expect({ ...sliding.fixed() }).toEqual({ ...fixed })
    expect(sliding.window).toBe('sliding')
  })

  const noCount = fc.oneof(
    fc.integer({ max: 0 }),
    fc.double({ noInteger: true }),
    fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY),
  )

  it.each(['perMinute', 'perHour', 'perDay'] as const)('%s takes integers of at least 1 only', (unit) => {
    fc.assert(
      fc.property(noCount, (limit) => {
        expect(() => RateLimit[unit](limit)).toThrow(
          expect.objectContaining({
            code: 'invalid_argument',
            argument: 'limit',
            message: expect.stringContaining(`${limit}`),
          }),
        )
      }),
    )
  })

  it('takes a window of an integer of at least 1 only', () => {
    fc.assert(
      fc.property(noCount, (seconds) => {
        expect(() => RateLimit.per(1, seconds)).toThrow(
          expect.objectContaining({
            argument: 'seconds',
            message: expect.stringContaining('an integer of at least 1'),
          }),
        )
      }),
    )
  })
})
