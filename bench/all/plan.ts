/** What `all` runs, and in which order: round 1 of every bench, then round 2 of every bench, so that an hour's weather is everybody's. */

export interface Turn {
  /** Unique in a run, such as `webhooks 3`: under it the state keeps what it printed. */
  readonly key: string
  readonly bench: string
  readonly args: readonly string[]
}

/** Their own filling takes minutes, so one process has all rounds, one sweep over its questions after the other. */
const ROUNDS_INSIDE: readonly string[] = ['dashboard', 'operator']
/** Of a target that the median missed. */
export const REPEATS = 3

/** Sizes of the growth curves, by bench. The largest take minutes a round, so they have fewer. */
export const GROWTH: Readonly<Record<string, readonly number[]>> = {
  'growth-rows': [1_000, 10_000, 100_000, 1_000_000, 10_000_000],
  'growth-items': [1_000, 10_000, 100_000, 1_000_000],
  'growth-integrations': [1, 10, 100, 1_000, 10_000],
}
const QUICK_LARGEST = 10_000
const FEWER_ROUNDS = { bench: 'growth-items', from: 1_000_000, rounds: 3 }

export interface PlanOptions {
  readonly rounds: number
  readonly quick: boolean
}

export function roundsOf(benches: readonly string[], { rounds, quick }: PlanOptions): Turn[] {
  const turns: Turn[] = []
  for (let round = 1; round <= rounds; round += 1)
    for (const bench of benches) {
      if (!ROUNDS_INSIDE.includes(bench)) turns.push(turn(`${bench} ${round}`, bench, 1, quick))
      else if (round === 1) turns.push(turn(bench, bench, rounds, quick))
    }
  return turns
}

/** Three times more of each bench that missed a target, in turn, with its peers in the same process. */
export function repeatsOf(benches: readonly string[], { quick }: Pick<PlanOptions, 'quick'>): Turn[] {
  const turns: Turn[] = []
  for (let repeat = 1; repeat <= REPEATS; repeat += 1)
    for (const bench of benches) {
      if (!ROUNDS_INSIDE.includes(bench)) turns.push(turn(`${bench} again ${repeat}`, bench, 1, quick))
      else if (repeat === 1) turns.push(turn(`${bench} again`, bench, REPEATS, quick))
    }
  return turns
}

/** A point is a process of its own, from an empty database; its rounds are inside. */
export function growthOf({ rounds, quick }: PlanOptions): (Turn & { readonly size: number })[] {
  return Object.entries(GROWTH).flatMap(([bench, sizes]) =>
    sizes
      .filter((size) => !quick || size <= QUICK_LARGEST)
      .map((size) => {
        const isFewer = bench === FEWER_ROUNDS.bench && size >= FEWER_ROUNDS.from
        const { args, ...rest } = turn(
          `${bench} ${size}`,
          bench,
          isFewer ? Math.min(rounds, FEWER_ROUNDS.rounds) : rounds,
          quick,
        )
        return { ...rest, size, args: [...args, '--size', String(size)] }
      }),
  )
}

function turn(key: string, bench: string, rounds: number, quick: boolean): Turn {
  return { key, bench, args: ['--rounds', String(rounds), ...(quick ? ['--quick'] : [])] }
}
