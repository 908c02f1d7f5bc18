/** A point of the curve of items: a run that lists that many, from its first item to its end. */
import { foldFigures } from '../all/fold.ts'
import type { BenchOptions, Figure, Outcome } from '../frame.ts'
import { startMeter } from '../meter.ts'
import { PROVIDER } from '../sync/ours.ts'
import { startProcesses } from '../sync/processes.ts'
import type { Stage } from '../sync/stage.ts'
import { runId, runSync, secondsOf } from '../sync/stage.ts'
import { workflowCost } from '../workflow-cost.ts'

const ROUNDS = 3
const DEFAULT_ITEMS = 1_000
/** What is loaded and compiled once counts for nothing. */
const WARM_UP_ITEMS = 2_000

export async function benchItems({ rounds = ROUNDS, size = DEFAULT_ITEMS, say }: BenchOptions): Promise<Outcome> {
  const { stage, stop } = await startProcesses({ rounds: 1, items: 0, activityItems: 0, slowItems: 0 }, say, true)
  try {
    await costOfRun(stage, WARM_UP_ITEMS)
    const measured: Figure[][] = []
    for (let round = 1; round <= rounds; round += 1) {
      say(`round ${round}: ${size.toLocaleString('en-US')} items`)
      measured.push(await costOfRun(stage, size))
    }
    return { figures: foldFigures(measured), comparisons: [] }
  } finally {
    await stop()
  }
}

async function costOfRun(stage: Stage, items: number): Promise<Figure[]> {
  const { tables, temporal, integrations } = stage
  await tables.clear()
  const used = await startMeter(tables.sql)
  const run = await runSync(stage, PROVIDER.quick, items)
  const { statements, walBytes, cpuMs } = await used()
  const { actions, longestHistory } = await workflowCost(temporal, runId(integrations, run.integrationId))
  return [
    { name: 'throughput', value: items / secondsOf(run), unit: 'items/s' },
    { name: 'statements', value: statements / items, unit: 'per item' },
    { name: 'write-ahead log', value: walBytes / items / 1_024, unit: 'KiB per item' },
    { name: 'processor time', value: cpuMs / items, unit: 'ms per item' },
    { name: 'Temporal actions', value: actions / items, unit: 'per item' },
    { name: 'longest history', value: longestHistory, unit: 'events' },
  ]
}
