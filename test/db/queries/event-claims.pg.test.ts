/** Claims of durable events: which rows they take, of which queues, and whether something waits. */
import { inArray } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ClaimRoom } from '../../../src/claims/claimed-rows.ts'
import { handBackUnknown, idsHeldBy } from '../../../src/claims/claimed-rows.ts'
import { keepClaim, setApart } from '../../../src/claims/lease-queries.ts'
import type { Connection } from '../../../src/db/client.ts'
import { connect } from '../../../src/db/client.ts'
import { recordEvents } from '../../../src/events/durable-events.ts'
import type { EventRow } from '../../../src/events/queries.ts'
import { claimEvents, claimedEvents, hasDueEvents, nextEventDueInMs } from '../../../src/events/queries.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration } from '../../support/rows.ts'

const TOLD = { outcomes: { 'listener:other': { status: 'delivered', attempts: 1, at: '2026-03-01T00:00:00.000Z' } } }
const HOUR_MS = 3_600_000

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let apart: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  test.integrations.on('ReauthRequired', () => {}, { queued: true, name: 'crm' })
  apart = connect({ database: database.url })
})
afterAll(async () => {
  await apart.close()
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  integration = await makeIntegration(test, 'acme')
})

const ago = (ms: number) => new Date(Date.now() - ms)
const ahead = (ms: number) => new Date(Date.now() + ms)
const other = () => makeIntegration(test, 'acme')

/** @returns the rows' ids */
async function store(count = 1, { id }: { readonly id: number } = integration): Promise<number[]> {
  const events = Array.from({ length: count }, () => ({
    name: 'ReauthRequired' as const,
    payload: { reason: 'revoked' },
  }))
  await recordEvents(test.framework, test.framework.db, id, events)
  const rows = await test.sql<{ id: string }[]>`select id from integration_events order by id`
  return rows.map((row) => Number(row.id)).slice(-count)
}

async function setRows(ids: readonly (number | undefined)[], values: Partial<EventRow>): Promise<void> {
  const { db, tables } = test.framework
  await db
    .update(tables.events)
    .set(values)
    .where(inArray(tables.events.id, ids as number[]))
}

function next(
  room: Partial<ClaimRoom> = {},
  claim = 'pump:a:1:1',
  db = test.framework.db,
  nowMs: number | null = null,
) {
  const limits = { after: 0, integrations: 300, rows: 400, room: 100, rooms: {}, ...room }
  return claimEvents(db, test.framework.tables, claim, limits, nowMs)
}

const idsOf = ({ rows }: { readonly rows: readonly { readonly id: number }[] }) => rows.map(({ id }) => id)
const queueOf = ({ id }: { readonly id: number }) => id * 2

describe('a claim of events', () => {
  it('takes what is due, what is due longest first, and counts the attempt', async () => {
    const rows = await store(4)
    await setRows([rows[1]], { dueAt: ahead(HOUR_MS) })
    await setRows([rows[3]], { dueAt: ago(HOUR_MS) })
    const taken = await next({ room: 2 })
    expect(idsOf(taken)).toEqual([rows[3], rows[0]])
    expect(taken.rows[0]).toMatchObject({ claim: 'pump:a:1:1', attempts: 1, queue: queueOf(integration) })
    for (const { judgedAtMs } of taken.rows) expect(Math.abs(judgedAtMs - Date.now())).toBeLessThan(60_000)
    expect(taken.versions.get(integration.id)).toMatch(/^\d+$/)
    expect(idsOf(await next())).toEqual([rows[2]])
    expect(await next()).toMatchObject({ rows: [], walked: 0 })
  })

  it('has two queues for an integration: what somebody has been told of takes no room of what is new', async () => {
    const again = await store(5)
    await setRows(again, { ...TOLD, dueAt: ago(HOUR_MS) })
    const fresh = await store(3)
    const taken = await next({ room: 2 })
    expect(idsOf(taken)).toEqual([...again.slice(0, 2), ...fresh.slice(0, 2)])
    expect([...new Set(taken.rows.map(({ queue }) => queue))]).toEqual([queueOf(integration) + 1, queueOf(integration)])
    expect(idsOf(await next({ rooms: { [queueOf(integration) + 1]: 0 } }))).toEqual(fresh.slice(2))
  })

  it('lets an integration with many rows hold up none with one', async () => {
    await store(100)
    const quiet = [await other(), await other()]
    const ones = [...(await store(1, quiet[0])), ...(await store(1, quiet[1]))]
    const taken = idsOf(await next({ rows: 12, room: 10 }))
    expect(taken).toHaveLength(12)
    expect(taken).toEqual(expect.arrayContaining(ones))
  })

  it('walks on from where the last one ended; a queue of which nothing is due does not count', async () => {
    const [first, waits, third, fourth] = [integration, await other(), await other(), await other()]
    for (const to of [first, third, fourth]) await store(1, to)
    await setRows(await store(1, waits), { ...TOLD, dueAt: ahead(HOUR_MS) })
    const one = await next({ integrations: 2 })
    expect([one.walked, one.upto, one.rows.map(({ integrationId }) => integrationId)]).toEqual([
      2,
      queueOf(third),
      [first.id, third.id],
    ])
    const two = await next({ integrations: 2, after: one.upto })
    expect([two.walked, two.rows.map(({ integrationId }) => integrationId)]).toEqual([1, [fourth.id]])
  })

  it('takes no more rows than its limit, whatever plan Postgres chooses', async () => {
    const rows = await store(5)
    const taken = await apart.db.transaction(async (tx) => {
      for (const plan of ['hashjoin', 'mergejoin', 'hashagg', 'material', 'sort', 'indexscan'])
        await tx.execute(`set local enable_${plan} = off`)
      return next({ rows: 3 }, 'pump:plan:1:1', tx as never)
    })
    expect(idsOf(taken)).toEqual(rows.slice(0, 3))
  })

  it('and another one at the same moment share no row, and neither waits for the other', async () => {
    await store(40)
    const taken = await apart.db.transaction(async (tx) => [
      await next({ room: 15 }, 'pump:a:1:1', tx as never),
      await next({ room: 100 }, 'pump:b:1:1'),
    ])
    expect(taken.map(({ rows }) => rows.length)).toEqual([15, 25])
    expect(new Set(taken.flatMap(idsOf)).size).toBe(40)
  })

  it('goes by a clock that stands in for the database’s, but for the first moment of a row', async () => {
    const [fresh, again] = await store(2)
    await setRows([again], { ...TOLD, dueAt: new Date('2020-01-01T00:00:10.000Z') })
    const at = (moment: string) => next({}, 'pump:a:1:1', test.framework.db, Date.parse(moment))
    const first = await at('2020-01-01T00:00:09.000Z')
    expect(first.rows).toMatchObject([{ id: fresh, judgedAtMs: Date.parse('2020-01-01T00:00:09.000Z') }])
    expect(idsOf(await at('2020-01-01T00:00:10.000Z'))).toEqual([again])
  })

  it('never overflows the count of a row', async () => {
    const rows = await store()
    await setRows(rows, { attempts: 32_767 })
    expect((await next()).rows).toMatchObject([{ attempts: 32_767 }])
  })
})

describe('rows that have lost a worker', () => {
  it('are taken a few at a time that have lost one, else a single one, and none while the claim holds one', async () => {
    const rows = await store(6)
    await setRows(rows.slice(0, 2), { lostWorkers: 2 })
    await setRows(rows.slice(2, 5), { lostWorkers: 1 })
    expect(idsOf(await next({ room: 2 }))).toEqual([...rows.slice(2, 4), rows[5]])
    expect(idsOf(await next())).toEqual([])
    expect(idsOf(await next({}, 'pump:b:1:1'))).toEqual([rows[4]])
    expect(idsOf(await next({}, 'pump:c:1:1'))).toEqual([rows[0]])
    expect(idsOf(await next({}, 'pump:c:1:1'))).toEqual([])
  })

  it('of a dead pump wait again with a loss more; those of a living one are left alone', async () => {
    const { db, tables } = test.framework
    const rows = await store(2)
    await next({}, 'pump:dead:1:1')
    const living = await store()
    await next({}, 'pump:alive:1:1')
    await keepClaim(db, tables, { prefix: 'p', claim: 'pump:alive:1:1' }, 600)
    const taken = (claim: string) => setApart(db, tables, claimedEvents(tables), { prefix: 'p', claim })
    expect((await taken('pump:dead:1:1')).sort((a, b) => a - b)).toEqual(rows)
    expect(await taken('pump:alive:1:1')).toEqual([])
    expect(await idsHeldBy(db, claimedEvents(tables), 'pump:alive:1:1')).toEqual(new Set(living))
    expect((await next({}, 'pump:b:1:1')).rows).toMatchObject(rows.map((id) => ({ id, lostWorkers: 1, attempts: 2 })))
  })

  it('go back that their holder does not know of, the attempt not counted', async () => {
    const { db, tables } = test.framework
    const [known, unknown] = await store(2)
    await next({}, 'pump:a:1:1')
    await handBackUnknown(db, claimedEvents(tables), 'pump:a:1:1', new Set([known as number]))
    expect((await next({}, 'pump:b:1:1')).rows).toMatchObject([{ id: unknown, attempts: 1, lostWorkers: 0 }])
  })
})

describe('whether something waits', () => {
  const waits = () => hasDueEvents(test.framework.db, test.framework.tables, { prefix: 'p', nowMs: null })

  it('is so while a row is due, or is held by a pump that has died', async () => {
    const { db, tables } = test.framework
    expect(await waits()).toBe(false)
    const rows = await store()
    expect(await waits()).toBe(true)
    await setRows(rows, { dueAt: ahead(HOUR_MS) })
    expect(await waits()).toBe(false)
    expect(await nextEventDueInMs(db, tables, null)).toBeGreaterThan(HOUR_MS / 2)
    await setRows(rows, { dueAt: ago(HOUR_MS) })
    expect(await nextEventDueInMs(db, tables, null)).toBe(0)
    await keepClaim(db, tables, { prefix: 'p', claim: 'pump:a:1:1' }, 600)
    await next({}, 'pump:a:1:1')
    expect(await waits()).toBe(false)
    expect(await nextEventDueInMs(db, tables, null)).toBeNull()
    await test.sql`update integration_cache set expires_at = clock_timestamp()`
    expect(await waits()).toBe(true)
  })
})
