/** Whether a quantity stays flat. The bounds are stated here, before any soak has run. */
import type { BlockValue, Measurement, Slope } from './slope.ts'
import { slopeOf } from './slope.ts'

const PER_SECONDS = { hour: 3_600, day: 86_400 } as const

/** How much a quantity may grow: a share of its level, or this amount where that is more. */
export interface Bound {
  readonly share: number
  readonly amount: number
  readonly per: keyof typeof PER_SECONDS
}

export type Unit = 'bytes' | 'ms' | 'count' | 'share'

export interface Quantity {
  readonly name: string
  readonly unit: Unit
  readonly bound: Bound
  readonly blockValue: BlockValue
  readonly series: readonly Measurement[]
}

export interface Judged extends Omit<Quantity, 'series'> {
  /**
   * `flat`: the whole interval lies within the bound. `grows`: it does not, and the whole interval lies above 0. `undecided`: neither,
   * or there are too few measurements; a longer or quieter soak says more.
   */
  readonly verdict: 'flat' | 'grows' | 'undecided'
  readonly measurements: number
  readonly slope: Slope | null
  /** Per the bound's time, in the quantity's unit: the estimate, the ends of its interval, and what is allowed. */
  readonly growth: { readonly estimate: number; readonly lowest: number; readonly highest: number } | null
  readonly allowed: number | null
}

/** @param fromSeconds what was measured before was the warm-up */
export function judgeQuantity({ series, ...quantity }: Quantity, fromSeconds: number): Judged {
  const judged = series.filter(({ atSeconds }) => atSeconds >= fromSeconds)
  const slope = slopeOf(judged, quantity.blockValue)
  const measurements = judged.length
  if (slope === null)
    return { ...quantity, verdict: 'undecided', measurements, slope: null, growth: null, allowed: null }
  const { share, amount, per } = quantity.bound
  const seconds = PER_SECONDS[per]
  const allowed = Math.max(share * slope.level, amount)
  const growth = {
    estimate: slope.perSecond * seconds,
    lowest: slope.lowest * seconds,
    highest: slope.highest * seconds,
  }
  const verdict = growth.highest <= allowed ? 'flat' : growth.lowest > 0 ? 'grows' : 'undecided'
  return { ...quantity, verdict, measurements, slope, growth, allowed }
}
