/** What a test expects of the judge, and what it prints. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Bug } from './bugs.ts'
import type { Campaign, RoundOptions } from './campaign.ts'
import type { SubjectKind } from './lane.ts'
import { SUBJECTS } from './lane.ts'
import type { Operation, Verdict } from './porcupine.ts'
import { judge } from './porcupine.ts'

/** A bug shows only where operations meet: a round that has not shown it is followed by another one, with the next seed. */
const MOST_ROUNDS = 10
const BUG_ROUND_SECONDS = 1
/** A history whose operations do not meet would be legal whatever the code did. A quiet machine has a thousand. */
const LEAST_MEETING = 50
/** Where a history that is not legal is kept: another run draws the same operations, and they meet in another way. */
const KEPT = fileURLToPath(new URL('../../.data/histories/', import.meta.url))

/** All subjects at once, in the code as it is. */
export async function expectLegal(
  campaign: Campaign,
  program: string,
  options: Omit<RoundOptions, 'subjects' | 'bug'>,
): Promise<void> {
  console.log(`CHAOS_SEED=${options.seed} draws the same operations and faults again`)
  const { operations, faults } = await campaign.round({ ...options, subjects: SUBJECTS })
  const verdicts = await judge(program, operations)
  console.log([...faults, ...summary(verdicts)].join('\n'))
  await expectAllLegal(verdicts, operations)
  expect(new Set(verdicts.map(({ model }) => model)).size, 'models that judged something').toBe(6)
  expect(contended(operations), 'operations at the same time as another one of their object').toBeGreaterThan(
    LEAST_MEETING,
  )
}

/** A round as those with a bug, without one: what they show comes of the bug. */
export async function expectLegalAlone(
  campaign: Campaign,
  program: string,
  subject: SubjectKind,
  seed: number,
): Promise<void> {
  const { operations } = await campaign.round({ seed, seconds: BUG_ROUND_SECONDS, subjects: [subject] })
  await expectAllLegal(await judge(program, operations), operations)
}

async function expectAllLegal(verdicts: readonly Verdict[], operations: readonly Operation[]): Promise<void> {
  const others = verdicts.filter(({ verdict }) => verdict !== 'legal')
  if (others.length > 0) {
    const names = new Set(others.map(({ object }) => object))
    const file = join(KEPT, `${Date.now()}.jsonl`)
    await mkdir(KEPT, { recursive: true })
    const kept = operations.filter(({ object }) => names.has(object))
    await writeFile(file, kept.map((operation) => `${JSON.stringify(operation)}\n`).join(''))
    console.log(`the histories that are not legal are kept in ${file}`)
  }
  expect(others).toEqual([])
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

/** How many operations began while another one of their object was under way. */
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
