import { describe, expect, it } from 'vitest'
import type { BreakerSettings, WindowState } from '../../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER, failuresCounted, resetBreaker, unitsUsed } from '../../../src/calls/admission/state-rules.ts'

describe('units taken in the window', () => {
  const fixed: WindowState = { kind: 'fixed', seconds: 10, startsAt: 20_000, count: 4 }
  // Slots of 10 ms.
  const sliding: WindowState = { kind: 'sliding', seconds: 1, quantum: 10, slots: [100, 200], counts: [2, 3] }
  it.each([
    ['before the first call', null, 'fixed', 10, 25_000, 0],
    ['of the same window', fixed, 'fixed', 10, 29_999, 4],
    ['once the window is over', fixed, 'fixed', 10, 30_000, 0],
    ['by a clock that was set back', fixed, 'fixed', 10, 19_999, 4],
    ['of a window of another length', fixed, 'fixed', 20, 25_000, 0],
    ['of a window of another kind', fixed, 'sliding', 10, 25_000, 0],
    ['of all slots', sliding, 'sliding', 1, 1_108, 5],
    ['without the slot whose last millisecond has left', sliding, 'sliding', 1, 1_109, 3],
    ['of no slot', sliding, 'sliding', 1, 1_209, 0],
  ] as const)('%s', (_, stored, window, seconds, now, used) => {
    expect(unitsUsed(stored, { limit: 100, seconds, window }, now)).toBe(used)
  })
})

describe('what counts against a provider', () => {
  const settings: BreakerSettings = {
    enabled: true,
    strategy: 'rate',
    windowSeconds: 10,
    ratePercent: 50,
    minimum: 5,
    threshold: 3,
    cooldownSeconds: 60,
  }
  const rate = {
    ...CLOSED_BREAKER,
    streak: 9,
    slices: [
      [1_000, 8, 8],
      [2_000, 4, 1],
      [3_000, 6, 2],
    ] as const,
  }
  const count = { ...rate, strategy: 'count' as const }

  it('is the window of the rate, without the slice that began when it began', () => {
    expect(failuresCounted(rate, settings, 11_000)).toEqual({ failures: 3, ratePercent: 30 })
  })

  it('has no rate without an outcome', () => {
    expect(failuresCounted(rate, settings, 13_000)).toEqual({ failures: 0, ratePercent: null })
    expect(CLOSED_BREAKER.slices).toEqual([])
    expect(failuresCounted(CLOSED_BREAKER, settings, 0)).toEqual({ failures: 0, ratePercent: null })
  })

  it('is the streak of the count', () => {
    expect(failuresCounted(count, { ...settings, strategy: 'count' }, 11_000)).toEqual({
      failures: 9,
      ratePercent: null,
    })
  })

  it('starts empty under another strategy', () => {
    expect(failuresCounted(rate, { ...settings, strategy: 'count' }, 11_000)).toEqual({
      failures: 0,
      ratePercent: null,
    })
    expect(failuresCounted(count, settings, 11_000)).toEqual({ failures: 0, ratePercent: null })
  })
})

it('a reset breaker is closed, empty and of another generation', () => {
  const open = { ...CLOSED_BREAKER, state: 'open', generation: 7, openedAt: 5, strategy: 'count', streak: 3 } as const
  expect(resetBreaker({ ...open, slices: [[1, 2, 3]], probe: { owner: 'a', until: 9 } })).toEqual({
    ...CLOSED_BREAKER,
    generation: 8,
    strategy: 'count',
  })
})
