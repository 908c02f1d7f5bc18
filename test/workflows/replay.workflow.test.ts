import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { WorkflowBundle } from '@temporalio/worker'
import { Worker } from '@temporalio/worker'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundleWorkflows } from '../../src/worker.ts'
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

/** As a worker of this release answers; the one of the release before went on from it and set no search attribute. */
function withLabels(stored: Stored): Stored {
  const text = stored.text
    .split('\n')
    .map((line) =>
      line.includes('"activityTaskCompletedEventAttributes"')
        ? line.replace(/(?<="data":")[^"]*/, (data) => {
            const answer: unknown = JSON.parse(Buffer.from(data, 'base64').toString())
            if (typeof answer !== 'object' || answer === null) return data
            const labelled = { ...answer, foundBy: { integrationId: 7, provider: 'github' } }
            return Buffer.from(JSON.stringify(labelled)).toString('base64')
          })
        : line,
    )
    .join('\n')
  return { ...stored, text, history: History.fromObject(JSON.parse(text) as object) }
}

/** As a person may have started it: by the command's name, with an input that this release refuses. */
function withUnknownName(stored: Stored): Stored {
  const input = Buffer.from(JSON.stringify({ integrationId: 7, id: 7 })).toString('base64')
  const [first = '', started = '', ...rest] = stored.text.split('\n')
  const asCommand = started
    .replace('"workflowType":{"name":"refreshTokens"}', '"workflowType":{"name":"integrations:refresh-tokens"}')
    .replace(/(?<="data":")[^"]*/, input)
  expect(asCommand).toContain(`"name":"integrations:refresh-tokens"`)
  expect(asCommand).toContain(input)
  const text = [first, asCommand, ...rest].join('\n')
  return { ...stored, text, history: History.fromObject(JSON.parse(text) as object) }
}

describe('stored histories', () => {
  it('cover each workflow, retries, failures and runs that go on', () => {
    const types = histories.map(
      ({ history }) => history.events[0]?.workflowExecutionStartedEventAttributes?.workflowType.name,
    )
    // One under its command's name, too, which leads to the same function by way of a look at its input.
    expect(new Set(types)).toEqual(new Set([...Object.values(WORKFLOW), 'integrations:prune']))
    const all = histories.map((stored) => stored.text).join('')
    const events = [
      'CONTINUED_AS_NEW',
      'EXECUTION_FAILED',
      'ACTIVITY_TASK_FAILED',
      'TIMER_FIRED',
      'EXECUTION_SIGNALED',
      'MARKER_RECORDED',
    ]
    expect(events.filter((event) => !all.includes(event))).toEqual([])
  })

  it.each(['sync', 'webhook-inbox'])(
    'of a %s that goes on: what it is found by is set once, and taken along',
    (name) => {
      const [first, next] = [1, 2].map((run) =>
        histories.find((stored) => stored.name === `${name}-search-attributes-continued-${run}`),
      )
      // A patch sets an attribute of its own.
      const upserts = (stored: Stored | undefined) =>
        stored?.text.split('\n').filter((line) => line.includes('UPSERT_WORKFLOW') && line.includes('IntegrationId'))
          .length
      expect([first, next].map(upserts)).toEqual([1, 0])
      expect(first?.text).toContain('CONTINUED_AS_NEW')
      const started = (stored: Stored | undefined) => stored?.text.split('\n')[1]
      for (const attribute of ['IntegrationId', 'IntegrationProvider']) {
        expect(started(first)).not.toContain(attribute)
        expect(started(next)).toContain(attribute)
      }
    },
  )

  it('name no machine, user or path', () => {
    for (const { text } of histories)
      expect(text).not.toMatch(/\d+@[\w-]+|\/work\/|\/home\/|\/root\/|node_modules|[.]ts:\d/)
  })

  it('fit the workflows of this code', async () => {
    const outcomes = await replay(await bundleWorkflows())
    expect(outcomes).toEqual(Object.fromEntries(histories.map(({ name }) => [name, null])))
  })

  it('fit where a worker of this release answered with search attributes, and one of the release before passed over them', async () => {
    const answered = histories.map(withLabels)
    expect(answered.filter(({ text }, index) => text !== histories[index]?.text).map(({ name }) => name)).toEqual(
      expect.arrayContaining(['backfill-sync-continued-1', 'incident-life', 'process-sync-item', 'process-webhook']),
    )
    const outcomes = await replay(await bundleWorkflows(), answered)
    expect(outcomes).toEqual(Object.fromEntries(histories.map(({ name }) => [name, null])))
  })

  it('fit where a release before took a command whose input has a name too many', async () => {
    const [taken] = histories.filter(({ name }) => name === 'refresh-tokens').map(withUnknownName)
    if (taken === undefined) throw new Error('there is no such history')
    expect(await replay(await bundleWorkflows(), [taken])).toEqual({ 'refresh-tokens': null })
  })

  it('do not fit workflows that do something else', async () => {
    const changed = await bundleWorkflows(fileURLToPath(new URL('./changed-workflows.ts', import.meta.url)))
    const outcomes = await replay(changed)
    expect(outcomes).toEqual(Object.fromEntries(histories.map(({ name }) => [name, 'DeterminismViolationError'])))
  })
})
