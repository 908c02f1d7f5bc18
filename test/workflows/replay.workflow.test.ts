import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { WorkflowBundle } from '@temporalio/worker'
import { Worker } from '@temporalio/worker'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundleWorkflows } from '../../src/create-workers.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { silenceTemporal } from './stage.ts'

/**
 * The SDK's own reader (`historyFromJSON`) fails with "type must be a Type" where npm installs protobufjs 8 once per
 * @temporalio package, as it does beside the 7 of @grpc/proto-loader. This is the class the worker writes histories with.
 */
const fromWorker = createRequire(createRequire(import.meta.url).resolve('@temporalio/worker'))
const { History } = (fromWorker('@temporalio/proto') as HistoryClass).temporal.api.history.v1

interface History {
  readonly events: { workflowExecutionStartedEventAttributes?: { workflowType: { name: string } } | null }[]
}
interface HistoryClass {
  readonly temporal: { api: { history: { v1: { History: { fromObject(json: object): History } } } } }
}

const folder = new URL('./histories/', import.meta.url)

interface Stored {
  readonly name: string
  readonly workflowId: string
  readonly text: string
  readonly history: History
}

let histories: Stored[]

beforeAll(async () => {
  silenceTemporal()
  const names = (await readdir(folder)).sort()
  histories = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8')
      const history = History.fromObject(JSON.parse(text) as object)
      // A run names its items' retries after its own id, which the server of the recordings does not put into a history.
      const prefix = /"workflowId":"([^"]*):sync-item:\d+"/.exec(text)?.[1]
      const stored = name.replace(/[.]json$/, '')
      return { name: stored, workflowId: prefix === undefined ? stored : `${prefix}:sync:7`, text, history }
    }),
  )
})

/** The outcome of each replay by the history's name: null when it fits. */
async function replay(workflowBundle: WorkflowBundle, replayed = histories): Promise<Record<string, string | null>> {
  const outcomes: Record<string, string | null> = {}
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle }, replayed))
    outcomes[histories.find((stored) => stored.workflowId === workflowId)?.name ?? workflowId] = error?.name ?? null
  return outcomes
}

describe('stored histories', () => {
  it('cover each workflow, retries, failures and runs that go on', () => {
    const types = histories.map(
      ({ history }) => history.events[0]?.workflowExecutionStartedEventAttributes?.workflowType.name,
    )
    // One under its command's name, too, which leads to the same function by way of a look at its input.
    expect(new Set(types)).toEqual(new Set([...Object.values(WORKFLOW), 'integrations:prune']))
    const all = histories.map((stored) => stored.text).join('')
    const events = ['CONTINUED_AS_NEW', 'EXECUTION_FAILED', 'ACTIVITY_TASK_FAILED', 'TIMER_FIRED', 'EXECUTION_SIGNALED']
    expect(events.filter((event) => !all.includes(event))).toEqual([])
  })

  it('of a sync that goes on: the next run keeps the search attributes of the first', () => {
    const runs = [1, 2].map((run) => histories.find(({ name }) => name === `sync-search-attributes-${run}`)?.text ?? '')
    expect(runs[0]).toContain('CONTINUED_AS_NEW')
    for (const text of runs) {
      expect(text).not.toContain('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES')
      const started = text.split('\n')[1]
      for (const attribute of ['IntegrationId', 'IntegrationProvider']) expect(started).toContain(attribute)
    }
  })

  it('hold an inbox whose worker stood still while it was signalled', () => {
    const stalled = histories.find(({ name }) => name === 'webhook-inbox-stalled')?.text ?? ''
    expect(stalled).toContain('WORKFLOW_TASK_TIMED_OUT')
    expect(stalled.match(/EXECUTION_SIGNALED/g)?.length).toBeGreaterThan(1)
  })

  it.each(['sync-stalled-opening', 'sync-stalled-finalising', 'incident-stalled'])(
    'of a worker that stood still while signals arrived: a task of %s timed out, and the work went on',
    (name) => {
      const stalled = histories.find((stored) => stored.name === name)?.text ?? ''
      const [timedOut, ...after] = stalled.split('WORKFLOW_TASK_TIMED_OUT').slice(1)
      expect([timedOut, ...after].join('')).toContain('EXECUTION_SIGNALED')
      expect(stalled).toContain('EXECUTION_COMPLETED')
    },
  )

  it('hold no local activity, whose result a worker that stood still records in another order than a replay sees', () => {
    const local = histories.filter(({ text }) => text.includes('core_local_activity')).map(({ name }) => name)
    expect(local).toEqual([])
  })

  it('name no machine, user or path', () => {
    for (const { text } of histories)
      expect(text).not.toMatch(/\d+@[\w-]+|\/work\/|\/home\/|\/root\/|node_modules|[.]ts:\d/)
  })

  it('fit the workflows of this code', async () => {
    const outcomes = await replay(await bundleWorkflows())
    expect(outcomes).toEqual(Object.fromEntries(histories.map(({ name }) => [name, null])))
  })

  it('do not fit workflows that do something else', async () => {
    const changed = await bundleWorkflows(fileURLToPath(new URL('./changed-workflows.ts', import.meta.url)))
    const outcomes = await replay(changed)
    expect(outcomes).toEqual(Object.fromEntries(histories.map(({ name }) => [name, 'DeterminismViolationError'])))
  })
})
