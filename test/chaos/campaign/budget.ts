/** Whether a shared budget held by the provider's clock. Rule: docs/behaviour/shared-budgets.md, "What is promised". */
import type { Happened } from '../inbox-faults.ts'
import { BUDGET } from './world.ts'

/** A process that is silent for longer is taken for dead, and its units count as used from then on. */
const SILENT_SECONDS = 15

export interface Budgeted {
  /** In any window. */
  readonly most: number
  /** Windows with too many, right after a process that was taken for dead went on. */
  readonly excused: number
  readonly overruns: readonly string[]
}

/** @param callsAtMs arrivals at the provider, by the machine's clock */
export function budgetOverruns(callsAtMs: readonly number[], story: readonly Happened[]): Budgeted {
  const calls = callsAtMs.toSorted((a, b) => a - b)
  const windowMs = BUDGET.seconds * 1_000
  let most = 0
  let first = 0
  let excused = 0
  const overruns: string[] = []
  for (const [at, endMs] of calls.entries()) {
    while ((calls[first] as number) <= endMs - windowMs) first += 1
    const inWindow = at - first + 1
    most = Math.max(most, inWindow)
    if (inWindow <= BUDGET.calls) continue
    if (isAfterSilence(story, endMs - windowMs, endMs)) excused += 1
    else overruns.push(`${inWindow} calls in the ${BUDGET.seconds} s before ${new Date(endMs).toISOString()}`)
  }
  return { most, excused, overruns }
}

/** The exception that the rule makes: a process that could not reach Postgres for so long, with a call on its way. */
function isAfterSilence(story: readonly Happened[], fromMs: number, untilMs: number): boolean {
  return story.some((happened) => {
    const isLong = happened.untilMs - happened.fromMs >= SILENT_SECONDS * 1_000
    return isLong && happened.fromMs <= untilMs && happened.untilMs >= fromMs - 1_000
  })
}
