/**
 * 200 tenants of one provider, whose calls share one quota, under a virtual clock: adaptive intervals against the best fixed one and
 * against the optimum, which knows each tenant's rate. Rule: docs/behaviour/sync-adaptive.md.
 */
import { describe, expect, it } from 'vitest'
import type { Demand, StreamFigures } from '../../src/syncs/adaptive-rules.ts'
import {
  adaptiveInterval,
  callsOf,
  changesPerSecond,
  NO_FIGURES,
  observed,
  priceFor,
  quotaBudget,
} from '../../src/syncs/adaptive-rules.ts'
import { meanAgeSeconds } from './adaptive-age.ts'

const TENANTS = 200
const BOUNDS = { least: 30, most: 3_600 }
/** Of the provider: it answers 429 beyond. */
const QUOTA = { limit: 3_600, seconds: 3_600 }
const CALLS_PER_SECOND = QUOTA.limit / QUOTA.seconds
/** Between two dispatches. */
const ROUND = 10
const PRICE_SECONDS = 60
const RECORDS_OF_A_PAGE = 100
const RECORDS = 1_000
/** Tenants come in the first hour; ages count from the thirteenth on. */
const CONNECTED_WITHIN = 3_600
const MEASURED_FROM = 12 * 3_600
const END = 24 * 3_600
const BUSIEST_PER_SECOND = 1 / 60

interface Tenant {
  readonly rate: number
  readonly connectedAt: number
  readonly random: () => number
  nextChangeAt: number
  /** Changed since the last run. */
  readonly changed: Set<number>
  ageSum: number
  secondsMeasured: number
  dueAt: number
  lastRunAt: number | null
  figures: StreamFigures
}

type Policy = (tenant: Tenant, now: number) => number

interface Outcome {
  readonly meanAge: number
  readonly refused: number
}

/** Zipf: the rate of the nth busiest tenant is that of the busiest by n to the power of the exponent. */
const zipf = (exponent: number): number[] =>
  Array.from({ length: TENANTS }, (_, rank) => BUSIEST_PER_SECOND / (rank + 1) ** exponent)

/** mulberry32: the same numbers in each run of the test. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const exponential = (random: () => number, rate: number): number => -Math.log(1 - random()) / rate

function tenants(rates: readonly number[]): Tenant[] {
  return rates.map((rate, index) => {
    const random = randomFrom(index + 1)
    const connectedAt = random() * CONNECTED_WITHIN
    const first = connectedAt + exponential(random, rate)
    return {
      rate,
      connectedAt,
      random,
      nextChangeAt: first,
      changed: new Set<number>(),
      ageSum: 0,
      secondsMeasured: 0,
      dueAt: connectedAt,
      lastRunAt: null,
      figures: NO_FIGURES,
    }
  })
}

/** The provider's own count of calls in fixed windows. */
class CountingProvider {
  refused = 0
  #window = -1
  #used = 0

  call(now: number): void {
    const window = Math.floor(now / QUOTA.seconds)
    if (window !== this.#window) this.#used = 0
    this.#window = window
    if (++this.#used > QUOTA.limit) this.refused++
  }
}

function simulate(rates: readonly number[], policyOf: (all: readonly Tenant[]) => Policy): Outcome {
  const all = tenants(rates)
  const interval = policyOf(all)
  const provider = new CountingProvider()
  for (let now = 0; now <= END; now += ROUND)
    for (const tenant of all) {
      if (tenant.dueAt > now) continue
      for (; tenant.nextChangeAt <= now; tenant.nextChangeAt += exponential(tenant.random, tenant.rate)) {
        tenant.changed.add(Math.floor(tenant.random() * RECORDS))
      }
      const calls = 1 + Math.floor(tenant.changed.size / RECORDS_OF_A_PAGE)
      for (let call = 0; call < calls; call++) provider.call(now)
      if (tenant.lastRunAt !== null) {
        const seconds = now - tenant.lastRunAt
        tenant.figures = observed(tenant.figures, { changes: tenant.changed.size, seconds, calls }, BOUNDS)
        if (tenant.lastRunAt >= MEASURED_FROM) {
          // Its expectation over the changes of this interval, which was chosen before them: without the noise of a day's few changes.
          tenant.ageSum += meanAgeSeconds(tenant.rate, seconds) * seconds
          tenant.secondsMeasured += seconds
        }
      }
      tenant.lastRunAt = now
      tenant.changed.clear()
      tenant.dueAt = now + interval(tenant, now)
    }
  return {
    meanAge: mean(all.map(({ ageSum, secondsMeasured }) => ageSum / secondsMeasured)),
    refused: provider.refused,
  }
}

/** The rule as it is, with the price as a process keeps it. */
function adaptive(all: readonly Tenant[]): Policy {
  let price = 0
  let pricedAt = Number.NEGATIVE_INFINITY
  return (tenant, now) => {
    if (now - pricedAt >= PRICE_SECONDS) {
      const demands = all
        .filter(({ connectedAt }) => connectedAt <= now)
        .map((each) => ({ streams: 1, ...demandOf(each) }))
      price = priceFor(demands, quotaBudget(QUOTA, demands, ROUND))
      pricedAt = now
    }
    return adaptiveInterval(demandOf(tenant), { limit: 0, quota: price }).seconds
  }
}

function demandOf({ figures }: Tenant): Omit<Demand, 'streams'> {
  return { ...BOUNDS, changesPerSecond: changesPerSecond(figures, BOUNDS), callsPerRun: callsOf(figures) }
}

const fixed =
  (seconds: number): (() => Policy) =>
  () =>
  () =>
    seconds

/** The shortest of the fixed intervals with which no call is refused. */
function bestFixed(rates: readonly number[]): Outcome & { readonly seconds: number } {
  for (let seconds = BOUNDS.least; seconds <= BOUNDS.most; seconds += ROUND) {
    if (TENANTS / seconds > 1.1 * CALLS_PER_SECOND) continue
    const outcome = simulate(rates, fixed(seconds))
    if (outcome.refused === 0) return { ...outcome, seconds }
  }
  throw new Error('no fixed interval fits')
}

/** By the derivative of the mean age itself, each tenant's own rate, and halvings: none of the rule's formulas. */
function optimalIntervals(rates: readonly number[], budget: number): number[] {
  const gain = (rate: number, seconds: number) => {
    const step = seconds * 1e-4
    return (seconds ** 2 * (meanAgeSeconds(rate, seconds + step) - meanAgeSeconds(rate, seconds - step))) / (2 * step)
  }
  const at = (price: number) =>
    rates.map((rate) => halved(BOUNDS.least, BOUNDS.most, (seconds) => gain(rate, seconds) > price))
  const price = halved(1, 1e9, (each) => at(each).reduce((sum, seconds) => sum + 1 / seconds, 0) < budget)
  return at(price)
}

/** Where a condition that holds from some point on begins to hold. */
function halved(from: number, to: number, holds: (at: number) => boolean): number {
  let [low, high] = [from, to]
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2
    if (holds(middle)) high = middle
    else low = middle
  }
  return high
}

const mean = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0) / values.length

describe('200 tenants with Zipf rates under one quota', () => {
  it.each([
    { exponent: 1, ratio: 0.85 },
    { exponent: 1.2, ratio: 0.65 },
    { exponent: 1.5, ratio: 0.5 },
  ])('of the exponent $exponent: the mean age is at most $ratio of the best fixed interval’s, without a 429', (row) => {
    const rates = zipf(row.exponent)
    const got = simulate(rates, adaptive)
    const best = bestFixed(rates)
    const optimal = optimalIntervals(rates, CALLS_PER_SECOND)
    const optimum = mean(rates.map((rate, index) => meanAgeSeconds(rate, optimal[index] as number)))
    const [ours, theirs] = [got.meanAge.toFixed(2), best.meanAge.toFixed(2)]
    console.log(
      `exponent ${row.exponent}: mean age ${ours} s; the best fixed interval, ${best.seconds} s: ${theirs} s; optimum ${optimum.toFixed(2)} s`,
    )
    expect(got.refused).toBe(0)
    expect(got.meanAge).toBeLessThanOrEqual(row.ratio * best.meanAge)
    expect(got.meanAge).toBeLessThanOrEqual(1.4 * optimum)
  })
})
