import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { intervalMultiplier, runStatus } from '../../src/syncs/run-rules.ts'

describe('the status of a run', () => {
  it.each([
    { succeeded: 0, failed: 0, skipped: 0, status: 'success' },
    { succeeded: 5, failed: 0, skipped: 0, status: 'success' },
    { succeeded: 0, failed: 0, skipped: 2, status: 'success' },
    { succeeded: 5, failed: 1, skipped: 0, status: 'partial' },
    { succeeded: 0, failed: 1, skipped: 1, status: 'partial' },
    { succeeded: 2, failed: 1, skipped: 2, status: 'partial' },
    { succeeded: 0, failed: 1, skipped: 0, status: 'failed' },
  ])('$succeeded succeeded, $failed failed, $skipped skipped: $status', ({ status, ...counts }) => {
    expect(runStatus(counts)).toBe(status)
  })
})

describe('the interval after runs with failures', () => {
  const CAP = 16

  it.each([
    [0, 1],
    [1, 1],
    [2, 2],
    [3, 4],
    [4, 8],
    [5, 16],
    [6, 16],
    [1_000_000, 16],
  ])('after %i in a row is multiplied by %i', (failures, multiplier) => {
    expect(intervalMultiplier(failures, CAP)).toBe(multiplier)
  })

  it('is never multiplied by more than the cap, nor shrinks while failures go on', () => {
    fc.assert(
      fc.property(fc.nat(2_000), fc.integer({ min: 1, max: 2 ** 31 - 1 }), (failures, cap) => {
        const multiplier = intervalMultiplier(failures, cap)
        expect(multiplier).toBeGreaterThanOrEqual(1)
        expect(multiplier).toBeLessThanOrEqual(cap)
        expect(intervalMultiplier(failures + 1, cap)).toBeGreaterThanOrEqual(multiplier)
      }),
    )
  })
})
