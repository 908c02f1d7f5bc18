import { randomBytes } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { Config, ConfigInput } from '../../src/config/schema.ts'
import { createIntegrations } from '../../src/index.ts'
import { ensureSchedules } from '../../src/temporal/schedules.ts'
import { createWorkers } from '../../src/worker.ts'
import { scheduleId, WORKFLOW, workflowId } from '../../src/workflows/messages.ts'
import { shareDevServer } from '../support/dev-server.ts'

let server: Awaited<ReturnType<typeof shareDevServer>>
let client: Client

beforeAll(async () => {
  server = await shareDevServer()
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
})
afterAll(async () => {
  await client?.connection.close()
  await server?.release()
})

/** A deployment of its own on the shared server. */
function deployment(config: ConfigInput = {}): { prefix: string; config: Config; input: ConfigInput } {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const input = { ...config, cache_prefix: prefix }
  const loaded = loadConfig({ config: input, providerKeys: [], optionProviderKeys: [], middlewareNames: [] })
  return { prefix, config: loaded.config, input }
}

const dispatchOf = (prefix: string) => client.schedule.getHandle(scheduleId(prefix, 'dispatch-syncs'))

describe('the Schedules', () => {
  it('start `dispatchSyncs` every minute, one at a time', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config)
    const { spec, action, policies, state } = await dispatchOf(prefix).describe()
    expect(spec.intervals).toMatchObject([{ every: 60_000 }])
    expect(action).toMatchObject({
      workflowType: WORKFLOW.dispatchSyncs,
      workflowId: workflowId.dispatchSyncs(prefix),
      taskQueue: `${prefix}-default`,
    })
    expect(policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 })
    expect(state.paused).toBe(false)
  })

  it('follow a changed configuration and keep an operator’s pause and note', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config)
    await dispatchOf(prefix).pause('maintenance until noon')

    await ensureSchedules(client, { ...config, sync: { ...config.sync, queue: 'syncs' } })
    const { action, state } = await dispatchOf(prefix).describe()
    expect(action).toMatchObject({ taskQueue: `${prefix}-syncs` })
    expect(state).toMatchObject({ paused: true, note: 'maintenance until noon' })
  })

  it('are made once by several workers that start at the same moment', async () => {
    const { prefix, config } = deployment()
    await Promise.all(Array.from({ length: 5 }, () => ensureSchedules(client, config)))
    await Promise.all(Array.from({ length: 5 }, () => ensureSchedules(client, config)))
    expect((await dispatchOf(prefix).describe()).state.paused).toBe(false)
  })

  it('are not made when the host keeps the timing itself', async () => {
    const { prefix, config } = deployment({ schedules: { enabled: false } })
    await ensureSchedules(client, config)
    await expect(dispatchOf(prefix).describe()).rejects.toThrow(/not found/i)
  })

  it('are removed when the host takes the timing over, paused or not', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config)
    await dispatchOf(prefix).pause('maintenance until noon')
    const { config: without } = deployment({ schedules: { enabled: false } })
    await ensureSchedules(client, { ...without, cache_prefix: prefix })
    await expect(dispatchOf(prefix).describe()).rejects.toThrow(/not found/i)
  })

  it('are made by a worker, and start what the worker runs', async () => {
    const { prefix, input } = deployment()
    const integrations = createIntegrations({
      // Without a scheduled provider nothing is asked of Postgres.
      database: 'postgres://nobody@127.0.0.1:1/none',
      temporal: { address: server.address },
      encryptionKeys: `test:${Buffer.alloc(32, 1).toString('base64')}`,
      config: input,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    })
    const workers = await createWorkers(integrations)
    const running = workers.run()
    try {
      await dispatchOf(prefix).trigger()
      const started = async () => (await dispatchOf(prefix).describe()).info.recentActions[0]?.action.workflow
      await expect.poll(started, { timeout: 20_000 }).toBeDefined()
      const workflow = await started()
      expect(workflow?.workflowId).toContain(workflowId.dispatchSyncs(prefix))
      const handle = client.workflow.getHandle(workflow?.workflowId as string)
      expect(await handle.result()).toEqual({ due: 0, started: 0, alreadyRunning: 0 })
    } finally {
      workers.shutdown()
      await running
      await integrations.close()
      await dispatchOf(prefix).delete()
    }
  })
})
