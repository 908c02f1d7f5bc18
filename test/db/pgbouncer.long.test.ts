/** Through PgBouncer in transaction mode. Rule: docs/behaviour/database.md, "Poolers". */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import type { Database } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import type { Pgbouncer } from '../support/pgbouncer.ts'
import { COMPLAINT, startPgbouncer } from '../support/pgbouncer.ts'
import { SOON } from '../support/soon.ts'
import { watchUncaught } from '../support/uncaught.ts'
import { scratchDatabase } from './scratch-database.ts'

/** Far fewer than the clients' connections, so that they change hands with each transaction. */
const SERVER_CONNECTIONS = 3
const STORM_MS = 60_000
const HUNG_MS = 30_000
/** A settlement that has failed is made again after 500 ms. */
const SETTLED_AGAIN_MS = 450

let direct: postgres.Sql
let pgbouncer: Pgbouncer

beforeEach(async () => {
  const database = await scratchDatabase()
  direct = postgres(database, { max: 1, onnotice: () => {} })
  pgbouncer = await startPgbouncer(database, SERVER_CONNECTIONS)
  return async () => {
    await pgbouncer.stop()
    await direct.end()
  }
})

const complaints = (): string[] => pgbouncer.lines.filter((line) => COMPLAINT.test(line))

/** Statements of all kinds; each answer must be its own. */
async function storm(databases: readonly Database[], ms: number): Promise<{ answers: number; wrong: string[] }> {
  const wrong: string[] = []
  let answers = 0
  const endsAt = Date.now() + ms
  const work = async (db: Database, worker: number): Promise<void> => {
    for (let n = 0; Date.now() < endsAt && wrong.length < 10; n += 1) {
      const own = worker * 1_000_000 + n
      const kinds: (() => Promise<unknown>)[] = [
        async () => (await db.execute(sql`select ${own}::int as own`))[0]?.own,
        async () => (await db.execute(sql.raw(`select ${own} as own`)))[0]?.own,
        () =>
          db.transaction(async (tx) => {
            await tx.execute(sql`insert into kept values (${own})`)
            const [row] = await tx.transaction((inner) => inner.execute(sql`select own from kept where own = ${own}`))
            return row?.own
          }),
        () => db.execute(sql`select ${own}::int / 0`).catch((error) => (error.code === '22012' ? own : error)),
      ]
      const kind = kinds[n % kinds.length] as () => Promise<unknown>
      const hung = sleep(HUNG_MS, 'hung', { ref: false })
      const answer = await Promise.race([kind().catch((error: unknown) => String(error)), hung])
      if (answer === own) answers += 1
      else wrong.push(`${own}: ${answer}`)
      if (answer === 'hung') return
    }
  }
  await Promise.all(databases.flatMap((db, pool) => Array.from({ length: 20 }, (_, n) => work(db, pool * 100 + n))))
  return { answers, wrong }
}

describe('statements through PgBouncer', () => {
  it('are cancelled in Postgres when they have no answer in time', async () => {
    await direct`create table kept (own int primary key)`
    const { db, close } = connect({ database: pgbouncer.url, pool: { max: 1, statementSeconds: 1 } })
    onTestFinished(close)
    await direct.begin(async (tx) => {
      await tx`lock table kept in exclusive mode`
      await expect(db.execute(sql`insert into kept values (${1}::int)`)).rejects.toMatchObject({
        code: 'STATEMENT_TIMEOUT',
      })
      const waiting = () => tx`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%into kept%'`
      await expect.poll(waiting, SOON).toHaveLength(0)
    })
    expect(await direct`select own from kept`).toEqual([])
    expect(complaints()).toEqual([])
  })

  it('get their own answers, all of them', async () => {
    await direct`create table kept (own int primary key)`
    const connections = [1, 2, 3].map(() => connect({ database: pgbouncer.url }))
    onTestFinished(async () => void (await Promise.all(connections.map(({ close }) => close()))))
    const { answers, wrong } = await storm(
      connections.map(({ db }) => db),
      STORM_MS,
    )
    expect(wrong).toEqual([])
    expect(complaints()).toEqual([])
    expect(answers).toBeGreaterThan(5_000)
    for (const { db } of connections) expect(await db.execute(sql`select name from pg_prepared_statements`)).toEqual([])
  })

  it('write dates as the driver reads them, whatever the default of the database', async () => {
    const [{ name }] = (await direct`select current_database() as name`) as unknown as [{ name: string }]
    await direct.unsafe(`alter database ${name} set datestyle = 'SQL, DMY'`)
    const strange = postgres(pgbouncer.url, { max: 1, fetch_types: false, prepare: false })
    const ours = connect({ database: pgbouncer.url })
    onTestFinished(async () => void (await Promise.all([strange.end(), ours.close()])))
    const date = sql`select '2031-02-03T04:05:06Z'::timestamptz::text as date`
    // By turns: each has its own style, also where they share a connection to the server.
    for (let turn = 0; turn < 5; turn += 1) {
      expect(await strange`select '2031-02-03T04:05:06Z'::timestamptz::text as date`).toMatchObject([
        { date: expect.stringMatching(/^03.02.2031/) },
      ])
      expect(await ours.db.execute(date)).toMatchObject([{ date: expect.stringMatching(/^2031-02-03/) }])
    }
    expect(complaints()).toEqual([])
  })

  it('migrate, ten processes at the same moment', async () => {
    const processes = Array.from({ length: 10 }, () => connect({ database: pgbouncer.url, pool: { max: 1 } }))
    const applied = await Promise.all(processes.map(({ sql }) => migrate({ sql, tablePrefix: 'integration' })))
    await Promise.all(processes.map(({ close }) => close()))
    const names = applied.flatMap((each) => each.applied)
    expect(names.length).toBeGreaterThan(10)
    expect(new Set(names).size).toBe(names.length)
    expect(complaints()).toEqual([])
  })
})

describe('outbound calls through PgBouncer', () => {
  it('each have their row, also when it is killed three times', async () => {
    const { sql: setUp, close } = connect({ database: pgbouncer.url, pool: { max: 1 } })
    await migrate({ sql: setUp, tablePrefix: 'integration' })
    await close()
    const uncaught = watchUncaught()
    const provider = await startProvider()
    const encryptionKeys = encryptionKey('k1')
    const processes = [1, 2].map(() => testIntegrations(pgbouncer.url, { encryptionKeys, providers: { plain: {} } }))
    onTestFinished(async () => void (await Promise.all(processes.map((each) => each.close()))))
    const [first] = processes as [TestIntegrations]
    const { id } = await first.integrations.create({ provider: 'plain', name: 'ours', credentials: {} })

    let isOver = false
    let made = 0
    let metByKills = 0
    const callers = processes.flatMap(({ integrations }) =>
      Array.from({ length: 20 }, async () => {
        const integration = await integrations.get(id)
        for (; !isOver; await sleep(5)) {
          const askedAt = performance.now()
          try {
            await integration.request('/arrivals', 'GET', () => fetch(provider.url))
            made += 1
            if (performance.now() - askedAt > SETTLED_AGAIN_MS) metByKills += 1
          } catch (error) {
            // Without an admission there is no call. What Postgres has answered is an error all the same.
            if (lostDatabase(error) === null) throw error
            metByKills += 1
          }
        }
      }),
    )
    for (let kill = 0; kill < 3; kill += 1) {
      await sleep(4_000)
      await pgbouncer.killAndRestart()
      const before = made
      await vi.waitUntil(() => made > before + 100, SOON)
    }
    await sleep(4_000)
    isOver = true
    await Promise.all(callers)
    expect(uncaught).toEqual([])
    // Else the rest says nothing. With units of a lease in hand no call needs an admission while PgBouncer is away.
    expect(metByKills).toBeGreaterThan(0)

    expect(made).toBe(provider.arrivals())
    const rows = async (): Promise<number> => {
      const [row] = await direct`select count(*)::int as n from integration_requests`
      return row?.n as number
    }
    await vi.waitFor(async () => expect(await rows()).toBeGreaterThanOrEqual(made), SOON)
    // The commit of a settlement whose answer was lost is made again: docs/behaviour/requests.md, "Settlement".
    expect(await rows()).toBeLessThanOrEqual(made + 3 * MOST_SETTLED_AT_ONCE)
    expect(complaints()).toEqual([])
  })
})

/** Two statements of two processes, each of 100 calls. */
const MOST_SETTLED_AT_ONCE = 400

async function startProvider(): Promise<{ url: string; arrivals(): number }> {
  let arrivals = 0
  const server = createServer((_, response) => {
    arrivals += 1
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, arrivals: () => arrivals }
}
