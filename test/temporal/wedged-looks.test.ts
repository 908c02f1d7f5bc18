/** Which workflows a look at wedged ones takes. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import type { Client } from '@temporalio/client'
import { describe, expect, it } from 'vitest'
import { wedgedLooks } from '../../src/temporal/wedged.ts'
import { WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { loadConfig } from '../support/load-config.ts'

const PREFIX = 'integrations'
const { config: CONFIG } = loadConfig({ optionProviderKeys: [], middlewareNames: [] })
const NEWEST_AT = Date.parse('2031-06-01T12:00:00Z')
const keeper = (integrationId: number): string => workflowId.webhookSubscription(PREFIX, integrationId)

/** A Temporal where the workflow of each integration began a second before that of the next lower one. */
function temporalOf(
  keepers: number,
  wedged: readonly number[],
  { queueOf = () => 'default', polled = [] }: { queueOf?: (id: string) => string; polled?: readonly string[] } = {},
) {
  const described: string[] = []
  const all = Array.from({ length: keepers }, (_, at) => ({
    workflowId: keeper(at + 1),
    startTime: new Date(NEWEST_AT - at * 1_000),
  }))
  const workflow = {
    async *list({ query }: { query: string }) {
      const [, before] = /StartTime < '([^']+)'/.exec(query) ?? []
      yield* all.filter(({ startTime }) => before === undefined || startTime.getTime() < Date.parse(before))
    },
    getHandle: (id: string) => ({
      async describe() {
        described.push(id)
        const attempt = wedged.some((of) => keeper(of) === id) ? 5 : 1
        const taskQueue = `${PREFIX}-${queueOf(id)}`
        const raw = { pendingWorkflowTask: { attempt } }
        return { type: WORKFLOW.webhookSubscription, runId: `run of ${id}`, taskQueue, raw }
      },
    }),
  }
  const workflowService = {
    describeTaskQueue: async ({ taskQueue }: { taskQueue: { name: string } }) => ({
      pollers: polled.includes(taskQueue.name) ? [{ identity: 'a worker' }] : [],
    }),
  }
  const client = { workflow, workflowService, options: { namespace: 'default' } } as unknown as Client
  return { client, described }
}

describe('looks at wedged workflows', () => {
  it('go on with the older ones where the last one ended, and begin again after the oldest', async () => {
    const { client } = temporalOf(250, [3, 250])
    const look = wedgedLooks(CONFIG)
    const found = async () => (await look(client)).map(({ id }) => id)
    expect(await found()).toEqual([keeper(3)])
    expect(await found()).toEqual([keeper(250)])
    expect(await found()).toEqual([keeper(3)])
  })

  it('always have the inbox and the outbox', async () => {
    const { client, described } = temporalOf(3, [])
    const look = wedgedLooks(CONFIG, 2)
    const shared = [workflowId.webhookInbox(PREFIX), workflowId.eventOutbox(PREFIX)]
    for (let n = 0; n < 2; n += 1) {
      await look(client)
      expect(described.splice(0)).toEqual(expect.arrayContaining(shared))
    }
  })

  it('find those on a task queue that no worker polls, unless the configuration names it', async () => {
    const queues = new Map([
      [keeper(1), 'default'],
      [keeper(2), 'old'],
      [keeper(3), 'older'],
    ])
    const { client } = temporalOf(3, [], {
      queueOf: (id) => queues.get(id) ?? 'default',
      polled: [`${PREFIX}-older`],
    })
    expect(await wedgedLooks(CONFIG)(client)).toMatchObject([{ id: keeper(2), attempts: 1, queue: `${PREFIX}-old` }])
  })

  it.each([WORKFLOW.dispatchSyncs, WORKFLOW.recoverWebhooks, WORKFLOW.prune, WORKFLOW.backfillSync])(
    'find %s, for which no other one starts',
    async (type) => {
      const id = `${PREFIX}:${type}-2031-06-01T12:00:00Z`
      const asked: string[] = []
      const workflow = {
        async *list({ query }: { query: string }) {
          asked.push(query)
          yield { workflowId: id, startTime: new Date(NEWEST_AT) }
        },
        getHandle: (of: string) => ({
          describe: async () => ({
            type: of === id ? type : WORKFLOW.webhookInbox,
            runId: `run of ${of}`,
            taskQueue: `${PREFIX}-default`,
            raw: { pendingWorkflowTask: { attempt: of === id ? 6 : 1 } },
          }),
        }),
      }
      const client = { workflow } as unknown as Client
      expect(await wedgedLooks(CONFIG)(client)).toMatchObject([{ id, type, attempts: 6, queue: null }])
      expect(asked).toEqual([expect.stringContaining(`'${type}'`)])
    },
  )

  it('take a page again that could not be looked at', async () => {
    const { client } = temporalOf(250, [3])
    const look = wedgedLooks(CONFIG)
    const { getHandle } = client.workflow
    client.workflow.getHandle = () => {
      throw new Error('Temporal is away')
    }
    await expect(look(client)).rejects.toThrow('Temporal is away')
    client.workflow.getHandle = getHandle
    expect((await look(client)).map(({ id }) => id)).toEqual([keeper(3)])
  })
})
