import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Leases } from '../../../src/calls/admission/leases.ts'

const ID = 1
const TERM_MS = 100
const MAX_UNITS = 100

let now: number
beforeEach(() => {
  now = 5_000
  vi.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => {
  vi.restoreAllMocks()
})

const given = (more: number, leftMs = 1_000, generation: number | null = 3) => ({ generation, more, leftMs })

describe('units wanted', () => {
  it('are none under four calls a term', () => {
    const leases = new Leases()
    expect(leases.wanted(ID, 1)).toBe(0)
    expect(leases.wanted(ID, 1)).toBe(0)
    expect(leases.wanted(ID, 1)).toBe(0)
    now += TERM_MS
    // Three in the term before, and this one.
    expect(leases.wanted(ID, 1)).toBe(0)
  })

  it('are as many as the calls of the term under way, from the fourth on', () => {
    const leases = new Leases()
    leases.wanted(ID, 3)
    expect(leases.wanted(ID, 1)).toBe(4)
    expect(leases.wanted(ID, 5)).toBe(9)
  })

  it('are as many as the last term has used, until this one has used more', () => {
    const leases = new Leases()
    leases.wanted(ID, 20)
    now += TERM_MS
    expect(leases.wanted(ID, 1)).toBe(20)
    expect(leases.wanted(ID, 24)).toBe(25)
  })

  it('count calls that were taken', () => {
    const leases = new Leases()
    leases.wanted(ID, 4)
    leases.give(ID, given(10), now)
    expect(leases.take(ID, 6)).not.toBeNull()
    now += TERM_MS
    expect(leases.wanted(ID, 1)).toBe(10)
  })

  it('are a hundred at most', () => {
    const leases = new Leases()
    expect(leases.wanted(ID, MAX_UNITS)).toBe(MAX_UNITS)
    expect(leases.wanted(ID, 1)).toBe(MAX_UNITS)
    now += TERM_MS
    expect(leases.wanted(ID, 1)).toBe(MAX_UNITS)
  })

  it('do not go by a term that is not the last', () => {
    const leases = new Leases()
    leases.wanted(ID, 50)
    now += 2 * TERM_MS - 1
    expect(leases.wanted(ID, 1)).toBe(50)
    leases.wanted(2, 50)
    now += 2 * TERM_MS
    expect(leases.wanted(2, 1)).toBe(0)
  })

  it('are those of the integration', () => {
    const leases = new Leases()
    leases.wanted(ID, 50)
    expect(leases.wanted(2, 1)).toBe(0)
  })
})

describe('units given', () => {
  it('are taken until they are used up, with their generation', () => {
    const leases = new Leases()
    expect(leases.take(ID, 1)).toBeNull()
    leases.give(ID, given(3), now)
    expect(leases.take(2, 1)).toBeNull()
    expect(leases.take(ID, 2)?.generation).toBe(3)
    expect(leases.take(ID, 1)?.generation).toBe(3)
    expect(leases.take(ID, 1)).toBeNull()
  })

  it('lead to no count where the breaker counts none', () => {
    const leases = new Leases()
    leases.give(ID, given(1, 1_000, null), now)
    expect(leases.take(ID, 1)).toMatchObject({ generation: null })
  })

  it('are all left to others by a group that is larger', () => {
    const leases = new Leases()
    leases.give(ID, given(3), now)
    expect(leases.take(ID, 4)).toBeNull()
    expect(leases.take(ID, 3)).not.toBeNull()
  })

  it.each([
    { leftMs: 1_000, lastsMs: TERM_MS, end: 'their term' },
    { leftMs: TERM_MS, lastsMs: TERM_MS, end: 'both' },
    { leftMs: 30, lastsMs: 30, end: 'their window' },
    { leftMs: 2_147_483_647, lastsMs: TERM_MS, end: 'their term, without a window' },
  ])('end with $end', ({ leftMs, lastsMs }) => {
    const leases = new Leases()
    leases.give(ID, given(3, leftMs), now)
    now += lastsMs - 1
    expect(leases.take(ID, 1)).not.toBeNull()
    now += 1
    expect(leases.take(ID, 1)).toBeNull()
    now -= 1
    expect(leases.take(ID, 1)).toBeNull()
  })

  it.each([TERM_MS, 1_000])('end by the moment at which they were asked for: %i ms left', (leftMs) => {
    const leases = new Leases()
    const askedAt = now
    now += 60
    leases.give(ID, given(3, leftMs), askedAt)
    now += 39
    expect(leases.take(ID, 1)).not.toBeNull()
    now += 1
    expect(leases.take(ID, 1)).toBeNull()
  })

  it('are none when the answer came too late', () => {
    const leases = new Leases()
    const askedAt = now
    now += TERM_MS
    leases.give(ID, given(3), askedAt)
    expect(leases.take(ID, 1)).toBeNull()
  })

  it('leave those in hand alone when they are none', () => {
    const leases = new Leases()
    leases.give(ID, given(2), now)
    leases.give(ID, given(0), now)
    expect(leases.take(ID, 2)).not.toBeNull()
  })
})

describe('an end', () => {
  it('ends what is in hand', () => {
    const leases = new Leases()
    leases.give(ID, given(3), now)
    leases.give(2, given(3), now)
    leases.end(ID)
    expect(leases.take(ID, 1)).toBeNull()
    expect(leases.take(2, 1)).not.toBeNull()
  })

  it('lets none begin that was asked for before, or at that moment', () => {
    const leases = new Leases()
    const askedAt = now
    now += 1
    leases.end(ID)
    leases.give(ID, given(3), askedAt)
    expect(leases.take(ID, 1)).toBeNull()
    leases.give(ID, given(3), now)
    expect(leases.take(ID, 1)).toBeNull()
    now += 1
    leases.give(ID, given(3), now)
    expect(leases.take(ID, 1)).not.toBeNull()
  })
})

type Step =
  | { readonly kind: 'wanted' | 'take'; readonly id: number; readonly callers: number }
  | { readonly kind: 'ask'; readonly id: number }
  | { readonly kind: 'answer'; readonly more: number; readonly leftMs: number }
  | { readonly kind: 'end'; readonly id: number }
  | { readonly kind: 'pass'; readonly ms: number }

const ids = fc.constantFrom(1, 2)
const callers = fc.integer({ min: 1, max: 8 })
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wanted' as const), id: ids, callers }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), id: ids, callers }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('ask' as const), id: ids }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('answer' as const),
      more: fc.integer({ min: 0, max: 20 }),
      leftMs: fc.constantFrom(1, 20, 99, 100, 101, 5_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('end' as const), id: ids }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(0.5, 1, 19, 50, 99, 100) }),
  },
)

it('never gives more than it was given, nor at or after its end, over random histories', () => {
  let taken = 0
  fc.assert(
    fc.property(fc.array(steps, { minLength: 10, maxLength: 80, size: 'max' }), (history) => {
      const leases = new Leases()
      const asked: { id: number; at: number }[] = []
      /** All that were ever given: each with its generation, by which a unit that is taken is known. */
      const all = new Map<number, { id: number; left: number; endsAt: number; askedAt: number }>()
      const ended = new Map<number, number>()
      for (const step of history)
        switch (step.kind) {
          case 'pass':
            now += step.ms
            break
          case 'wanted': {
            const wanted = leases.wanted(step.id, step.callers)
            expect(wanted === 0 || (wanted >= 4 && wanted <= MAX_UNITS)).toBe(true)
            break
          }
          case 'ask':
            asked.push({ id: step.id, at: now })
            break
          case 'answer': {
            const question = asked.shift()
            if (question === undefined) break
            const generation = all.size
            const endsAt = question.at + Math.min(TERM_MS, step.leftMs)
            all.set(generation, { id: question.id, left: step.more, endsAt, askedAt: question.at })
            leases.give(question.id, { generation, more: step.more, leftMs: step.leftMs }, question.at)
            break
          }
          case 'end':
            leases.end(step.id)
            ended.set(step.id, now)
            break
          case 'take': {
            const unit = leases.take(step.id, step.callers)
            if (unit === null) break
            taken += 1
            const lease = all.get(unit.generation as number)
            if (lease === undefined) throw new Error(`no lease has the generation ${unit.generation}`)
            lease.left -= step.callers
            expect(lease.id).toBe(step.id)
            expect(lease.left).toBeGreaterThanOrEqual(0)
            expect(now).toBeLessThan(lease.endsAt)
            expect(lease.askedAt).toBeGreaterThan(ended.get(step.id) ?? Number.NEGATIVE_INFINITY)
          }
        }
    }),
    { numRuns: 300 },
  )
  expect(taken).toBeGreaterThan(100)
})
