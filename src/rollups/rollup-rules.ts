/** What is counted in a bucket of time, which buckets there are, and which of them a chart reads. Rule: docs/behaviour/charts.md. */

/**
 * The counters of a bucket. A row holds those that are not zero. The numbers are stored: none may change its meaning.
 *
 * `called`, and from 1 on the failure classes: those together are all calls.
 */
export const COUNTER = {
  called: 0,
  upstream: 1,
  throttle: 2,
  client: 3,
  unknown: 4,
  received: 10,
  processed: 11,
  failed: 12,
  itemsSucceeded: 20,
  itemsFailed: 21,
  itemsSkipped: 22,
  /** And one more for each step of {@link BOUNDS_MS} that the duration of a call reaches. */
  duration: 1_000,
  /** The same of a webhook's way from its arrival to its settlement. */
  lag: 2_000,
} as const

/** From one bound of a histogram to the next. A figure read from it is wrong by half of that at most: 7 %. */
const GROWTH = 1.15
const LONGEST_MS = 7 * 86_400_000

/** Bounds of the histograms, ascending. Whole milliseconds, so that SQL and TypeScript agree: below 8 ms each has a step. */
export const BOUNDS_MS: readonly number[] = boundsUpTo(LONGEST_MS)

function boundsUpTo(longest: number): number[] {
  const bounds = [1]
  for (let last = 1; last < longest; ) {
    last = Math.min(longest, Math.max(last + 1, Math.floor(last * GROWTH)))
    bounds.push(last)
  }
  return bounds
}

/** How many values stand in each step of {@link BOUNDS_MS}: step 0 is below the first bound. */
export type Histogram = ReadonlyMap<number, number>

/**
 * The value below which `share` of all values lie, by nearest rank.
 *
 * @param share such as 0.95
 * @returns the middle of its step; null: there is no value
 */
export function percentileOf(histogram: Histogram, share: number): number | null {
  const steps = [...histogram].sort(([a], [b]) => a - b)
  const total = steps.reduce((sum, [, count]) => sum + count, 0)
  const rank = Math.max(1, Math.ceil(share * total))
  let seen = 0
  for (const [step, count] of steps) {
    seen += count
    if (seen >= rank) return middleOf(step)
  }
  return null
}

/** Its geometric middle: of step 0, which ends at 0 ms, that is 0. What lies beyond the last bound counts as that bound. */
function middleOf(step: number): number {
  const from = BOUNDS_MS[step - 1] ?? LONGEST_MS
  const to = (BOUNDS_MS[step] ?? from + 1) - 1
  return Math.sqrt(from * to)
}

const MINUTE = 60
const HOUR = 3_600
const DAY = 86_400

/** A width of buckets. */
export interface Width {
  readonly seconds: number
  /** Older ones are deleted as new ones are made; null: `pruning.rollups_days`. */
  readonly keptSeconds: number | null
  /** The most that one transaction counts from the rows themselves. */
  readonly stepSeconds: number
}

/** Finest first. Each bound of a wider bucket is one of all narrower ones. */
export const WIDTHS = [
  { seconds: MINUTE, keptSeconds: 3 * HOUR, stepSeconds: HOUR },
  { seconds: 15 * MINUTE, keptSeconds: 2 * DAY, stepSeconds: 3 * HOUR },
  { seconds: HOUR, keptSeconds: 8 * DAY, stepSeconds: 6 * HOUR },
  { seconds: 6 * HOUR, keptSeconds: 32 * DAY, stepSeconds: 6 * HOUR },
  { seconds: DAY, keptSeconds: null, stepSeconds: DAY },
] as const satisfies readonly Width[]

/** The width that pruning takes care of. */
export const WIDEST_SECONDS = WIDTHS[4].seconds

/** Stands in the column of the provider where a row is of all integrations. No provider is called so. */
export const ALL_PROVIDERS = ''

export const CHART_WINDOWS = ['1h', '24h', '7d', '30d'] as const
export type ChartWindow = (typeof CHART_WINDOWS)[number]

/** Length of each window, of one of its points, and of the buckets that these are made of. */
const WINDOW: Readonly<Record<ChartWindow, { lengthSeconds: number; pointSeconds: number; bucketSeconds: number }>> = {
  '1h': { lengthSeconds: HOUR, pointSeconds: MINUTE, bucketSeconds: MINUTE },
  '24h': { lengthSeconds: DAY, pointSeconds: 15 * MINUTE, bucketSeconds: 15 * MINUTE },
  '7d': { lengthSeconds: 7 * DAY, pointSeconds: 2 * HOUR, bucketSeconds: HOUR },
  '30d': { lengthSeconds: 30 * DAY, pointSeconds: 6 * HOUR, bucketSeconds: 6 * HOUR },
}

export interface Span {
  readonly fromMs: number
  /** Not in it. */
  readonly toMs: number
}

export interface Points extends Span {
  readonly pointSeconds: number
  readonly bucketSeconds: number
}

/** The points of a window: the last one holds the present moment, and is not full yet. */
export function pointsOf(window: ChartWindow, nowMs: number): Points {
  const { lengthSeconds, pointSeconds, bucketSeconds } = WINDOW[window]
  const toMs = floorTo(nowMs, pointSeconds) + pointSeconds * 1_000
  return { fromMs: toMs - lengthSeconds * 1_000, toMs, pointSeconds, bucketSeconds }
}

/** Widths of the busiest integrations' buckets: narrow ones of all integrations would be very many rows. */
const BUSIEST_SECONDS: Readonly<Record<ChartWindow, number>> = {
  '1h': MINUTE,
  '24h': HOUR,
  '7d': 6 * HOUR,
  '30d': DAY,
}

/** The same window as one point, from the bucket in which it begins. */
export function busiestSpanOf(window: ChartWindow, nowMs: number): Points {
  const bucketSeconds = BUSIEST_SECONDS[window]
  const { toMs } = pointsOf(window, nowMs)
  const fromMs = floorTo(nowMs - WINDOW[window].lengthSeconds * 1_000, bucketSeconds)
  return { fromMs, toMs, pointSeconds: (toMs - fromMs) / 1_000, bucketSeconds }
}

/** The last 24 hours by the hour. */
export function pointsOfSparkline(nowMs: number): Points {
  const toMs = floorTo(nowMs, HOUR) + HOUR * 1_000
  return { fromMs: toMs - DAY * 1_000, toMs, pointSeconds: HOUR, bucketSeconds: HOUR }
}

export function floorTo(atMs: number, seconds: number): number {
  return Math.floor(atMs / (seconds * 1_000)) * seconds * 1_000
}

/** How far the rows are counted. */
export interface Progress {
  /** Before it no count changes any more: each transaction that could add to it has ended. A whole minute, as the next. */
  readonly settledMs: number
  /** Between the two each pass counts again. */
  readonly rolledMs: number
}

/** Rows of the last hour at most are counted for a chart: more would hold up its page. */
const LONGEST_TAIL_SECONDS = HOUR

/** What a chart is read from. */
export interface Sources {
  readonly buckets: readonly (Span & { readonly seconds: number })[]
  /** Rows are counted from here on; null: the buckets have all of it. */
  readonly tailFromMs: number | null
  /** Not counted yet: no pass has run for long. Null: nothing is missing. */
  readonly missing: Span | null
}

/** @param progress null: no pass has run yet */
export function sourcesOf(points: Points, progress: Progress | null, nowMs: number): Sources {
  const { settledMs, rolledMs } = progress ?? { settledMs: 0, rolledMs: 0 }
  const buckets: { seconds: number; fromMs: number; toMs: number }[] = []
  let atMs = points.fromMs
  const usable = WIDTHS.filter(({ seconds }) => seconds <= points.bucketSeconds).reverse()
  for (const { seconds } of usable) {
    const untilMs = Math.min(points.toMs, seconds === MINUTE ? rolledMs : floorTo(settledMs, seconds))
    if (untilMs <= atMs) continue
    buckets.push({ seconds, fromMs: atMs, toMs: untilMs })
    atMs = untilMs
  }
  if (atMs >= points.toMs) return { buckets, tailFromMs: null, missing: null }
  const tailFromMs = Math.max(atMs, floorTo(nowMs, MINUTE) - LONGEST_TAIL_SECONDS * 1_000)
  return { buckets, tailFromMs, missing: tailFromMs > atMs ? { fromMs: atMs, toMs: tailFromMs } : null }
}

/** A step of a pass: buckets of one width are counted from the rows themselves. */
export interface CountingStep extends Span {
  readonly seconds: number
}

/**
 * The next part that is counted for good.
 *
 * What is old is counted into wide buckets at once: narrow ones of that time would be deleted again.
 *
 * @param horizonMs before it no transaction is open any more
 * @returns null: nothing is left
 */
export function nextStep(settledMs: number, horizonMs: number, nowMs: number): CountingStep | null {
  for (const [at, width] of [...WIDTHS.entries()].reverse()) {
    const narrower = WIDTHS[at - 1]
    // What is older than its narrower buckets are kept; of the narrowest all.
    const untilMs =
      narrower === undefined
        ? horizonMs
        : narrower.keptSeconds === null
          ? 0
          : floorTo(nowMs - narrower.keptSeconds * 1_000, width.seconds)
    const fromMs = floorTo(settledMs, width.seconds)
    const toMs = Math.min(fromMs + width.stepSeconds * 1_000, untilMs, floorTo(horizonMs, width.seconds))
    if (toMs > settledMs) return { seconds: width.seconds, fromMs, toMs }
  }
  return null
}

/** The wider buckets that a step completes, each made from the next narrower ones. */
export function completedBy({ seconds, fromMs, toMs }: CountingStep): (CountingStep & { sourceSeconds: number })[] {
  return WIDTHS.flatMap((width, at) => {
    const source = WIDTHS[at - 1]
    if (source === undefined || width.seconds <= seconds) return []
    const span = { fromMs: floorTo(fromMs, width.seconds), toMs: floorTo(toMs, width.seconds) }
    return span.toMs > span.fromMs ? [{ seconds: width.seconds, sourceSeconds: source.seconds, ...span }] : []
  })
}
