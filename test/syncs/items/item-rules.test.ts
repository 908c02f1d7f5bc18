import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ItemOutcome, ItemPolicy, ItemStep } from '../../../src/syncs/items/item-rules.ts'
import {
  askedSeconds,
  boundedOutcome,
  delayAfter,
  isLikelyFinal,
  LONGEST_DEFERRAL_SECONDS,
  nextStep,
  remainingWaitSeconds,
} from '../../../src/syncs/items/item-rules.ts'

const policy: ItemPolicy = { tries: 3, backoffSeconds: [60, 300], retryWindowSeconds: 3_600 }
const succeeded: ItemOutcome = { kind: 'succeeded' }
const failed: ItemOutcome = { kind: 'failed', message: 'boom' }
const refused: ItemOutcome = { kind: 'refused', message: 'queued listener' }
const circuitOpen: ItemOutcome = { kind: 'failed', message: 'open', minimumWaitSeconds: 200 }
const deferred = (retryAfterSeconds: number): ItemOutcome => ({ kind: 'deferred', message: 'limit', retryAfterSeconds })
const final: ItemOutcome = { kind: 'failed', message: 'never', isFinal: true }
const notYet: ItemOutcome = { kind: 'not yet', message: 'no parent', retryAfterSeconds: 15 }
const fails = (reason: string): ItemStep => ({ kind: 'fail', reason })
type Waits = Extract<ItemStep, { kind: 'wait' }>
const waits = (seconds: number, because: Waits['because'] = 'failed'): ItemStep => ({ kind: 'wait', seconds, because })

describe('an item after an attempt', () => {
  it.each<[string, ItemOutcome, number, number, ItemStep]>([
    ['succeeds', succeeded, 1, 0, { kind: 'succeed' }],
    ['succeeds also after the window', succeeded, 3, 9_999_999, { kind: 'succeed' }],
    ['waits the first backoff after attempt 1', failed, 1, 0, waits(60)],
    ['waits the second after attempt 2', failed, 2, 100, waits(300)],
    ['fails at its last try', failed, 3, 100, fails('boom')],
    ['fails past its last try', failed, 4, 100, fails('boom')],
    ['runs when it is due exactly at the end of the window', failed, 1, 3_540, waits(60)],
    ['fails when it would be due one second later', failed, 1, 3_541, fails('boom')],
    ['waits out a cooldown that is longer than the backoff', circuitOpen, 1, 0, waits(200)],
    ['waits the backoff that is longer than the cooldown', circuitOpen, 2, 0, waits(300)],
    ['is deferred by exactly what was asked, uncounted', deferred(17), 1, 0, waits(17, 'deferred')],
    ['is deferred also with its tries used up', deferred(17), 3, 0, waits(17, 'deferred')],
    ['is deferred to the very end of the window', deferred(3_600), 1, 0, waits(3_600, 'deferred')],
    ['fails at once when the deferral ends after the window', deferred(3_601), 1, 0, fails('limit')],
    ['fails at its first try when another one would end alike', final, 1, 0, fails('never')],
    ['is put off, uncounted, also with its tries used up', notYet, 3, 0, waits(15, 'not yet')],
    ['fails when it would be put off past the window', notYet, 1, 3_590, fails('no parent')],
    ['fails at once when it can never be delivered', refused, 0, 0, fails('queued listener')],
    ['runs again at once, uncounted, when it was interrupted', { kind: 'interrupted' }, 1, 0, waits(0, 'interrupted')],
    ['so also past the window', { kind: 'interrupted' }, 3, 9_999_999, waits(0, 'interrupted')],
  ])('%s', (_, outcome, attempts, ageSeconds, step) => {
    expect(nextStep(outcome, attempts, ageSeconds, policy)).toEqual(step)
  })

  it.each([
    ['has another try within the window', 1, 3_540, false],
    ['would be due past the window', 1, 3_541, true],
    ['has its last try', 3, 0, true],
  ])('that %s: whether it is likely final', (_, attempts, ageSeconds, isFinal) => {
    expect(isLikelyFinal(attempts, ageSeconds, policy)).toBe(isFinal)
  })

  it('is put off 20 times, and then has failed', () => {
    expect(boundedOutcome(notYet, 19)).toEqual(notYet)
    expect(boundedOutcome(notYet, 20)).toEqual({ kind: 'failed', message: 'no parent' })
    expect(boundedOutcome(deferred(5), 20)).toEqual(deferred(5))
  })

  it('reuses the last backoff', () => {
    expect(nextStep(failed, 7, 0, { ...policy, tries: 10 })).toEqual(waits(300))
  })

  const anyPolicy = fc.record({
    tries: fc.integer({ min: 1, max: 20 }),
    backoffSeconds: fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 5 }),
    retryWindowSeconds: fc.integer({ min: 1, max: 20_000 }),
  })
  const anyTrouble = fc.oneof(
    fc.constant(failed),
    fc.integer({ min: 1, max: 5_000 }).map(deferred),
    fc
      .integer({ min: 0, max: 5_000 })
      .map((minimumWaitSeconds): ItemOutcome => ({ kind: 'failed', message: 'open', minimumWaitSeconds })),
  )

  it('never exceeds its tries nor its window, and ends', () => {
    fc.assert(
      fc.property(anyPolicy, fc.infiniteStream(anyTrouble), (limits, troubles) => {
        let attempts = 0
        let age = 0
        let last: ItemStep | undefined
        // Deferrals take at least a second each, so the window bounds them.
        for (let turn = 0; turn <= limits.tries + limits.retryWindowSeconds; turn += 1) {
          const outcome = troubles.next().value ?? failed
          last = nextStep(outcome, attempts + 1, age, limits)
          if (outcome.kind === 'failed') attempts += 1
          if (last.kind !== 'wait') break
          expect(last.because).toBe(outcome.kind)
          age += last.seconds
          expect(age).toBeLessThanOrEqual(limits.retryWindowSeconds)
        }
        expect(last?.kind).toBe('fail')
        expect(attempts).toBeLessThanOrEqual(limits.tries)
      }),
    )
  })
})

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

describe('what is left of a wait', () => {
  it.each([
    [1, 0, 60],
    [1, 59.5, 1],
    [1, 60, 0],
    [1, 999, 0],
    [2, 100, 200],
    [9, 0, 300],
    // A row that was never tried waits as after its first attempt.
    [0, 10, 50],
  ])('after attempt %i and %f s: %i s', (attempts, waited, left) => {
    expect(remainingWaitSeconds(attempts, waited, [60, 300])).toBe(left)
  })
})

it.each<[unknown, number]>([
  [60, 60],
  [0.5, 0.5],
  [0, 0],
  [-1, 0],
  ['60', 0],
  [Number.POSITIVE_INFINITY, 0],
  [undefined, 0],
  [LONGEST_DEFERRAL_SECONDS + 1, LONGEST_DEFERRAL_SECONDS],
])('an error that asks for %j gets %i seconds', (retryAfterSeconds, seconds) => {
  expect(askedSeconds({ retryAfterSeconds })).toBe(seconds)
})
