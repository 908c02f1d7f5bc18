/**
 * Plays a host's own provider and handlers with seeded faults, and makes the plan of a seed that fails small.
 *
 * Rule: docs/testing.md, "Simulation".
 */
import { InvalidArgumentException } from '../../framework/errors.ts'
import { SimulationFailed } from '../testing-errors.ts'
import type { Plan } from './plan.ts'
import { planOf } from './plan.ts'
import type { Played } from './plan-player.ts'
import { planText } from './plan-text.ts'
import type { Outside, Scenario } from './scenario.ts'
import { shrunk } from './shrink.ts'
import { Simulator } from './simulator.ts'

export interface SimulateOptions {
  /** How many seeds are played, one after the other. Default 20. */
  readonly seeds?: number
  /** The first one. Default 1. */
  readonly seed?: number
  /** Called after each seed. */
  readonly onSeed?: (seed: number, played: Played) => void
  /** Aborted: no further seed begins. */
  readonly signal?: AbortSignal
}

/** A seed that fails, with its plan made small. */
export interface FoundFailure {
  readonly seed: number
  readonly plan: Plan
  /** Of the small plan. */
  readonly played: Played
}

export interface Simulated {
  /** How many were played. */
  readonly seeds: number
  readonly seconds: number
  /** The first seed that fails; null: none did. */
  readonly failure: FoundFailure | null
}

/** Plays seeds until one fails. @throws InvalidArgumentException; what the model throws */
export async function search<Model extends Outside>(
  scenario: Scenario<Model>,
  { seeds = 20, seed: first = 1, onSeed, signal }: SimulateOptions = {},
): Promise<Simulated> {
  for (const [name, value] of Object.entries({ seeds, seed: first }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new InvalidArgumentException(name, `a whole number of at least 1 is allowed, ${value} was given`)
  const simulator = await Simulator.open(scenario)
  const startedAt = performance.now()
  let count = 0
  let failure: FoundFailure | null = null
  try {
    for (let seed = first; seed < first + seeds && failure === null && signal?.aborted !== true; seed += 1) {
      const plan = planOf(seed, simulator.material)
      const played = await simulator.play(plan)
      count += 1
      onSeed?.(seed, played)
      if (played.broken.length > 0) failure = { seed, ...(await smallest(simulator, plan, played)) }
    }
  } finally {
    await simulator.close()
  }
  return { seeds: count, seconds: (performance.now() - startedAt) / 1_000, failure }
}

function smallest<Model extends Outside>(
  simulator: Simulator<Model>,
  plan: Plan,
  played: Played,
): Promise<{ readonly plan: Plan; readonly played: Played }> {
  const name = played.broken[0]?.name
  return shrunk(plan, played, async (smaller) => {
    const again = await simulator.play(smaller)
    return again.broken.some((broken) => broken.name === name) ? again : null
  })
}

/**
 * Plays seeds in a test.
 *
 * @throws SimulationFailed with the story and the small plan of the first seed that fails
 */
export async function simulate<Model extends Outside>(
  scenario: Scenario<Model>,
  options: SimulateOptions = {},
): Promise<Simulated> {
  const simulated = await search(scenario, options)
  if (simulated.failure !== null) throw failed(simulated.failure.seed, simulated.failure.plan, simulated.failure.played)
  return simulated
}

/** Plays one plan, as a kept test does. @throws SimulationFailed */
export async function replay<Model extends Outside>(scenario: Scenario<Model>, plan: Plan): Promise<Played> {
  const simulator = await Simulator.open(scenario)
  try {
    const played = await simulator.play(plan)
    if (played.broken.length > 0) throw failed(null, plan, played)
    return played
  } finally {
    await simulator.close()
  }
}

function failed(seed: number | null, plan: Plan, { broken, story }: Played): SimulationFailed {
  return new SimulationFailed(seed, broken, story, planText(plan), { cause: broken[0]?.error })
}
