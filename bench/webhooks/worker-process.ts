/** Ours: a worker process, as bin/worker.ts is one. */
import type { Integrations } from 'durable-integrations'
import type { RunningWorkers } from 'durable-integrations/worker'
import { createWorkers, installTemporalLogger } from 'durable-integrations/worker'
import { answerParent } from '../child.ts'
import type { Memory } from '../memory.ts'
import { memoryAfterCollection } from '../memory.ts'
import type { OursOptions } from './ours.ts'
import { createOurs } from './ours.ts'

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

  async memory(_: null): Promise<Memory> {
    return memoryAfterCollection()
  },
}
export type WorkerCommands = typeof offered

answerParent(offered, async () => {
  workers?.shutdown()
  await running
  await integrations?.close()
})
