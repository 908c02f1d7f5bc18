/** Pumps of durable events as workers run them, and what becomes of the rows of one that has died. Real rows, and real time. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { eventActivities } from '../../../src/activities/event-activities.ts'
import { keepClaim, readPromise, setApart } from '../../../src/claims/lease-queries.ts'
import type { Pumped } from '../../../src/claims/pump-jobs.ts'
import { EVENT_OUTBOX } from '../../../src/claims/pump-jobs.ts'
import { recordEvents } from '../../../src/events/durable-events.ts'
import { claimEvents, claimedEvents } from '../../../src/events/queries.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { occasion, testIntegrations } from '../../support/integrations.ts'
import { isServed } from '../../support/leases.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** What is told, with the integration's id. */
const tell = vi.fn<(reason: string, of: number) => unknown>()
let pumps = 0

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  const listener = ({ reason, integration: { id } }: { reason: string; integration: Integration }) => tell(reason, id)
  test.integrations.on('ReauthRequired', listener, { queued: true, name: 'crm' })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  tell.mockReset()
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  test.starts.pumpCalls.length = 0
  test.lines.length = 0
  integration = await makeIntegration(test, 'acme')
})

/** As a worker runs it for the outbox. */
function pump(given = `pump:of-the-test:${++pumps}`, attempt = 1) {
  const [stopping, cancelled] = [new AbortController(), new AbortController()]
  const { pumpEvents } = eventActivities(test.framework, () => ({
    cancellationSignal: cancelled.signal,
    graceIsOver: cancelled.signal,
    stopping: stopping.signal,
    info: { attempt },
  }))
  let result: Pumped | undefined
  const ended = pumpEvents({ claim: given }).then((how) => {
    result = how
    return how
  })
  ended.catch(() => {})
  onTestFinished(async () => {
    cancelled.abort()
    await ended.catch(() => {})
  })
  return { given, stopping, ended, isOver: () => result !== undefined }
}

async function store(reasons: readonly string[], { id } = integration): Promise<void> {
  const events = reasons.map((reason) => ({ name: 'ReauthRequired', payload: { reason } }) as const)
  await recordEvents(test.framework, test.framework.db, id, events)
}

/** As a pump does that dies with what it has claimed. */
function claim(by: string) {
  const room = { after: 0, integrations: 300, rows: 400, room: 10, rooms: {} }
  return claimEvents(test.framework.db, test.framework.tables, by, room, null)
}

const prefix = () => test.framework.config.cache_prefix
const served = (by: string) => isServed(test.framework, { prefix: prefix(), claim: by })
const promised = () => readPromise(test.framework.db, test.framework.tables, { prefix: prefix(), inbox: EVENT_OUTBOX })
const lines = (event: string) => test.lines.filter(({ fields }) => fields.event === event)

describe('a pump of events', () => {
  it('says that it lives and promises to look while it works, takes what comes, and says at its end when the next is due', async () => {
    const [began, free] = [occasion(), occasion()]
    tell.mockImplementationOnce(async () => {
      began.happen()
      await free.happened
      throw new Error('down')
    })
    await store(['fails'])
    const { ended, given } = pump()
    await began.happened
    expect(await served(`${given}:1`)).toBe(true)
    await vi.waitFor(async () => expect((await promised())?.remainingMs).toBeGreaterThan(0), SOON)
    await store(['comes later'])
    await vi.waitFor(() => expect(tell).toHaveBeenCalledWith('comes later', integration.id), SOON)
    free.happen()
    const { nextDueInMs, ...end } = await ended
    expect(end).toEqual({ end: 'empty', processed: 1, failed: 1, handedBack: 0 })
    expect(nextDueInMs).toBeGreaterThanOrEqual(0)
    expect(nextDueInMs).toBeLessThanOrEqual(10_000)
    expect(await promised()).toMatchObject({ hasEnded: true })
  })

  it('of an integration whose listener hangs, or is down, holds up neither another integration nor what is new', async () => {
    const free = occasion()
    tell.mockImplementation(async (reason) => {
      if (reason !== 'quick') await free.happened
    })
    await store(Array.from({ length: 30 }, (_, n) => `again ${n}`))
    await test.sql`update integration_events set outcomes = '{"listener:gone": {"status": "delivered", "attempts": 1, "at": "2026-01-01T00:00:00Z"}}'`
    const { ended } = pump()
    await vi.waitFor(() => expect(tell).toHaveBeenCalledTimes(10), SOON)
    const other = await makeIntegration(test, 'acme')
    await store(['quick'])
    await store(['quick'], other)
    await vi.waitFor(() => {
      for (const { id } of [integration, other]) expect(tell).toHaveBeenCalledWith('quick', id)
    }, SOON)
    free.happen()
    expect(await ended).toMatchObject({ end: 'empty', processed: 32 })
  })

  it('on a worker that begins to stop asks the outbox for another one', async () => {
    const [began, free] = [occasion(), occasion()]
    tell.mockImplementation(async () => {
      began.happen()
      await free.happened
    })
    await store(['a'])
    const { ended, stopping, given } = pump()
    await began.happened
    stopping.abort()
    const call = { queue: EVENT_OUTBOX, claim: given, needs: 'successor' }
    await vi.waitFor(() => expect(test.starts.pumpCalls).toEqual([call]), SOON)
    free.happen()
    expect(await ended).toMatchObject({ end: 'stopped', processed: 1 })
  })
})

describe('events of a pump that has died', () => {
  it('are taken up by any other one, which tells of each once more at most; those of a living one are not', async () => {
    await store(['dead 1', 'dead 2'])
    await claim('pump:dead:1:1')
    await store(['alive'])
    await claim('pump:alive:1:1')
    await keepClaim(test.framework.db, test.framework.tables, { prefix: prefix(), claim: 'pump:alive:1:1' }, 600)
    await store(['fresh'])
    const { ended } = pump()
    await vi.waitFor(() => expect(tell).toHaveBeenCalledWith('fresh', integration.id), SOON)
    expect(await ended).toMatchObject({ end: 'empty', processed: 3 })
    expect(tell.mock.calls.map(([reason]) => reason).sort()).toEqual(['dead 1', 'dead 2', 'fresh'])
    expect(lines('outbox.pump_lost')).toMatchObject([{ fields: { claim: 'pump:dead:1:1', events: 2 } }])
    expect(lines('event.worker_lost').map(({ fields }) => fields.losses)).toEqual([1, 1])
  })

  it('that is an earlier try of the same activity are waited for until its time is over', async () => {
    await store(['again'])
    await claim('pump:again:1:1')
    await keepClaim(test.framework.db, test.framework.tables, { prefix: prefix(), claim: 'pump:again:1:1' }, 600)
    const { ended } = pump('pump:again:1', 2)
    await vi.waitFor(async () => expect(await served('pump:again:1:2')).toBe(true), SOON)
    expect(tell).not.toHaveBeenCalled()
    await test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s' where key like ${'%pump:again:1:1'}`
    expect(await ended).toMatchObject({ end: 'empty', processed: 1 })
    expect(tell).toHaveBeenCalledTimes(1)
  })

  it('one of which kills its worker again and again take no other with them more than twice', async () => {
    const reasons = Array.from({ length: 12 }, (_, n) => (n === 7 ? 'killer' : `innocent ${n}`))
    await store(reasons)
    const killerLosses = async (): Promise<number> => {
      const [killer] = await test.sql<{ lost: number }[]>`
        select lost_workers as lost from integration_events where payload ->> 'reason' = 'killer'`
      return killer?.lost ?? 0
    }
    // One pump after the other. Of one that holds the killer all rows are set apart; another one has told of its rows.
    for (let pumped = 1; (await killerLosses()) < 5; pumped += 1) {
      const by = `pump:killed:${pumped}:1`
      const { rows } = await claim(by)
      expect(rows).not.toEqual([])
      if (rows.some(({ payload }) => (payload as { reason: string }).reason === 'killer'))
        await setApart(test.framework.db, test.framework.tables, claimedEvents(test.framework.tables), {
          prefix: prefix(),
          claim: by,
        })
      else await test.sql`update integration_events set claim = null, delivered_at = now() where claim = ${by}`
    }
    const losses = await test.sql<{ reason: string; lost: number }[]>`
      select payload ->> 'reason' as reason, lost_workers as lost from integration_events`
    expect(Math.max(...losses.filter(({ reason }) => reason !== 'killer').map(({ lost }) => lost))).toBe(2)
  })
})
