/** Medians of what several processes printed: a figure's over its rounds, a target's over its rounds' ratios. */
import type { Figure, Goal, Printed, PrintedTarget } from '../frame.ts'
import { isMet, median } from '../frame.ts'
import type { Ran } from './state.ts'

export interface FoldedFigure extends Figure {
  /** The median is `value`; these are what it is the median of, in the order of the rounds. */
  readonly rounds: readonly number[]
}

export interface FoldedTarget {
  readonly name: string
  readonly figure: Figure
  readonly peer: Figure | null
  readonly by: PrintedTarget['by']
  readonly direction: Goal['direction']
  readonly goal: number
  readonly value: number
  readonly rounds: readonly number[]
  /** When the median missed the goal. Their median counts. */
  readonly repeats: readonly number[]
  readonly met: boolean
}

export interface FoldedBench {
  readonly name: string
  readonly processes: number
  readonly seconds: number
  readonly highestLoad: number
  readonly figures: readonly FoldedFigure[]
  readonly targets: readonly FoldedTarget[]
  readonly leftOut: readonly string[]
}

/**
 * @param ran of one bench, at least one
 * @param again its repeats; empty when no target was missed
 */
export function foldBench(ran: readonly Ran[], again: readonly Ran[] = []): FoldedBench {
  const [first] = ran
  if (first === undefined) throw new RangeError('a bench that has not run has no median')
  const printed = ran.map((one) => one.printed)
  return {
    name: first.printed.name,
    processes: ran.length + again.length,
    seconds: Math.round([...ran, ...again].reduce((sum, { seconds }) => sum + seconds, 0)),
    highestLoad: Math.max(...[...ran, ...again].map(({ load }) => load)),
    figures: foldFigures(printed.map(({ figures }) => figures)),
    targets: foldTargets(
      printed,
      again.map((one) => one.printed),
    ),
    leftOut: first.printed.leftOut ?? [],
  }
}

/** By name, in the order of their first appearance. */
export function foldFigures(rounds: readonly (readonly Figure[])[]): FoldedFigure[] {
  return byName(rounds).map((found) => {
    const [{ name, unit }] = found as [Figure]
    const values = found.map(({ value }) => value)
    return { name, unit, value: median(values), rounds: values }
  })
}

function foldTargets(ran: readonly Printed[], again: readonly Printed[]): FoldedTarget[] {
  const repeated = byName(again.map(({ targets }) => targets))
  return (
    byName(ran.map(({ targets }) => targets))
      // A target that depends on its peer stands in some rounds only: it counts when it stood in most.
      .filter((found) => found.length * 2 > ran.length)
      .map((found) => {
        const [{ name, by, direction }] = found as [PrintedTarget]
        const first = judged(found)
        const repeats = first.met ? [] : (repeated.find(([target]) => target?.name === name) ?? [])
        const counted = repeats.length === 0 ? first : judged(repeats)
        return {
          name,
          by,
          direction,
          figure: medianOf(found.map(({ figure }) => figure)),
          peer: found.every(({ peer }) => peer === null) ? null : medianOf(found.flatMap(({ peer }) => peer ?? [])),
          goal: counted.goal,
          value: counted.value,
          rounds: found.map(({ value }) => value),
          repeats: repeats.map(({ value }) => value),
          met: counted.met,
        }
      })
  )
}

/** A goal may follow its peer, so it has a median, too. */
function judged(targets: readonly PrintedTarget[]): { value: number; goal: number; met: boolean } {
  const value = median(targets.map((target) => target.value))
  const goal = median(targets.map((target) => target.goal))
  const { direction } = targets[0] as PrintedTarget
  return { value, goal, met: isMet(value, { direction, value: goal }) }
}

function medianOf(figures: readonly Figure[]): Figure {
  const { name, unit } = figures[0] as Figure
  return { name, unit, value: median(figures.map(({ value }) => value)) }
}

function byName<Named extends { readonly name: string }>(rounds: readonly (readonly Named[])[]): Named[][] {
  const groups = new Map<string, Named[]>()
  for (const named of rounds.flat()) groups.set(named.name, [...(groups.get(named.name) ?? []), named])
  return [...groups.values()]
}
