/** Ours: a worker process, as bin/worker.ts is one. */
import type { Integrations } from 'durable-integrations'
import type { RunningWorkers } from 'durable-integrations/worker'
import { createWorkers, installTemporalLogger } from 'durable-integrations/worker'
import { answerParent } from '../child.ts'
import type { Memory } from '../memory.ts'
import { collectGarbage, memoryAfterCollection } from '../memory.ts'
import type { Moments, OursOptions } from './ours.ts'
import { createOurs } from './ours.ts'

export interface MemoryAndPeak extends Memory {
  /** The highest resident memory since the last question. */
  readonly peakBytes: number
}

const SAMPLE_MS = 50

const moments: Moments = { firstDispatch: new Map(), firstListener: new Map() }
let integrations: Integrations | undefined
let workers: RunningWorkers | undefined
let running: Promise<void> = Promise.resolve()
let peakBytes = 0
let collecting: NodeJS.Timeout | undefined

const offered = {
  async start(options: OursOptions): Promise<void> {
    integrations = createOurs(options, moments)
    installTemporalLogger(integrations)
    workers = await createWorkers(integrations)
    running = workers.run()
    setInterval(() => {
      peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
    }, SAMPLE_MS).unref()
  },

  /** @param collectEveryMs from now on until the next question, garbage is collected so often; null: when V8 sees fit */
  async memory(collectEveryMs: number | null): Promise<MemoryAndPeak> {
    clearInterval(collecting)
    const peak = peakBytes
    const memory = await memoryAfterCollection()
    peakBytes = memory.residentBytes
    if (collectEveryMs !== null) collecting = setInterval(collectGarbage, collectEveryMs).unref()
    return { ...memory, peakBytes: peak }
  },

  /** Milliseconds since 1970; null: there was none. */
  async moments(integrationId: number): Promise<{ firstDispatch: number | null; firstListener: number | null }> {
    return {
      firstDispatch: moments.firstDispatch.get(integrationId) ?? null,
      firstListener: moments.firstListener.get(integrationId) ?? null,
    }
  },
}
export type WorkerCommands = typeof offered

answerParent(offered, async () => {
  workers?.shutdown()
  await running
  await integrations?.close()
})
