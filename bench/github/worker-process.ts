/** A worker of a host that syncs GitHub repositories, as bin/worker.ts is one. */
import type { Integrations } from 'durable-integrations'
import type { RunningWorkers } from 'durable-integrations/worker'
import { createWorkers, installTemporalLogger } from 'durable-integrations/worker'
import { answerParent } from '../child.ts'
import { collectGarbage, memoryAfterCollection } from '../memory.ts'
import type { OursOptions } from './ours.ts'
import { createOurs } from './ours.ts'

export interface MemoryAndPeak {
  readonly heapBytes: number
  readonly residentBytes: number
  /** The highest resident memory since the last question. */
  readonly peakBytes: number
}

const SAMPLE_MS = 50
/** How much garbage V8 lets lie is its own affair. */
const COLLECT_EVERY_MS = 1_000

let integrations: Integrations | undefined
let workers: RunningWorkers | undefined
let running: Promise<void> = Promise.resolve()
let peakBytes = 0

const offered = {
  async start(options: OursOptions): Promise<void> {
    integrations = createOurs(options)
    installTemporalLogger(integrations)
    workers = await createWorkers(integrations)
    running = workers.run()
    setInterval(() => {
      peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
    }, SAMPLE_MS).unref()
    setInterval(collectGarbage, COLLECT_EVERY_MS).unref()
  },

  async memory(_: null): Promise<MemoryAndPeak> {
    const peak = peakBytes
    const memory = await memoryAfterCollection()
    peakBytes = memory.residentBytes
    return { ...memory, peakBytes: peak }
  },
}
export type WorkerCommands = typeof offered

answerParent(offered, async () => {
  workers?.shutdown()
  await running
  await integrations?.close()
})
