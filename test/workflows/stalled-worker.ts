/**
 * A worker that stands still for 12 s, as in a long garbage collection or a paused machine: longer than the 10 s that Temporal gives
 * a workflow task. Signals arrive meanwhile, and then it goes on with its workflows in memory.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { WorkflowClient, WorkflowHandle } from '@temporalio/client'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { escalate, recovered, retryItem, skipItem } from '../../src/workflows/messages.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { StalledWorkerSays } from './stalled-worker-process.ts'

const STALL_MS = 12_000
/** Signals before this time out with their workflow task while the worker still stands. */
const FIRST_SIGNALS_MS = 500
const LAST_SIGNALS_MS = 11_500

/** What a workflow is held in when the worker stops, and what it is. */
export interface StalledScene {
  readonly kind: 'sync' | 'incident' | 'command'
  readonly step: string
}

interface StalledOptions {
  readonly client: WorkflowClient
  readonly address: string
  readonly taskQueue: string
  /** Path of a bundle of the workflows. */
  readonly bundle: string
  /** What node is given to run stalled-worker-process. */
  readonly script: readonly [string, ...string[]]
}

/** @returns the workflows of the scenes, in their order, once the worker goes on */
export async function playStalled<Result>(
  options: StalledOptions,
  scenes: readonly StalledScene[],
  look: (workflows: readonly WorkflowHandle[]) => Promise<Result>,
): Promise<Result> {
  const { client, address, taskQueue, bundle } = options
  const [script, ...args] = options.script
  // An integration of its own for each: its number says which step holds it.
  const holds = Object.fromEntries(scenes.map(({ step }, at) => [at + 1, step]))
  const worker = await startTalkingProcess<StalledWorkerSays>(script, args, {
    STALLED_ADDRESS: address,
    STALLED_QUEUE: taskQueue,
    STALLED_BUNDLE: bundle,
    STALLED_HOLDS: JSON.stringify(holds),
  })
  const { child } = worker.process
  try {
    let held = 0
    const allHeld = new Promise<void>((resolve) =>
      child.on('message', ({ kind }: StalledWorkerSays) => {
        if (kind === 'held') held += 1
        if (held === scenes.length) resolve()
      }),
    )
    await worker.next('ready')
    const workflows = await Promise.all(scenes.map(({ kind }, at) => START[kind](client, taskQueue, at + 1)))
    await allHeld

    child.kill('SIGSTOP')
    const stoppedAt = performance.now()
    const passed = (ms: number) => sleep(ms - (performance.now() - stoppedAt))
    const signalAll = (turn: number) =>
      Promise.all(scenes.map(({ kind }, at) => SIGNAL_ALL[kind](workflows[at] as WorkflowHandle, (at + 1) * 10 + turn)))
    await passed(FIRST_SIGNALS_MS)
    await signalAll(1)
    await passed(LAST_SIGNALS_MS)
    await signalAll(2)
    await passed(STALL_MS)
    child.kill('SIGCONT')
    child.send('go')
    return await look(workflows)
  } finally {
    child.kill('SIGCONT')
    await worker.process.stop()
  }
}

type Start = (client: WorkflowClient, taskQueue: string, integrationId: number) => Promise<WorkflowHandle>

const START: Readonly<Record<StalledScene['kind'], Start>> = {
  sync: (client, taskQueue, integrationId) =>
    client.start(WORKFLOW.syncIntegration, {
      taskQueue,
      // A deployment of its own: a run names its items' retries after its own id.
      workflowId: `${taskQueue}-${integrationId}:sync:${integrationId}`,
      args: [{ integrationId }],
    }),
  incident: (client, taskQueue, integrationId) =>
    client.signalWithStart(WORKFLOW.incident, {
      taskQueue,
      workflowId: `${taskQueue}:incident:${integrationId}`,
      args: [{ integrationId }],
      signal: escalate,
      signalArgs: [],
    }),
  command: (client, taskQueue, integrationId) =>
    client.start('integrations:advance-cursor', {
      taskQueue,
      workflowId: `${taskQueue}:advance-cursor:${integrationId}`,
      args: [{ integrationId }],
    }),
}

type Signals = (workflow: WorkflowHandle, itemId: number) => Promise<void>

const SIGNAL_ALL: Readonly<Record<StalledScene['kind'], Signals>> = {
  async sync(workflow, itemId) {
    await workflow.signal(retryItem, { itemId })
    await workflow.signal(skipItem, { itemId })
  },
  async incident(workflow) {
    await workflow.signal(escalate)
    await workflow.signal(recovered)
  },
  // It knows none.
  command: (workflow) => workflow.signal('nobody'),
}
