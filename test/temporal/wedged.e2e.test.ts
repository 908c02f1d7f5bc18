/** A workflow whose task fails again and again is seen and replaced. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode, NativeConnection, Worker } from '@temporalio/worker'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { lazyClient } from '../../src/temporal/connection.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { wedgedWorkflows } from '../../src/temporal/wedged.ts'
import { taskQueue, workflowId } from '../../src/workflows/ids.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { silenceTemporal } from '../workflows/stage.ts'

/** Five tries, between which the server waits longer and longer. */
const UNTIL_WEDGED = { timeout: 120_000, interval: 500 }

let server: Awaited<ReturnType<typeof shareDevServer>>
let client: Client

beforeAll(async () => {
  silenceTemporal()
  server = await shareDevServer()
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
})
afterAll(async () => {
  await client?.connection.close()
  await server?.release()
})

it('is named with its tries, terminated, and started anew; one that only waits for a worker is left alone', async () => {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const { config } = loadConfig({
    config: { cache_prefix: prefix, sync: { queue: 'elsewhere' } },
    optionProviderKeys: [],
    middlewareNames: [],
  }) as { config: Config }
  const errors: Record<string, unknown>[] = []
  const logger = {
    debug() {},
    info() {},
    warn() {},
    error: (fields: Record<string, unknown>) => void errors.push(fields),
  }
  const own = lazyClient({ address: server.address })
  const starters = temporalStarters(() => own, config, logger, { wakeUpFailed() {} })
  const inbox = workflowId.webhookInbox(prefix)
  const connection = await NativeConnection.connect({ address: server.address })
  const worker = await Worker.create({
    connection,
    taskQueue: taskQueue(prefix, config.webhook.queue),
    workflowBundle: await bundleWorkflowCode({
      workflowsPath: fileURLToPath(new URL('./wedged-workflows.ts', import.meta.url)),
      logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    }),
  })
  try {
    // No worker polls the outbox's queue.
    starters.wakeOutbox()
    starters.wakeInbox()
    const wedged = await worker.runUntil(
      vi.waitFor(async () => {
        const found = await wedgedWorkflows(client, prefix)
        expect(found).not.toEqual([])
        return found
      }, UNTIL_WEDGED),
    )
    expect(wedged).toEqual([{ id: inbox, attempts: expect.any(Number) }])
    const { runId } = await client.workflow.getHandle(inbox).describe()
    expect(await starters.replaceWedged()).toEqual([{ id: inbox, attempts: expect.any(Number) }])
    expect(errors).toMatchObject([{ event: 'workflow.replaced', workflow: inbox }])
    await vi.waitFor(async () => {
      const now = await client.workflow.getHandle(inbox).describe()
      expect(now.status.name).toBe('RUNNING')
      expect(now.runId).not.toBe(runId)
    }, UNTIL_WEDGED)
    const before = await client.workflow.getHandle(inbox, runId).describe()
    expect(before.status.name).toBe('TERMINATED')
  } finally {
    await starters.close()
    await connection.close()
  }
}, 180_000)
