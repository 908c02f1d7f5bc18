/**
 * What a webhook costs from its arrival to its processed row, beside what a user would have, or build, in our place.
 * Method and figures: docs/performance.md, "Webhooks".
 */
import type { BenchOptions, Comparison, Figure, Goal, Outcome } from '../frame.ts'
import { compare, target } from '../frame.ts'
import { measureBacklog } from './backlog.ts'
import { measureEndToEnd } from './end-to-end.ts'
import { measureFairness } from './fairness.ts'
import { measureIdleLatency } from './idle-latency.ts'
import { measureIngest } from './ingest.ts'
import { measurePartsAndOrder } from './parts-and-order.ts'
import { startProcesses } from './processes.ts'
import type { Lengths, Stage } from './stage.ts'
import { measureSteadyRate } from './steady-rate.ts'

const FULL: Lengths = { rounds: 3, seconds: 3, backlog: 10_000, idleDeliveries: 120 }
const QUICK: Lengths = { rounds: 3, seconds: 0.7, backlog: 2_000, idleDeliveries: 15 }
const NOT_QUICK = [
  'a workflow per webhook, BullMQ and pg-boss',
  'end to end',
  '500 a second for a minute',
  '100 integrations at once',
  'one integration with slow handlers',
]

/** Of an event of a delivery of many, in those of a single delivery. */
const MOST_COST_OF_A_PART = 1.2

const atLeast = (value: number): Goal => ({ direction: 'at least', value })
const atMost = (value: number): Goal => ({ direction: 'at most', value })

function lengthsOf(quick: boolean, rounds?: number): Lengths {
  const lengths = quick ? QUICK : FULL
  return { ...lengths, rounds: rounds ?? lengths.rounds }
}

export async function benchWebhooks({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  const processes = await startProcesses(lengthsOf(quick, rounds), say, quick ? 'graphile' : 'all')
  try {
    const ingest = await measureIngest(processes.stage)
    const stage = await processes.startWorkers()
    const backlog = await measureBacklog(stage)
    const idle = await measureIdleLatency(stage)
    const outcome: Outcome = {
      figures: [...Object.values(ingest), ...backlog.figures, ...Object.values(idle)],
      comparisons: [
        compare(ingest.ours, ingest.bare, 'ratio', atLeast(0.6)),
        compare(backlog.ours, backlog.asItComes, 'ratio', atLeast(2)),
        compare(backlog.ours, backlog.tuned, 'ratio', atLeast(1)),
        ...(backlog.workflows === null ? [] : [compare(backlog.ours, backlog.workflows, 'ratio', atLeast(50))]),
        target(backlog.actions, atMost(40)),
        target(idle.median, atMost(30)),
        target(idle.p99, atMost(150)),
      ],
    }
    if (quick) return { ...outcome, leftOut: NOT_QUICK }
    const { figures, comparisons } = await measureRest(stage)
    return {
      figures: [...outcome.figures, ...figures],
      comparisons: [...outcome.comparisons, ...comparisons],
    }
  } finally {
    await processes.stop()
  }
}

/** Events of deliveries of many, and in order, beside single deliveries: what each costs to be worked off. */
export async function benchWebhookOrder({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  const processes = await startProcesses(lengthsOf(quick, rounds), say, 'none')
  try {
    const stage = await processes.startWorkers()
    const figures = await measurePartsAndOrder(stage)
    const { single, of1, of100, of1000, ordered } = figures
    return {
      figures: Object.values(figures),
      comparisons: [
        ...[of1, of100, of1000].map((parts) => compare(parts, single, 'ratio', atLeast(1 / MOST_COST_OF_A_PART))),
        compare(ordered, single, 'ratio', atLeast(0.5)),
      ],
    }
  } finally {
    await processes.stop()
  }
}

async function measureRest(stage: Stage): Promise<{ figures: Figure[]; comparisons: Comparison[] }> {
  const endToEnd = await measureEndToEnd(stage)
  const steady = await measureSteadyRate(stage)
  const fairness = await measureFairness(stage)
  return {
    figures: [...endToEnd.figures, ...[steady, fairness].flatMap((measured) => Object.values(measured))],
    comparisons: [
      compare(endToEnd.ours, endToEnd.built, 'ratio', atLeast(1)),
      target(steady.answerP99, atMost(50)),
      target(steady.slowest, atMost(2)),
      target(steady.longestHistory, atMost(5_000)),
      target(steady.actions, atMost(200)),
      target(steady.heapGrowth, atMost(1.2)),
      target(steady.residentGrowth, atMost(1.2)),
      compare(fairness.slowest, fairness.fastest, 'ratio', atMost(3)),
      compare(fairness.besideSlow, fairness.alone, 'ratio', atMost(1.5)),
    ],
  }
}
