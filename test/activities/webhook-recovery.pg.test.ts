/** One webhook on its own, as a worker handles it: for recovery, and for a replay by hand. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { commandStep } from '../../src/activities/command-steps.ts'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import { keepClaim } from '../../src/claims/lease-queries.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { claimNextWebhooks, claimWebhook } from '../../src/webhooks/queries.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
/** A second worker: a pool and a framework of its own. */
let second: TestIntegrations
let integration: Integration
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
let jobs = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = { acme: webhookProvider({ handleWebhook: (...given) => handle(...given) }) }
  // Either may win a race, so both can read the credentials.
  const encryptionKeys = encryptionKey('test')
  test = testIntegrations(database.url, { providers, encryptionKeys })
  second = testIntegrations(database.url, { providers, encryptionKeys })
})
afterAll(async () => {
  await second?.close()
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  handle.mockReset()
  handle.mockReturnValue({ done: true })
  // A pump is of all integrations.
  await test.sql`delete from integration_webhooks`
  integration = await makeIntegration(test, 'acme')
})

type Input = Parameters<ReturnType<typeof webhookRecoveryActivities>['processOneWebhook']>[0]

/** As a job's workflow asks for it; `attempt` 2 is the try after a worker that died. */
function run(
  webhookId: number,
  { attempt = 1, by = test, ...given }: Partial<Input> & { attempt?: number; by?: TestIntegrations } = {},
) {
  jobs += 1
  const { processOneWebhook } = webhookRecoveryActivities(by.framework)
  return runActivity(processOneWebhook, { webhookId, claim: `job-${jobs}:1`, ...given }, { attempt })
}

const pending = (values: Parameters<typeof makeWebhook>[2] = {}) => makeWebhook(test, integration.id, values)
const settled = (values: Parameters<typeof makeWebhook>[2] = {}) =>
  pending({ status: 'processed', attempts: 1, processedAt: new Date(), ...values })

describe('a job of a pending row', () => {
  it('handles and settles it', async () => {
    const { id } = await pending()
    expect(await run(id)).toEqual({ webhookId: id, outcome: 'processed', status: 'processed', attempts: 1 })
    expect(await webhookOf(test, id)).toMatchObject({ claim: null, error: null, replayAttempt: null })
    expect(await logsOf(test, integration.id, 'webhook')).toHaveLength(1)
  })

  it('ends with a handler’s failure as its result', async () => {
    const { id } = await pending()
    handle.mockRejectedValue(new Error('boom'))
    expect(await run(id)).toEqual({ webhookId: id, outcome: 'failed', status: 'failed', attempts: 1 })
  })

  it.each(['processing', 'processed', 'failed'] as const)('leaves a %s one alone', async (status) => {
    const row = await pending({ status, attempts: 1 })
    expect(await run(row.id)).toEqual({ webhookId: row.id, outcome: 'not claimed', status, attempts: 1 })
    expect(handle).not.toHaveBeenCalled()
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('finds nothing when the row is gone', async () => {
    expect(await run(999_999)).toEqual({ webhookId: 999_999, outcome: 'not claimed', status: null, attempts: null })
  })

  it('leaves the row to enable() while its integration’s health is disabled', async () => {
    const { id } = await pending()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await run(id)).toMatchObject({ outcome: 'not claimed', status: 'pending' })
  })

  it('and the inbox: one of them has it', async () => {
    const rows = await Promise.all(Array.from({ length: 20 }, () => pending()))
    const { db, tables } = second.framework
    const [outcomes, claimed] = await Promise.all([
      Promise.all(rows.map(({ id }) => run(id))),
      claimNextWebhooks(db, tables, 'pump:inbox:1', { after: 0, integrations: 10, rows: 10, room: 10, rooms: {} }),
    ])
    const handled = outcomes.filter(({ outcome }) => outcome === 'processed').map(({ webhookId }) => webhookId)
    expect([...handled, ...claimed.rows.map(({ id }) => id)].sort((a, b) => a - b)).toEqual(
      rows.map(({ id }) => id).sort((a, b) => a - b),
    )
  })
})

describe('a job of a stuck row', () => {
  const stuck = () => pending({ status: 'processing', attempts: 3, claim: 'dead:1' })

  it('takes it from its dead worker, and counts the loss', async () => {
    const { id } = await stuck()
    handle.mockImplementation(async () => {
      expect(await webhookOf(test, id)).toMatchObject({ attempts: 4, lostWorkers: 1 })
    })
    expect(await run(id, { stuckAttempts: 3 })).toEqual({
      webhookId: id,
      outcome: 'processed',
      status: 'processed',
      attempts: 4,
    })
  })

  it('leaves it alone once somebody else has claimed it', async () => {
    const { id } = await stuck()
    expect(await run(id, { stuckAttempts: 2 })).toMatchObject({ outcome: 'not claimed', attempts: 3 })
    expect(handle).not.toHaveBeenCalled()
  })

  it('is had by one of two jobs, and the late worker’s outcome is dropped', async () => {
    const { id } = await stuck()
    const outcomes = await Promise.all([run(id, { stuckAttempts: 3 }), run(id, { stuckAttempts: 3, by: second })])
    expect(outcomes.filter(({ outcome }) => outcome === 'processed')).toHaveLength(1)
    expect(handle).toHaveBeenCalledTimes(1)
  })
})

describe('a replay', () => {
  it.each(['processed', 'failed'] as const)('runs a %s row again and logs it as a replay', async (status) => {
    const { id } = await settled({ status, error: status === 'failed' ? 'boom' : null })
    expect(await run(id, { replay: true })).toEqual({
      webhookId: id,
      outcome: 'processed',
      status: 'processed',
      attempts: 2,
    })
    expect((await webhookOf(test, id)).replayAttempt).toBe(2)
    expect(await logsOf(test, integration.id, 'webhook_replay')).toMatchObject([{ status: 'success' }])
    expect(await logsOf(test, integration.id, 'webhook')).toEqual([])
  })

  it.each(['pending', 'processing'] as const)('leaves a %s row alone', async (status) => {
    const { id } = await pending({ status })
    expect(await run(id, { replay: true })).toMatchObject({ outcome: 'not claimed', status })
  })
})

describe('a second try', () => {
  it('takes up the row that the first one held, and counts the loss', async () => {
    const { id } = await settled()
    const { db, tables } = second.framework
    // The first try claims it and dies.
    await claimWebhook(db, tables, { id, claim: 'lost:1', from: { replay: true } })
    const outcome = await run(id, { claim: 'lost:1', replay: true, attemptsBefore: 1, attempt: 2 })
    expect(outcome).toEqual({ webhookId: id, outcome: 'processed', status: 'processed', attempts: 3 })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it.each([
    [0, 'processed'],
    [3, 'processed'],
    [4, 'failed'],
  ])('of a row that has lost %i workers before: %s', async (lostWorkers, status) => {
    const { id } = await pending({ status: 'processing', attempts: 7, claim: 'lost:2', lostWorkers })
    const losses: number[] = []
    handle.mockImplementation(async () => void losses.push((await webhookOf(test, id)).lostWorkers))
    expect(await run(id, { claim: 'lost:2', attempt: 2 })).toMatchObject({ outcome: status, attempts: 8 })
    expect(losses).toEqual(status === 'failed' ? [] : [lostWorkers + 1])
    expect(await webhookOf(test, id)).toMatchObject({
      status,
      claim: null,
      lostWorkers: 0,
      error: status === 'failed' ? 'worker lost' : null,
    })
    expect(await logsOf(test, integration.id, 'webhook')).toHaveLength(1)
  })

  it('leaves a first one alone that still runs, and comes again', async () => {
    const { id } = await pending()
    const [began, end] = [occasion(), occasion()]
    handle.mockImplementation(async () => {
      began.happen()
      await end.happened
    })
    const first = run(id, { claim: 'alive:1' })
    await began.happened
    await expect(run(id, { claim: 'alive:1', attempt: 2, by: second })).rejects.toMatchObject({ type: 'not_its_turn' })
    end.happen()
    expect(await first).toMatchObject({ outcome: 'processed', attempts: 1 })
    expect(handle).toHaveBeenCalledTimes(1)
    // Its claim is served no more: the next try is told at once.
    expect(await run(id, { claim: 'alive:1', attempt: 3, attemptsBefore: 0 })).toMatchObject({ outcome: 'processed' })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it('does not run again what the first one has settled', async () => {
    const { id } = await settled()
    await run(id, { claim: 'settled:1', replay: true, attemptsBefore: 1 })
    const again = await run(id, { claim: 'settled:1', replay: true, attemptsBefore: 1, attempt: 2 })
    expect(again).toEqual({ webhookId: id, outcome: 'processed', status: 'processed', attempts: 2 })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it('runs what the first one has not claimed', async () => {
    const { id } = await settled({ attempts: 5, replayAttempt: 5 })
    expect(await run(id, { replay: true, attemptsBefore: 5, attempt: 2 })).toMatchObject({ attempts: 6 })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it('takes what the first one gave back', async () => {
    const { id } = await settled({ status: 'pending' })
    const outcome = await run(id, { replay: true, attemptsBefore: 1, attempt: 2 })
    expect(outcome).toMatchObject({ outcome: 'processed', attempts: 2 })
  })

  it('is asked for when the worker stopped before the handler ran', async () => {
    const { id } = await pending()
    const { processOneWebhook } = webhookRecoveryActivities(test.framework)
    const stopped = runActivity(
      processOneWebhook,
      { webhookId: id, claim: 'stopped:1' },
      { onStart: (cancel) => cancel() },
    )
    await expect(stopped).rejects.toThrow(`webhook ${id} went back to pending`)
    expect(handle).not.toHaveBeenCalled()
    expect(await webhookOf(test, id)).toMatchObject({ status: 'pending', attempts: 0 })
  })
})

describe('a row that was set apart', () => {
  const apart = (lostWorkers: number) => pending({ attempts: lostWorkers, lostWorkers })

  it.each([
    [1, 'processed', null],
    [4, 'processed', null],
    [5, 'failed', 'worker lost'],
    [7, 'failed', 'worker lost'],
  ])('with %i losses is %s', async (lostWorkers, status, error) => {
    const { id } = await apart(lostWorkers)
    expect(await run(id)).toMatchObject({ outcome: status })
    expect(await webhookOf(test, id)).toMatchObject({ status, error, claim: null, lostWorkers: 0 })
    expect(handle).toHaveBeenCalledTimes(status === 'failed' ? 0 : 1)
  })

  it('forgets its losses once it is settled, as failed too', async () => {
    const { id } = await apart(2)
    handle.mockRejectedValue(new Error('boom'))
    expect(await run(id)).toMatchObject({ outcome: 'failed' })
    expect(await webhookOf(test, id)).toMatchObject({ error: 'boom', lostWorkers: 0 })
  })

  it('runs beside others after two losses, and one at a time in a worker after three', async () => {
    const { processOneWebhook } = webhookRecoveryActivities(test.framework)
    const runIt = (webhookId: number) =>
      runActivity(processOneWebhook, { webhookId, claim: `apart-${webhookId}:1` }, { attempt: 1 })
    const rows = { beside: [await apart(1), await apart(2)], alone: [await apart(3), await apart(4)] }
    const [all, end] = [occasion(), occasion()]
    let running = 0
    handle.mockImplementation(async () => {
      running += 1
      if (running === 3) all.happen()
      await end.happened
    })
    const [suspect, other] = rows.alone.map(({ id }) => id) as [number, number]
    const first = runIt(suspect)
    await vi.waitFor(() => expect(running).toBe(1), SOON)
    const beside = rows.beside.map(({ id }) => runIt(id))
    await all.happened
    await expect(runIt(other)).rejects.toMatchObject({ type: 'not_its_turn', nextRetryDelay: '2 seconds' })
    expect(await webhookOf(test, other)).toMatchObject({ status: 'pending', attempts: 4 })
    end.happen()
    await Promise.all([first, ...beside])
    expect(await runIt(other)).toMatchObject({ outcome: 'processed' })
  })

  it('is made by one of two that come at the same moment', async () => {
    const { id } = await pending({ status: 'processing', attempts: 1, claim: 'both:1' })
    const end = occasion()
    handle.mockImplementation(async () => {
      await end.happened
      return { done: true }
    })
    const tries = [2, 3].map((attempt) => run(id, { claim: 'both:1', attempt }))
    await expect(Promise.race(tries)).rejects.toMatchObject({ type: 'not_its_turn', nextRetryDelay: '2 seconds' })
    end.happen()
    const ended = await Promise.allSettled(tries)
    expect(ended.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(handle).toHaveBeenCalledTimes(1)
    expect(await webhookOf(test, id)).toMatchObject({ status: 'processed', attempts: 2 })
    // The one that was refused, once more.
    expect(await run(id, { claim: 'both:1', attempt: 4 })).toMatchObject({ outcome: 'processed', attempts: 2 })
  })

  it('is not needed where Temporal took the first one for dead while the database was away: what it gave is stored', async () => {
    const { id } = await pending()
    const [cancelled, running, back] = [new AbortController(), occasion(), occasion()]
    let isAway = false
    const db = new Proxy(test.framework.db, {
      get(target, name) {
        if (isAway) throw new Error('the database is away')
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    handle.mockImplementation(async () => {
      isAway = true
      cancelled.abort(new Error('Temporal has given it up'))
      running.happen()
      await back.happened
      return { done: true }
    })
    const { processOneWebhook } = webhookRecoveryActivities({ ...test.framework, db }, () => ({
      cancellationSignal: cancelled.signal,
      graceIsOver: new AbortController().signal,
      info: { attempt: 1 },
    }))
    const first = processOneWebhook({ webhookId: id, claim: 'away:1' })
    await running.happened
    await expect(run(id, { claim: 'away:1', attempt: 2 })).rejects.toMatchObject({ type: 'not_its_turn' })
    back.happen()
    await new Promise((resolve) => setTimeout(resolve, 250))
    expect(await webhookOf(test, id)).toMatchObject({ status: 'processing', attempts: 1 })
    isAway = false
    expect(await first).toMatchObject({ outcome: 'processed' })
    expect(await run(id, { claim: 'away:1', attempt: 2 })).toMatchObject({ outcome: 'processed', attempts: 1 })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it('is none that only waits its turn: however often, it is no fault', async () => {
    const { processOneWebhook } = webhookRecoveryActivities(test.framework)
    const { id } = await pending({ status: 'processing', attempts: 1, claim: 'alive:2' })
    const lease = { prefix: test.framework.config.cache_prefix, claim: 'alive:2' }
    await keepClaim(test.framework.db, test.framework.tables, lease, 60)
    const step = commandStep('processOneWebhook', processOneWebhook)
    await expect(runActivity(step, { webhookId: id, claim: 'alive:2' }, { attempt: 50 })).rejects.toMatchObject({
      type: 'not_its_turn',
      nonRetryable: false,
    })
  })
})

describe('recovery', () => {
  it('is an activity that gives back its counts', async () => {
    const { id } = await pending({ updatedAt: new Date(Date.now() - 3_700_000) })
    const { recoverStuckWebhooks, readWebhookState } = webhookRecoveryActivities(test.framework)
    const counts = await runActivity(async () => recoverStuckWebhooks(), undefined)
    expect(counts).toEqual({ processing: 0, pending: 1, failed: 0 })
    expect(test.starts.webhookJobs).toEqual([{ webhookId: id }])
    expect(await readWebhookState({ webhookId: id })).toEqual({
      integrationId: integration.id,
      status: 'pending',
      attempts: 0,
      lostWorkers: 0,
    })
    expect(await readWebhookState({ webhookId: 999_999 })).toBeNull()
  })
})
