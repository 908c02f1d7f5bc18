/**
 * How often a stream with an adaptive interval runs.
 *
 * A stream that changes as a Poisson process (`changesPerSecond`) and is listed every `seconds` has a copy of a mean age that
 * Cho and Garcia-Molina give ("Synchronizing a database to improve freshness", SIGMOD 2000). What minimises the sum of those ages
 * under a budget of calls stands in docs/decisions/0072-adaptive-intervals.md.
 * Rule: docs/behaviour/sync-adaptive.md.
 */

/** Seconds between runs. */
export interface IntervalBounds {
  readonly least: number
  readonly most: number
}

/** What the runs of a stream have shown. */
export interface StreamFigures {
  readonly changesSeen: number
  /** The time in which they happened. */
  readonly secondsSeen: number
  /** Smoothed; null: no run has shown it. */
  readonly callsPerRun: number | null
}

export const NO_FIGURES: StreamFigures = { changesSeen: 0, secondsSeen: 0, callsPerRun: null }

/** What one run has shown. */
export interface ObservedRun {
  /** Records that had changed since the run before. */
  readonly changes: number
  /** Since the run before. */
  readonly seconds: number
  readonly calls: number
}

/** Streams that share a budget; of one kind: they have the same figures. */
export interface Demand extends IntervalBounds {
  readonly streams: number
  readonly changesPerSecond: number
  readonly callsPerRun: number
}

/** A limit or a quota. */
interface CallsInTime {
  readonly limit: number
  readonly seconds: number
}

/** What decides about an interval. */
export type IntervalReason =
  /** It changes so often that the shortest interval is right. */
  | 'least'
  /** So little changes that the longest one is. */
  | 'most'
  /** How often it changes; no limit stands in the way. */
  | 'changes'
  /** The limit of its integration. */
  | 'limit'
  /** The quota that all integrations of its provider share. */
  | 'quota'
  /** It was set by hand, or its provider declares one number. */
  | 'set'

/** Syncs plan with this share of an integration's limit: acts of people, webhooks and the listeners of items need calls, too. */
const SYNC_SHARE = 0.5
/** Runs come at random. One window in some 30,000 has more calls than the mean and four standard deviations. */
const BURST_DEVIATIONS = 4
/** This number of changes says enough about a rate: its error is then about a quarter, and that of the interval a twelfth. */
const CHANGES_REMEMBERED = 16
/** 30 days: a stream that was quiet for longer says no more. */
const SECONDS_REMEMBERED = 30 * 86_400
/** Weight of the newest run in the calls of a run. */
const CALLS_WEIGHT = 0.125
/** The half that Jeffreys' prior of a Poisson rate adds: a stream without a seen change may still change. */
export const PRIOR_CHANGES = 0.5
/** The price of a call where no quota says it, in units of `least` squared: that at which a stream that changes once in `least` runs every `least`. */
const BASE_PRICE = 0.23
const PRICE_STEPS = 24
const LOWEST_PRICE = 1e-6
const HIGHEST_PRICE = 1e24

/**
 * A run that lists several records has seen as many changes. One that lists a single record may have seen several changes as one:
 * it counts as the mean number of changes of a run that sees any, at the rate known so far. So the rate becomes the estimate of
 * Cho and Garcia-Molina ("Estimating frequency of change", 2003), which is free of that bias. A run without a time before it, since
 * a clock was set back, shows no rate.
 */
export function observed(figures: StreamFigures, run: ObservedRun, bounds: IntervalBounds): StreamFigures {
  if (run.seconds <= 0) return figures
  const expected = changesPerSecond(figures, bounds) * run.seconds
  const changes = run.changes === 1 ? expected / -Math.expm1(-expected) : run.changes
  const seen = figures.changesSeen + changes
  const seconds = figures.secondsSeen + run.seconds
  // Old evidence fades in favour of new: with the changes that follow it, and with time.
  const kept = Math.min(1, CHANGES_REMEMBERED / seen, SECONDS_REMEMBERED / seconds)
  const before = figures.callsPerRun ?? run.calls
  return {
    changesSeen: seen * kept,
    secondsSeen: seconds * kept,
    callsPerRun: before + (run.calls - before) * CALLS_WEIGHT,
  }
}

/** Before any run it is one in twice the shortest interval: a stream is watched closely until it has shown that it is quiet. */
export function changesPerSecond(
  { changesSeen, secondsSeen }: Pick<StreamFigures, 'changesSeen' | 'secondsSeen'>,
  { least }: Pick<IntervalBounds, 'least'>,
): number {
  return (changesSeen + PRIOR_CHANGES) / (secondsSeen + least)
}

/** A run without a counted call still costs about one. */
export const callsOf = ({ callsPerRun }: Pick<StreamFigures, 'callsPerRun'>): number => Math.max(1, callsPerRun ?? 1)

/**
 * The interval at which a call more would lower the age by as much as anywhere else. The age: the mean time since the first change that
 * the copy lacks.
 *
 * @param price of a call, in seconds squared: what a call a second has to save
 */
export function intervalAt(price: number, demand: Omit<Demand, 'streams'>): number {
  const cost = price * demand.callsPerRun
  // Exact where a run sees few changes (the first term) or many (the second), and within 5 % in between.
  return clamped(Math.cbrt((3 * cost) / demand.changesPerSecond + 2 * cost * Math.sqrt(2 * cost)), demand)
}

/** Calls a second that the streams of an integration may plan with. */
export const limitBudget = ({ limit, seconds }: CallsInTime): number => (SYNC_SHARE * limit) / seconds

/**
 * Calls a second that the streams of all integrations may plan with, so that a window does not overflow by chance. No limiter stands
 * behind it.
 *
 * @param roundSeconds between two dispatches: what is due in between begins at once
 */
export function quotaBudget({ limit, seconds }: CallsInTime, demands: readonly Demand[], roundSeconds: number): number {
  const calls = demands.reduce((sum, { streams, callsPerRun }) => sum + streams * callsPerRun, 0)
  const squares = demands.reduce((sum, { streams, callsPerRun }) => sum + streams * callsPerRun ** 2, 0)
  // Runs of c calls each: a mean of m calls has the variance c m, and m + 4 sqrt(c m) is the limit.
  const half = (BURST_DEVIATIONS * Math.sqrt(calls === 0 ? 1 : squares / calls)) / 2
  return (Math.sqrt(limit + half ** 2) - half) ** 2 / Math.max(seconds, roundSeconds)
}

/** The lowest price at which the demands fit the budget. 0: any does; infinite: none does. @param budget calls a second */
export function priceFor(demands: readonly Demand[], budget: number): number {
  if (callsPerSecond(demands, 0) <= budget) return 0
  if (callsPerSecond(demands, Number.POSITIVE_INFINITY) > budget) return Number.POSITIVE_INFINITY
  let [low, high] = [LOWEST_PRICE, HIGHEST_PRICE]
  for (let step = 0; step < PRICE_STEPS; step++) {
    const price = Math.sqrt(low * high)
    if (callsPerSecond(demands, price) > budget) low = price
    else high = price
  }
  return high
}

function callsPerSecond(demands: readonly Demand[], price: number): number {
  let sum = 0
  for (const each of demands) sum += (each.streams * each.callsPerRun) / intervalAt(price, each)
  return sum
}

/**
 * The interval of a stream, and what decides about it. Both prices bind it: it pays the higher one.
 *
 * @param prices `quota` null: its provider declares none, so the number of calls that syncs may make is not known
 */
export function adaptiveInterval(
  demand: Omit<Demand, 'streams'>,
  prices: { readonly limit: number; readonly quota: number | null },
): { readonly seconds: number; readonly reason: IntervalReason } {
  const base = prices.quota === null ? BASE_PRICE * demand.least ** 2 : 0
  const quota = prices.quota ?? 0
  const seconds = intervalAt(Math.max(base, prices.limit, quota), demand)
  if (seconds <= demand.least) return { seconds, reason: 'least' }
  if (Math.max(prices.limit, quota) > base) return { seconds, reason: prices.limit >= quota ? 'limit' : 'quota' }
  return { seconds, reason: seconds >= demand.most ? 'most' : 'changes' }
}

function clamped(seconds: number, { least, most }: IntervalBounds): number {
  return Math.min(most, Math.max(least, seconds))
}

/** An interval as it is shown. */
export interface ShownInterval extends IntervalBounds {
  readonly seconds: number
  readonly reason: IntervalReason
  /** How old the data may be, in words. */
  readonly age: string
}

/**
 * @param stream what it declares, what was set by hand, and what its last run left
 * @param wait by how much failures or health stretch the interval, and the seconds between two dispatches
 * @returns null: it runs only by hand
 */
export function shownInterval(
  stream: {
    readonly declared: number | IntervalBounds | null
    readonly setSeconds: number | null
    readonly adaptiveSeconds: number | null
    readonly adaptiveReason: string | null
  },
  { multiplier, roundSeconds }: { readonly multiplier: number; readonly roundSeconds: number },
): ShownInterval | null {
  const given = stream.setSeconds ?? stream.declared
  if (given === null) return null
  const isFixed = typeof given === 'number'
  const { least, most } = isFixed ? { least: given, most: given } : given
  const seconds = clamped(isFixed ? given : (stream.adaptiveSeconds ?? least), { least, most })
  const reason = isFixed ? 'set' : ((stream.adaptiveReason ?? 'least') as IntervalReason)
  return {
    seconds: Math.round(seconds),
    least,
    most,
    reason,
    age: ageWords({ seconds: seconds * multiplier, least }, roundSeconds),
  }
}

const UNITS = [
  { name: 'day', seconds: 86_400 },
  { name: 'hour', seconds: 3_600 },
  { name: 'minute', seconds: 60 },
] as const

/**
 * What an interval means, in words for a person.
 *
 * @param roundSeconds a run that is due begins at the next dispatch, which comes so often
 */
export function ageWords(
  { seconds, least }: { readonly seconds: number; readonly least: number },
  roundSeconds: number,
): string {
  const age = `data is at most ${duration(seconds + roundSeconds)} old`
  if (seconds <= least) return age
  const times = seconds / least
  const shown = times < 10 ? Math.ceil(times * 10) / 10 : Math.ceil(times)
  return `${age}; for ${duration(least + roundSeconds)} you need ${shown} times the calls`
}

/** Rounded up, in the greatest unit of which there are two, or exactly one. */
function duration(seconds: number): string {
  const unit = UNITS.find((each) => seconds >= 2 * each.seconds || seconds === each.seconds)
  const [count, name] =
    unit === undefined ? [Math.ceil(seconds), 'second'] : [Math.ceil(seconds / unit.seconds), unit.name]
  return `${count} ${name}${count === 1 ? '' : 's'}`
}
