import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BreakerSettings, BreakerState, CircuitOverride } from '../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER, resetBreaker } from '../../src/calls/admission/state-rules.ts'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import { admitByBreaker, settleOnBreaker } from './circuit-breaker.ts'

const NOW = 1_800_000_000_000
const SETTINGS: BreakerSettings = {
  enabled: true,
  strategy: 'rate',
  windowSeconds: 60,
  ratePercent: 50,
  minimum: 10,
  threshold: 5,
  cooldownSeconds: 60,
}
const COUNT: BreakerSettings = { ...SETTINGS, strategy: 'count' }
const CLASSES: readonly (FailureClass | null)[] = [null, 'upstream', 'throttle', 'client', 'unknown']

/** The breaker after these outcomes, all admitted before the first. */
function breakerAfter(
  outcomes: readonly (FailureClass | null)[],
  settings = SETTINGS,
  breaker: BreakerState = CLOSED_BREAKER,
  now = NOW,
): BreakerState {
  return outcomes.reduce(
    (state, failureClass) =>
      settleOnBreaker(state, settings, { owner: 'a', generation: breaker.generation, failureClass }, now).next,
    breaker,
  )
}

const times = (n: number, failureClass: FailureClass | null) => Array.from({ length: n }, () => failureClass)
const open: BreakerState = { ...CLOSED_BREAKER, state: 'open', generation: 1, openedAt: NOW }

function probing(settings = SETTINGS, now = NOW + 60_000): BreakerState {
  const verdict = admitByBreaker(open, settings, null, 'prober', now)
  if (verdict.kind === 'refused') throw new Error('the cooldown is not over')
  return verdict.next
}

describe('strategy rate', () => {
  it.each([
    ['9 of 9 fail: below the minimum', times(9, 'upstream'), 'closed'],
    ['10 of 10 fail', times(10, 'upstream'), 'open'],
    ['5 of 10 fail: the threshold is inclusive', [...times(5, null), ...times(5, 'upstream')], 'open'],
    ['4 of 10 fail', [...times(6, null), ...times(4, 'upstream')], 'closed'],
    ['the other classes stand in the denominator only', [...times(6, 'client'), ...times(4, 'upstream')], 'closed'],
    ['throttle, too', [...times(6, 'throttle'), ...times(4, 'upstream')], 'closed'],
    ['unknown, too', [...times(6, 'unknown'), ...times(4, 'upstream')], 'closed'],
    [
      'they make up the minimum',
      [...times(2, 'client'), ...times(2, 'throttle'), 'unknown', ...times(5, 'upstream')],
      'open',
    ],
    ['the other classes alone', times(20, 'client'), 'closed'],
    ['it is judged at failures: 9 fail, then one succeeds', [...times(9, 'upstream'), null], 'closed'],
    ['and then at the next one', [...times(9, 'upstream'), null, 'upstream'], 'open'],
  ] as const)('%s', (_, outcomes, state) => {
    expect(breakerAfter(outcomes).state).toBe(state)
  })

  it.each([
    { name: 'the last moment of the window', later: 59_999, state: 'open' },
    { name: 'when the slice has left it', later: 60_000, state: 'closed' },
  ])('counts what came before until it is a window old: $name', ({ later, state }) => {
    const counted = breakerAfter(times(9, 'upstream'))
    expect(breakerAfter(['upstream'], SETTINGS, counted, NOW + later).state).toBe(state)
  })

  it.each([
    { ratePercent: 1, failed: 1, others: 99, state: 'open' },
    { ratePercent: 1, failed: 1, others: 100, state: 'closed' },
    { ratePercent: 33, failed: 33, others: 67, state: 'open' },
    { ratePercent: 34, failed: 33, others: 67, state: 'closed' },
    { ratePercent: 100, failed: 10, others: 0, state: 'open' },
    { ratePercent: 100, failed: 99, others: 1, state: 'closed' },
  ])('of $ratePercent %: $failed of them fail, $others do not', ({ ratePercent, failed, others, state }) => {
    const settings = { ...SETTINGS, ratePercent }
    expect(breakerAfter([...times(others, null), ...times(failed, 'upstream')], settings).state).toBe(state)
  })

  it.each([
    // Slices of 2 s begin at even seconds, as NOW does: what came in the last moment of one leaves with its start.
    { at: 1_999, later: 119_999, state: 'open' },
    { at: 1_999, later: 120_000, state: 'closed' },
    { at: 2_000, later: 120_000, state: 'open' },
    { at: 2_000, later: 121_999, state: 'open' },
    { at: 2_000, later: 122_000, state: 'closed' },
  ])('a window of 120 s: failures at $at ms, the next at $later ms', ({ at, later, state }) => {
    const settings = { ...SETTINGS, windowSeconds: 120 }
    const counted = breakerAfter(times(9, 'upstream'), settings, CLOSED_BREAKER, NOW + at)
    expect(breakerAfter(['upstream'], settings, counted, NOW + later).state).toBe(state)
  })

  it('keeps at most 60 slices, whatever the window', () => {
    let breaker = CLOSED_BREAKER
    for (let second = 0; second < 1_000; second += 1)
      breaker = breakerAfter([null], { ...SETTINGS, windowSeconds: 301 }, breaker, NOW + second * 1_000)
    expect(breaker.slices.length).toBeLessThanOrEqual(60)
  })
})

describe('strategy count', () => {
  it.each([
    ['4 in a row', times(4, 'upstream'), 'closed'],
    ['5 in a row', times(5, 'upstream'), 'open'],
    ['a success between them resets', [...times(4, 'upstream'), null, ...times(4, 'upstream')], 'closed'],
    [
      'other classes neither add nor reset',
      [...times(4, 'upstream'), 'throttle', 'client', 'unknown', 'upstream'],
      'open',
    ],
  ] as const)('%s', (_, outcomes, state) => {
    expect(breakerAfter(outcomes, COUNT).state).toBe(state)
  })

  it.each([
    ['rate', 'count', SETTINGS, COUNT, 9, 4],
    ['count', 'rate', COUNT, SETTINGS, 4, 9],
  ] as const)(
    'starts empty after a change from %s to %s, and an open breaker stays open',
    (_, __, before, after, had, more) => {
      const counted = breakerAfter(times(had, 'upstream'), before)
      const changed = breakerAfter(times(more, 'upstream'), after, counted)
      expect(changed.state).toBe('closed')
      expect(breakerAfter(['upstream'], after, changed).state).toBe('open')
      const opened = breakerAfter(times(10, 'upstream'), before)
      expect(admitByBreaker(opened, after, null, 'a', NOW + 59_999).kind).toBe('refused')
      expect(admitByBreaker(opened, after, null, 'a', NOW + 60_000)).toMatchObject({ kind: 'admitted', probe: true })
    },
  )
})

describe('a trip', () => {
  it.each([
    ['rate', SETTINGS, 9],
    ['count', COUNT, 4],
  ] as const)(
    'of the strategy %s opens it now, for threshold_reached, one generation on, counters empty',
    (strategy, settings, had) => {
      const counted = breakerAfter(times(had, 'upstream'), settings)
      const last = { owner: 'a', generation: 0, failureClass: 'upstream' } as const
      expect(settleOnBreaker(counted, settings, last, NOW + 5)).toEqual({
        next: { state: 'open', generation: 1, openedAt: NOW + 5, probe: null, strategy, slices: [], streak: 0 },
        change: { kind: 'opened', reason: 'threshold_reached' },
      })
    },
  )

  it.each(CLASSES)('is not made longer, nor ended, by a late %s', (failureClass) => {
    const late = { owner: 'a', generation: 0, failureClass }
    expect(settleOnBreaker(open, SETTINGS, late, NOW + 30_000)).toEqual({ next: open, change: null })
  })
})

describe('an open breaker', () => {
  it.each([
    { elapsed: 0, verdict: { kind: 'refused', retryAfterMs: 60_000 } },
    { elapsed: 59_999, verdict: { kind: 'refused', retryAfterMs: 1 } },
    { elapsed: 60_000, verdict: { kind: 'admitted', probe: true, generation: 2 } },
  ])('after $elapsed ms', ({ elapsed, verdict }) => {
    expect(admitByBreaker(open, SETTINGS, null, 'a', NOW + elapsed)).toMatchObject(verdict)
  })

  it('is not changed by outcomes of calls that were admitted before it opened', () => {
    for (const failureClass of CLASSES)
      expect(breakerAfter([failureClass], SETTINGS, { ...open, generation: 9 }, NOW + 5).openedAt).toBe(NOW)
    const late = settleOnBreaker(open, SETTINGS, { owner: 'a', generation: 0, failureClass: null }, NOW + 5)
    expect(late).toEqual({ next: open, change: null })
  })
})

describe('a probe', () => {
  it.each<[FailureClass | null, BreakerState['state'], string | null]>([
    [null, 'closed', 'half_open_probe_succeeded'],
    ['upstream', 'open', 'half_open_probe_failed'],
    ['throttle', 'half_open', null],
    ['client', 'half_open', null],
    ['unknown', 'half_open', null],
  ])('that ends with %s leaves it %s (%s)', (failureClass, state, reason) => {
    const breaker = probing()
    const outcome = { owner: 'prober', generation: breaker.generation, failureClass }
    const { next, change } = settleOnBreaker(breaker, SETTINGS, outcome, NOW + 61_000)
    expect([next.state, next.probe, change?.reason ?? null]).toEqual([state, null, reason])
    expect(next.openedAt).toBe(state === 'open' ? NOW + 61_000 : state === 'closed' ? null : NOW)
  })

  it.each([
    { cooldownSeconds: 1, lease: 60_000 },
    { cooldownSeconds: 90, lease: 90_000 },
  ])('has the slot for $lease ms with a cooldown of $cooldownSeconds s', ({ cooldownSeconds, lease }) => {
    const settings = { ...SETTINGS, cooldownSeconds }
    const taken = NOW + cooldownSeconds * 1_000
    const breaker = probing(settings, taken)
    const verdict = (now: number) => admitByBreaker(breaker, settings, null, 'another', now)
    expect(verdict(taken)).toEqual({ kind: 'refused', openedAt: NOW, retryAfterMs: null })
    expect(verdict(taken + lease - 1).kind).toBe('refused')
    expect(verdict(taken + lease)).toMatchObject({ kind: 'admitted', probe: true })
    // Its own outcome is void from then on.
    const outcome = { owner: 'prober', generation: breaker.generation, failureClass: null }
    expect(settleOnBreaker(breaker, settings, outcome, taken + lease)).toEqual({ next: breaker, change: null })
    expect(settleOnBreaker(breaker, settings, outcome, taken + lease - 1).next.state).toBe('closed')
  })

  it('is judged by the outcome of its own call only', () => {
    const breaker = probing()
    const stranger = { owner: 'another', generation: breaker.generation, failureClass: null }
    expect(settleOnBreaker(breaker, SETTINGS, stranger, NOW + 61_000)).toEqual({ next: breaker, change: null })
  })
})

describe('an override', () => {
  it.each<[CircuitOverride, BreakerState, unknown]>([
    ['forced_open', CLOSED_BREAKER, { kind: 'refused', openedAt: null, retryAfterMs: null }],
    ['forced_open', open, { kind: 'refused', openedAt: NOW, retryAfterMs: null }],
    ['forced_closed', open, { kind: 'admitted', next: open, generation: null, probe: false }],
    ['disabled', open, { kind: 'admitted', next: open, generation: null, probe: false }],
    // No probe either, and no slot: `probing()` holds one.
    ['forced_open', probing(), { kind: 'refused', openedAt: NOW, retryAfterMs: null }],
    ['forced_closed', probing(), { kind: 'admitted', next: probing(), generation: null, probe: false }],
    ['disabled', probing(), { kind: 'admitted', next: probing(), generation: null, probe: false }],
    ['forced_closed', CLOSED_BREAKER, { kind: 'admitted', next: CLOSED_BREAKER, generation: null, probe: false }],
    ['disabled', CLOSED_BREAKER, { kind: 'admitted', next: CLOSED_BREAKER, generation: null, probe: false }],
  ])('%s', (override, breaker, verdict) => {
    expect(admitByBreaker(breaker, SETTINGS, override, 'a', NOW + 999_999)).toEqual(verdict)
  })

  it('is stronger than the master switch, and that than the state', () => {
    const off = { ...SETTINGS, enabled: false }
    expect(admitByBreaker(open, off, null, 'a', NOW)).toMatchObject({
      kind: 'admitted',
      generation: null,
      probe: false,
    })
    expect(admitByBreaker(open, off, 'forced_open', 'a', NOW).kind).toBe('refused')
  })

  it('leaves the breaker closed and empty, and outcomes from before it count no more', () => {
    const reset = resetBreaker(breakerAfter(times(9, 'upstream')))
    expect(reset).toMatchObject({ state: 'closed', openedAt: null, probe: null, slices: [], streak: 0, generation: 1 })
  })

  it('leaves outcomes of its time uncounted', () => {
    const uncounted = { owner: 'a', generation: null, failureClass: 'upstream' } as const
    expect(settleOnBreaker(CLOSED_BREAKER, COUNT, uncounted, NOW)).toEqual({ next: CLOSED_BREAKER, change: null })
  })
})

it('moves only along the allowed edges, one generation at each, with one probe at a time', () => {
  const ALLOWED = ['closed>open', 'open>half_open', 'half_open>open', 'half_open>closed']
  const step = fc.record({
    afterMs: fc.constantFrom(0, 1, 500, 10_000, 60_000, 130_000),
    act: fc.oneof(
      fc.constant('admit' as const),
      fc.record({ call: fc.nat(3), failureClass: fc.constantFrom(...CLASSES, 'upstream' as const) }),
    ),
  })
  const settings = fc.constantFrom(
    { ...SETTINGS, minimum: 2 },
    { ...COUNT, threshold: 2 },
    { ...COUNT, threshold: 1, cooldownSeconds: 1 },
  )
  const seen = new Set<string>()
  fc.assert(
    fc.property(settings, fc.array(step, { minLength: 40, maxLength: 80, size: 'max' }), (rules, history) => {
      let breaker = CLOSED_BREAKER
      let now = NOW
      let owners = 0
      const calls: { owner: string; generation: number | null }[] = []
      for (const { afterMs, act } of history) {
        now += afterMs
        const before = breaker
        if (act === 'admit') {
          owners += 1
          const owner = `owner ${owners}`
          const verdict = admitByBreaker(breaker, rules, null, owner, now)
          if (verdict.kind === 'refused') expect(before.state).not.toBe('closed')
          else {
            breaker = verdict.next
            calls.push({ owner, generation: verdict.generation })
            expect(verdict.probe).toBe(before.state !== 'closed')
            // Nobody else's slot is taken.
            if (before.probe !== null && before.state === 'half_open')
              expect(now).toBeGreaterThanOrEqual(before.probe.until)
          }
        } else {
          const [call] = calls.splice(Math.max(0, calls.length - 1 - act.call), 1)
          if (call === undefined) continue
          breaker = settleOnBreaker(breaker, rules, { ...call, failureClass: act.failureClass }, now).next
        }
        if (breaker.state !== before.state) {
          const edge = `${before.state}>${breaker.state}`
          seen.add(edge)
          expect(ALLOWED).toContain(edge)
          expect(breaker.generation).toBe(before.generation + 1)
        } else expect(breaker.generation).toBe(before.generation)
        if (before.state === 'open' && breaker.state === 'half_open')
          expect(now).toBeGreaterThanOrEqual((before.openedAt ?? 0) + rules.cooldownSeconds * 1_000)
      }
    }),
    { numRuns: 200 },
  )
  expect([...seen].sort()).toEqual([...ALLOWED].sort())
})
