/** Claim, delivery, settlement: durable events as a pump works them off. */
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventPumping } from '../../src/activities/event-activities.ts'
import { pumpUntilEmpty } from '../../src/activities/pumping.ts'
import { settle } from '../../src/claims/claimed-rows.ts'
import type { Pumped } from '../../src/claims/pump-jobs.ts'
import { pumpClaimOf } from '../../src/claims/rules.ts'
import { recordEvents } from '../../src/events/durable-events.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { EventRow } from '../../src/events/queries.ts'
import { claimEvents, claimedEvents } from '../../src/events/queries.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { ODD_ERRORS } from '../support/odd-errors.ts'
import { TOKEN, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration } from '../support/rows.ts'

type Reauth = IntegrationEvents['ReauthRequired']

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** What each listener does with a reason, by the test at hand. */
let listeners: Record<string, (event: Reauth, signal?: AbortSignal) => unknown>
let heard: string[]
let pumps = 0

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(async () => {
  heard = []
  listeners = {}
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  await test.framework.db.execute(sql`truncate ${test.framework.tables.events}`)
  integration = await makeIntegration(test, 'acme')
  return () => test.close()
})

describe('a delivery', () => {
  it('tells each queued listener once, with the handle as it is now, and is done with', async () => {
    const deliveries: unknown[] = []
    test.integrations.on(
      'ReauthRequired',
      (event, delivery) => {
        deliveries.push([event, delivery])
      },
      { queued: true },
    )
    await test.integrations.update(integration.id, { name: 'renamed' })
    const [row] = await store('revoked')
    expect(await pump()).toMatchObject({ processed: 1, failed: 0, nextDueInMs: null })
    expect(deliveries).toEqual([
      [
        { reason: 'revoked', integration: expect.objectContaining({ id: integration.id, name: 'renamed' }) },
        { id: `evt_${row}`, createdAt: expect.any(Date), signal: expect.any(AbortSignal) },
      ],
    ])
    expect(await rowOf(row)).toMatchObject({
      claim: null,
      attempts: 1,
      deliveredAt: expect.any(Date),
      outcomes: { 'listener:anonymous': { status: 'delivered', attempts: 1, at: expect.any(String) } },
    })
    expect(await pump()).toMatchObject({ processed: 0, failed: 0 })
    expect(deliveries).toHaveLength(1)
    // What a listener of the host's own gets is no news for the log.
    expect(await logsOf(test, integration.id, 'event')).toEqual([])
  })

  it('goes by listener: who has had it is not told again while another one is', async () => {
    listen('well', ({ reason }) => void heard.push(`well ${reason}`))
    listen('ill', () => {
      throw new Error(`the token is ${TOKEN}`)
    })
    const [row] = await store('a')
    expect(await pump()).toMatchObject({ processed: 0, failed: 1 })
    expect(await rowOf(row)).toMatchObject({
      claim: null,
      deliveredAt: null,
      outcomes: {
        'listener:well': { status: 'delivered', attempts: 1 },
        'listener:ill': { status: 'waiting', attempts: 1, error: 'Error: the token is [REDACTED]' },
      },
    })
    const { dueAt, outcomes } = await rowOf(row)
    const { at } = (outcomes as Record<string, { at: string }>)['listener:ill'] ?? { at: '' }
    expect(dueAt.getTime() - Date.parse(at)).toBe(10_000)

    listen('ill', ({ reason }) => void heard.push(`ill ${reason}`))
    expect(await pump()).toMatchObject({ processed: 0, failed: 0, nextDueInMs: expect.any(Number) })
    await makeDue(row)
    expect(await pump()).toMatchObject({ processed: 1, nextDueInMs: null })
    expect(heard).toEqual(['well a', 'ill a'])
    expect(await rowOf(row)).toMatchObject({
      outcomes: { 'listener:ill': { status: 'delivered', attempts: 2 } },
      deliveredAt: expect.any(Date),
    })
  })

  it('says how long until the next one is due', async () => {
    listen('ill', () => {
      throw new Error('down')
    })
    await store('a')
    const { nextDueInMs } = await pump()
    expect(nextDueInMs).toBeGreaterThan(0)
    expect(nextDueInMs).toBeLessThanOrEqual(10_000)
  })

  it('is given up at the tenth failure: an error line, a row in the log', async () => {
    listen('ill', () => {
      throw new TypeError('down')
    })
    const [row] = await store('a')
    for (let tries = 1; tries <= 10; tries += 1) {
      await pump()
      await makeDue(row)
    }
    expect(await rowOf(row)).toMatchObject({
      attempts: 10,
      deliveredAt: expect.any(Date),
      outcomes: { 'listener:ill': { status: 'given_up', attempts: 10, error: 'TypeError: down' } },
    })
    expect(await logsOf(test, integration.id, 'event')).toEqual([
      expect.objectContaining({
        direction: 'outbound',
        status: 'failed',
        externalId: `evt_${row}`,
        summary: 'ReauthRequired to listener:ill',
        error: 'TypeError: down',
      }),
    ])
    const lines = test.lines.filter(({ fields }) => fields.event === 'event.given_up')
    expect(lines).toMatchObject([{ level: 'error', fields: { id: row, to: 'listener:ill', attempt: 10 } }])
    expect(await pump()).toMatchObject({ processed: 0, failed: 0 })
  })

  it('of an event that nobody is told of any more is done with', async () => {
    listen('was', () => {})
    const [row] = await store('a')
    delete listeners.was
    const other = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
    await pump({ by: other })
    await other.close()
    expect(await rowOf(row)).toMatchObject({ deliveredAt: expect.any(Date), outcomes: {} })
  })

  it('of a payload that this release can’t read is tried again: a newer one may have written it', async () => {
    listen('reader', ({ reason }) => void heard.push(reason))
    const [row] = await store('a')
    await setRow(row, { payload: { why: 'of a newer release' } })
    expect(await pump()).toMatchObject({ processed: 0, failed: 1 })
    expect(await rowOf(row)).toMatchObject({ outcomes: { unreadable: { status: 'waiting', attempts: 1 } } })
    await setRow(row, { payload: { reason: 'readable' } })
    await makeDue(row)
    expect(await pump()).toMatchObject({ processed: 1 })
    expect(heard).toEqual(['readable'])
    expect(Object.keys((await rowOf(row)).outcomes as object)).toEqual(['listener:reader'])
  })

  it('reaches an integration that is switched off', async () => {
    listen('any', ({ reason }) => void heard.push(reason))
    await store('a')
    await test.integrations.disable(integration.id)
    await pump()
    expect(heard).toEqual(['a'])
  })

  it('holds ten at once, and a slow one does not hold up the others', async () => {
    const [ten, slow, others, allButSlow] = [occasion(), occasion(), occasion(), occasion()]
    let running = 0
    let most = 0
    listen('held', async ({ reason }) => {
      running += 1
      most = Math.max(most, running)
      if (running === 10) ten.happen()
      await (reason === '0' ? slow : others).happened
      running -= 1
      heard.push(reason)
      if (heard.length === 24) allButSlow.happen()
    })
    const rows = await store(...Array.from({ length: 25 }, (_, n) => String(n)))
    const delivering = pump()
    await ten.happened
    // Until it is known how long they take, no more are claimed than may start.
    expect(await rowOf(rows[24])).toMatchObject({ claim: null, attempts: 0 })
    expect(running).toBe(10)
    others.happen()
    await allButSlow.happened
    expect(heard).not.toContain('0')
    slow.happen()
    expect(await delivering).toMatchObject({ processed: 25 })
    expect(most).toBe(10)
  })

  it.each(ODD_ERRORS)('whose listener throws %s is a failure like any other', async (_, { make, line }) => {
    listen('odd', () => {
      throw make()
    })
    listen('well', ({ reason }) => void heard.push(reason))
    const [row] = await store('a')
    expect(await pump()).toMatchObject({ processed: 0, failed: 1 })
    expect(await rowOf(row)).toMatchObject({
      claim: null,
      attempts: 1,
      outcomes: {
        'listener:odd': { status: 'waiting', attempts: 1, error: line },
        'listener:well': { status: 'delivered', attempts: 1 },
      },
    })
    expect(heard).toEqual(['a'])
  })
})

describe('a claim', () => {
  it('of rows that are another one’s by now settles nothing: their outcome is the other’s', async () => {
    listen('once', ({ reason }) => void heard.push(reason))
    const [row] = await store('a')
    const { db, tables } = test.framework
    const room = { after: 0, integrations: 10, rows: 10, room: 10, rooms: {} }
    const { rows } = await claimEvents(db, tables, 'pump:gone:1:1', room, null)
    expect(await pump()).toMatchObject({ processed: 0, failed: 0 })
    // Another pump has set it apart.
    await setRow(row, { claim: null, lostWorkers: 1 })
    expect(await pump()).toMatchObject({ processed: 1 })
    const late = {
      id: row as number,
      attempts: rows[0]?.attempts ?? 0,
      claim: 'pump:gone:1:1',
      outcomes: {},
      dueAt: null,
    }
    expect(await settle(db, claimedEvents(tables), [{ ...late, logs: [] }])).toEqual(new Set())
    expect(heard).toEqual(['a'])
    expect(await rowOf(row)).toMatchObject({
      attempts: 2,
      lostWorkers: 0,
      outcomes: { 'listener:once': { status: 'delivered' } },
    })
    expect(test.lines.filter(({ fields }) => fields.event === 'event.worker_lost')).toMatchObject([
      { fields: { id: row, losses: 1 } },
    ])
  })

  it('takes rows that have lost more workers than one alone, after those that have lost one', async () => {
    let running = 0
    const beside: Record<string, number> = {}
    listen('counts', async ({ reason }) => {
      running += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
      beside[reason] = running
      heard.push(reason)
      running -= 1
    })
    const [one, another, twice, thrice] = await store('one', 'another', 'twice', 'thrice')
    for (const row of [one, another]) await setRow(row, { lostWorkers: 1 })
    await setRow(twice, { lostWorkers: 2 })
    await setRow(thrice, { lostWorkers: 3 })
    expect(await pump()).toMatchObject({ processed: 4 })
    expect(heard.slice(2)).toEqual(['twice', 'thrice'])
    expect(beside).toMatchObject({ twice: 1, thrice: 1 })
  })

  it('whose row has lost five workers gives up whoever would be told, without telling them', async () => {
    listen('killer', ({ reason }) => void heard.push(reason))
    const [row] = await store('a')
    await setRow(row, { lostWorkers: 5, attempts: 5 })
    await pump()
    expect(heard).toEqual([])
    expect(await rowOf(row)).toMatchObject({
      deliveredAt: expect.any(Date),
      outcomes: { 'listener:killer': { status: 'given_up', error: 'worker lost' } },
    })
  })

  it('never overflows the count of a row', async () => {
    listen('once', ({ reason }) => void heard.push(reason))
    const [row] = await store('a')
    await setRow(row, { attempts: 32_767 })
    expect(await pump()).toMatchObject({ processed: 1 })
    expect(heard).toEqual(['a'])
  })

  it('goes back, not counted, where the worker stops before anybody has answered', async () => {
    const started = occasion()
    let signal: AbortSignal | undefined
    listen('slow', (_, given) => {
      signal = given
      started.happen()
      return new Promise(() => {})
    })
    const [row] = await store('a')
    const grace = new AbortController()
    const running = pump({ signal: grace.signal })
    await started.happened
    grace.abort()
    expect(await running).toMatchObject({ end: 'stopped', processed: 0, failed: 0, handedBack: 1 })
    expect(signal?.aborted).toBe(true)
    expect(await rowOf(row)).toMatchObject({ claim: null, attempts: 0, outcomes: {}, deliveredAt: null })
    listen('slow', ({ reason }) => void heard.push(reason))
    await pump()
    expect(heard).toEqual(['a'])
  })
})

describe('the outbox as an operator sees it', () => {
  it('counts what waits and lists what was given up, newest first', async () => {
    listen('ill', ({ reason }) => {
      if (reason === 'good') return
      throw new Error(`no ${reason}`)
    })
    const [first, second, third] = await store('first', 'second', 'good')
    const { dueAt } = await rowOf(first)
    expect(await test.integrations.admin.notifications.status()).toEqual({
      waiting: 3,
      retrying: 0,
      oldestAt: expect.any(Date),
      givenUp: [],
    })
    await pump()
    expect(await test.integrations.admin.notifications.status()).toMatchObject({ waiting: 2, retrying: 2 })
    for (const row of [first, second]) await giveUp(row)
    const status = await test.integrations.admin.notifications.status()
    expect(status).toMatchObject({ waiting: 0, retrying: 0, oldestAt: null })
    expect(status.givenUp).toEqual([
      {
        eventId: second,
        name: 'ReauthRequired',
        integrationId: integration.id,
        listener: 'listener:ill',
        error: 'Error: no second',
        createdAt: expect.any(Date),
      },
      expect.objectContaining({ eventId: first }),
    ])
    expect((await test.integrations.admin.notifications.status({ limit: 1 })).givenUp).toHaveLength(1)
    expect(dueAt).toBeInstanceOf(Date)
    expect(await rowOf(third)).toMatchObject({ deliveredAt: expect.any(Date) })
  })

  it('gives what was given up ten more tries, all or one, and wakes the outbox; never what is held', async () => {
    listen('ill', () => {
      throw new Error('down')
    })
    const [one, two, held] = await store('one', 'two', 'held')
    for (const row of [one, two, held]) await giveUp(row)
    await setRow(held, { claim: 'pump:held:1:1', deliveredAt: null })
    const wakes = test.starts.outboxWakes.count
    const { notifications } = test.integrations.admin
    expect(await notifications.retry({ eventId: two as number })).toBe(1)
    expect(test.starts.outboxWakes.count).toBe(wakes + 1)
    expect(await rowOf(two)).toMatchObject({ deliveredAt: null, outcomes: {} })
    expect(await rowOf(one)).toMatchObject({ deliveredAt: expect.any(Date) })
    expect(await notifications.retry()).toBe(1)
    expect(await notifications.retry()).toBe(0)
    expect(await notifications.retry({ eventId: held as number })).toBe(0)
    await expect(notifications.retry({ eventId: 4_711_000 })).rejects.toMatchObject({ code: 'stored_event_not_found' })
    expect(test.starts.outboxWakes.count).toBe(wakes + 2)
    listen('ill', ({ reason }) => void heard.push(reason))
    await pump()
    expect(heard.sort()).toEqual(['one', 'two'])
  })

  it('gives nothing of an erased integration another try', async () => {
    listen('ill', ({ reason }) => {
      heard.push(reason)
      throw new Error('down')
    })
    const [erased] = await store('erased')
    await giveUp(erased)
    await test.integrations.admin.erase(integration.id)
    integration = await makeIntegration(test, 'acme')
    const [kept] = await store('kept')
    await giveUp(kept)
    const { notifications } = test.integrations.admin
    expect((await notifications.status()).givenUp).toMatchObject([{ eventId: kept }])
    expect(await notifications.retry({ eventId: erased as number })).toBe(0)
    expect(test.starts.outboxWakes.count).toBe(0)
    expect(await notifications.retry()).toBe(1)
    const tries = heard.length
    await pump()
    expect(heard.slice(tries)).toEqual(['kept'])
    expect(await rowOf(erased)).toMatchObject({ payload: {}, outcomes: {}, deliveredAt: expect.any(Date) })
  })

  it('refuses what is no limit and no id', async () => {
    const { notifications } = test.integrations.admin
    for (const limit of [-1, 1.5, 1_001, Number.NaN])
      await expect(notifications.status({ limit })).rejects.toThrow(/limit.*0 to 1000/)
    for (const eventId of [0, 1.5, Number.NaN])
      await expect(notifications.retry({ eventId })).rejects.toThrow(/eventId/)
  })

  it('is woken while a row is due, and not for one that waits for its time', async () => {
    const { notifications } = test.integrations.admin
    expect(await notifications.wakePending()).toBe(false)
    listen('any', () => {})
    const [row] = await store('a')
    expect(await notifications.wakePending()).toBe(true)
    await setRow(row, { dueAt: new Date(Date.now() + 60_000) })
    expect(await notifications.wakePending()).toBe(false)
    expect(test.starts.outboxWakes.count).toBe(1)
  })
})

/** Registers it once; what it does can be replaced. */
function listen(name: string, listener: (event: Reauth, signal?: AbortSignal) => unknown): void {
  const isKnown = name in listeners
  listeners[name] = listener
  if (isKnown) return
  test.integrations.on('ReauthRequired', (event, delivery) => listeners[name]?.(event, delivery?.signal), {
    queued: true,
    name,
  })
}

/** @returns the rows' ids */
async function store(...reasons: string[]): Promise<number[]> {
  const { db, tables } = test.framework
  // An event without anybody who is told of it leaves no row.
  if (!test.framework.listeners.isDurable('ReauthRequired')) listen('nobody in particular', () => {})
  await recordEvents(
    test.framework,
    db,
    integration.id,
    reasons.map((reason) => ({ name: 'ReauthRequired', payload: { reason } })),
  )
  const rows = await db.select({ id: tables.events.id }).from(tables.events).orderBy(tables.events.id)
  return rows.map(({ id }) => id).slice(-reasons.length)
}

interface Pumping {
  readonly by?: TestIntegrations
  readonly claim?: string
  /** Aborted when the worker's grace is over. */
  readonly signal?: AbortSignal
}

/** Until none is due. */
function pump({ by = test, claim, signal = new AbortController().signal }: Pumping = {}): Promise<Pumped> {
  pumps += 1
  const surroundings = { cancellationSignal: signal, info: { attempt: 1 } }
  return pumpUntilEmpty(by.framework, eventPumping(by.framework), surroundings, claim ?? pumpClaimOf('a-run', pumps))
}

async function rowOf(id: number | undefined): Promise<EventRow> {
  const { db, tables } = test.framework
  const [row] = await db
    .select()
    .from(tables.events)
    .where(eq(tables.events.id, id ?? 0))
  return row as EventRow
}

async function setRow(id: number | undefined, values: Partial<EventRow>): Promise<void> {
  const { db, tables } = test.framework
  await db
    .update(tables.events)
    .set(values)
    .where(eq(tables.events.id, id ?? 0))
}

/** As if the wait before the next try were over. */
async function makeDue(id: number | undefined): Promise<void> {
  const { outcomes } = await rowOf(id)
  const past = new Date(Date.now() - 1_000)
  const due = Object.entries(outcomes as Record<string, object>).map(([key, outcome]) => [
    key,
    'dueAt' in outcome ? { ...outcome, dueAt: past.toISOString() } : outcome,
  ])
  await setRow(id, { dueAt: past, outcomes: Object.fromEntries(due) })
}

/** Fails it until it is given up. */
async function giveUp(id: number | undefined): Promise<void> {
  for (let tries = 0; tries < 10; tries += 1) {
    await pump()
    await makeDue(id)
  }
  await pump()
}
