/** The pool under Drizzle: what postgres.js promises of statements and transactions holds over it, too. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection, ConnectOptions } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { SOON } from '../support/soon.ts'
import { scratchDatabase } from './scratch-database.ts'

let database: string
let direct: postgres.Sql

beforeAll(async () => {
  database = await scratchDatabase()
  direct = postgres(database, { max: 1, onnotice: () => {} })
  await direct`create table kept (part text primary key)`
})
beforeEach(() => direct`truncate kept`)
afterAll(() => direct?.end())

function open(pool: ConnectOptions['pool'] = {}): Connection {
  const connection = connect({ database: `${database}?application_name=pooled`, pool })
  onTestFinished(() => connection.close())
  return connection
}

const insert = (part: string) => sql`insert into kept values (${part})`
const kept = async (): Promise<string[]> =>
  (await direct<{ part: string }[]>`select part from kept order by part`).map(({ part }) => part)
const connections = async (): Promise<number> => {
  const [row] = await direct`select count(*)::int as n from pg_stat_activity where application_name = 'pooled'`
  return row?.n as number
}

describe('statements', () => {
  const ask = async (database: string | postgres.Sql, only: Pick<ConnectOptions, 'names'> = {}) => {
    const { db, close } = connect({ database, pool: { max: 1 }, ...only })
    onTestFinished(() => close())
    for (const n of [1, 2]) expect(await db.execute(sql`select ${n}::int as n`)).toEqual([{ n }])
    await db.transaction(async (tx) => {
      await tx.execute(sql`select ${3}::int as n`)
      await tx.execute(sql`select 1`)
    })
    const [row] = await db.execute<{ n: number; mode: string }>(
      sql`select count(*)::int as n, current_setting('plan_cache_mode') as mode from pg_prepared_statements`,
    )
    return row
  }

  it('with parameters have a name each on a connection to the server itself, and are planned each time', async () => {
    expect(await ask(database)).toEqual({ n: 1, mode: 'force_custom_plan' })
    expect(await ask(`${database}?prepare=true`)).toEqual({ n: 1, mode: 'force_custom_plan' })
  })

  it('have none where the URL or the client of the host says so', async () => {
    expect(await ask(`${database}?prepare=false`)).toEqual({ n: 0, mode: 'auto' })
    const host = postgres(database, { prepare: false })
    onTestFinished(() => host.end())
    expect(await ask(host)).toEqual({ n: 0, mode: 'auto' })
    expect(await ask(`${database}?prepare=true`, { names: false })).toEqual({ n: 0, mode: 'auto' })
  })

  it('have names on 300 texts of a connection at most', async () => {
    const { db } = open({ max: 1 })
    for (let n = 0; n < 320; n += 1) await db.execute(sql`select ${n}::int as ${sql.identifier(`n${n}`)}`)
    const [row] = await db.execute(sql`select count(*)::int as n from pg_prepared_statements`)
    expect(row?.n).toBe(300)
  })

  it('go on after a change of the table that they read', async () => {
    const { db } = open({ max: 1 })
    const read = () => db.execute(sql`select * from kept where part <> ${'-'}`)
    await db.execute(insert('a'))
    expect(await read()).toEqual([{ part: 'a' }])
    await direct`alter table kept add column more int`
    onTestFinished(() => direct`alter table kept drop column more`.then(() => {}))
    expect(await read()).toEqual([{ part: 'a', more: null }])
  })
})

describe('connections', () => {
  it('are as many as are needed, and max at most', async () => {
    const { db } = open({ max: 3 })
    await db.execute(sql`select 1`)
    await db.execute(sql`select 1`)
    expect(await connections()).toBe(1)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => db.execute(sql`select ${n}::int as n, pg_sleep(0.01)`)),
    )
    expect(answers.map(([row]) => row?.n)).toEqual(Array.from({ length: 20 }, (_, n) => n))
    expect(await connections()).toBe(3)
  })

  it('are closed when nobody has used them for a while', async () => {
    const { db } = open({ max: 3, idleSeconds: 0.1 })
    await Promise.all([db.execute(sql`select pg_sleep(0.05)`), db.execute(sql`select pg_sleep(0.05)`)])
    await vi.waitFor(async () => expect(await connections()).toBe(0), SOON)
    expect(await db.execute(sql`select 1 as n`)).toEqual([{ n: 1 }])
  })

  it('stay while a statement takes longer than that', async () => {
    const { db } = open({ max: 1, idleSeconds: 1 })
    const [before] = await db.execute(sql`select pg_backend_pid() as pid`)
    const [during] = await db.execute(sql`select pg_backend_pid() as pid, pg_sleep(1.5)`)
    expect(during?.pid).toBe(before?.pid)
  })

  it('that are refused fail only the statement that needed them', async () => {
    await direct`drop role if exists barred_pooled`
    await direct`create role barred_pooled login password 'x' connection limit 0`
    const refused = connect({
      database: Object.assign(new URL(database), { username: 'barred_pooled', password: 'x' }).href,
      pool: { max: 1 },
    })
    onTestFinished(() => refused.close())
    const ask = () => refused.db.execute(sql`select 1 as n`)
    const answers = await Promise.allSettled([ask(), ask(), ask()])
    expect(answers).toMatchObject(answers.map(() => ({ status: 'rejected', reason: { code: '53300' } })))
    await direct`alter role barred_pooled connection limit 5`
    expect(await ask()).toEqual([{ n: 1 }])
  })

  it('are closed by close(), after the statement under way, and nothing is sent any more', async () => {
    const { db, close } = connect({ database: `${database}?application_name=pooled`, pool: { max: 1 } })
    const under = db.transaction(async (tx) => {
      await tx.execute(insert('before'))
      await sleep(50)
      await tx.execute(insert('after'))
    })
    await vi.waitFor(async () => expect(await connections()).toBe(1), SOON)
    const waiting = db.execute(insert('waiting'))
    waiting.catch(() => {})
    await close()
    await under
    await expect(waiting).rejects.toMatchObject({ code: 'CONNECTION_ENDED' })
    await expect(db.execute(insert('late'))).rejects.toMatchObject({ code: 'CONNECTION_ENDED' })
    expect(await kept()).toEqual(['after', 'before'])
    await vi.waitFor(async () => expect(await connections()).toBe(0), SOON)
  })
})

describe('a transaction', () => {
  it('is undone by an error of its work', async () => {
    const { db } = open()
    const failing = db.transaction(async (tx) => {
      await tx.execute(insert('a'))
      throw new Error('wanted')
    })
    await expect(failing).rejects.toThrow('wanted')
    expect(await kept()).toEqual([])
  })

  it('is undone by a failed statement, even if the work goes on', async () => {
    const { db } = open()
    const failing = db.transaction(async (tx) => {
      await tx.execute(insert('a'))
      await tx.execute(insert('a')).catch(() => {})
    })
    await expect(failing).rejects.toMatchObject({ code: '23505' })
    const goingOn = db.transaction(async (tx) => {
      await tx.execute(insert('a'))
      await tx.execute(insert('a')).catch(() => {})
      await tx.execute(insert('b'))
    })
    // The first error, not that of the statement which the server refused because of it.
    await expect(goingOn).rejects.toMatchObject({ code: '23505' })
    expect(await kept()).toEqual([])
  })

  it('goes on after an inner one that has failed, without what that has written', async () => {
    const { db } = open()
    await db.transaction(async (tx) => {
      await tx.execute(insert('a'))
      const inner = tx.transaction(async (savepoint) => {
        await savepoint.execute(insert('b'))
        await savepoint.execute(insert('a'))
      })
      await expect(inner).rejects.toMatchObject({ code: '23505' })
      await tx.transaction((savepoint) => savepoint.execute(insert('c')))
    })
    expect(await kept()).toEqual(['a', 'c'])
  })

  it('refuses a statement that comes after its end', async () => {
    const { db } = open({ max: 1 })
    let late: () => Promise<unknown> = async () => {}
    await db.transaction(async (tx) => {
      late = async () => tx.execute(insert('late'))
    })
    await expect(late()).rejects.toThrow('This transaction is over')
    expect(await kept()).toEqual([])
  })

  it('may be given an isolation level', async () => {
    const { db } = open()
    const level = await db.transaction(
      async (tx) => (await tx.execute(sql`select current_setting('transaction_isolation') as level`))[0]?.level,
      { isolationLevel: 'serializable' },
    )
    expect(level).toBe('serializable')
  })
})
