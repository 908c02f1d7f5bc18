/** The claim machine, with a queue of its own: what a fourth queue would have to say is {@link choreQueue}. */
import { sql } from 'drizzle-orm'
import { bigint, integer, pgTable, text } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ClaimedRows } from '../../src/claims/claimed-rows.ts'
import type { LossRule, PumpedQueue } from '../../src/claims/claimed-work.ts'
import { PumpedWork } from '../../src/claims/claimed-work.ts'
import { setApart } from '../../src/claims/lease-queries.ts'
import { Pump } from '../../src/claims/pump.ts'
import type { Connection, Database } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'

const chores = pgTable('integration_chores', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  integrationId: bigint('integration_id', { mode: 'number' }).notNull(),
  attempts: integer('attempts').notNull().default(0),
  lostWorkers: integer('lost_workers').notNull().default(0),
  claim: text('claim'),
  result: text('result'),
})
type Chore = typeof chores.$inferSelect

interface Done {
  readonly row: Chore
  readonly settlement: { id: number; attempts: number; claim: string; result: string }
}

const CLAIMED: ClaimedRows<typeof chores> = {
  table: chores,
  isHeld: sql`r.result is null`,
  released: sql`claim = null`,
  settling: {
    fields: sql`result text`,
    writes: sql`result = s.result, claim = null`,
    returns: sql`s.result`,
    logs: sql`insert into integration_chore_logs select id, result from settled`,
    isStored: sql`r.result = s.result and r.attempts = s.attempts and r.claim is null`,
  },
}

/** @param work what is done with a chore. Null: it could not be begun */
function choreQueue(db: Database, work: (row: Chore) => Promise<string | null>) {
  const done = (row: Chore, result: string): Done => {
    const { id, attempts, claim } = row
    return { row, settlement: { id, attempts, claim: claim ?? '', result } }
  }
  const queue: PumpedQueue<Chore, Done, string> = {
    rows: CLAIMED,
    named: { event: 'chore', field: 'chore', row: 'chore' },
    contexts: { refresh: async () => {}, read: async () => 'context' },
    startWindowMs: 30_000,
    providerOf: () => 'acme',
    async claimNext(claim, { rows }) {
      const next = sql`(select id from ${chores} where claim is null and result is null
        order by id limit ${rows} for update skip locked)`
      const set = { claim, attempts: sql`${chores.attempts} + 1` }
      const taken = await db.update(chores).set(set).where(sql`${chores.id} in ${next}`).returning()
      return { rows: taken, versions: new Map(), walked: 0, upto: 0 }
    },
    place: ({ integrationId }) => ({ queue: integrationId, bytes: 10, guarded: null }),
    async run(row) {
      const result = await work(row)
      return result === null ? null : done(row, result)
    },
    failed: done,
    report: ({ row, settlement }) => {
      reported.push([row.id, settlement.result])
      return 'processed'
    },
  }
  const losses: LossRule<Chore, Done> = {
    count: ({ lostWorkers }) => lostWorkers,
    oneMore: () => ({ lostWorkers: sql`r.lost_workers + 1` }),
    note: async () => {},
    givenUp: done,
  }
  return { queue, losses }
}

let database: TestDatabase
let test: TestIntegrations
let connections: [Connection, Connection]
let reported: [number, string][] = []

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  connections = [connect({ database: database.url }), connect({ database: database.url })]
  await test.sql`create table integration_chores (
    id bigint primary key generated always as identity, integration_id bigint not null, attempts int not null default 0,
    lost_workers int not null default 0, claim text, result text, updated_at timestamptz)`
  await test.sql`create table integration_chore_logs (chore_id bigint, result text)`
})
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close()))
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  await test.sql`truncate integration_chores, integration_chore_logs`
  reported = []
  test.lines.length = 0
})

describe('a queue of its own', () => {
  it('is worked off by two pumps at once: each row runs once, is settled once and is told once', async () => {
    const ids = await store(60)
    const ran: number[] = []
    const tallies = await Promise.all(
      connections.map(async ({ db }, n) => {
        const work = workOf(db, `pump:a:${n}`, async ({ id }) => {
          ran.push(id)
          return `by ${n}`
        })
        expect(await pumpOf(work).run()).toBe('empty')
        return work.tally
      }),
    )
    expect(ran.sort((a, b) => a - b)).toEqual(ids)
    expect(reported.map(([id]) => id).sort((a, b) => a - b)).toEqual(ids)
    expect(tallies.map(({ processed }) => processed).reduce((a, b) => a + b)).toBe(60)
    expect(await logs()).toHaveLength(60)
    expect(await logs()).toEqual((await all()).map(({ id, result }) => ({ id, result })))
  })

  it('gives a row back that could not be begun, and its attempt does not count', async () => {
    await store(1)
    let tries = 0
    const work = workOf(test.framework.db, 'pump:a:1', async () => {
      tries += 1
      return null
    })
    const [row] = await claimed(work)
    expect(await work.run(row, new AbortController().signal)).toBeNull()
    expect(await work.handBack([row])).toEqual(new Set([row.id]))
    expect(tries).toBe(1)
    expect(work.tally).toEqual({ processed: 0, failed: 0, handedBack: 1 })
    expect(await all()).toMatchObject([{ attempts: 0, claim: null, result: null }])
  })
})

describe('a row whose run throws, which it never should', () => {
  it('is settled as failed, and ends neither the pump nor another row', async () => {
    const [broken = 0, ...others] = await store(6)
    const work = workOf(test.framework.db, 'pump:a:1', async ({ id }) => {
      if (id === broken) throw new RangeError('with a secret in it')
      return 'done'
    })
    expect(await pumpOf(work).run()).toBe('empty')
    expect((await all()).map(({ id, result }) => [id, result])).toEqual([
      [broken, 'RangeError'],
      ...others.map((id) => [id, 'done']),
    ])
    expect(test.lines.map(({ fields }) => fields)).toEqual([
      { event: 'inbox.row_broke', integration: 1, provider: 'acme', row: 'chore', id: broken, error: 'RangeError' },
    ])
  })
})

describe('a worker whose claim was lost', () => {
  it('settles nothing: the later attempt’s outcome counts, and the refusal is a warning', async () => {
    await store(1)
    const { db, tables } = test.framework
    const [first, second] = [workOf(db, 'pump:a:1', async () => 'late'), workOf(db, 'pump:b:1', async () => 'in time')]
    const [lost] = await claimed(first)
    await setApart(db, tables, CLAIMED, { prefix: 'p', claim: 'pump:a:1' })
    const [row] = await claimed(second)
    expect(row).toMatchObject({ id: lost.id, attempts: 2, lostWorkers: 1 })
    await first.settle([await ended(first, lost)])
    expect(first.tally.processed).toBe(0)
    expect(reported).toEqual([])
    expect(test.lines.map(({ fields }) => fields)).toEqual([
      { event: 'chore.superseded', integration: 1, provider: 'acme', chore: lost.id, attempt: 1 },
    ])
    await second.settle([await ended(second, row)])
    await first.settle([await ended(first, lost)])
    expect(reported).toEqual([[row.id, 'in time']])
    expect(await logs()).toEqual([{ id: row.id, result: 'in time' }])
    // Nor does it hand the row back.
    expect(await first.handBack([lost])).toEqual(new Set())
  })

  it('and one whose answer was lost are told apart: the second’s outcome counts', async () => {
    await store(1)
    const work = workOf(test.framework.db, 'pump:a:1', async () => 'done')
    const [row] = await claimed(work)
    const outcome = await ended(work, row)
    await work.settle([outcome])
    await work.settle([outcome])
    expect(test.lines).toEqual([])
    expect(await logs()).toEqual([{ id: row.id, result: 'done' }])
  })
})

describe('a row of a dead worker', () => {
  it('is taken up by one, with a loss more; the fifth loss gives it up', async () => {
    await store(1)
    const { db } = test.framework
    const work = workOf(db, 'run:1', async () => 'done')
    const { losses } = choreQueue(db, async () => null)
    let [held] = await claimed(work)
    for (const lostWorkers of [1, 2, 3, 4]) {
      const taken = await work.takeUp(held, losses)
      expect(taken).toMatchObject({ id: held.id, lostWorkers })
      held = taken as Chore
    }
    expect(await work.takeUp(held, losses)).toBeNull()
    expect(reported).toEqual([[held.id, 'worker lost']])
    expect(test.lines.map(({ fields }) => fields.losses)).toEqual([1, 2, 3, 4, 5])
    // It is settled: nothing takes it up once more.
    expect(await work.takeUp(held, losses)).toBeNull()
    expect(await logs()).toHaveLength(1)
  })
})

function workOf(db: Database, claim: string, work: (row: Chore) => Promise<string | null>) {
  const worker = { db, logger: test.framework.logger, signal: new AbortController().signal }
  return new PumpedWork(worker, choreQueue(db, work).queue, claim)
}

type Work = ReturnType<typeof workOf>

function pumpOf(source: Work): Pump<Chore, Done> {
  const { signal } = new AbortController()
  return new Pump({ source, concurrency: 5, begun: signal, enough: signal, logger: test.framework.logger })
}

async function claimed(work: Work): Promise<[Chore]> {
  const { rows } = await work.claim({ after: 0, integrations: 10, rows: 10, room: 10, rooms: {} })
  return rows.map(({ row }) => row) as [Chore]
}

async function ended(work: Work, row: Chore): Promise<Done> {
  return (await work.run(row, new AbortController().signal)) as Done
}

async function store(count: number): Promise<number[]> {
  const given = Array.from({ length: count }, (_, n) => ({ integrationId: 1 + (n % 3) }))
  const rows = await test.framework.db.insert(chores).values(given).returning()
  return rows.map(({ id }) => id)
}

const all = () => test.framework.db.select().from(chores).orderBy(chores.id)

async function logs(): Promise<{ id: number; result: string }[]> {
  const rows = await test.sql<{ chore_id: string; result: string }[]>`
    select * from integration_chore_logs order by chore_id`
  return rows.map(({ chore_id, result }) => ({ id: Number(chore_id), result }))
}
