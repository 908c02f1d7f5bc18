import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChartWindow } from '../../src/rollups/rollup-rules.ts'
import {
  ALL_PROVIDERS,
  BOUNDS_MS,
  busiestSpanOf,
  CHART_WINDOWS,
  completedBy,
  floorTo,
  nextStep,
  percentileOf,
  pointsOf,
  pointsOfSparkline,
  sourcesOf,
  WIDTHS,
} from '../../src/rollups/rollup-rules.ts'

const MINUTE = 60_000
const DAY = 86_400_000
const NOW = Date.UTC(2026, 0, 10, 13, 47, 12)
const at = (text: string): number => Date.parse(`2026-01-${text}Z`)

it('rows of all providers stand under an empty name, which is stored', () => {
  expect(ALL_PROVIDERS).toBe('')
})

describe('the bounds of a histogram', () => {
  it('are whole milliseconds, dense at first and a week at last', () => {
    expect(BOUNDS_MS.slice(0, 12)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    expect(BOUNDS_MS.slice(12, 16)).toEqual([13, 14, 16, 18])
    expect(BOUNDS_MS.at(-1)).toBe(7 * DAY)
    expect(BOUNDS_MS.at(-2)).toBeLessThan(7 * DAY)
  })

  it('grow by 15 % at most, but by a millisecond at least', () => {
    for (const [index, bound] of BOUNDS_MS.slice(1).entries()) {
      const last = BOUNDS_MS[index] as number
      expect(bound).toBeGreaterThan(last)
      expect(bound).toBeLessThanOrEqual(Math.max(last + 1, last * 1.15))
    }
  })
})

describe('a percentile', () => {
  const of = (steps: readonly [number, number][], share: number) => percentileOf(new Map(steps), share)
  it.each<[string, [number, number][], number, number | null]>([
    ['of nothing', [], 0.5, null],
    ['of steps without a value', [[3, 0]], 0.5, null],
    ['below the first bound', [[0, 5]], 0.95, 0],
    ['of a step of one millisecond', [[4, 5]], 0.95, 4],
    [
      'at its rank',
      [
        [1, 5],
        [4, 5],
      ],
      0.5,
      1,
    ],
    [
      'just beyond its rank',
      [
        [1, 5],
        [4, 5],
      ],
      0.51,
      4,
    ],
    [
      'in whatever order the steps come',
      [
        [4, 5],
        [1, 5],
      ],
      0.5,
      1,
    ],
    [
      'of share 0: the least',
      [
        [1, 1],
        [4, 1],
      ],
      0,
      1,
    ],
    [
      'of share 1: the greatest',
      [
        [1, 1],
        [4, 1],
      ],
      1,
      4,
    ],
    [
      'beside a step without a value',
      [
        [1, 0],
        [4, 1],
      ],
      0,
      4,
    ],
    ['beyond the last bound', [[BOUNDS_MS.length, 1]], 0.5, 7 * DAY],
    ['far beyond it', [[BOUNDS_MS.length + 7, 1]], 0.5, 7 * DAY],
  ])('%s', (_, steps, share, value) => {
    expect(of(steps, share)).toBe(value)
  })

  it('of a wide step is its geometric middle', () => {
    const step = 40
    const [from, to] = [BOUNDS_MS[step - 1] as number, (BOUNDS_MS[step] as number) - 1]
    expect(of([[step, 1]], 0.5)).toBe(Math.sqrt(from * to))
  })
})

describe('the points of a chart', () => {
  it.each<[ChartWindow, string, string, number, number]>([
    ['1h', '10T12:48:00', '10T13:48:00', 60, 60],
    ['24h', '09T14:00:00', '10T14:00:00', 900, 900],
    ['7d', '03T14:00:00', '10T14:00:00', 7_200, 3_600],
    ['30d', '', '10T18:00:00', 21_600, 21_600],
  ])('of %s begin at %s and end at %s', (window, from, to, pointSeconds, bucketSeconds) => {
    const fromMs = from === '' ? at(to) - 30 * DAY : at(from)
    expect(pointsOf(window, NOW)).toEqual({ fromMs, toMs: at(to), pointSeconds, bucketSeconds })
  })

  it('of the sparkline are hours of a day', () => {
    expect(pointsOfSparkline(NOW)).toEqual({
      fromMs: at('09T14:00:00'),
      toMs: at('10T14:00:00'),
      pointSeconds: 3_600,
      bucketSeconds: 3_600,
    })
  })

  it.each<[ChartWindow, number, number]>([
    ['1h', at('10T12:47:00'), 60],
    ['24h', at('09T13:00:00'), 3_600],
    ['7d', at('03T12:00:00'), 21_600],
    ['30d', at('10T00:00:00') - 30 * DAY, 86_400],
  ])('of the busiest in %s are one', (window, fromMs, bucketSeconds) => {
    const { toMs } = pointsOf(window, NOW)
    expect(busiestSpanOf(window, NOW)).toEqual({ fromMs, toMs, pointSeconds: (toMs - fromMs) / 1_000, bucketSeconds })
  })
})

it('a moment falls into the bucket that it begins', () => {
  expect([floorTo(59_999, 60), floorTo(60_000, 60), floorTo(60_001, 60)]).toEqual([0, 60_000, 60_000])
})

describe('what a chart is read from', () => {
  const points = pointsOf('24h', NOW)
  it('without a pass: rows of the last hour, and the rest is missing', () => {
    const tailFromMs = at('10T12:47:00')
    expect(sourcesOf(points, null, NOW)).toEqual({
      buckets: [],
      tailFromMs,
      missing: { fromMs: points.fromMs, toMs: tailFromMs },
    })
  })

  it('after a pass: wide buckets first, then minutes, then rows', () => {
    const progress = { settledMs: at('10T13:40:00'), rolledMs: at('10T13:46:00') }
    expect(sourcesOf(points, progress, NOW)).toEqual({
      buckets: [
        { seconds: 900, fromMs: points.fromMs, toMs: at('10T13:30:00') },
        { seconds: 60, fromMs: at('10T13:30:00'), toMs: at('10T13:46:00') },
      ],
      tailFromMs: at('10T13:46:00'),
      missing: null,
    })
  })

  it('of a month: each width once', () => {
    const progress = { settledMs: at('10T13:40:00'), rolledMs: at('10T13:46:00') }
    expect(sourcesOf(pointsOf('30d', NOW), progress, NOW).buckets.map(({ seconds }) => seconds)).toEqual([
      21_600, 3_600, 900, 60,
    ])
  })

  it('once all is counted: no rows', () => {
    const progress = { settledMs: points.toMs, rolledMs: points.toMs }
    expect(sourcesOf(points, progress, NOW)).toEqual({
      buckets: [{ seconds: 900, fromMs: points.fromMs, toMs: points.toMs }],
      tailFromMs: null,
      missing: null,
    })
  })

  it('is never counted twice, and leaves nothing out', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CHART_WINDOWS),
        fc.integer({ min: 0, max: 40 * 1_440 }),
        fc.integer({ min: 0, max: 120 }),
        (window, behindMinutes, aheadMinutes) => {
          const span = pointsOf(window, NOW)
          const settledMs = floorTo(NOW, 60) - behindMinutes * MINUTE
          const rolledMs = Math.min(floorTo(NOW, 60), settledMs + aheadMinutes * MINUTE)
          const { buckets, tailFromMs, missing } = sourcesOf(span, { settledMs, rolledMs }, NOW)
          let reached = span.fromMs
          for (const { fromMs, toMs, seconds } of buckets) {
            expect(fromMs).toBe(reached)
            expect([toMs > fromMs, fromMs % (seconds * 1_000), toMs % (seconds * 1_000)]).toEqual([true, 0, 0])
            reached = toMs
          }
          if (missing !== null) {
            expect(missing.fromMs).toBe(reached)
            reached = missing.toMs
          }
          expect(tailFromMs ?? span.toMs).toBe(reached)
        },
      ),
    )
  })
})

describe('the next step of a pass', () => {
  const horizon = at('10T13:46:00')
  it.each<[string, number, number, number, number, number]>([
    ['close by: minutes up to the horizon', at('10T13:30:00'), horizon, 60, at('10T13:30:00'), horizon],
    ['close by: an hour of minutes at most', at('10T12:00:00'), horizon, 60, at('10T12:00:00'), at('10T13:00:00')],
    // Minutes are kept for three hours.
    ['hours ago: quarters', at('10T08:05:00'), horizon, 900, at('10T08:00:00'), at('10T10:45:00')],
    [
      'hours ago: three hours of quarters at most',
      at('10T07:00:00'),
      horizon,
      900,
      at('10T07:00:00'),
      at('10T10:00:00'),
    ],
    ['days ago: hours', at('07T00:00:00'), horizon, 3_600, at('07T00:00:00'), at('07T06:00:00')],
    ['more than a week ago: six hours', at('01T00:00:00'), horizon, 21_600, at('01T00:00:00'), at('01T06:00:00')],
    [
      'months ago: days',
      at('01T00:00:00') - 60 * DAY,
      horizon,
      86_400,
      at('01T00:00:00') - 60 * DAY,
      at('01T00:00:00') - 59 * DAY,
    ],
  ])('%s', (_, settledMs, horizonMs, seconds, fromMs, toMs) => {
    expect(nextStep(settledMs, horizonMs, NOW)).toEqual({ seconds, fromMs, toMs })
  })

  it('is none at the horizon', () => {
    expect(nextStep(horizon, horizon, NOW)).toBe(null)
  })

  it('takes the narrower buckets where an old horizon leaves a wide one open', () => {
    expect(nextStep(at('01T00:00:00'), at('01T02:30:00'), NOW)).toEqual({
      seconds: 3_600,
      fromMs: at('01T00:00:00'),
      toMs: at('01T02:00:00'),
    })
  })

  it('reaches the horizon in the end, without a gap', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 * 1_440 }), (minutes) => {
        let settledMs = horizon - minutes * MINUTE
        for (let step = nextStep(settledMs, horizon, NOW); step !== null; step = nextStep(settledMs, horizon, NOW)) {
          expect(step.fromMs).toBeLessThanOrEqual(settledMs)
          expect(step.toMs).toBeGreaterThan(settledMs)
          expect(step.fromMs % (step.seconds * 1_000)).toBe(0)
          settledMs = step.toMs
        }
        expect(settledMs).toBe(horizon)
      }),
    )
  })
})

describe('a step completes', () => {
  it('the wider buckets that end in it', () => {
    expect(completedBy({ seconds: 60, fromMs: at('10T05:30:00'), toMs: at('10T06:05:00') })).toEqual([
      { seconds: 900, sourceSeconds: 60, fromMs: at('10T05:30:00'), toMs: at('10T06:00:00') },
      { seconds: 3_600, sourceSeconds: 900, fromMs: at('10T05:00:00'), toMs: at('10T06:00:00') },
      { seconds: 21_600, sourceSeconds: 3_600, fromMs: at('10T00:00:00'), toMs: at('10T06:00:00') },
    ])
  })

  it('no bucket of its own width, nor a narrower one', () => {
    expect(completedBy({ seconds: 86_400, fromMs: at('01T00:00:00'), toMs: at('02T00:00:00') })).toEqual([])
    expect(completedBy({ seconds: 21_600, fromMs: at('01T00:00:00'), toMs: at('02T00:00:00') })).toEqual([
      { seconds: 86_400, sourceSeconds: 21_600, fromMs: at('01T00:00:00'), toMs: at('02T00:00:00') },
    ])
  })

  it('none where none ends', () => {
    expect(completedBy({ seconds: 60, fromMs: at('10T05:31:00'), toMs: at('10T05:44:00') })).toEqual([])
  })
})

it('each width is a whole part of the next', () => {
  for (const [index, { seconds }] of WIDTHS.slice(1).entries()) expect(seconds % (WIDTHS[index]?.seconds ?? 0)).toBe(0)
})
