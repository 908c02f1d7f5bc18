/** What a test expects of the judge, and what it prints. */
import { expect } from 'vitest'
import type { Bug } from './bugs.ts'
import type { Campaign, RoundOptions } from './campaign.ts'
import { SUBJECTS } from './lane.ts'
import type { Operation, Verdict } from './porcupine.ts'
import { judge } from './porcupine.ts'

/** A bug shows only where operations meet: a round that has not shown it is followed by another one, with the next seed. */
const MOST_ROUNDS = 10
const BUG_ROUND_SECONDS = 1

/** All subjects at once, in the code as it is. */
export async function expectLegal(
  campaign: Campaign,
  program: string,
  options: Pick<RoundOptions, 'seed' | 'seconds' | 'kills'>,
): Promise<void> {
  console.log(`CHAOS_SEED=${options.seed} repeats this round`)
  const { operations, kills } = await campaign.round({ ...options, subjects: SUBJECTS })
  const verdicts = await judge(program, operations)
  console.log([`killed: ${kills.join(', ')}`, ...summary(verdicts)].join('\n'))
  expect(verdicts.filter(({ verdict }) => verdict !== 'legal')).toEqual([])
  expect(new Set(verdicts.map(({ model }) => model)).size, 'models that judged something').toBe(6)
  expect(contended(operations), 'operations at the same time as another one of their object').toBeGreaterThan(100)
}

/** The subject's histories turn illegal. */
export async function expectFound(campaign: Campaign, program: string, bug: Bug, seed: number): Promise<void> {
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const options = { seed: seed + round, seconds: BUG_ROUND_SECONDS, subjects: [bug.subject], bug }
    const { operations } = await campaign.round(options)
    const found = (await judge(program, operations)).find(({ verdict }) => verdict === 'illegal')
    if (found === undefined) continue
    console.log(`found in round ${round + 1}, ${found.object}: ${found.stuck}`)
    return
  }
  throw new Error(`"${bug.name}" was not found in ${MOST_ROUNDS} rounds from CHAOS_SEED=${seed}`)
}

function summary(verdicts: readonly Verdict[]): string[] {
  return [...new Set(verdicts.map(({ model }) => model))].toSorted().map((model) => {
    const own = verdicts.filter((verdict) => verdict.model === model)
    const sum = (of: (verdict: Verdict) => number): number => own.reduce((total, verdict) => total + of(verdict), 0)
    const operations = sum((verdict) => verdict.operations)
    const pending = sum((verdict) => verdict.pending)
    const illegal = own.filter(({ verdict }) => verdict !== 'legal').length
    return `${model}: ${own.length} objects, ${operations} operations, ${pending} without an end; not legal: ${illegal}`
  })
}

/** A history without operations that meet would be legal whatever the code did. */
function contended(operations: readonly Operation[]): number {
  const lastEnds = new Map<string, number>()
  let meeting = 0
  for (const { object, call, return: end } of operations.toSorted((a, b) => a.call - b.call)) {
    const last = lastEnds.get(object)
    if (last !== undefined && call < last) meeting += 1
    lastEnds.set(object, Math.max(last ?? 0, end ?? call))
  }
  return meeting
}
