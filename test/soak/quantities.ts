/** What a soak measures, and how much each may grow: the bounds are stated here, before any soak has run. Why these: docs/soak.md. */
import type { Bound, Quantity, Unit } from './judge.ts'
import type { BlockValue } from './slope.ts'

/** A leak that doubles a process in a day needs a restart each day. */
const DOUBLES_IN_A_DAY: Bound = { share: 1, amount: 0, per: 'day' }
/** One an hour, or twice as many in a day. */
const ONE_AN_HOUR: Bound = { share: 1, amount: 24, per: 'day' }
/** They come and go with the work that is under way: an hour shows no less. */
const UNDER_WAY: Bound = { share: 0.1, amount: 2, per: 'hour' }
/** A table of some pages grows by pages. */
const TABLE: Bound = { share: 1, amount: 2 ** 20, per: 'day' }

interface Words {
  readonly words: string
  readonly unit: Unit
  readonly bound: Bound
  /** Default: `median`. */
  readonly blockValue?: BlockValue
}

const KINDS = {
  heap: { words: 'heap after a collection', unit: 'bytes', bound: DOUBLES_IN_A_DAY },
  resident: { words: 'resident memory', unit: 'bytes', bound: DOUBLES_IN_A_DAY },
  handles: { words: 'active handles', unit: 'count', bound: UNDER_WAY, blockValue: 'lowest' },
  descriptors: { words: 'open descriptors', unit: 'count', bound: UNDER_WAY, blockValue: 'lowest' },
  sockets: { words: 'open sockets', unit: 'count', bound: UNDER_WAY, blockValue: 'lowest' },
  connections: { words: 'connections', unit: 'count', bound: ONE_AN_HOUR, blockValue: 'lowest' },
  table: { words: 'table', unit: 'bytes', bound: TABLE },
  indexes: { words: 'indexes', unit: 'bytes', bound: TABLE },
  row: { words: 'table and indexes, per row', unit: 'bytes', bound: DOUBLES_IN_A_DAY },
  bloat: { words: 'share of dead rows and free space', unit: 'share', bound: { share: 0, amount: 0.1, per: 'hour' } },
  // A neighbour on the machine shows here first. What leaks, shows within the hour by more.
  p50: { words: 'median time', unit: 'ms', bound: { share: 0.25, amount: 2, per: 'hour' } },
  p95: { words: 'p95 time', unit: 'ms', bound: { share: 0.5, amount: 5, per: 'hour' } },
} as const satisfies Record<string, Words>

export type Kind = keyof typeof KINDS

export interface Reading {
  readonly kind: Kind
  /** Such as `worker-1`, or a table's name. */
  readonly of: string
  readonly value: number
}

export interface Sample {
  readonly atSeconds: number
  readonly readings: readonly Reading[]
}

/** Tables that never get larger, with their indexes, are judged together. */
const LARGE_BYTES = 256 * 1_024

export function quantitiesOf(samples: readonly Sample[]): Quantity[] {
  const large = new Set(
    samples.flatMap(({ readings }) =>
      readings.flatMap(({ kind, of, value }) => (isSize(kind) && value >= LARGE_BYTES ? [of] : [])),
    ),
  )
  const byName = new Map<string, Omit<Quantity, 'series'> & { readonly series: Mutable[] }>()
  for (const { atSeconds, readings } of samples)
    for (const { kind, of, value } of readings) {
      const { words, unit, bound, blockValue = 'median' }: Words = KINDS[kind]
      const name = `${isSize(kind) && !large.has(of) ? 'all other tables' : of}: ${words}`
      const quantity = byName.get(name) ?? { name, unit, bound, blockValue, series: [] }
      byName.set(name, quantity)
      const last = quantity.series.at(-1)
      // Of the same sample: a small table beside another one.
      if (last?.atSeconds === atSeconds) last.value += value
      else quantity.series.push({ atSeconds, value })
    }
  return [...byName.values()]
}

interface Mutable {
  readonly atSeconds: number
  value: number
}

const isSize = (kind: Kind): boolean => kind === 'table' || kind === 'indexes'
