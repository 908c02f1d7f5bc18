import { describe, expect, it } from 'vitest'
import { marginMs, paceOf } from '../../../src/calls/admission/pace-rules.ts'

describe('the margin for the way', () => {
  it.each([
    { seconds: 1, expected: 100 },
    { seconds: 5, expected: 100 },
    { seconds: 10, expected: 200 },
    { seconds: 50, expected: 1_000 },
    { seconds: 86_400, expected: 1_000 },
  ])('is $expected ms of a window of $seconds s', ({ seconds, expected }) => {
    expect(marginMs({ seconds })).toBe(expected)
  })
})

describe('the pace', () => {
  it.each([
    { limit: 1, seconds: 1, expected: { units: 1, everyMs: 1_100 } },
    { limit: 25, seconds: 2, expected: { units: 1, everyMs: 84 } },
    { limit: 204, seconds: 10, expected: { units: 1, everyMs: 50 } },
    { limit: 300, seconds: 10, expected: { units: 2, everyMs: 68 } },
    { limit: 50_000, seconds: 10, expected: { units: 246, everyMs: 50.184 } },
    { limit: 5_000, seconds: 3_600, expected: { units: 1, everyMs: 720.2 } },
  ])('of $limit in $seconds s is the limit spread over window and margin', ({ limit, seconds, expected }) => {
    const { units, everyMs } = paceOf({ limit, seconds })
    expect(units).toBe(expected.units)
    expect(everyMs).toBeCloseTo(expected.everyMs, 6)
  })
})
