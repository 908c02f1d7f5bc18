/** Of half-minutes.e2e.test.ts: a workflow whose task fails again and again is seen and replaced. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode, NativeConnection, Worker } from '@temporalio/worker'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { Config } from '../../src/config/schema.ts'
import { prometheusMetrics } from '../../src/observability/prometheus.ts'
import { lazyClient } from '../../src/temporal/connection.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { wedgedLooks } from '../../src/temporal/wedged.ts'
import type { ReplacedWorkflow } from '../../src/webhooks/webhook-jobs.ts'
import { taskQueue, WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { readMetrics, sumsBy } from '../observability/prometheus-text.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { loadConfig } from '../support/load-config.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const INTEGRATION = 7
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

it.concurrent('a workflow whose task fails is named with its tries, terminated, counted once, and started anew; one that only waits for a worker is left alone', async () => {
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
  const metrics = prometheusMetrics({ byIntegration: false })
  const starters = temporalStarters(() => own, config, logger, metrics)
  const inbox = workflowId.webhookInbox(prefix)
  const incident = workflowId.incident(prefix, INTEGRATION)
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
    await client.workflow.start(WORKFLOW.incident, {
      workflowId: incident,
      taskQueue: taskQueue(prefix, config.webhook.queue),
      args: [{ integrationId: INTEGRATION }],
    })
    const wedged = await worker.runUntil(
      vi.waitFor(async () => {
        const found = await wedgedLooks(config)(client)
        expect(found).toHaveLength(2)
        return found
      }, UNTIL_WEDGED),
    )
    const runIdOf = async (id: string) => (await client.workflow.getHandle(id).describe()).runId
    const runIds = { [inbox]: await runIdOf(inbox), [incident]: await runIdOf(incident) }
    const attempts = expect.any(Number)
    const reason = expect.stringMatching(/^its task failed \d+ times$/)
    expect(wedged).toEqual([
      { id: incident, runId: runIds[incident], type: WORKFLOW.incident, attempts, queue: null },
      { id: inbox, runId: runIds[inbox], type: WORKFLOW.webhookInbox, attempts, queue: null },
    ])
    // A command's recovery meets the Schedule's: both have found them, and one ends each.
    const replaced: ReplacedWorkflow[] = []
    const replace = () => starters.replaceWedged((one) => replaced.push(one))
    await Promise.all([replace(), replace()])
    expect(replaced.sort((a, b) => a.workflow.localeCompare(b.workflow))).toEqual([
      { workflow: incident, attempts },
      { workflow: inbox, attempts },
    ])
    expect(errors.sort((a, b) => String(a.workflow).localeCompare(String(b.workflow)))).toEqual([
      { event: 'workflow.replaced', workflow: incident, run_id: runIds[incident], attempts, reason },
      { event: 'workflow.replaced', workflow: inbox, run_id: runIds[inbox], attempts, reason },
    ])
    expect(sumsBy(readMetrics(await metrics.text(null, [])), 'workflows_replaced_total', 'workflow')).toEqual({
      [WORKFLOW.webhookInbox]: 1,
      [WORKFLOW.incident]: 1,
    })
    for (const [id, runId] of Object.entries(runIds)) {
      await vi.waitFor(async () => {
        const now = await client.workflow.getHandle(id).describe()
        expect(now.status.name).toBe('RUNNING')
        expect(now.runId).not.toBe(runId)
      }, UNTIL_WEDGED)
      const before = await client.workflow.getHandle(id, runId).describe()
      expect(before.status.name).toBe('TERMINATED')
    }
  } finally {
    await starters.close()
    await connection.close()
  }
}, 180_000)

it.concurrent('a workflow on a task queue that the configuration no longer names, and no worker polls, goes on where it does', async () => {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const configOf = (queue: string): Config =>
    loadConfig({
      config: { cache_prefix: prefix, webhook: { queue }, sync: { queue } },
      optionProviderKeys: [],
      middlewareNames: [],
    }).config
  const errors: Record<string, unknown>[] = []
  const logger = {
    debug() {},
    info() {},
    warn() {},
    error: (fields: Record<string, unknown>) => void errors.push(fields),
  }
  const startersOf = (queue: string) => {
    const own = lazyClient({ address: server.address })
    return temporalStarters(() => own, configOf(queue), logger, prometheusMetrics({ byIntegration: false }))
  }
  const outbox = workflowId.eventOutbox(prefix)
  const dispatch = `${workflowId.dispatchSyncs(prefix)}-of-its-schedule`
  const backfill = workflowId.backfillSync(prefix, { integrationId: INTEGRATION })
  const queueOf = async () => (await client.workflow.getHandle(outbox).describe()).taskQueue
  const before = startersOf('before')
  const after = startersOf('after')
  try {
    before.wakeOutbox()
    await vi.waitFor(queueOf, UNTIL_WEDGED)
    const old = { taskQueue: taskQueue(prefix, 'before'), args: [] }
    await client.workflow.start(WORKFLOW.dispatchSyncs, { workflowId: dispatch, ...old })
    await client.workflow.start(WORKFLOW.backfillSync, { workflowId: backfill, ...old })
    const look = wedgedLooks(configOf('after'))
    await vi.waitFor(async () => expect(await look(client)).toHaveLength(3), UNTIL_WEDGED)
    await before.replaceWedged(() => expect.unreachable('its own configuration names the queue'))
    const replaced: ReplacedWorkflow[] = []
    await after.replaceWedged((one) => replaced.push(one))
    const queue = taskQueue(prefix, 'before')
    const reason = expect.stringContaining(queue)
    // A backfill has no other one in its place: a person ends it.
    const ended = [dispatch, outbox]
    expect(replaced).toEqual(ended.map((workflow) => ({ workflow, attempts: expect.any(Number), queue })))
    expect(errors).toMatchObject(ended.map((workflow) => ({ event: 'workflow.replaced', workflow, reason })))
    expect((await client.workflow.getHandle(backfill).describe()).status.name).toBe('RUNNING')
    await vi.waitFor(async () => expect(await queueOf()).toBe(taskQueue(prefix, 'after')), UNTIL_WEDGED)
    await client.workflow.getHandle(outbox).terminate()
    await client.workflow.getHandle(backfill).terminate()
  } finally {
    await before.close()
    await after.close()
  }
}, 180_000)
