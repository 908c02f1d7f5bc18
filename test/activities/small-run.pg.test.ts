/** A run that goes on in the activity that opens it, as far as that is quick. */
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OpenedRun } from '../../src/activities/sync-activities.ts'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import { InvalidArgumentException, NonRetryable, RateLimitExceededException } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { itemsOf, logOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

const QUEUE = 'integrations-default'
const THINGS = 3
const YEAR_SECONDS = 31_536_000
/** docs/behaviour/sync-listing.md, "A small run". */
const QUICK_MS = 5_000

const encryptionKeys = encryptionKey('test')

let database: TestDatabase
let test: TestIntegrations
/** Where a listing may take a second. */
let hasty: TestIntegrations
/** Where items have a task queue of their own. */
let apart: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> | void
let listens: () => Promise<void> | void
let patient: TestIntegrations
let runs = 0

const dispatch = async (session: SyncSession, things = THINGS): Promise<void> => {
  for (let n = 1; n <= things; n += 1)
    await session.dispatch(new ThingSynced(session.integration, { n }), '2026-01-01T00:00:00Z', `t${n}`)
}

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = { acme: syncProvider((session: SyncSession) => lists(session)) }
  const framework = (config: object): TestIntegrations => {
    const made = testIntegrations(database.url, { providers, config, encryptionKeys })
    made.framework.listeners.on(ThingSynced, () => listens())
    return made
  }
  test = framework({})
  hasty = framework({ sync: { job_timeout: 1 } })
  apart = framework({ sync: { item_queue: 'items' } })
  patient = framework({ sync: { job_timeout: YEAR_SECONDS, lock_ttl: YEAR_SECONDS } })
})
afterAll(async () => {
  await apart?.close()
  await patient?.close()
  await hasty?.close()
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  lists = (session) => dispatch(session)
  listens = () => {}
})

interface Opening {
  readonly by?: TestIntegrations
  readonly attempt?: number
  readonly taskQueue?: string
  readonly cancelled?: AbortSignal
  readonly runId?: string
}

async function open({
  by = test,
  attempt = 1,
  taskQueue = QUEUE,
  cancelled = new AbortController().signal,
  runId = `run-${++runs}`,
}: Opening = {}) {
  const surroundings = () => ({ cancellationSignal: cancelled, info: { attempt, taskQueue } })
  const opened: OpenedRun = await syncActivities(by.framework, surroundings).openSyncRun({
    integrationId: integration.id,
    runId,
    goesOnAs: `${runId}:1`,
  })
  if (opened.kind !== 'open') throw new Error(`it was not opened: ${opened.kind}`)
  return opened
}

const once = (first: () => void) => {
  let calls = 0
  return () => {
    calls += 1
    if (calls === 1) first()
  }
}
const statuses = async (syncLogId: number) => (await itemsOf(test, syncLogId)).map(({ status }) => status)

describe('a small run', () => {
  it('is listed, processed, finalised and noted as announced where nobody listens', async () => {
    const { syncLogId, first } = await open()
    expect(first).toMatchObject({
      listing: { kind: 'listed', listed: THINGS },
      batch: { succeeded: THINGS, failed: 0, waiting: [] },
      end: { kind: 'finalised', status: 'success', succeeded: THINGS },
    })
    expect(await statuses(syncLogId)).toEqual(['success', 'success', 'success'])
    expect(await logOf(test, syncLogId)).toMatchObject({
      status: 'success',
      metadata: { success_count: THINGS, announced_at: expect.any(String), cursor_after: '2026-01-01T00:00:00Z' },
    })
  })

  it('that lists nothing ends as well', async () => {
    lists = () => {}
    const { syncLogId, first } = await open()
    expect(first).toEqual({
      listing: { kind: 'listed', listed: 0, duplicatesDropped: 0 },
      end: expect.objectContaining({ kind: 'finalised', status: 'success', succeeded: 0 }),
    })
    expect((await logOf(test, syncLogId)).status).toBe('success')
  })

  it('leaves telling its listeners to a step of their own', async () => {
    const told = vi.fn()
    listen(test, 'SyncCompleted', told)
    const { syncLogId, first } = await open()
    expect(first?.end).toMatchObject({ kind: 'finalised' })
    expect(told).not.toHaveBeenCalled()
    expect((await logOf(test, syncLogId)).metadata).not.toHaveProperty('announced_at')
    await test.activities.announceSyncRun({ integrationId: integration.id, syncLogId })
    expect(told).toHaveBeenCalledTimes(1)
  })

  it('ends as partial with an item that failed for good', async () => {
    listens = once(() => {
      throw new NonRetryable('no')
    })
    const { first } = await open()
    expect(first?.end).toMatchObject({ kind: 'finalised', status: 'partial', succeeded: THINGS - 1, failed: 1 })
  })

  it('does not end while an item waits for another attempt', async () => {
    listens = once(() => {
      throw new Error('not yet')
    })
    const { syncLogId, first } = await open()
    expect(first).toMatchObject({ batch: { succeeded: THINGS - 1, waiting: [{ seconds: expect.any(Number) }] } })
    expect(first?.end).toBeUndefined()
    expect((await logOf(test, syncLogId)).status).toBe('processing')
  })
})

describe('the opening leaves to other steps', () => {
  it('items of another task queue, and more of them than a batch has', async () => {
    const other = await open({ by: apart })
    expect(other.first).toEqual({ listing: { kind: 'listed', listed: THINGS, duplicatesDropped: 0 } })
    expect(await statuses(other.syncLogId)).toEqual(['pending', 'pending', 'pending'])

    lists = (session) => dispatch(session, 201)
    integration = await makeIntegration(test, 'acme')
    const many = await open()
    expect(many.first).toEqual({ listing: { kind: 'listed', listed: 201, duplicatesDropped: 0 } })
    expect(new Set(await statuses(many.syncLogId))).toEqual(new Set(['pending']))
  })

  it('what its first try had begun when its worker was lost', async () => {
    const runId = 'lost-once'
    const cancelled = new AbortController()
    lists = async (session) => {
      await dispatch(session)
      cancelled.abort(new Error('the worker stops'))
      session.signal.throwIfAborted()
    }
    await expect(open({ runId, cancelled: cancelled.signal })).rejects.toThrow('the worker stops')
    const asked = vi.fn()
    lists = asked
    const { syncLogId, first } = await open({ runId, attempt: 2 })
    // The time between the two tries is none of the listing's.
    expect(first).toEqual({ listing: { kind: 'worker lost', tookMs: 0 } })
    expect(asked).not.toHaveBeenCalled()
    // The next call of the listing may store, one of the lost try may not.
    lists = (session) => dispatch(session, 1)
    const listing = { integrationId: integration.id, syncLogId, attempt: 2 }
    expect(await runActivity(test.activities.listSyncItems, listing)).toMatchObject({ kind: 'listed', listed: 1 })
    expect(await test.activities.findOpenedRun({ integrationId: integration.id, runId })).toBe(syncLogId)
    expect(await test.activities.findOpenedRun({ integrationId: integration.id, runId: 'another' })).toBeNull()
  })

  it.each([
    ['a fault', () => new Error('boom'), { kind: 'own', reason: expect.stringContaining('boom'), isFinal: false }],
    [
      'what another call can not change',
      () => new InvalidArgumentException('from', 'a date'),
      { kind: 'own', isFinal: true, type: 'invalid_argument' },
    ],
    [
      "the provider's limit",
      () => new RateLimitExceededException({ id: 1, provider: 'acme', name: 'x' }, 30, null),
      { kind: 'deferred', retryAfterSeconds: 30, isBookmarked: false },
    ],
  ])('%s of the listing', async (_, fault, listing) => {
    lists = () => {
      throw fault()
    }
    const { syncLogId, first } = await open()
    expect(first).toEqual({ listing: expect.objectContaining(listing) })
    expect((await logOf(test, syncLogId)).status).toBe('processing')
  })

  it('a listing whose later call fails: one line says so, and none of the SDK', async () => {
    lists = () => {
      throw new Error('boom')
    }
    const { syncLogId } = await open()
    test.lines.length = 0
    const said: string[] = []
    const listing = { integrationId: integration.id, syncLogId, attempt: 2 }
    const call = runActivity(test.activities.listSyncItems, listing, { onSdkLine: (message) => said.push(message) })
    await expect(call).rejects.toThrow('boom')
    expect(test.lines.map(({ fields }) => fields.event)).toEqual(['sync.listing_failed'])
    expect(said).toEqual([])
  })

  it('a listing that takes longer than sync.job_timeout, which is ended', async () => {
    lists = ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const { first } = await open({ by: hasty })
    expect(first?.listing).toEqual({
      kind: 'own',
      reason: 'it took longer than sync.job_timeout (1 s)',
      isFinal: false,
      tookMs: 1_000,
    })
  })

  it('none where sync.job_timeout is longer than a timer can be: that would be over at once', async () => {
    const { first } = await open({ by: patient })
    expect(first?.listing).toMatchObject({ kind: 'listed', listed: THINGS })
  })

  describe('a run that takes more than five seconds, whose workflow is told where it is:', () => {
    const began = vi.fn(async () => {})
    const of = ({ id }: Integration) => ({ integrationId: id, stream: null })
    const untilTold = () => vi.waitFor(() => expect(began).toHaveBeenCalled(), { timeout: 4 * QUICK_MS })

    beforeEach(() => {
      const { workflows } = test.framework
      Object.assign(test.framework, { workflows: { ...workflows, tellSyncBegan: began } })
      began.mockClear()
      return () => void Object.assign(test.framework, { workflows })
    })

    it('its items, where it still listed', async () => {
      lists = async (session) => {
        await dispatch(session)
        await untilTold()
      }
      const { syncLogId, first } = await open()
      expect(began.mock.calls).toEqual([[of(integration), { syncLogId, phase: 'listing', listed: null }]])
      expect(first).toEqual({ listing: { kind: 'listed', listed: THINGS, duplicatesDropped: 0 } })
      expect(await statuses(syncLogId)).toEqual(['pending', 'pending', 'pending'])
    }, 30_000)

    it('its end, where its items ran: a pause that has come since holds it', async () => {
      listens = untilTold
      const { syncLogId, first } = await open()
      expect(began.mock.calls).toEqual([[of(integration), { syncLogId, phase: 'processing', listed: THINGS }]])
      expect(first).toMatchObject({ listing: { kind: 'listed' }, batch: { succeeded: THINGS } })
      expect(first?.end).toBeUndefined()
      expect((await logOf(test, syncLogId)).status).toBe('processing')
    }, 30_000)
  })

  it('the end of a run that is cancelled while its items run', async () => {
    const cancelled = new AbortController()
    const running = occasion()
    const goOn = occasion()
    listens = async () => {
      running.happen()
      await goOn.happened
    }
    const opening = open({ cancelled: cancelled.signal })
    await running.happened
    cancelled.abort(new Error('cancelled'))
    goOn.happen()
    const { syncLogId, first } = await opening
    expect(first?.batch).toBeDefined()
    expect(first?.end).toBeUndefined()
    expect((await logOf(test, syncLogId)).status).toBe('processing')
  })
})

it('after it batches of large runs work one at a time', async () => {
  const rows = []
  for (const name of ['first', 'second']) {
    const run = await makeRun(test, (await makeIntegration(test, 'acme', { name })).id)
    rows.push(await makeItem(test, run))
  }
  await open()
  let [atWork, atOnce] = [0, 0]
  listens = async () => {
    atWork += 1
    atOnce = Math.max(atOnce, atWork)
    await setTimeout(40)
    atWork -= 1
  }
  const batches = rows.map(({ syncLogId }) =>
    runActivity(test.activities.processSyncItems, {
      syncLogId: syncLogId as number,
      claim: `large:${syncLogId}:1`,
      take: { kind: 'pending', limit: 1 },
    }),
  )
  expect(await Promise.all(batches)).toMatchObject([{ succeeded: 1 }, { succeeded: 1 }])
  expect(atOnce).toBe(1)
})

it('opens no second run for a workflow whose first step had ended the first', async () => {
  const runId = 'ended-once'
  const { syncLogId } = await open({ runId })
  const again = await open({ runId, attempt: 2 })
  expect(again).toMatchObject({ syncLogId, first: { listing: { kind: 'worker lost' } } })
  const listing = { integrationId: integration.id, syncLogId, attempt: 2 }
  expect(await runActivity(test.activities.listSyncItems, listing)).toMatchObject({ kind: 'listed', listed: THINGS })
  expect(await test.activities.finaliseSyncRun({ integrationId: integration.id, syncLogId })).toMatchObject({
    kind: 'finalised',
    succeeded: THINGS,
  })
})
