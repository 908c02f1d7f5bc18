import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { post, sendWebhooks } from '../../dev/traffic.ts'
import type { OwnStack } from './own-stack.ts'
import { startOwnStack, until } from './own-stack.ts'

const execute = promisify(execFile)

const WEBHOOKS = 10
const INBOX = 'integrations:webhook-inbox'
/** The listing asks for four pages; the last one is kept waiting for so long, so that a run is there to be looked at. */
const SLOW_PAGE_MS = 10_000

let stack: OwnStack
let binary: string
/** For what is asked again and again: a process of the program takes longer than its answer. */
let client: Client
/** An integration whose first run nothing but the test starts: the stack's own one may be dispatched at any minute. */
let synced: number

beforeAll(async () => {
  binary = await findTemporalBinary()
  stack = await startOwnStack()
  client = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) })
})

afterAll(async () => {
  await client?.connection.close()
  await stack?.stop()
})

async function temporal(...args: string[]): Promise<unknown> {
  const { stdout } = await execute(binary, [...args, '--address', stack.temporalAddress, '--output', 'json'])
  return JSON.parse(stdout)
}

async function query(workflow: string, type: string): Promise<unknown> {
  const answer = (await temporal('workflow', 'query', '--workflow-id', workflow, '--type', type)) as {
    queryResult: unknown[]
  }
  return answer.queryResult[0]
}

const asked = <Answer>(workflow: string, type: string): Promise<Answer> =>
  client.workflow.getHandle(workflow).query<Answer>(type)

interface Listed {
  readonly execution: { readonly workflowId: string }
  readonly type: { readonly name: string }
  readonly taskQueue: string
}

describe('what Temporal shows of a running stack', () => {
  it('answers for the inbox with what it has done', async () => {
    await sendWebhooks(stack, { limit: WEBHOOKS })
    await until('the webhooks are processed', async () => {
      const [row] = await stack.sql<{ count: number }[]>`
        select count(*)::int as count from integration_webhooks where status = 'processed'`
      return row?.count === WEBHOOKS
    })
    await until('the inbox ends', async () => (await asked<{ pumps: unknown[] }>(INBOX, 'state')).pumps.length === 0)
    expect(await query(INBOX, 'state')).toMatchObject({ ended: expect.any(Number), failed: 0 })
  })

  it('answers for a run with its progress, while it lists and when it is done', async () => {
    const { integrations, integrationId } = stack
    const own = await integrations.get(integrationId)
    await integrations.disable(integrationId)
    await until('no run is under way', async () => (await integrations.syncs.progress(integrationId)) === null)
    await post(`${stack.sandboxUrl}/_sandbox/faults`, { match: 'GET */issues?*page=4*', delayMs: SLOW_PAGE_MS })
    const credentials = own.credentialsArray()
    synced = (await integrations.create({ provider: 'github', name: 'seen', credentials, metadata: own.metadata })).id
    const run = `integrations:sync:${synced}`
    await integrations.syncs.start(synced)
    // It is no small run: after five seconds the activity that opened it says where it is.
    await until('the run lists', async () => (await asked<{ phase: string }>(run, 'progress')).phase === 'listing')
    expect(await query(run, 'progress')).toMatchObject({ syncLogId: expect.any(Number), listed: null, succeeded: 0 })

    await until('the run is done', async () => (await asked<{ phase: string }>(run, 'progress')).phase === 'done')
    expect(await query(run, 'progress')).toMatchObject({ listed: 298, succeeded: 298, failed: 0, waiting: 0 })
  })

  it('lists both', async () => {
    // The list is written after the fact.
    await until('both are listed', async () => {
      const listed = (await temporal('workflow', 'list')) as Listed[]
      const found = new Map(listed.map((entry) => [entry.execution.workflowId, entry.type.name]))
      return found.get(`integrations:sync:${synced}`) === 'syncIntegration' && found.get(INBOX) === 'webhookInbox'
    })
  })

  it('has the Schedule that starts the runs that are due', async () => {
    const schedule = (await temporal(
      'schedule',
      'describe',
      '--schedule-id',
      'integrations:schedule:dispatch-syncs',
    )) as { schedule: { action: { startWorkflow: { workflowType: { name: string } } } } }
    expect(schedule.schedule.action.startWorkflow.workflowType.name).toBe('dispatchSyncs')
  })

  it('has a UI', async () => {
    const answer = await fetch(stack.temporalUi ?? '')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toContain('text/html')
  })

  it('keeps payloads and credentials out of the histories', async () => {
    const { token, webhook_secret: webhookSecret } = (
      await stack.integrations.get(stack.integrationId)
    ).credentialsArray()
    for (const id of [INBOX, `integrations:sync:${synced}`]) {
      const history = JSON.stringify(await temporal('workflow', 'show', '--workflow-id', id))
      expect(history.length).toBeGreaterThan(1_000)
      for (const secret of [String(token), String(webhookSecret), 'octocat', 'sender'])
        expect(history).not.toContain(secret)
    }
  })
})
