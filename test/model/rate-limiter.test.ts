import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Limit, WindowState } from '../../src/calls/admission/state-rules.ts'
import { unitsUsed } from '../../src/calls/admission/state-rules.ts'
import { admitByLimit, movedBack } from './rate-limiter.ts'

const START = 1_800_000_000_000

/** The moments at which calls were admitted, of those that asked. */
function admittedOf(moments: readonly number[], limit: Limit): number[] {
  let state: WindowState | null = null
  const admitted: number[] = []
  for (const now of moments) {
    const verdict = admitByLimit(state, limit, now)
    if (verdict.kind === 'refused') continue
    state = verdict.next
    admitted.push(now)
  }
  return admitted
}

const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 1_500 })), {
  maxLength: 120,
  size: 'max',
})
const momentsAfter = (given: readonly number[]): number[] => {
  let now = START + 123
  return given.map((gap) => {
    now += gap
    return now
  })
}
const limits = (window: Limit['window']) =>
  fc.record({
    limit: fc.integer({ min: 1, max: 12 }),
    seconds: fc.integer({ min: 1, max: 3 }),
    window: fc.constant(window),
  })

describe('any history', () => {
  it('of a fixed window: none ever holds more than the limit, and none is refused a unit that is there', () => {
    fc.assert(
      fc.property(limits('fixed'), gaps, (limit, given) => {
        const moments = momentsAfter(given)
        const admitted = admittedOf(moments, limit)
        const windowOf = (moment: number) => Math.floor(moment / (limit.seconds * 1_000))
        for (const start of new Set(moments.map(windowOf))) {
          const asked = moments.filter((moment) => windowOf(moment) === start).length
          expect(admitted.filter((moment) => windowOf(moment) === start)).toHaveLength(Math.min(asked, limit.limit))
        }
      }),
    )
  })

  it('of a sliding window: no span of its length ever holds more than the limit', () => {
    fc.assert(
      fc.property(limits('sliding'), gaps, (limit, given) => {
        const admitted = admittedOf(momentsAfter(given), limit)
        for (const from of admitted) {
          const span = admitted.filter((moment) => moment >= from && moment < from + limit.seconds * 1_000)
          expect(span.length).toBeLessThanOrEqual(limit.limit)
        }
      }),
    )
  })

  it('of a sliding window: a call is refused only while the span before it is full', () => {
    fc.assert(
      fc.property(limits('sliding'), gaps, (limit, given) => {
        const moments = momentsAfter(given)
        const admitted: number[] = []
        let state: WindowState | null = null
        for (const now of moments) {
          const verdict = admitByLimit(state, limit, now)
          const held = admitted.filter((moment) => moment > now - limit.seconds * 1_000).length
          expect(verdict.kind).toBe(held < limit.limit ? 'admitted' : 'refused')
          expect(unitsUsed(state, limit, now)).toBe(held)
          if (verdict.kind === 'refused') continue
          state = verdict.next
          admitted.push(now)
        }
      }),
    )
  })

  it('of a sliding window with slots of several milliseconds: still never more than the limit', () => {
    const limit: Limit = { limit: 1_025, seconds: 4, window: 'sliding' }
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1_300, maxLength: 1_800, size: 'max' }),
        (given) => {
          const admitted = admittedOf(momentsAfter(given), limit)
          for (const [first, from] of admitted.entries()) {
            const next = admitted[first + limit.limit]
            expect(next === undefined || next - from >= 4_000).toBe(true)
          }
        },
      ),
      { numRuns: 4 },
    )
  })

  it.each(['fixed', 'sliding'] as const)('told to wait, a caller that waits so long gets its unit: %s', (window) => {
    fc.assert(
      fc.property(limits(window), gaps, (limit, given) => {
        let state: WindowState | null = null
        for (const now of momentsAfter(given)) {
          const verdict = admitByLimit(state, limit, now)
          if (verdict.kind === 'admitted') {
            state = verdict.next
            continue
          }
          expect(verdict.retryAfterMs).toBeGreaterThan(0)
          expect(verdict.retryAfterMs).toBeLessThanOrEqual(limit.seconds * 1_000)
          expect(admitByLimit(state, limit, now + verdict.retryAfterMs - 1).kind).toBe('refused')
          expect(admitByLimit(state, limit, now + verdict.retryAfterMs).kind).toBe('admitted')
        }
      }),
    )
  })
})

describe('boundaries', () => {
  const fixed: Limit = { limit: 1, seconds: 60, window: 'fixed' }
  const sliding: Limit = { limit: 1, seconds: 60, window: 'sliding' }
  const full = (limit: Limit, now: number): WindowState => {
    const verdict = admitByLimit(null, limit, now)
    if (verdict.kind === 'refused') throw new Error('an empty window refuses')
    return verdict.next
  }

  it.each([
    // A window starts at a multiple of its length since the epoch: START is one of 60 s.
    { limit: fixed, at: 0, now: 59_999, wait: 1 },
    { limit: fixed, at: 0, now: 60_000, wait: null },
    { limit: fixed, at: 59_999, now: 60_000, wait: null },
    // A clock that was set back by up to a second stays in the window that it had reached.
    { limit: fixed, at: 60_000, now: 59_000, wait: 61_000 },
    // After a jump the unit counts in the window of now.
    { limit: fixed, at: 60_000, now: 58_999, wait: 1_001 },
    { limit: fixed, at: 3_600_000, now: 0, wait: 60_000 },
    { limit: sliding, at: 0, now: 59_999, wait: 1 },
    { limit: sliding, at: 0, now: 60_000, wait: null },
    { limit: sliding, at: 59_999, now: 60_000, wait: 59_999 },
    { limit: sliding, at: 60_000, now: 59_000, wait: 61_000 },
    { limit: sliding, at: 60_000, now: 58_999, wait: 60_000 },
    { limit: sliding, at: 3_600_000, now: 0, wait: 60_000 },
  ])('$limit.window: a unit taken at $at ms is missing at $now ms for $wait ms', ({ limit, at, now, wait }) => {
    const verdict = admitByLimit(full(limit, START + at), limit, START + now)
    expect(verdict).toMatchObject(wait === null ? { kind: 'admitted' } : { kind: 'refused', retryAfterMs: wait })
  })

  it('moves back all units that were taken after a jump of the clock, and only those', () => {
    const stored: WindowState = {
      kind: 'sliding',
      seconds: 60,
      quantum: 1,
      slots: [900, 2_000, 2_001, 9_000],
      counts: [1, 2, 3, 4],
    }
    expect(movedBack(stored, { ...sliding, limit: 20 }, 1_000)).toEqual({
      ...stored,
      slots: [900, 1_000, 2_000],
      counts: [1, 7, 2],
    })
    expect(movedBack(stored, { ...sliding, limit: 20 }, 8_000)).toBe(stored)
    expect(movedBack(stored, fixed, 1_000)).toBe(stored)
  })

  it.each([
    { name: 'a higher limit of the same length and kind keeps the count', to: { ...fixed, limit: 2 }, used: 1 },
    { name: 'another length starts empty', to: { ...fixed, seconds: 30 }, used: 0 },
    { name: 'another kind starts empty', to: { ...sliding }, used: 0 },
  ])('$name', ({ to, used }) => {
    expect(unitsUsed(full(fixed, START), to, START + 1)).toBe(used)
  })

  it('a slot of several milliseconds counts until its last one has left', () => {
    const limit: Limit = { limit: 1_025, seconds: 60, window: 'sliding' }
    const start = Math.floor((START + 7) / 59) * 59 // ceil(60,000 / 1,024) milliseconds a slot
    const state = full(limit, START + 7)
    expect(unitsUsed(state, limit, start + 58 + 59_999)).toBe(1)
    expect(unitsUsed(state, limit, start + 58 + 60_000)).toBe(0)
  })

  it('a lower limit refuses until enough has left', () => {
    const wide: Limit = { limit: 3, seconds: 10, window: 'sliding' }
    let state: WindowState | null = null
    for (const now of [0, 1_000, 2_000]) {
      const verdict = admitByLimit(state, wide, START + now)
      if (verdict.kind === 'admitted') state = verdict.next
    }
    const verdict = admitByLimit(state, { ...wide, limit: 1 }, START + 3_000)
    expect(verdict).toEqual({ kind: 'refused', retryAfterMs: 9_000 })
  })

  it.each([
    { limit: 1_024, quantum: 1 },
    { limit: 1_025, quantum: 3_516 }, // ceil(3,600,000 / 1,024)
  ])('a sliding window of $limit an hour has slots of $quantum ms', ({ limit, quantum }) => {
    expect(full({ limit, seconds: 3_600, window: 'sliding' }, START)).toMatchObject({ quantum })
  })
})
