/** Listeners that wait: how much of the configured concurrency is used. */
import type { Figure } from '../frame.ts'
import { median } from '../frame.ts'
import { LISTENER_MS, PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { runSync, secondsOf } from './stage.ts'

/** docs/behaviour/syncs.md: a run has so many batches at once at most, each with `sync.item_concurrency` items at a time. */
const LANES = 4

export interface SlowListenerFigures {
  readonly processing: Figure
  /** What the configured concurrency allows. */
  readonly possible: Figure
  readonly whole: Figure
}

export async function measureSlowListeners(stage: Stage): Promise<SlowListenerFigures> {
  const { integrations, tables, worker, lengths } = stage
  const items = lengths.slowItems
  stage.say(`${items} items whose listeners wait ${LISTENER_MS} ms`)
  const processing: number[] = []
  const whole: number[] = []
  for (let round = 0; round < lengths.rounds; round += 1) {
    await tables.clear()
    const run = await runSync(stage, PROVIDER.slow, items)
    const { firstListener } = await worker.ask('moments', run.integrationId)
    if (firstListener === null) throw new Error('no listener was called')
    processing.push(items / ((run.lastItemAt - firstListener) / 1_000))
    whole.push(items / secondsOf(run))
  }
  const figure = (name: string, value: number): Figure => ({
    name: `listeners that wait ${LISTENER_MS} ms: ${name}`,
    value,
    unit: 'items/s',
  })
  const concurrency = LANES * integrations.config.sync.item_concurrency
  return {
    processing: figure('from the first to the last', median(processing)),
    possible: figure(`${concurrency} at once`, concurrency / (LISTENER_MS / 1_000)),
    whole: figure('from the first dispatch to the finalised run', median(whole)),
  }
}
