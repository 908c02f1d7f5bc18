/** The commands that go through Temporal, with a worker, real rows and the real workflows. */
import { randomBytes } from 'node:crypto'
import { Worker } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createActivities } from '../../src/activities/index.ts'
import type { HandleWebhook, MissedWebhook, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'
import type { Stage } from '../workflows/stage.ts'
import { openStage, SHUTDOWN_FORCE_TIME } from '../workflows/stage.ts'
import { runCommand } from './cli/run.ts'

const prefix = `commands-${randomBytes(4).toString('hex')}`

let stage: Stage
let database: TestDatabase
let test: TestIntegrations
let stopWorker: () => Promise<void>
let integrationId: number
/** What the provider does with a webhook, and what its API knows. */
let handle: HandleWebhook = () => null
let missed: MissedWebhook[] = []

beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
  const listing: ReconcilesWebhooks = {
    ...webhookProvider({ handleWebhook: (...given) => handle(...given) }),
    reconcileLookbackSeconds: 86_400,
    async *missedWebhooks() {
      yield* missed
    },
  }
  test = testIntegrations(database.url, {
    recordStarts: false,
    temporal: { address: stage.env.address },
    providers: { listing },
    config: { cache_prefix: prefix },
  })
  const worker = await Worker.create({
    connection: stage.env.nativeConnection,
    taskQueue: `${prefix}-default`,
    workflowBundle: stage.bundle,
    activities: createActivities(test.framework),
    shutdownGraceTime: 0,
    shutdownForceTime: SHUTDOWN_FORCE_TIME,
  })
  const running = worker.run()
  stopWorker = async () => {
    worker.shutdown()
    await running
  }
  integrationId = (await makeIntegration(test, 'listing')).id
})

afterAll(async () => {
  await stopWorker?.()
  await test?.close()
  await stage?.close()
  await database?.drop()
}, 180_000)

const run = (...words: (string | number)[]) => runCommand(test.integrations, [...words.map(String), '--json'])

describe('replay-webhook', () => {
  it('waits for the handler, and says how it ended', async () => {
    const { id } = await makeWebhook(test, integrationId, { status: 'failed', attempts: 1, error: 'Error: no' })
    const replayed = await run('replay-webhook', id)
    expect([replayed.exitCode, replayed.json()]).toEqual([
      0,
      { webhook_id: id, outcome: 'processed', status: 'processed', attempts: 2, error: null },
    ])
    handle = () => Promise.reject(new Error('still no'))
    const failed = await run('replay-webhook', id)
    expect([failed.exitCode, failed.json()]).toEqual([
      1,
      { webhook_id: id, outcome: 'failed', status: 'failed', attempts: 3, error: expect.any(String) },
    ])
    expect(await webhookOf(test, id)).toMatchObject({ status: 'failed', error: 'still no', replayAttempt: 3 })
  })

  it('is refused while the webhook is being replayed', async () => {
    const { id } = await makeWebhook(test, integrationId, { status: 'processed', attempts: 1 })
    const [begun, over] = [occasion(), occasion()]
    handle = () => {
      begun.happen()
      return over.happened
    }
    const first = run('replay-webhook', id)
    await begun.happened
    const second = await run('replay-webhook', id)
    over.happen()
    expect([second.exitCode, second.json()]).toMatchObject([1, { error: { code: 'webhook_not_replayable' } }])
    expect((await first).json()).toMatchObject({ outcome: 'processed', attempts: 2 })
  })
})

it('recover-webhooks takes up what is stranded', async () => {
  const handled = occasion<number>()
  handle = (_integration, _request, { webhookId }) => handled.happen(webhookId)
  const { id } = await makeWebhook(test, integrationId, { updatedAt: new Date('2020-01-01T00:00:00Z') })
  const ran = await run('recover-webhooks')
  expect([ran.exitCode, ran.json()]).toEqual([0, { processing: 0, pending: 1, failed: 0 }])
  expect(await handled.happened).toBe(id)
  expect((await run('recover-webhooks')).json()).toEqual({ processing: 0, pending: 0, failed: 0 })
})

it('reconcile-webhooks stores what never came, which is then handled', async () => {
  const handled = occasion<string>()
  handle = (_integration, request) => handled.happen(request.text())
  const headers = { 'x-event': 'thing' }
  // What is younger than some minutes may still arrive by itself.
  const occurredAt = new Date(Date.now() - 3_600_000)
  missed = [{ deliveryId: 'lost', eventType: null, payload: { n: 1 }, headers, occurredAt }]
  const counts = {
    ...{ integrations: 1, seen: 1, known: 0, inserted: 1, too_large: 0, capped: 0, failed: 0, skipped: 0 },
    reasons: [],
  }
  const dry = await run('reconcile-webhooks', integrationId, '--dry-run')
  expect([dry.exitCode, dry.json()]).toEqual([0, counts])
  expect((await run('reconcile-webhooks', integrationId)).json()).toEqual(counts)
  expect(await handled.happened).toBe('{"n":1}')
  expect((await run('reconcile-webhooks')).json()).toMatchObject({ integrations: 1, inserted: 0 })
})
