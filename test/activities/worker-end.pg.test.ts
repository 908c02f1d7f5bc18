/** A host's code that does not end while its worker stops: what it was at goes back uncounted, and another worker goes on. */
import { MockActivityEnvironment } from '@temporalio/testing'
import { DefaultLogger } from '@temporalio/worker'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { HandlesMissing, MissedWebhook, ReconcilesWebhooks } from '../../src/providers/provider.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { logOf, logsOf, makeIntegration, makeRun } from '../support/rows.ts'

const ENDING_MS = 30_000

let database: TestDatabase
let test: TestIntegrations
let activities: Activities
let integration: Integration
let missedWebhooks: ReconcilesWebhooks['missedWebhooks']
let handleMissing: HandlesMissing['handleMissing']

beforeAll(async () => {
  database = await createTestDatabase()
  const provider: ReconcilesWebhooks & HandlesMissing = {
    ...webhookProvider(),
    ...syncProvider(() => {}),
    reconcileLookbackSeconds: 86_400,
    missedWebhooks: (...asked) => missedWebhooks(...asked),
    handleMissing: (...told) => handleMissing(...told),
  }
  test = testIntegrations(database.url, { providers: { acme: provider } })
  activities = createActivities(test.framework)
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
})

interface Try {
  readonly attempt?: number
  /** What the try before left behind. */
  readonly heartbeatDetails?: unknown
}

/** Begins an activity on a worker that can be stopped, as the SDK stops one. */
function begin<Input, Output>(activity: (input: Input) => Promise<Output>, input: Input, info: Try = {}) {
  const worker = new MockActivityEnvironment({ attempt: 1, ...info }, { logger: new DefaultLogger('ERROR') })
  const beats: unknown[] = []
  worker.on('heartbeat', (details: unknown) => beats.push(details))
  const result = worker.run(activity as never, input) as Promise<Output>
  result.catch(() => {})
  return { result, beats, stop: () => worker.cancel('WORKER_SHUTDOWN'), cancel: () => worker.cancel('CANCELLED') }
}

/** Stops or cancels, and lets the time pass in which what runs may end. The database's own timers are real ones. */
function andTimeIsUp(end: () => void): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  end()
  vi.advanceTimersByTime(ENDING_MS)
  vi.useRealTimers()
}

const STOPPED = { type: 'WorkerShutdown', nonRetryable: false }

describe('the telling of what is gone', () => {
  async function runThatMisses(): Promise<{ integrationId: number; syncLogId: number }> {
    const integrationId = integration.id
    await test.sql`
      insert into integration_mappings (integration_id, external_id, internal_type, internal_id, created_at)
      select ${integrationId}, x, 'note', x, now() - interval '1 day' from unnest(array['a', 'b', 'c', 'd']) x`
    let syncLogId = 0
    for (let runs = 0; runs < 2; runs += 1) {
      const log = await makeRun(
        test,
        integrationId,
        { full_listing: { internal_type: null }, listed: 3 },
        { status: 'success', operation: 'sync' },
      )
      syncLogId = log.id
      await test.sql`
        insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status)
        select ${integrationId}, ${log.id}, 'test.thing', x, 'success' from unnest(array['a', 'b', 'c']) x`
    }
    return { integrationId, syncLogId }
  }

  it('is given up 30 s after the grace, and told by another worker: the try is not counted', async () => {
    const run = await runThatMisses()
    const begun = occasion()
    handleMissing = () => {
      begun.happen()
      return new Promise(() => {})
    }
    const first = begin(activities.handleMissingItems, run)
    await begun.happened
    andTimeIsUp(first.stop)
    await expect(first.result).rejects.toMatchObject(STOPPED)
    expect(first.beats).toEqual([{ stops: 1 }])
    expect((await logOf(test, run.syncLogId)).metadata).not.toHaveProperty('missing_handled_at')

    const told: (readonly string[])[] = []
    handleMissing = async (_, ids) => void told.push(ids)
    const second = begin(activities.handleMissingItems, run, { attempt: 2, heartbeatDetails: first.beats[0] })
    expect(await second.result).toEqual({ missing: 1 })
    expect(told).toEqual([['d']])
  })

  it('ends within the 30 s: what the provider was at is told', async () => {
    const run = await runThatMisses()
    const [begun, end] = [occasion(), occasion()]
    handleMissing = async () => {
      begun.happen()
      await end.happened
    }
    const only = begin(activities.handleMissingItems, run)
    await begun.happened
    only.stop()
    end.happen()
    expect(await only.result).toEqual({ missing: 1 })
    expect((await logOf(test, run.syncLogId)).metadata).toHaveProperty('missing_handled_at')
  })

  it.each([
    ['the second fault', { attempt: 2 }, false],
    ['the third fault', { attempt: 3 }, true],
    ['the second fault, after two stops', { attempt: 4, heartbeatDetails: { stops: 2 } }, false],
    ['the third fault, after two stops', { attempt: 5, heartbeatDetails: { stops: 2 } }, true],
  ])('%s of three is the last one, whatever stops there were', async (_, info, nonRetryable) => {
    const run = await runThatMisses()
    handleMissing = async () => {
      throw new Error('the archive is full')
    }
    await expect(begin(activities.handleMissingItems, run, info).result).rejects.toMatchObject({ nonRetryable })
  })

  it('is given up for good once three workers were lost with it', async () => {
    const run = await runThatMisses()
    handleMissing = async () => {}
    const info = { attempt: 5, heartbeatDetails: { stops: 1 } }
    await expect(begin(activities.handleMissingItems, run, info).result).rejects.toMatchObject({
      type: 'WorkerLost',
      nonRetryable: true,
    })
  })

  it('of a workflow that is cancelled ends as cancelled', async () => {
    const run = await runThatMisses()
    const begun = occasion()
    handleMissing = () => {
      begun.happen()
      return new Promise(() => {})
    }
    const only = begin(activities.handleMissingItems, run)
    await begun.happened
    andTimeIsUp(only.cancel)
    await expect(only.result).rejects.toMatchObject({ name: 'CancelledFailure' })
    expect(only.beats).toEqual([])
  })
})

describe('the listing of missed webhooks', () => {
  const missed = (deliveryId: string, given: Partial<MissedWebhook> = {}): MissedWebhook => ({
    deliveryId,
    eventType: 'thing',
    payload: { id: deliveryId },
    headers: {},
    occurredAt: new Date(Date.now() - 3_600_000),
    ...given,
  })
  const deliveries = async (): Promise<string[]> => {
    const rows = await test.sql<{ delivery_id: string }[]>`
      select delivery_id from integration_webhooks where integration_id = ${integration.id} order by id`
    return rows.map(({ delivery_id }) => delivery_id)
  }
  const reconcile = (info: Try = {}) => begin(activities.reconcileIntegration, { integrationId: integration.id }, info)

  it('that hangs is not waited for when the worker stops; another one asks again, and the try is not counted', async () => {
    const [asked, closed] = [occasion(), occasion()]
    // One that takes no notice of its signal.
    missedWebhooks = () => ({
      [Symbol.asyncIterator]: () => ({
        next() {
          asked.happen()
          return new Promise(() => {})
        },
        async return() {
          closed.happen()
          return { done: true, value: undefined }
        },
      }),
    })
    const first = reconcile()
    await asked.happened
    first.stop()
    await expect(first.result).rejects.toMatchObject(STOPPED)
    await closed.happened
    expect(first.beats).toEqual([{ stops: 1 }])
    expect(await logsOf(test, integration.id, 'webhook_reconcile')).toEqual([])

    missedWebhooks = async function* () {
      yield missed('d-1')
    }
    const second = reconcile({ attempt: 2, heartbeatDetails: first.beats[0] })
    expect(await second.result).toMatchObject({ seen: 1, inserted: 1 })
    expect(await deliveries()).toEqual(['d-1'])
  })

  it('whose load() hangs keeps what was loaded by then', async () => {
    const asked = occasion()
    missedWebhooks = async function* () {
      const { deliveryId, eventType, occurredAt } = missed('loaded')
      yield { deliveryId, eventType, occurredAt, load: async () => ({ payload: '{}', headers: {} }) }
      yield {
        deliveryId: 'hangs',
        eventType,
        occurredAt,
        load() {
          asked.happen()
          return new Promise(() => {})
        },
      }
    }
    const first = reconcile()
    await asked.happened
    first.stop()
    await expect(first.result).rejects.toMatchObject(STOPPED)
    expect(await deliveries()).toEqual(['loaded'])
  })

  it('is over, and so is its log, where a listener of WebhookReceived hangs: the rows are stored', async () => {
    missedWebhooks = async function* () {
      yield missed('d-1')
      yield missed('d-2')
    }
    const told: string[] = []
    const begun = occasion()
    listen(test, 'WebhookReceived', ({ deliveryId }: { deliveryId: string }) => {
      told.push(deliveryId)
      begun.happen()
      return deliveryId === 'd-1' ? new Promise(() => {}) : undefined
    })
    const only = reconcile()
    await begun.happened
    andTimeIsUp(only.stop)
    expect(await only.result).toMatchObject({ seen: 2, inserted: 2 })
    expect(told).toEqual(['d-1', 'd-2'])
  })
})

describe('the announcement of a run', () => {
  it('whose listener hangs is given up 30 s after the grace, and told again by another worker', async () => {
    const integrationId = integration.id
    const counts = { success_count: 1, failure_count: 0, skipped_count: 0 }
    const { id: syncLogId } = await makeRun(test, integrationId, counts, { status: 'success', operation: 'sync' })
    const told: number[] = []
    const begun = occasion()
    listen(test, 'SyncCompleted', () => {
      told.push(told.length + 1)
      begun.happen()
      return told.length === 1 ? new Promise(() => {}) : undefined
    })
    const first = begin(activities.announceSyncRun, { integrationId, syncLogId })
    await begun.happened
    andTimeIsUp(first.stop)
    // As Temporal has it: its next try is another worker's, and as many as it needs.
    await expect(first.result).rejects.toMatchObject({ name: 'CancelledFailure', message: 'WORKER_SHUTDOWN' })
    expect((await logOf(test, syncLogId)).metadata).not.toHaveProperty('announced_at')

    // Its lease is kept by nobody any more, and ends by itself within 15 s.
    await test.sql`
      update integration_logs set metadata = (metadata::jsonb || '{"announcing_until": 0}')::json where id = ${syncLogId}`
    await begin(activities.announceSyncRun, { integrationId, syncLogId }, { attempt: 2 }).result
    expect(told).toEqual([1, 2])
    expect((await logOf(test, syncLogId)).metadata).toHaveProperty('announced_at')
  })
})
