/** Runs turns that have not run yet, and keeps each before the next. A bench that fails has another try at the end. */
import { loadavg } from 'node:os'
import type { Printed } from '../frame.ts'
import type { FoldedBench } from './fold.ts'
import { foldBench } from './fold.ts'
import type { PlanOptions, Turn } from './plan.ts'
import { repeatsOf, roundsOf } from './plan.ts'
import type { Ran, State } from './state.ts'

export interface Runner {
  /** In a process of its own. @throws when it fails, or takes too long */
  readonly run: (turn: Turn) => Promise<Printed>
  readonly keep: (state: State) => void
  readonly say: (line: string) => void
}

/** A turn that failed twice: what has run is kept, so the same command tries only the rest. */
export class TurnsFailed extends Error {
  constructor(readonly failures: ReadonlyMap<string, unknown>) {
    const lines = [...failures].map(
      ([key, error]) => `  ${key}: ${error instanceof Error ? error.message : String(error)}`,
    )
    super(
      `These turns failed twice:\n${lines.join('\n')}\nThe others are kept; the same command tries these once more.`,
    )
  }
}

export async function runTurns(turns: readonly Turn[], state: State, { run, keep, say }: Runner): Promise<void> {
  let failures = new Map<string, unknown>()
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    failures = new Map()
    for (const [at, turn] of turns.entries()) {
      if (state.ran[turn.key] !== undefined) continue
      const [load = 0] = loadavg()
      const startedAt = performance.now()
      say(`${at + 1} of ${turns.length}: ${turn.key} (load ${load.toFixed(1)})`)
      try {
        const printed = await run(turn)
        const seconds = (performance.now() - startedAt) / 1_000
        state.ran[turn.key] = { printed, seconds, load }
        keep(state)
        say(`${turn.key}: ${seconds.toFixed(0)} s, ${missedBy(printed)}`)
      } catch (error) {
        failures.set(turn.key, error)
        say(`${turn.key} failed: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    if (failures.size === 0) return
  }
  throw new TurnsFailed(failures)
}

/** All rounds, then three repeats of each bench whose median missed a target. */
export async function runAll(
  benches: readonly string[],
  options: PlanOptions,
  state: State,
  runner: Runner,
): Promise<FoldedBench[]> {
  const rounds = roundsOf(benches, options)
  await runTurns(rounds, state, runner)
  const ranOf = (turns: readonly Turn[], bench: string): Ran[] =>
    turns.flatMap((turn) => (turn.bench === bench ? (state.ran[turn.key] ?? []) : []))
  const missed = benches.filter((bench) => foldBench(ranOf(rounds, bench)).targets.some(({ met }) => !met))
  const repeats = repeatsOf(missed, options)
  if (missed.length > 0) runner.say(`a target was missed by ${missed.join(', ')}: three times more, in turn`)
  await runTurns(repeats, state, runner)
  return benches.map((bench) => foldBench(ranOf(rounds, bench), ranOf(repeats, bench)))
}

function missedBy({ targets }: Printed): string {
  const missed = targets.filter(({ met }) => !met).map(({ name }) => name)
  return missed.length === 0 ? 'all targets met' : `missed this time: ${missed.join('; ')}`
}
