/** What an operator's statements cost however many events are done with. */
import type { SQL } from 'drizzle-orm'
import { inArray, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { recordEvents } from '../../src/events/durable-events.ts'
import { forgetting, givenUpDeliveries, outboxCounts } from '../../src/events/outbox.ts'
import type { EventRow } from '../../src/events/queries.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { deliverDueEvents } from '../../src/testing/jobs-in-process.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const AT = '2026-03-01T00:00:00.000Z'
const DELIVERED = { status: 'delivered', attempts: 1, at: AT }
const GIVEN_UP = { status: 'given_up', attempts: 10, error: 'down', at: AT }
const HOUR_MS = 3_600_000

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let clock: ManualClock | undefined
/** What the one listener does, by the test at hand. */
let listener: (reason: string) => unknown

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(() => open())

async function open(): Promise<() => Promise<void>> {
  listener = () => {}
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() }, ...(clock && { clock }) })
  await test.framework.db.execute(sql`truncate ${test.framework.tables.events}`)
  test.integrations.on('ReauthRequired', ({ reason }) => listener(reason), { queued: true, name: 'crm' })
  integration = await makeIntegration(test, 'acme')
  return () => test.close()
}

describe('among many events that are done with', () => {
  it('what waits is counted and what was given up is found by an index', async () => {
    const { db, tables } = test.framework
    await db.execute(sql`
      insert into ${tables.events} (integration_id, name, payload, outcomes, delivered_at)
      select ${integration.id}, 'ReauthRequired', '{"reason": "old"}', ${{ 'listener:crm': DELIVERED }}::jsonb, now()
      from generate_series(1, 20000)`)
    const [kept] = await store('given up', 'waits')
    await setRows([kept as number], { deliveredAt: new Date(), outcomes: { 'listener:crm': GIVEN_UP } })
    await db.execute(sql`analyze ${tables.events}`)
    const counting = await planOf(outboxCounts(tables))
    expect(counting).not.toContain('Seq Scan on integration_events')
    expect(counting).toMatch(/_events_due_idx.*_events_claim_idx/s)
    for (const statement of [givenUpDeliveries(tables, 20), forgetting(tables, { eventId: null, nowMs: null })]) {
      const plan = await planOf(statement)
      expect(plan).not.toContain('Seq Scan on integration_events')
      expect(plan).toContain('_events_given_up_idx')
    }
    expect(await test.integrations.admin.notifications.status()).toMatchObject({
      waiting: 1,
      givenUp: [{ eventId: kept, listener: 'listener:crm' }],
    })
  })

  it('those that are held count with those that wait', async () => {
    const held = await store('a', 'b', 'c')
    await setRows(held, { claim: 'pump:held:1:1' })
    const [oldest] = await store('fresh')
    const createdAt = new Date(Date.now() - HOUR_MS)
    await setRows([oldest as number], { createdAt })
    expect(await test.integrations.admin.notifications.status()).toMatchObject({ waiting: 4, oldestAt: createdAt })
  })
})

describe('a retry where a clock stands in for the database’s', () => {
  beforeAll(() => {
    clock = new ManualClock(new Date('2020-01-01T00:00:00.000Z'))
  })
  afterAll(() => {
    clock = undefined
  })

  it('is due by that clock', async () => {
    const [row] = await store('given up')
    const outcomes = { 'listener:other': DELIVERED, 'listener:crm': GIVEN_UP }
    await setRows([row as number], { deliveredAt: new Date(), outcomes })
    expect(await test.integrations.admin.notifications.retry()).toBe(1)
    const heard: string[] = []
    listener = (reason) => heard.push(reason)
    expect(await deliverDueEvents(test.framework)).toMatchObject({ processed: 1 })
    expect(heard).toEqual(['given up'])
  })
})

describe('a retry', () => {
  it('is told to whom was given up and to who came since, and not again to who has had it', async () => {
    const heard: string[] = []
    for (const name of ['had', 'newcomer'])
      test.integrations.on('ReauthRequired', () => void heard.push(name), { queued: true, name })
    listener = () => heard.push('crm')
    const [row] = await store('a')
    await setRows([row as number], {
      deliveredAt: new Date(),
      outcomes: { 'listener:had': DELIVERED, 'listener:crm': GIVEN_UP },
    })
    expect(await test.integrations.admin.notifications.retry()).toBe(1)
    await deliverDueEvents(test.framework)
    expect(heard.sort()).toEqual(['crm', 'newcomer'])
  })
})

/** @returns the rows' ids */
async function store(...reasons: string[]): Promise<number[]> {
  const { db, tables } = test.framework
  await recordEvents(
    test.framework,
    db,
    integration.id,
    reasons.map((reason) => ({ name: 'ReauthRequired', payload: { reason } })),
  )
  const rows = await db.select({ id: tables.events.id }).from(tables.events).orderBy(tables.events.id)
  return rows.map(({ id }) => id).slice(-reasons.length)
}

async function setRows(ids: readonly number[], values: Partial<EventRow>): Promise<void> {
  const { db, tables } = test.framework
  await db
    .update(tables.events)
    .set(values)
    .where(inArray(tables.events.id, [...ids]))
}

async function planOf(statement: SQL): Promise<string> {
  const plan = await test.framework.db.execute<{ 'QUERY PLAN': string }>(sql`explain ${statement}`)
  return plan.map((row) => row['QUERY PLAN']).join('\n')
}
