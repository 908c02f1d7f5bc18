/**
 * What a run costs from its first item to its finalisation, beside what a user would have, or build, in our place.
 * Method and figures: docs/performance.md, "Syncs".
 */
import type { BenchOptions, Goal, Outcome } from '../frame.ts'
import { compare, target } from '../frame.ts'
import { measureManyIntegrations } from './many-integrations.ts'
import { startProcesses } from './processes.ts'
import { measureScale } from './scale.ts'
import { measureSlowListeners } from './slow-listeners.ts'
import { measureSmallRun } from './small-run.ts'
import type { Lengths, Stage } from './stage.ts'
import { measureThroughput } from './throughput.ts'
import { measureUnchanged } from './unchanged.ts'

const FULL: Lengths = { rounds: 3, items: 10_000, activityItems: 2_000, slowItems: 10_000 }
const QUICK: Lengths = { rounds: 3, items: 2_000, activityItems: 400, slowItems: 3_200 }
const NOT_QUICK = ['100,000 items', '1,000 integrations due at once']

const atLeast = (value: number): Goal => ({ direction: 'at least', value })
const atMost = (value: number): Goal => ({ direction: 'at most', value })

export async function benchSync({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  const lengths = quick ? QUICK : FULL
  const { stage, stop } = await startProcesses({ ...lengths, rounds: rounds ?? lengths.rounds }, say)
  try {
    const throughput = await measureThroughput(stage)
    const { added, unchanged } = await measureUnchanged(stage)
    const small = await measureSmallRun(stage)
    const slow = await measureSlowListeners(stage)
    const outcome: Outcome = {
      figures: [throughput, { added, unchanged }, small, slow].flatMap((measured) => Object.values(measured)),
      comparisons: [
        compare(throughput.ours, throughput.asItComes, 'ratio', atLeast(1.5)),
        compare(throughput.ours, throughput.tuned, 'ratio', atLeast(0.8)),
        compare(throughput.ours, throughput.activities, 'ratio', atLeast(5)),
        compare(unchanged, added, 'ratio', atMost(0.2)),
        target(small.activities, atMost(5)),
        compare(slow.processing, slow.possible, 'ratio', atLeast(0.8)),
      ],
    }
    if (quick) return { ...outcome, leftOut: NOT_QUICK }
    const rest = await measureRest(stage)
    return {
      figures: [...outcome.figures, ...rest.figures],
      comparisons: [...outcome.comparisons, ...rest.comparisons],
    }
  } finally {
    await stop()
  }
}

async function measureRest(stage: Stage): Promise<Outcome> {
  const scale = await measureScale(stage)
  const many = await measureManyIntegrations(stage)
  return {
    figures: [scale, many].flatMap((measured) => Object.values(measured)),
    comparisons: [
      compare(scale.many, scale.few, 'ratio', atMost(11)),
      target(scale.heapGrowth, atMost(100)),
      target(scale.residentGrowth, atMost(100)),
      target(scale.peakGrowth, atMost(100)),
      target(scale.longestHistory, atMost(5_000)),
      target(scale.actions, atMost(40)),
      target(many.finalised, atMost(25)),
    ],
  }
}
