/** A worker that stands still for longer than a workflow task may take, and goes on: no history is left that a replay can't follow. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { Worker } from '@temporalio/worker'
import { expect, it } from 'vitest'
import { bundleWorkflows } from '../../src/create-workers.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle, installedScript } from '../support/installed-script.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import { silenceTemporal } from './stage.ts'
import type { StalledScene } from './stalled-worker.ts'
import { playStalled } from './stalled-worker.ts'
import type { StalledWorkerSays } from './stalled-worker-process.ts'

const SCRIPT = new URL('./stalled-worker-process.ts', import.meta.url)
/** Of each: which of the two tasks that are under way at the end comes first differs. */
const COPIES = 3
const SCENES: readonly StalledScene[] = [
  { kind: 'sync', step: 'openSyncRun' },
  { kind: 'sync', step: 'listSyncItems' },
  { kind: 'sync', step: 'processSyncItems' },
  { kind: 'sync', step: 'finaliseSyncRun' },
  { kind: 'sync', step: 'announceSyncRun' },
  { kind: 'incident', step: 'followIncident' },
  { kind: 'incident', step: 'closeIncidentWhenWell' },
  { kind: 'command', step: 'checkDatabase' },
  { kind: 'command', step: 'advanceSyncCursor' },
]

/** The class that the worker writes histories with, as replay.workflow.test.ts has it. */
const fromWorker = createRequire(createRequire(import.meta.url).resolve('@temporalio/worker'))
const { History } = (fromWorker('@temporalio/proto') as HistoryClass).temporal.api.history.v1
interface HistoryClass {
  readonly temporal: { api: { history: { v1: { History: { fromObject(json: object): { events: never[] } } } } } }
}

// Beside each other: each has a worker of its own, and waits while that one stands still.
it.concurrent('every run, incident and command that it had under way ends, and its history is replayed', async () => {
  silenceTemporal()
  const bundle = installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE
  const server = await shareDevServer()
  const connection = await Connection.connect({ address: server.address })
  try {
    const options = {
      client: new Client({ connection }).workflow,
      address: server.address,
      taskQueue: `stalled-${randomBytes(4).toString('hex')}`,
      bundle,
      script: [installedScript(SCRIPT)] as const,
    }
    const scenes = Array.from({ length: COPIES }, () => SCENES).flat()
    const timedOut = await playStalled(options, scenes, async (workflows) => {
      let tasks = 0
      for (const [at, workflow] of workflows.entries()) {
        const { kind, step } = scenes[at] as StalledScene
        await expect(workflow.result(), `${kind} in ${step}`).resolves.toBeDefined()
        const { events } = await workflow.fetchHistory()
        const text = JSON.stringify(events)
        expect(text, `${kind} in ${step}`).not.toContain('TMPRL1100')
        // Its result is in no history until its workflow task is: a second worker, or this one later, can't follow.
        expect(text, `${kind} in ${step}`).not.toContain('core_local_activity')
        tasks += events?.filter((event) => event.workflowTaskTimedOutEventAttributes != null).length ?? 0
        const history = History.fromObject(JSON.parse(JSON.stringify({ events })) as object)
        const replayed = Worker.runReplayHistory({ workflowBundle: { codePath: bundle } }, history, workflow.workflowId)
        await expect(replayed, `${kind} in ${step}`).resolves.toBeUndefined()
      }
      return tasks
    })
    // Those that were signalled while it stood still.
    expect(timedOut).toBeGreaterThan(0)
  } finally {
    await connection.close()
    await server.release()
  }
})

it.concurrent('a workflow that is in the middle of its code goes on there, and is not cut off', async () => {
  silenceTemporal()
  const folder = await mkdtemp(join(tmpdir(), 'durable-stalled-'))
  const server = await shareDevServer()
  const connection = await Connection.connect({ address: server.address })
  const taskQueue = `busy-${randomBytes(4).toString('hex')}`
  const bundle = join(folder, 'bundle.js')
  await writeFile(bundle, (await bundleWorkflows(fileURLToPath(new URL('./busy-workflow.ts', import.meta.url)))).code)
  const worker = await startTalkingProcess<StalledWorkerSays>(installedScript(SCRIPT), [], {
    STALLED_ADDRESS: server.address,
    STALLED_QUEUE: taskQueue,
    STALLED_BUNDLE: bundle,
    STALLED_HOLDS: JSON.stringify({ 1: 'followIncident' }),
  })
  const { child } = worker.process
  try {
    await worker.next('ready')
    const { workflow: client } = new Client({ connection })
    const [busy] = await Promise.all([
      client.start('busy', { taskQueue, workflowId: taskQueue, args: [{ integrationId: 1 }] }),
      worker.next('held'),
    ])
    const said = worker.next('said')
    child.send('go')
    // Its code counts for longer than this, and Node's own limit is the SDK's 5 s.
    await sleep(500)
    child.kill('SIGSTOP')
    await sleep(6_000)
    child.kill('SIGCONT')
    await expect(busy.result()).resolves.toEqual(expect.any(Number))
    const { events } = await busy.fetchHistory()
    const failures = events?.flatMap((event) => event.workflowTaskFailedEventAttributes?.failure?.message ?? [])
    expect(failures).toEqual([])
    // A line of the worker's log, not of its stdout.
    expect(await said).toEqual({ kind: 'said', message: 'counted {"rounds":300000000}' })
  } finally {
    child.kill('SIGCONT')
    await worker.process.stop()
    await connection.close()
    await server.release()
    await rm(folder, { recursive: true })
  }
})
