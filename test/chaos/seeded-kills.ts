/** Which part is killed when, drawn from a seed, so that a run that failed can be run again. */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../../src/testing/simulation/random.ts'
import type { KeptProcess } from './kept-process.ts'

const MAX_SEED = 2 ** 32

export interface Kill<Target extends string = string> {
  readonly target: Target
  /** After the kill before it. */
  readonly afterMs: number
}

/** Of this run: CHAOS_SEED, or a new one. */
export function seedOfRun(environment: NodeJS.ProcessEnv = process.env, name = 'CHAOS_SEED'): number {
  const given = environment.CHAOS_SEED
  if (given === undefined || given === '') return randomInt(MAX_SEED - 1)
  const seed = Number(given)
  if (!Number.isInteger(seed) || seed < 0 || seed >= MAX_SEED)
    throw new Error(`${name}: expected an integer from 0 to ${MAX_SEED - 1}, received ${JSON.stringify(given)}`)
  return seed
}

/** Numbers from 0 up to 1, the same ones for the same seed. */
export function seeded(seed: number): () => number {
  const random = new Random(seed)
  return () => random.next()
}

/** Each part so many times, in any order; the waits between them are between zero and twice their mean. */
export function drawKills<Target extends string>(
  random: () => number,
  { targets, each, meanGapMs }: { targets: readonly Target[]; each: number; meanGapMs: number },
): Kill<Target>[] {
  const order = targets.flatMap((target) => Array.from({ length: each }, () => target))
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1))
    const swapped = order[last] as Target
    order[last] = order[other] as Target
    order[other] = swapped
  }
  return order.map((target) => ({ target, afterMs: Math.round(random() * 2 * meanGapMs) }))
}

/**
 * Carries the plan out. API and worker are met at any moment, their own start included; Postgres and Temporal when they serve
 * again, so that each start of theirs comes to its end.
 *
 * @param kill for a plan so short that its kills would meet each other instead of work: what else a kill waits for
 * @returns a line for each kill
 */
export async function carryOut<Target extends string>(
  stack: Readonly<Record<Target, KeptProcess>>,
  kills: readonly Kill<Target>[],
  kill: (part: KeptProcess) => Promise<void> = (part) => part.kill(),
): Promise<string[]> {
  const startedAt = performance.now()
  const story: string[] = []
  for (const { target, afterMs } of kills) {
    await sleep(afterMs)
    await kill(stack[target])
    story.push(`${((performance.now() - startedAt) / 1_000).toFixed(1)} s ${target}`)
  }
  return story
}
