/** Ours: a worker process, as bin/worker.ts is one. */
import type { Integrations } from 'durable-integrations'
import type { RunningWorkers } from 'durable-integrations/worker'
import { createWorkers, installTemporalLogger } from 'durable-integrations/worker'
import { answerParent } from '../child.ts'
import type { OursOptions } from './ours.ts'
import { createOurs } from './ours.ts'

export interface Memory {
  /** After a collection of garbage. */
  readonly heapBytes: number
  /** Of the whole process: the threads that run workflows and the SDK's core are not on the heap. */
  readonly residentBytes: number
}

let integrations: Integrations | undefined
let workers: RunningWorkers | undefined
let running: Promise<void> = Promise.resolve()

const offered = {
  async start(options: OursOptions): Promise<void> {
    integrations = createOurs(options)
    installTemporalLogger(integrations)
    workers = await createWorkers(integrations)
    running = workers.run()
  },

  /** The parent gives `--expose-gc`. */
  async memory(_: null): Promise<Memory> {
    if (globalThis.gc === undefined) throw new Error('memory is measured with --expose-gc only')
    globalThis.gc()
    const { heapUsed, rss } = process.memoryUsage()
    return { heapBytes: heapUsed, residentBytes: rss }
  },
}
export type WorkerCommands = typeof offered

answerParent(offered, async () => {
  workers?.shutdown()
  await running
  await integrations?.close()
})
