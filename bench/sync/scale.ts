/** Ten times the items: time, memory, histories and actions. */
import type { Figure } from '../frame.ts'
import { median } from '../frame.ts'
import { workflowCost } from '../workflow-cost.ts'
import { PROVIDER } from './ours.ts'
import type { Run, Stage } from './stage.ts'
import { runId, runSync, secondsOf } from './stage.ts'

const ITEMS = { few: 10_000, many: 100_000 }
const MB = 1_000_000
/** In the run whose memory counts: how much garbage V8 lets lie is its own affair. */
const COLLECT_EVERY_MS = 1_000

export interface ScaleFigures {
  readonly few: Figure
  readonly many: Figure
  readonly heapGrowth: Figure
  readonly residentGrowth: Figure
  readonly peakGrowth: Figure
  /** With garbage, which V8 collects when it sees fit. */
  readonly uncollectedPeakGrowth: Figure
  readonly longestHistory: Figure
  readonly actions: Figure
}

export async function measureScale(stage: Stage): Promise<ScaleFigures> {
  const { tables, integrations, temporal, lengths } = stage
  const few: number[] = []
  const many: number[] = []
  const peaks: number[] = []
  stage.say(`${ITEMS.few} items and ${ITEMS.many}, in turn`)
  for (let round = 0; round < lengths.rounds; round += 1) {
    await tables.clear()
    few.push(secondsOf(await runSync(stage, PROVIDER.quick, ITEMS.few)))
    const { run, growth } = await measuredRun(stage, null)
    many.push(secondsOf(run))
    peaks.push(growth.peak)
  }
  // Its time counts for nothing: what is measured is the memory in use.
  const { run, growth } = await measuredRun(stage, COLLECT_EVERY_MS)
  const cost = await workflowCost(temporal, runId(integrations, run.integrationId))
  const figure = (name: string, value: number, unit: string): Figure => ({ name, value, unit })
  const ofMany = (name: string, value: number, unit: string) => figure(`100,000 items: ${name}`, value, unit)
  return {
    few: figure('a run of 10,000 items', median(few), 's'),
    many: figure('a run of 100,000 items', median(many), 's'),
    heapGrowth: ofMany("worker's heap afterwards above that before", growth.heap / MB, 'MB'),
    residentGrowth: ofMany("worker's resident memory afterwards above that before", growth.resident / MB, 'MB'),
    peakGrowth: ofMany("worker's highest resident memory above that before", growth.peak / MB, 'MB'),
    uncollectedPeakGrowth: ofMany('the same with garbage', Math.max(...peaks) / MB, 'MB'),
    longestHistory: ofMany('longest history', cost.longestHistory, 'events'),
    actions: ofMany('Temporal actions per 1,000', cost.actions / (ITEMS.many / 1_000), 'actions'),
  }
}

interface Growth {
  readonly heap: number
  readonly resident: number
  readonly peak: number
}

/** A run of many, and the worker's memory after it and at its highest, above that before it, in bytes. */
async function measuredRun(
  { worker, ...stage }: Stage,
  collectEveryMs: number | null,
): Promise<{ run: Run; growth: Growth }> {
  await stage.tables.clear()
  const before = await worker.ask('memory', collectEveryMs)
  const run = await runSync({ worker, ...stage }, PROVIDER.quick, ITEMS.many)
  const after = await worker.ask('memory', null)
  return {
    run,
    growth: {
      heap: after.heapBytes - before.heapBytes,
      resident: after.residentBytes - before.residentBytes,
      peak: after.peakBytes - before.residentBytes,
    },
  }
}
