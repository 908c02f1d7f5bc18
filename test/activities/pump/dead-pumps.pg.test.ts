/** Pumps as workers run them, and what becomes of the rows of one that has died. Real rows, and real time: a dead pump is known by its silence. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { webhookActivities } from '../../../src/activities/webhook-activities.ts'
import { keepClaim, readPromise } from '../../../src/claims/lease-queries.ts'
import type { Pumped } from '../../../src/claims/pump-jobs.ts'
import { WEBHOOK_INBOX } from '../../../src/claims/pump-jobs.ts'
import type { HandlesWebhooks } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { occasion, testIntegrations } from '../../support/integrations.ts'
import { isServed } from '../../support/leases.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration, webhookOf } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
let pumps = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = { acme: webhookProvider({ handleWebhook: (...given) => handle(...given) }) }
  test = testIntegrations(database.url, { providers })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  handle.mockReset().mockReturnValue({ done: true })
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  test.starts.webhookJobs.length = 0
  test.starts.pumpCalls.length = 0
  integration = await makeIntegration(test, 'acme')
})

interface Pumping {
  readonly claim?: string
  readonly attempt?: number
  /** Of an earlier try. */
  readonly heartbeatDetails?: unknown
}

/** As a worker runs it for the inbox. */
function pump({ claim, attempt = 1, heartbeatDetails }: Pumping = {}) {
  pumps += 1
  const given = claim ?? `pump:of-the-test:${pumps}`
  const [stopping, grace, cancelled] = [new AbortController(), new AbortController(), new AbortController()]
  const heartbeats: unknown[] = []
  const { pumpWebhooks } = webhookActivities(test.framework, () => ({
    cancellationSignal: cancelled.signal,
    isForgotten: () => true,
    graceIsOver: grace.signal,
    stopping: stopping.signal,
    info: { attempt, heartbeatDetails },
    heartbeat: (details) => void heartbeats.push(details),
  }))
  let result: Pumped | undefined
  const ended = pumpWebhooks({ claim: given }).then((how) => {
    result = how
    return how
  })
  ended.catch(() => {})
  onTestFinished(async () => {
    stopping.abort()
    await ended.catch(() => {})
  })
  return { given, stopping, heartbeats, forget: () => cancelled.abort(), ended, isOver: () => result !== undefined }
}

const prefix = () => test.framework.config.cache_prefix
const keep = (claim: string, seconds: number) =>
  keepClaim(test.framework.db, test.framework.tables, { prefix: prefix(), claim }, seconds)
const served = (claim: string) => isServed(test.framework, { prefix: prefix(), claim })
const promised = () => readPromise(test.framework.db, test.framework.tables, { prefix: prefix(), inbox: WEBHOOK_INBOX })
const pending = (values: Parameters<typeof makeWebhook>[2] = {}) => makeWebhook(test, integration.id, values)
const held = (claim: string, values: Parameters<typeof makeWebhook>[2] = {}) =>
  pending({ status: 'processing', attempts: 1, claim, ...values })
const jobs = () => test.starts.webhookJobs.map(({ webhookId }) => webhookId).sort((a, b) => a - b)

describe('a pump', () => {
  it('says that it lives while it works, promises to look, and says at its end that it has looked', async () => {
    const [began, free] = [occasion(), occasion()]
    handle.mockImplementation(async () => {
      began.happen()
      await free.happened
    })
    const row = await pending()
    const { ended, given } = pump()
    await began.happened
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processing', claim: `${given}:1`, attempts: 1 })
    expect(await served(`${given}:1`)).toBe(true)
    await vi.waitFor(async () => expect((await promised())?.remainingMs).toBeGreaterThan(0), SOON)
    expect((await promised())?.hasEnded).toBe(false)
    free.happen()
    expect(await ended).toMatchObject({ end: 'empty', processed: 1, failed: 0 })
    expect(await served(`${given}:1`)).toBe(false)
    expect(await promised()).toMatchObject({ hasEnded: true })
    expect((await promised())?.remainingMs).toBeLessThan(0)
  })

  it('that Temporal has forgotten takes what comes, until another one has promised to look', async () => {
    await pending()
    const first = pump()
    await vi.waitFor(async () => expect((await promised())?.remainingMs).toBeGreaterThan(0), SOON)
    first.forget()
    for (let n = 0; n < 3; n += 1) {
      const { id } = await pending()
      await vi.waitFor(async () => expect(await webhookOf(test, id)).toMatchObject({ status: 'processed' }), SOON)
    }
    expect(first.isOver()).toBe(false)
    const second = pump()
    expect(await first.ended).toMatchObject({ end: 'relieved', processed: 4 })
    const { id } = await pending()
    await vi.waitFor(async () => expect(await webhookOf(test, id)).toMatchObject({ status: 'processed' }), SOON)
    expect(await second.ended).toMatchObject({ end: 'empty', processed: 1 })
  })

  it('that nobody relieves ends once its own promise is over and nothing is left', async () => {
    await pending()
    const { ended, forget } = pump()
    await vi.waitFor(async () => expect((await promised())?.remainingMs).toBeGreaterThan(0), SOON)
    forget()
    expect(await ended).toMatchObject({ end: 'empty', processed: 1 })
    expect(await promised()).toMatchObject({ hasEnded: true })
  })

  it('takes what comes until its promise is over', async () => {
    await pending()
    const { ended } = pump()
    await vi.waitFor(() => expect(handle).toHaveBeenCalledTimes(1), SOON)
    const second = await pending()
    await vi.waitFor(async () => expect(await webhookOf(test, second.id)).toMatchObject({ status: 'processed' }), SOON)
    expect(await ended).toMatchObject({ end: 'empty', processed: 2, failed: 0 })
  })

  it('on a worker that begins to stop has another one asked for, by its workflow’s claim, before its handlers end', async () => {
    const [began, free] = [occasion(), occasion()]
    handle.mockImplementation(async () => {
      began.happen()
      await free.happened
    })
    await pending()
    const { ended, stopping, given, isOver } = pump({ attempt: 3 })
    await began.happened
    stopping.abort()
    await vi.waitFor(
      () => expect(test.starts.pumpCalls).toEqual([{ queue: WEBHOOK_INBOX, claim: given, needs: 'successor' }]),
      SOON,
    )
    expect(isOver()).toBe(false)
    free.happen()
    expect(await ended).toMatchObject({ end: 'stopped', processed: 1, failed: 0 })
  })

  it('does not begin on a worker that stops: declined beside one that hands over, else to be tried again', async () => {
    const onStopping = (isHandingOver: boolean) =>
      webhookActivities(test.framework, () => ({
        cancellationSignal: new AbortController().signal,
        stopping: AbortSignal.abort(),
        isHandingOver: () => isHandingOver,
        info: { attempt: 1 },
      })).pumpWebhooks({ claim: 'pump:a:1' })
    await pending()
    expect(await onStopping(true)).toMatchObject({ end: 'declined', processed: 0, handedBack: 0 })
    await expect(onStopping(false)).rejects.toMatchObject({ type: 'not_its_turn', nextRetryDelay: '1 second' })
  })
})

describe('a pump that Temporal tries again', () => {
  it('leaves to a newer one while rows come, though both promise to look each second; the newer one stays', async () => {
    // Enough for both: a pump without a row ends.
    handle.mockImplementation(() => sleep(100))
    const arrive = () => Promise.all(Array.from({ length: 4 }, () => pending()))
    for (let n = 0; n < 10; n += 1) await arrive()
    const newer = pump({ claim: 'pump:again:10' })
    const retried = pump({ claim: 'pump:again:9', attempt: 2, heartbeatDetails: { held: 1 } })
    // What tells the next try that this one has begun.
    await vi.waitFor(() => expect(newer.heartbeats).toHaveLength(1), SOON)
    const giveUpAt = performance.now() + 12_000
    while (!retried.isOver() && performance.now() < giveUpAt) {
      await arrive()
      await sleep(50)
    }
    expect(retried.isOver()).toBe(true)
    expect(await retried.ended).toMatchObject({ end: 'relieved' })
    expect(newer.isOver()).toBe(false)
    await vi.waitFor(async () => {
      const [left] = await test.sql`select count(*)::int as rows from integration_webhooks where status <> 'processed'`
      expect(left?.rows).toBe(0)
    }, SOON)
  })
})

describe('rows of a pump that has died', () => {
  it('are set apart by any other one, each for a workflow of its own; those of a living one are not', async () => {
    const dead = [
      await held('pump:dead:1:1'),
      await held('pump:dead:1:1', { lostWorkers: 1 }),
      await held('pump:dead:2:1'),
    ]
    const alive = await held('pump:alive:1:1')
    await keep('pump:alive:1:1', 600)
    const job = await held('retry-x:1')
    const fresh = await pending()
    const startedAt = performance.now()
    const { ended } = pump()
    // Nobody waits for it.
    await vi.waitFor(async () => expect((await webhookOf(test, fresh.id)).status).toBe('processed'), SOON)
    expect(test.starts.webhookJobs).toEqual([])
    // It stays until it is sure.
    expect(await ended).toMatchObject({ end: 'empty', processed: 1 })
    expect(jobs()).toEqual(dead.map(({ id }) => id))
    expect(performance.now() - startedAt).toBeGreaterThan(2_000)
    for (const row of dead)
      expect(await webhookOf(test, row.id)).toMatchObject({
        status: 'pending',
        claim: null,
        attempts: 1,
        lostWorkers: row.lostWorkers + 1,
      })
    expect([await webhookOf(test, alive.id), await webhookOf(test, job.id)]).toEqual([alive, job])
    expect(test.lines.map(({ fields }) => fields)).toContainEqual({
      event: 'inbox.pump_lost',
      claim: 'pump:dead:1:1',
      webhooks: 2,
    })
    expect(handle).toHaveBeenCalledTimes(1)
  })

  it('are left alone where it was only silent for a moment', async () => {
    const row = await held('pump:silent:1:1')
    const { ended, looked } = { ...pump(), looked: () => served(`pump:of-the-test:${pumps}:1`) }
    await vi.waitFor(async () => expect(await looked()).toBe(true), SOON)
    await keep('pump:silent:1:1', 600)
    expect(await ended).toMatchObject({ end: 'empty', processed: 0 })
    expect(await webhookOf(test, row.id)).toEqual(row)
    expect(jobs()).toEqual([])
  })

  it('that is an earlier try of its own: it waits until that one’s time is over, and sets them apart', async () => {
    const row = await held('pump:again:1:1')
    await keep('pump:again:1:1', 600)
    const { ended, isOver } = pump({ claim: 'pump:again:1', attempt: 2 })
    await vi.waitFor(async () => expect(await served('pump:again:1:2')).toBe(true), SOON)
    const startedAt = performance.now()
    await vi.waitFor(() => expect(performance.now() - startedAt).toBeGreaterThan(500), SOON)
    expect(isOver()).toBe(false)
    await test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s' where key like ${'%pump:again:1:1'}`
    expect(await ended).toMatchObject({ end: 'empty' })
    expect(jobs()).toEqual([row.id])
  })

  it('that could be given to no workflow are asked for again, once they have lain for 20 s', async () => {
    const ago = new Date(Date.now() - 21_000)
    const lying = await pending({ lostWorkers: 1, updatedAt: ago })
    const other = await makeIntegration(test, 'acme')
    const disabled = await makeWebhook(test, other.id, { lostWorkers: 1, updatedAt: ago })
    await setIntegration(test, other.id, { isActive: false, healthStatus: 'disabled' })
    await pending({ lostWorkers: 1 })
    const { startProcessWebhook } = test.framework.workflows
    const start = vi.fn(startProcessWebhook).mockRejectedValueOnce(new Error('Temporal is away'))
    Object.assign(test.framework.workflows, { startProcessWebhook: start })
    onTestFinished(() => void Object.assign(test.framework.workflows, { startProcessWebhook }))
    expect(await pump().ended).toMatchObject({ end: 'empty', processed: 0 })
    expect(start.mock.calls).toEqual([[{ webhookId: lying.id }, lying.integrationId]])
    expect(test.lines.map(({ fields }) => fields.event)).toContain('webhook.job_not_started')
    // Not before it has lain for 20 s more.
    await pump().ended
    expect(start).toHaveBeenCalledTimes(1)
    await test.sql`update integration_webhooks set updated_at = ${ago} where id = ${lying.id}`
    await pump().ended
    expect(jobs()).toEqual([lying.id])
    expect((await webhookOf(test, disabled.id)).updatedAt).toEqual(ago)
    expect(handle).not.toHaveBeenCalled()
  })
})

it('a pump whose rows were taken from it starts none of them, and ends their handlers', async () => {
  const began = occasion()
  const lost = occasion()
  handle.mockImplementation((_, __, { signal }) => {
    began.happen()
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        lost.happen()
        reject(signal.reason)
      })
    })
  })
  const row = await pending()
  const { ended, given } = pump()
  await began.happened
  // It was silent, and another pump has set its rows apart.
  await test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s' where key like ${`%${given}:1`}`
  await test.sql`update integration_webhooks set status = 'pending', claim = null, lost_workers = 1 where id = ${row.id}`
  await lost.happened
  expect(await ended).toMatchObject({ processed: 0, failed: 0 })
  expect(await webhookOf(test, row.id)).toMatchObject({ status: 'pending', attempts: 1, lostWorkers: 1, error: null })
})
