/**
 * What happens in a simulation, as data: a seed gives a plan, and a plan plays the same each time. A plan that fails is made
 * smaller by leaving parts out, and is kept in a test file.
 */
import { Random } from './random.ts'

export const FAULT_KINDS = [
  'crash',
  'duplicate',
  'delay',
  'reorder',
  'throttle',
  'error',
  'cut',
  'slow',
  'skew',
] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** What a call gets in place of its answer. `throttled`, `an error` and `no connection` never reach the model. */
export type CallFault =
  | 'throttled'
  | 'an error'
  | 'an error after it worked'
  | 'no connection'
  | 'a cut body'
  | 'a slow answer'

export type Fault =
  /** The process dies after this number of the host's own statements and calls, within this step. */
  | { readonly crashAfter: number }
  /** The same, counting the statements of the framework, too. */
  | { readonly crashAfterStatement: number }
  /** The n-th call of this step, from 1. */
  | { readonly call: number; readonly gets: CallFault }
  /** Webhooks that wait are handled right after the n-th activity of this step's sync, from 1. */
  | { readonly afterActivity: number; readonly run: 'webhooks' }
  /** Something changes outside right after the n-th call of this step. */
  | ({ readonly afterCall: number } & Change)

export interface Change {
  /** A name of the model's `changes`. */
  readonly change: string
  /** Seed of the `random` that the change gets. */
  readonly seed: number
  /** How the deliveries that the change sends arrive. Default: once, at once. */
  readonly delivery?: { readonly twice?: true; readonly lateSeconds?: number }
}

export interface Passing {
  /** Seconds that pass before the step. Default 0. */
  readonly afterSeconds?: number
}

export type ChangeStep = Passing & Change

export interface RunStep extends Passing {
  /** `webhooks`, `sync`, `events` for queued listeners and notification targets, or the name of a job of the scenario's. */
  readonly run: string
  /** Webhooks that wait run from the newest to the oldest: several run at once in production. */
  readonly newestFirst?: true
  readonly faults?: readonly Fault[]
}

export type Step = ChangeStep | RunStep

export interface Plan {
  /** Seconds that the provider's clock is ahead of the host's; negative: behind. Default 0. */
  readonly skewSeconds?: number
  readonly steps: readonly Step[]
}

/** What a plan can be made of. */
export interface Material {
  readonly changes: readonly string[]
  /** `webhooks`, `sync`, `events` and jobs. */
  readonly runs: readonly string[]
  readonly faults: readonly FaultKind[]
}

const MAX_SEED = 1_000_000
const FEWEST_STEPS = 3
const MOST_STEPS = 10
/** A fault's place in its step is drawn from 1 to these. */
const LIKELY_CALLS = 5
const LIKELY_ACTIVITIES = 6
const LIKELY_HOST_STEPS = 10
const LIKELY_STATEMENTS = 60
const SKEWS_SECONDS = [-90, -20, 20, 90]
const LATE_SECONDS = [5, 60, 600, 4_000]

export function planOf(seed: number, material: Material): Plan {
  const random = new Random(seed)
  // Each seed has some kinds only: a bug that one kind brings out may be hidden by another.
  const kinds = new Set(material.faults.filter(() => random.chance(0.5)))
  const skewSeconds = kinds.has('skew') ? random.pick(SKEWS_SECONDS) : 0
  const steps = Array.from({ length: random.int(FEWEST_STEPS, MOST_STEPS) }, () => stepOf(random, kinds, material))
  return { ...(skewSeconds === 0 ? {} : { skewSeconds }), steps }
}

function stepOf(random: Random, kinds: ReadonlySet<FaultKind>, material: Material): Step {
  const afterSeconds = secondsBefore(random)
  const passing = afterSeconds === 0 ? {} : { afterSeconds }
  if (material.runs.length === 0 || (material.changes.length > 0 && random.chance(0.55)))
    return { ...passing, ...changeOf(random, kinds, material) }
  const run = random.pick(material.runs)
  const faults = faultsOf(random, kinds, material, run)
  return {
    ...passing,
    run,
    ...(run === 'webhooks' && kinds.has('reorder') && random.chance(0.4) ? { newestFirst: true as const } : {}),
    ...(faults.length === 0 ? {} : { faults }),
  }
}

/** Mostly none, so that much falls into the same second. */
function secondsBefore(random: Random): number {
  const kind = random.next()
  if (kind < 0.45) return 0
  if (kind < 0.75) return random.int(1, 5)
  return kind < 0.93 ? random.int(30, 200) : random.int(600, 4_000)
}

function changeOf(random: Random, kinds: ReadonlySet<FaultKind>, { changes }: Material): Change {
  const change = random.pick(changes)
  const seed = random.int(1, MAX_SEED)
  const delivery = {
    ...(kinds.has('duplicate') && random.chance(0.3) ? { twice: true as const } : {}),
    ...(kinds.has('delay') && random.chance(0.35) ? { lateSeconds: random.pick(LATE_SECONDS) } : {}),
  }
  return { change, seed, ...(Object.keys(delivery).length === 0 ? {} : { delivery }) }
}

function faultsOf(random: Random, kinds: ReadonlySet<FaultKind>, material: Material, run: string): Fault[] {
  const faults: Fault[] = []
  const gets = callFaultsOf(kinds)
  if (gets.length > 0 && random.chance(0.6)) faults.push({ call: random.small(LIKELY_CALLS), gets: random.pick(gets) })
  if (material.changes.length > 0 && random.chance(0.3))
    faults.push({ afterCall: random.small(LIKELY_CALLS), ...changeOf(random, kinds, material) })
  if (run === 'sync' && material.runs.includes('webhooks') && random.chance(0.4))
    faults.push({ afterActivity: random.small(LIKELY_ACTIVITIES), run: 'webhooks' })
  if (kinds.has('crash') && random.chance(0.5))
    faults.push(
      random.chance(0.8)
        ? { crashAfter: random.small(LIKELY_HOST_STEPS) }
        : { crashAfterStatement: random.small(LIKELY_STATEMENTS) },
    )
  return faults
}

function callFaultsOf(kinds: ReadonlySet<FaultKind>): CallFault[] {
  return [
    ...(kinds.has('throttle') ? (['throttled'] as const) : []),
    ...(kinds.has('error') ? (['an error', 'an error after it worked'] as const) : []),
    ...(kinds.has('cut') ? (['no connection', 'a cut body'] as const) : []),
    ...(kinds.has('slow') ? (['a slow answer'] as const) : []),
  ]
}
