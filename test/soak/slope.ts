/**
 * How fast a series of measurements grows, with an interval.
 *
 * - The span is cut into ten blocks of equal length, and each block is its median: a collection of garbage, a vacuum or a busy
 *   neighbour moves a few samples and not the block, and what is left of one block in the next is little. What comes and goes
 *   with the work is counted by each block's lowest value: what leaks is there in quiet moments, too.
 * - The slope is Theil and Sen's: the median of the slopes between all pairs of blocks.
 * - The interval is Sen's: as many of these slopes lie below it and above it as Kendall's test allows. It assumes no form of the noise,
 *   only that blocks are not alike because they are neighbours. Noise that lasts for a block makes it too narrow.
 *
 * Why so: docs/decisions/0094-slopes-with-an-interval.md.
 * P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968).
 */
import { median } from '../../bench/frame.ts'

const BLOCKS = 10
/** Of the normal distribution, for 95 %. */
const QUANTILE = 1.96

export interface Measurement {
  readonly atSeconds: number
  readonly value: number
}

/** Per second, in the unit of the values. */
export interface Slope {
  readonly perSecond: number
  /** Ends of the 95 % interval. */
  readonly lowest: number
  readonly highest: number
  /** On the line, where the span begins. */
  readonly level: number
}

/** The value that a block of measurements counts by. */
export type BlockValue = 'median' | 'lowest'

/** @returns null when there are fewer measurements than blocks */
export function slopeOf(series: readonly Measurement[], blockValue: BlockValue): Slope | null {
  if (series.length < BLOCKS) return null
  const blocks = Array.from({ length: BLOCKS }, (_, index) => {
    const from = Math.floor((index * series.length) / BLOCKS)
    const block = series.slice(from, Math.floor(((index + 1) * series.length) / BLOCKS))
    return {
      atSeconds: median(block.map(({ atSeconds }) => atSeconds)),
      value: VALUE_OF[blockValue](block.map(({ value }) => value)),
    }
  })
  const slopes = blocks
    .flatMap((later, index) =>
      blocks.slice(0, index).map((earlier) => (later.value - earlier.value) / (later.atSeconds - earlier.atSeconds)),
    )
    .sort((a, b) => a - b)
  const perSecond = median(slopes)
  const [{ atSeconds: beginsAt }] = blocks as [Measurement]
  return {
    perSecond,
    lowest: slopes[OUTSIDE] as number,
    highest: slopes[slopes.length - 1 - OUTSIDE] as number,
    level: median(blocks.map(({ atSeconds, value }) => value - perSecond * (atSeconds - beginsAt))),
  }
}

const VALUE_OF: Readonly<Record<BlockValue, (values: number[]) => number>> = {
  median,
  lowest: (values) => Math.min(...values),
}

/** How many slopes lie below the interval, and as many above it. */
const OUTSIDE = ((): number => {
  const pairs = (BLOCKS * (BLOCKS - 1)) / 2
  const deviation = Math.sqrt((BLOCKS * (BLOCKS - 1) * (2 * BLOCKS + 5)) / 18)
  return Math.floor((pairs - QUANTILE * deviation) / 2) - 1
})()
