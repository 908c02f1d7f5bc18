/** What is kept of a finished run, committed under `bench/results/`: docs/benchmarks.md is made of it. */
import type { FoldedBench } from './fold.ts'

export interface AllResults {
  readonly startedAt: string
  readonly endedAt: string
  readonly machine: string
  readonly of: string
  readonly rounds: number
  readonly quick: boolean
  readonly benches: readonly FoldedBench[]
}

export interface GrowthResults extends Omit<AllResults, 'benches'> {
  readonly curves: readonly Curve[]
}

export interface Curve {
  readonly name: string
  readonly points: readonly (FoldedBench & { readonly size: number })[]
}
