/** A worker process: runs the workflows and activities until it is told to stop. */
import { createWorkers, installTemporalLogger } from '../worker.ts'
import { loadHost } from './host.ts'
import { onStop, runProcess } from './run.ts'

await runProcess(async () => {
  const { integrations, workflowsPath } = await loadHost()
  await integrations.ready()
  installTemporalLogger(integrations)
  const workers = await createWorkers(integrations, workflowsPath === undefined ? {} : { workflowsPath })
  onStop(() => workers.shutdown())
  await workers.run()
  await integrations.close()
  process.exit(0)
})
