import { describe, expect, it } from 'vitest'
import type { ObservedRun, StreamFigures } from '../../src/syncs/adaptive-rules.ts'
import {
  adaptiveInterval,
  ageWords,
  callsOf,
  changesPerSecond,
  intervalAt,
  limitBudget,
  NO_FIGURES,
  observed,
  priceFor,
  quotaBudget,
  shownInterval,
} from '../../src/syncs/adaptive-rules.ts'
import { meanAgeSeconds } from './adaptive-age.ts'

const BOUNDS = { least: 60, most: 3_600 }
const WIDE = { least: 1e-3, most: 1e9 }
const rateOf = (figures: StreamFigures) => changesPerSecond(figures, BOUNDS)
const shownBy = (runs: readonly ObservedRun[]) =>
  runs.reduce((figures, run) => observed(figures, run, BOUNDS), NO_FIGURES)
const repeated = (count: number, run: ObservedRun) => Array.from({ length: count }, () => run)

describe('the mean age of a copy', () => {
  it('is that of the integral over a period of the change process', () => {
    // Of a first change at s, the age at the end of the period T grows to T - s: the mean over T is its half square.
    for (const [rate, seconds] of [
      [0.01, 30],
      [0.01, 300],
      [1, 100],
    ] as const) {
      const steps = 200_000
      let integral = 0
      for (let step = 0; step < steps; step++) {
        const first = ((step + 0.5) * seconds) / steps
        integral += (rate * Math.exp(-rate * first) * (seconds - first) ** 2 * seconds) / (2 * seconds * steps)
      }
      expect(meanAgeSeconds(rate, seconds)).toBeCloseTo(integral, 4)
    }
  })

  it('is 0 where nothing changes', () => {
    expect(meanAgeSeconds(0, 100)).toBe(0)
  })

  it.each([
    ['very few changes', 1e-14, 100, (1e-14 * 100 ** 2) / 6],
    ['few changes', 1e-7, 100, (1e-7 * 100 ** 2) / 6],
    ['many changes', 1e4, 100, 50],
  ])('with %s a run is as its limit says', (_, rate, seconds, limit) =>
    expect(meanAgeSeconds(rate, seconds) / limit).toBeCloseTo(1, 3),
  )
})

describe('the interval at a price', () => {
  it('is within 6 % of the one whose age falls by the price for a call more, however often it changes', () => {
    for (let changes = 0.01; changes < 200; changes *= 1.3)
      for (const [rate, callsPerRun] of [
        [0.001, 1],
        [0.5, 1],
        [0.02, 30],
      ] as const) {
        const exact = changes / rate
        const step = exact * 1e-4
        const slope = (meanAgeSeconds(rate, exact + step) - meanAgeSeconds(rate, exact - step)) / (2 * step)
        const price = (exact ** 2 * slope) / callsPerRun
        // Above the price that every call has.
        const demand = { ...WIDE, changesPerSecond: rate, callsPerRun }
        expect(intervalAt(price, demand) / exact).toBeGreaterThan(0.94)
        expect(intervalAt(price, demand) / exact).toBeLessThan(1.06)
      }
  })

  it('lowers the sum of the ages more than any other that costs as much: two streams, each share of the calls', () => {
    const [often, seldom] = [1 / 50, 1 / 5_000]
    const budget = 0.01
    const demand = (rate: number) => ({ streams: 1, ...WIDE, changesPerSecond: rate, callsPerRun: 1 })
    const price = priceFor([demand(often), demand(seldom)], budget)
    const ages = (share: number) =>
      meanAgeSeconds(often, 1 / (share * budget)) + meanAgeSeconds(seldom, 1 / ((1 - share) * budget))
    const ours = ages(1 / intervalAt(price, demand(often)) / budget)
    for (let share = 0.05; share < 1; share += 0.05) expect(ours).toBeLessThan(1.002 * ages(share))
  })

  it.each([
    [0, 60],
    [1e12, 3_600],
    [Number.POSITIVE_INFINITY, 3_600],
  ])('of %f stays within the bounds', (price, seconds) =>
    expect(intervalAt(price, { ...BOUNDS, changesPerSecond: 1, callsPerRun: 1 })).toBe(seconds),
  )
})

describe('the price of a budget', () => {
  const demand = { streams: 10, ...BOUNDS, changesPerSecond: 0.01, callsPerRun: 2 }
  const fixed = { ...demand, least: 100, most: 100 }

  it('is 0 where the calls fit without one, and infinite where they never do', () => {
    expect(priceFor([demand], 1)).toBe(0)
    expect(priceFor([], 1)).toBe(0)
    expect(priceFor([demand], 20 / 3_601)).toBe(Number.POSITIVE_INFINITY)
  })

  it('lets a budget be used up', () => {
    expect(priceFor([demand], 20 / BOUNDS.least)).toBe(0)
    // The lowest one at which each interval is the longest.
    const price = priceFor([demand], 20 / BOUNDS.most)
    expect(intervalAt(price, demand)).toBe(BOUNDS.most)
    expect(intervalAt(0.99 * price, demand)).toBeLessThan(BOUNDS.most)
  })

  it('has the calls fit the budget, after those of fixed intervals', () => {
    const price = priceFor([demand, fixed], 0.25)
    expect(20 / intervalAt(price, demand)).toBeCloseTo(0.05, 4)
  })
})

describe('what decides about an interval', () => {
  it.each([
    ['least', 1, 0, null],
    ['most', 1e-9, 100, null],
    ['limit', 1, 1e12, 0],
    ['changes', 0.001, 0, null],
    ['changes', 0.001, 100, null],
    // The price that every call has.
    ['changes', 0.001, 0.23 * 60 ** 2, null],
    ['quota', 0.001, 0, 100],
    ['limit', 0.001, 50_000, 100],
    ['quota', 0.001, 100, 50_000],
    ['limit', 0.001, 50_000, 50_000],
    ['least', 0.001, 0, 0],
  ])('%s: %f changes a second, prices %f and %s', (reason, rate, limit, quota) => {
    const demand = { ...BOUNDS, changesPerSecond: rate, callsPerRun: 1 }
    expect(adaptiveInterval(demand, { limit, quota }).reason).toBe(reason)
  })
})

describe('an interval without a limit', () => {
  it.each([
    [60, 60],
    [600, 116],
    [3_600, 208],
    [86_400, 599],
    [30 * 86_400, 1_860],
  ])('of a stream that changes once in %i s is %i s', (every, seconds) => {
    const demand = { ...BOUNDS, changesPerSecond: 1 / every, callsPerRun: 1 }
    expect(Math.round(adaptiveInterval(demand, { limit: 0, quota: null }).seconds)).toBe(seconds)
  })
})

describe('the calls of a quota that are planned', () => {
  it.each([
    ['most of a large one', { limit: 3_600, seconds: 3_600 }, 1, 10, 0.936],
    ['fewer of a small one, which overflows by chance', { limit: 60, seconds: 60 }, 1, 10, 0.6],
    ['fewer where a run makes many calls at once', { limit: 3_600, seconds: 3_600 }, 25, 10, 0.719],
    ['those of a dispatch, where the window is shorter', { limit: 100, seconds: 10 }, 1, 60, 1.12],
  ])('are %s', (_, quota, callsPerRun, round, budget) =>
    expect(quotaBudget(quota, [{ streams: 9, ...BOUNDS, changesPerSecond: 1, callsPerRun }], round)).toBeCloseTo(
      budget,
      2,
    ),
  )
})

describe('what runs show', () => {
  it('begins with one change in twice the shortest interval', () => expect(rateOf(NO_FIGURES)).toBe(1 / 120))

  it('fades with time: a month of quiet weighs no more than what is remembered', () => {
    const figures = { changesSeen: 5, secondsSeen: 1_000, callsPerRun: 1 }
    const month = observed(figures, { changes: 0, seconds: 30 * 86_400, calls: 1 }, BOUNDS)
    const year = observed(figures, { changes: 0, seconds: 365 * 86_400, calls: 1 }, BOUNDS)
    expect(year.secondsSeen).toBeLessThanOrEqual(366 * 86_400)
    expect(year.changesSeen).toBeLessThan(month.changesSeen)
  })

  it('is the rate of the changes', () =>
    expect(rateOf(shownBy(repeated(100, { changes: 5, seconds: 10_000, calls: 1 }))) * 10_000).toBeCloseTo(5, 0))

  it('falls with each run that finds nothing, and rises within some runs when many changes come', () => {
    const quiet = shownBy(repeated(500, { changes: 0, seconds: 3_600, calls: 1 }))
    expect(rateOf(quiet)).toBeLessThan(1e-6)
    const busy = repeated(12, { changes: 100, seconds: 600, calls: 1 }).reduce(
      (f, run) => observed(f, run, BOUNDS),
      quiet,
    )
    expect(rateOf(busy)).toBeGreaterThan(0.1)
  })

  it('corrects for several changes that a run sees as one: half of the runs that see any means 0.69 changes a run', () => {
    const runs = Array.from({ length: 2_000 }, (_, n) => ({ changes: n % 2, seconds: 1_000, calls: 1 }))
    expect(rateOf(shownBy(runs)) * 1_000).toBeGreaterThan(0.6)
    expect(rateOf(shownBy(runs)) * 1_000).toBeLessThan(0.8)
  })

  it.each([0, -5])(
    'is nothing in %s seconds, as after a clock was set back: one change in no time is no rate',
    (seconds) => {
      const figures = { changesSeen: 4, secondsSeen: 600, callsPerRun: 2 }
      expect(observed(figures, { changes: 1, seconds, calls: 9 }, BOUNDS)).toEqual(figures)
    },
  )

  it('takes the calls of a run as they become', () => {
    const figures = shownBy([
      ...repeated(10, { changes: 0, seconds: 1, calls: 3 }),
      { changes: 0, seconds: 1, calls: 11 },
    ])
    expect(figures.callsPerRun).toBe(4)
  })
})

describe('an interval in words', () => {
  it.each([
    [180, 60, 60, 'data is at most 4 minutes old; for 2 minutes you need 3 times the calls'],
    [230, 50, 10, 'data is at most 4 minutes old; for 1 minute you need 4.6 times the calls'],
    [618, 60, 60, 'data is at most 12 minutes old; for 2 minutes you need 11 times the calls'],
    [60, 60, 60, 'data is at most 2 minutes old'],
    [30, 30, 10, 'data is at most 40 seconds old'],
    [7_140, 60, 60, 'data is at most 2 hours old; for 2 minutes you need 119 times the calls'],
    [86_340, 10_740, 60, 'data is at most 1 day old; for 3 hours you need 8.1 times the calls'],
  ])('of %i s, at least %i, dispatched each %i s: %s', (seconds, least, round, words) =>
    expect(ageWords({ seconds, least }, round)).toBe(words),
  )
})

describe('the interval that is shown', () => {
  const stream = { declared: BOUNDS, setSeconds: null, adaptiveSeconds: 180, adaptiveReason: 'quota' } as const
  const shown = (more: Partial<Parameters<typeof shownInterval>[0]>, multiplier = 1) =>
    shownInterval({ ...stream, ...more }, { multiplier, roundSeconds: 60 })

  it.each([
    ['as its last run left it', {}, { ...BOUNDS, seconds: 180, reason: 'quota' }],
    [
      'the shortest before the first run',
      { adaptiveSeconds: null, adaptiveReason: null },
      { ...BOUNDS, seconds: 60, reason: 'least' },
    ],
    ['within the bounds of this release', { adaptiveSeconds: 9_000 }, { ...BOUNDS, seconds: 3_600, reason: 'quota' }],
    ['as it was set by hand', { setSeconds: 30 }, { seconds: 30, least: 30, most: 30, reason: 'set' }],
    ['as one number declares it', { declared: 600 }, { seconds: 600, least: 600, most: 600, reason: 'set' }],
  ] as const)('is %s', (_, more, expected) => expect(shown(more)).toMatchObject(expected))

  it('is none of a stream that runs only by hand', () => expect(shown({ declared: null })).toBeNull())

  it('says how old the data may be while failures or health stretch it', () =>
    expect(shown({}, 4)).toMatchObject({
      seconds: 180,
      age: 'data is at most 13 minutes old; for 2 minutes you need 12 times the calls',
    }))
})

describe('calls', () => {
  it.each([
    [null, 1],
    [0, 1],
    [0.4, 1],
    [3, 3],
  ])('of a run that made %s: %i', (callsPerRun, calls) => {
    expect(callsOf({ callsPerRun })).toBe(calls)
  })

  it('of an integration are a share of its limit', () => {
    expect(limitBudget({ limit: 600, seconds: 60 })).toBeCloseTo(10 * limitBudget({ limit: 60, seconds: 60 }), 9)
    expect(limitBudget({ limit: 600, seconds: 600 })).toBeCloseTo(limitBudget({ limit: 60, seconds: 60 }), 9)
    expect(limitBudget({ limit: 60, seconds: 60 })).toBeLessThan(1)
    expect(limitBudget({ limit: 60, seconds: 60 })).toBeGreaterThan(0)
  })

  it('of no stream leave a quota to the first one', () => {
    const budget = quotaBudget({ limit: 100, seconds: 10 }, [], 1)
    expect(budget).toBeGreaterThan(0)
    expect(budget).toBeLessThan(10)
  })
})
