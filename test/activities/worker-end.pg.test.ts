/** A host's code that does not end while its worker stops: what it was at goes back uncounted, and another worker goes on. */
import { MockActivityEnvironment } from '@temporalio/testing'
import { DefaultLogger } from '@temporalio/worker'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import type { HandlesMissing, MissedWebhook, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { logOf, logsOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

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
}

/** Begins an activity on a worker that can be stopped, as the SDK stops one. */
function begin<Input, Output>(activity: (input: Input) => Promise<Output>, input: Input, info: Try = {}) {
  const worker = new MockActivityEnvironment({ attempt: 1, ...info }, { logger: new DefaultLogger('ERROR') })
  const result = worker.run(activity as never, input) as Promise<Output>
  result.catch(() => {})
  return { result, stop: () => worker.cancel('WORKER_SHUTDOWN'), cancel: () => worker.cancel('CANCELLED') }
}

/** Stops or cancels, and lets the time pass in which what runs may end. The database's own timers are real ones. */
function andTimeIsUp(end: () => void): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    end()
    vi.advanceTimersByTime(ENDING_MS)
  } finally {
    vi.useRealTimers()
  }
}

/** As Temporal has it: its native core tells the server of a failure that is tried again, `WorkerShutdown`. */
const STOPPED = { name: 'CancelledFailure', message: 'WORKER_SHUTDOWN' }

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

  it('is given up 30 s after the grace, and told by another worker', async () => {
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
    expect((await logOf(test, run.syncLogId)).metadata).not.toHaveProperty('missing_handled_at')

    const told: (readonly string[])[] = []
    handleMissing = async (_, ids) => void told.push(ids)
    const second = begin(activities.handleMissingItems, run, { attempt: 2 })
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

  it('ends as a stop, not as the fault that the provider made of it', async () => {
    const run = await runThatMisses()
    const [begun, end] = [occasion(), occasion()]
    handleMissing = async () => {
      begun.happen()
      await end.happened
      throw new TypeError('the archive closed its connection')
    }
    const only = begin(activities.handleMissingItems, run)
    await begun.happened
    only.stop()
    end.happen()
    await expect(only.result).rejects.toMatchObject(STOPPED)
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
    await expect(only.result).rejects.toMatchObject({ name: 'CancelledFailure', message: 'CANCELLED' })
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

  it('that hangs is not waited for when the worker stops; another one asks again', async () => {
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
    expect(await logsOf(test, integration.id, 'webhook_reconcile')).toEqual([])

    missedWebhooks = async function* () {
      yield missed('d-1')
    }
    const second = reconcile({ attempt: 2 })
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
  /** The first telling's first listener never ends; the second one's does. */
  function hangsOnce() {
    const told: string[] = []
    const begun = occasion()
    listen(test, 'SyncCompleted', function slow() {
      told.push('slow')
      begun.happen()
      return told.length === 1 ? new Promise(() => {}) : undefined
    })
    listen(test, 'SyncCompleted', () => void told.push('quick'))
    return { told, begun: begun.happened }
  }
  const givenUp = (): unknown[] =>
    test.lines.flatMap(({ fields }) =>
      fields.event === 'listener.given_up' && fields.integration === integration.id ? [fields] : [],
    )

  it('whose listener hangs is given up 30 s after the grace, and told again by another worker', async () => {
    const integrationId = integration.id
    const counts = { success_count: 1, failure_count: 0, skipped_count: 0 }
    const { id: syncLogId } = await makeRun(test, integrationId, counts, { status: 'success', operation: 'sync' })
    const { told, begun } = hangsOnce()
    const first = begin(activities.announceSyncRun, { integrationId, syncLogId })
    await begun
    andTimeIsUp(first.stop)
    await expect(first.result).rejects.toMatchObject(STOPPED)
    expect((await logOf(test, syncLogId)).metadata).not.toHaveProperty('announced_at')
    expect(givenUp()).toEqual([
      {
        event: 'listener.given_up',
        integration: integrationId,
        provider: 'acme',
        name: 'SyncCompleted',
        listener: 'slow',
        told_again: true,
      },
    ])

    // At once: the lease was given back.
    await begin(activities.announceSyncRun, { integrationId, syncLogId }, { attempt: 2 }).result
    expect(told).toEqual(['slow', 'quick', 'slow', 'quick'])
    expect((await logOf(test, syncLogId)).metadata).toHaveProperty('announced_at')
  })

  it('tells of nothing more once a listener of it is given up', async () => {
    const integrationId = integration.id
    const counts = { success_count: 1, failure_count: 0, skipped_count: 0, staleness_recovered: true }
    const { id: syncLogId } = await makeRun(test, integrationId, counts, { status: 'success', operation: 'sync' })
    const { told } = hangsOnce()
    const begun = occasion()
    listen(test, 'SyncStalenessRecovered', () => {
      begun.happen()
      return new Promise(() => {})
    })
    const only = begin(activities.announceSyncRun, { integrationId, syncLogId })
    await begun.happened
    andTimeIsUp(only.stop)
    await expect(only.result).rejects.toMatchObject(STOPPED)
    expect(told).toEqual([])
  })

  it.each([
    ['skip', () => activities.skipFailedItem, {}],
    ['retry', () => activities.processOneSyncItem, { claim: 'retry-r:1', attempt: 1, tries: 1 }],
    ['advance', () => activities.advanceSyncCursor, {}],
  ] as const)('of a run that a command ends (%s) is told again by another worker, too', async (act, activity, more) => {
    const integrationId = integration.id
    const run = await makeRun(test, integrationId)
    const status = act === 'advance' ? 'success' : 'failed'
    const item = await makeItem(test, run, { status, attempts: 3, checkpointValue: '2026-01-02' })
    const input = { itemId: item.id, integrationId, ...more }
    const { told, begun } = hangsOnce()
    const first = begin(activity() as (given: typeof input) => Promise<unknown>, input)
    await begun
    andTimeIsUp(first.stop)
    await expect(first.result).rejects.toMatchObject(STOPPED)
    expect((await logOf(test, run.id)).metadata).not.toHaveProperty('announced_at')

    await begin(activity() as (given: typeof input) => Promise<unknown>, input, { attempt: 2 }).result
    expect(told).toEqual(['slow', 'quick', 'slow', 'quick'])
    expect(await logOf(test, run.id)).toMatchObject({
      status: 'success',
      metadata: { announced_at: expect.any(String) },
    })
  })
})

describe('an item that fails', () => {
  it('is told to each of two listeners of SyncItemFailed, of which the first hangs; its outcome stands', async () => {
    const run = await makeRun(test, integration.id, {}, { status: 'failed' })
    const item = await makeItem(test, run, { status: 'failed', attempts: 3 })
    listen(test, ThingSynced, () => {
      throw new Error('of the item')
    })
    const [begun, told] = [occasion(), vi.fn()]
    listen(test, 'SyncItemFailed', function slow() {
      begun.happen()
      return new Promise(() => {})
    })
    listen(test, 'SyncItemFailed', told)
    const input = { itemId: item.id, claim: 'retry-r:1', attempt: 1, tries: 1 }
    const only = begin(activities.processOneSyncItem, input)
    await begun.happened
    expect(told).not.toHaveBeenCalled()
    andTimeIsUp(only.stop)
    expect(await only.result).toMatchObject({ outcome: 'failed', waitSeconds: null })
    expect(told).toHaveBeenCalledTimes(1)
    expect(test.lines.map(({ fields }) => fields)).toContainEqual({
      event: 'listener.given_up',
      integration: integration.id,
      provider: 'acme',
      name: 'SyncItemFailed',
      listener: 'slow',
      told_again: false,
    })
  })
})

it('activities work on the framework itself: limits and leases are kept by that object', async () => {
  const run = await makeRun(test, integration.id, {}, { status: 'failed' })
  const item = await makeItem(test, run, { status: 'failed' })
  const { workflows } = test.framework
  const nudgeSync = vi.fn(async () => {})
  Object.assign(test.framework, { workflows: { ...workflows, nudgeSync } })
  onTestFinished(() => void Object.assign(test.framework, { workflows }))
  await begin(activities.skipFailedItem, { itemId: item.id }).result
  expect(nudgeSync).toHaveBeenCalledWith({ integrationId: integration.id, stream: null })
})
