/** The judge of the soak, on series whose truth is known: an hour of samples each ten seconds, with noise as processes make it. */
import { describe, expect, it } from 'vitest'
import { seeded } from '../chaos/seeded-kills.ts'
import type { Bound } from './judge.ts'
import { judgeQuantity } from './judge.ts'
import type { BlockValue, Measurement } from './slope.ts'
import { slopeOf } from './slope.ts'

const LEVEL = 100
const HOUR_SECONDS = 3_600
const EVERY_SECONDS = 10
const WARM_UP_SECONDS = 1_200
const DAY: Bound = { share: 1, amount: 0, per: 'day' }

type Noise = (random: () => number) => (index: number) => number

const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

const NOISES: Readonly<Record<string, Noise>> = {
  none: () => () => 0,
  independent: (random) => () => 2 * normal(random),
  'like its neighbours': (random) => {
    let last = 0
    return () => {
      last = 0.8 * last + 1.2 * normal(random)
      return last
    }
  },
  'a sawtooth of six minutes': (random) => (index) => ((index % 36) / 36) * 8 + 0.5 * normal(random),
  'spikes in one sample of twenty': (random) => () => normal(random) + (random() < 0.05 ? 200 : 0),
}

function series(growthADay: number, noise: Noise, seed: number): Measurement[] {
  const noiseAt = noise(seeded(seed))
  return Array.from({ length: HOUR_SECONDS / EVERY_SECONDS }, (_, index) => {
    const atSeconds = (index + 1) * EVERY_SECONDS
    return { atSeconds, value: LEVEL + (growthADay * atSeconds) / 86_400 + noiseAt(index) }
  })
}

const judge = (measurements: readonly Measurement[], bound = DAY, blockValue: BlockValue = 'median') =>
  judgeQuantity({ name: 'heap', unit: 'bytes', bound, blockValue, series: measurements }, WARM_UP_SECONDS)

const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1)

describe.each(Object.entries(NOISES))('with noise: %s', (_name, noise) => {
  it('finds each leak of four times what is allowed', () => {
    const verdicts = SEEDS.map((seed) => judge(series(4 * LEVEL, noise, seed)).verdict)
    expect(verdicts.filter((verdict) => verdict === 'flat')).toEqual([])
    expect(verdicts.filter((verdict) => verdict === 'grows').length).toBeGreaterThanOrEqual(38)
  })

  it('takes a leak of half more than what is allowed for flat once in twenty at most', () => {
    const verdicts = SEEDS.map((seed) => judge(series(1.5 * LEVEL, noise, seed)).verdict)
    expect(verdicts.filter((verdict) => verdict === 'flat').length).toBeLessThanOrEqual(2)
  })

  it('takes noise for growth once in ten at most', () => {
    const verdicts = SEEDS.map((seed) => judge(series(0, noise, seed)).verdict)
    expect(verdicts.filter((verdict) => verdict === 'grows').length).toBeLessThanOrEqual(4)
  })

  it('has the true slope within its interval nine times in ten', () => {
    const growthADay = 2 * LEVEL
    const held = SEEDS.filter((seed) => {
      const slope = slopeOf(series(growthADay, noise, seed), 'median')
      const tolerance = 1e-9
      return (
        slope !== null &&
        slope.lowest * 86_400 <= growthADay + tolerance &&
        slope.highest * 86_400 >= growthADay - tolerance
      )
    })
    expect(held.length).toBeGreaterThanOrEqual(36)
  })
})

describe('the judge', () => {
  it('calls a series flat whose noise is small beside the bound', () => {
    const quiet: Noise = (random) => () => 0.3 * normal(random)
    for (const seed of SEEDS) expect(judge(series(0, quiet, seed)).verdict).toBe('flat')
  })

  it('is undecided where it cannot tell a series from one that grows too fast', () => {
    const loud: Noise = (random) => () => 30 * normal(random)
    const verdicts = SEEDS.map((seed) => judge(series(0, loud, seed)).verdict)
    expect(verdicts.filter((verdict) => verdict === 'undecided').length).toBeGreaterThanOrEqual(34)
  })

  it('is not led by a step within the warm-up', () => {
    const stepped = series(0, NOISES.none as Noise, 1).map(({ atSeconds, value }) => ({
      atSeconds,
      value: atSeconds < WARM_UP_SECONDS ? value / 2 : value,
    }))
    expect(judge(stepped)).toMatchObject({ verdict: 'flat', measurements: 241 })
  })

  it('is not led by what two points would say', () => {
    const ends = series(0, NOISES.none as Noise, 1)
    const tilted = ends.map((measurement, index) =>
      index === ends.length - 1 ? { ...measurement, value: 900 } : measurement,
    )
    expect(judge(tilted).verdict).toBe('flat')
  })

  it('finds what falls flat', () => {
    expect(judge(series(-4 * LEVEL, NOISES.independent as Noise, 1)).verdict).toBe('flat')
  })

  it('finds one descriptor in six minutes that is not closed', () => {
    const held = series(0, NOISES.none as Noise, 1).map(({ atSeconds }) => ({
      atSeconds,
      value: 40 + Math.floor(atSeconds / 360),
    }))
    expect(judge(held, { share: 1, amount: 24, per: 'day' })).toMatchObject({
      verdict: 'grows',
      allowed: expect.any(Number),
    })
  })

  it('judges what comes and goes with the work by the lowest of each block: a load that swells is flat, a leak under it is found', () => {
    const bound: Bound = { share: 0.1, amount: 2, per: 'hour' }
    const held = (leaksAnHour: number, seed: number): Measurement[] => {
      const random = seeded(seed)
      return series(0, NOISES.none as Noise, seed).map(({ atSeconds }) => ({
        atSeconds,
        value:
          20 + Math.floor(random() ** 3 * (5 + atSeconds / 60)) + Math.floor((leaksAnHour * atSeconds) / HOUR_SECONDS),
      }))
    }
    for (const seed of SEEDS) {
      expect(judge(held(0, seed), bound).verdict).not.toBe('flat')
      expect(judge(held(0, seed), bound, 'lowest').verdict).toBe('flat')
      expect(judge(held(8, seed), bound, 'lowest').verdict).toBe('grows')
    }
  })

  it('allows the amount where that is more than the share', () => {
    const bound: Bound = { share: 0.1, amount: 50, per: 'hour' }
    expect(judge(series(0, NOISES.none as Noise, 1), bound).allowed).toBe(50)
    expect(judge(series(0, NOISES.none as Noise, 1), { ...bound, amount: 5 }).allowed).toBeCloseTo(10)
  })

  it('is undecided about too few measurements', () => {
    const few = series(0, NOISES.none as Noise, 1).slice(0, 129)
    expect(judge(few)).toMatchObject({ verdict: 'flat', measurements: 10 })
    expect(judge(few.slice(1))).toMatchObject({ verdict: 'flat', measurements: 10 })
    expect(judge(few.slice(0, -1))).toMatchObject({ verdict: 'undecided', measurements: 9, slope: null, growth: null })
  })
})
