/** The promise of a claim, for each table of ours: a row is settled once, and a worker whose claim was lost settles nothing. */
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ClaimedRows, Settlement } from '../../src/claims/claimed-rows.ts'
import { alreadySettled, handBack, heldBy, settle, settleAround, takeUp } from '../../src/claims/claimed-rows.ts'
import type { Transaction } from '../../src/db/client.ts'
import type { Tables } from '../../src/db/schema/tables.ts'
import { claimedEvents } from '../../src/events/queries.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { claimedItems } from '../../src/syncs/items/item-queries.ts'
import { claimedWebhooks } from '../../src/webhooks/queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { planModesAround } from '../support/plans.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'acme')
})

type Values = Readonly<Record<string, unknown>>
type Queue = (typeof QUEUES)[number]

const HELD = { attempts: 2, claim: 'run:1' } as const
const SETTLED = { status: 'processed', error: null, loggedError: null, result: null, durationMs: 1 }

/** Of each table: its description, a row that a claim holds, and settlements with their log rows. */
const QUEUES = [
  {
    name: 'webhooks',
    rowsOf: (tables: Tables): ClaimedRows => claimedWebhooks(tables),
    make: (values: Values) => makeWebhook(test, integration.id, { status: 'processing', ...HELD, ...values }),
    settlement: SETTLED,
    another: { ...SETTLED, status: 'failed', error: 'late', loggedError: 'late' },
    settledRow: { status: 'processed', attempts: 2, claim: null, lostWorkers: 0, processedAt: expect.any(Date) },
    waits: { status: 'pending', claim: null },
    ended: { status: 'processed', claim: null },
  },
  {
    name: 'sync items',
    rowsOf: (tables: Tables): ClaimedRows => claimedItems(tables),
    make: async (values: Values) =>
      makeItem(test, await makeRun(test, integration.id), { status: 'processing', ...HELD, ...values }),
    settlement: failedItem('bad'),
    another: failedItem('late'),
    settledRow: { status: 'failed', attempts: 2, claim: null, error: 'bad', completedAt: expect.any(Date) },
    waits: { status: 'pending', claim: null },
    ended: { status: 'success', claim: null },
  },
  {
    name: 'durable events',
    rowsOf: (tables: Tables): ClaimedRows => claimedEvents(tables),
    make: async (values: Values) => {
      const { db, tables } = test.framework
      const given = { integrationId: integration.id, name: 'IntegrationCreated', payload: {}, ...HELD, ...values }
      const [row] = await db.insert(tables.events).values(given).returning()
      return row as Tables['events']['$inferSelect']
    },
    settlement: toldEvent('a'),
    another: toldEvent('late'),
    settledRow: { attempts: 2, claim: null, lostWorkers: 0, deliveredAt: expect.any(Date) },
    waits: { claim: null },
    ended: { claim: null, deliveredAt: new Date() },
  },
] as const

function failedItem(error: string) {
  const failure = { message: error, maxAttempts: 3, durationMs: 1 }
  return { status: 'failed', waitsFor: null, uncounted: false, wait: null, error, failure }
}

function toldEvent(listener: string) {
  const log = { operation: 'event', status: 'success', summary: listener, error: null, durationMs: 1 }
  return { outcomes: { [listener]: { status: 'delivered', attempts: 1 } }, dueAt: null, logs: [log] }
}

describe.each(QUEUES)('a claim of $name', (queue) => {
  const { rowsOf, make, settlement, another } = queue
  const of = (row: { readonly id: number }, values: Values): Settlement => ({ id: row.id, ...HELD, ...values })
  const store = (...given: Settlement[]) => settle(test.framework.db, rows(), given)
  const rows = () => rowsOf(test.framework.tables)

  it('settles its row once, with one log row', async () => {
    const row = await make({})
    expect(await store(of(row, settlement))).toEqual(new Set([row.id]))
    expect(await store(of(row, settlement))).toEqual(new Set())
    expect(await rowOf(queue, row.id)).toMatchObject(queue.settledRow)
    expect(await logs()).toBe(1)
  })

  it.each<[string, (tx: Transaction, given: Settlement[]) => Promise<unknown>]>([
    ['alone', (tx, given) => settle(tx, rows(), given)],
    ['with calls around it', (tx, given) => settleAround(tx, rows(), given, { before: sql`1`, after: sql`0` })],
  ])('settled %s keeps the plans of the foreign key checks of its log row', async (_, settled) => {
    const row = await make({})
    const modes = await planModesAround(test.framework.db, (tx) => settled(tx, [of(row, settlement)]))
    expect(modes).toEqual(['force_custom_plan', 'auto'])
    expect(await rowOf(queue, row.id)).toMatchObject(queue.settledRow)
  })

  it('knows a settlement whose answer was lost, and no other one', async () => {
    const row = await make({})
    await store(of(row, settlement))
    const { db } = test.framework
    expect(await alreadySettled(db, rows(), [of(row, settlement)])).toEqual(new Set([row.id]))
    expect(await alreadySettled(db, rows(), [of(row, another)])).toEqual(new Set())
    expect(await alreadySettled(db, rows(), [])).toEqual(new Set())
  })

  it.each([
    ['its attempts moved on', () => ({ attempts: 3 })],
    ['another claim holds the row', () => ({ claim: 'run:2' })],
    ['the row waits', () => queue.waits],
    ['the row is settled', () => queue.ended],
  ])('settles, takes up and hands back nothing when %s', async (_, values) => {
    const row = await make(values())
    const { db } = test.framework
    const held = { ...row, ...HELD }
    expect(await store(of(row, another))).toEqual(new Set())
    expect(await alreadySettled(db, rows(), [of(row, another)])).toEqual(new Set())
    expect(await takeUp(db, rows(), held, { claim: 'run:1:1' })).toBeNull()
    expect(await handBack(db, rows(), [held])).toEqual(new Set())
    expect(await rowOf(queue, row.id)).toEqual(row)
    expect(await logs()).toBe(0)
  })

  it('is lost to the worker that takes the row up', async () => {
    const row = await make({})
    const { db } = test.framework
    expect(await heldBy(db, rows(), ['run:1', 'run:1:1'])).toEqual([row])
    const taken = await takeUp(db, rows(), row, { claim: 'run:1:1' })
    expect(taken).toMatchObject({ id: row.id, claim: 'run:1:1', attempts: 2 })
    expect(await takeUp(db, rows(), row, { claim: 'run:1:1' })).toBeNull()
    expect(await store(of(row, another))).toEqual(new Set())
    expect(await store({ ...of(row, settlement), claim: 'run:1:1' })).toEqual(new Set([row.id]))
    expect(await rowOf(queue, row.id)).toMatchObject(queue.settledRow)
    expect(await heldBy(db, rows(), ['run:1', 'run:1:1'])).toEqual([])
  })

  it('hands back what it holds, and the attempt does not count', async () => {
    const [row, taken] = [await make({}), await make({})]
    const { db } = test.framework
    await takeUp(db, rows(), taken, { claim: 'run:1:1' })
    expect(await handBack(db, rows(), [row, taken])).toEqual(new Set([row.id]))
    expect(await rowOf(queue, row.id)).toMatchObject({ ...queue.waits, attempts: 1 })
    expect(await rowOf(queue, taken.id)).toMatchObject({ claim: 'run:1:1', attempts: 2 })
    expect(await handBack(db, rows(), [])).toEqual(new Set())
  })
})

async function rowOf({ rowsOf }: Queue, id: number): Promise<unknown> {
  const { table } = rowsOf(test.framework.tables) as ClaimedRows<Tables['webhooks']>
  const [row] = await test.framework.db.select().from(table).where(eq(table.id, id))
  return row
}

/** Log rows beside those of runs. */
async function logs(): Promise<number> {
  const rows = await test.sql`select 1 from integration_logs where operation <> 'sync'`
  return rows.length
}
