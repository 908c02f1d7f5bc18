/** Links between us and Postgres are cut. Rule: docs/behaviour/database.md, "Lost connections". */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { checkConnection, connect } from '../../src/db/client.ts'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { CuttingProxy } from '../support/cutting-proxy.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { occasion } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'
import { watchUncaught } from '../support/uncaught.ts'
import { scratchDatabase } from './scratch-database.ts'

const CUTS = 200
const WORKERS = 16
/** Far longer than a statement takes, and shorter than the limit of one. */
const HUNG_MS = 20_000

let database: string
let direct: postgres.Sql

beforeAll(async () => {
  database = await scratchDatabase()
  direct = postgres(database, { max: 1, onnotice: () => {} })
  await direct`create table kept (worker int, n int, part text)`
})
afterAll(() => direct?.end())

async function through(
  pool: { max?: number; statementSeconds?: number } = {},
): Promise<{ proxy: CuttingProxy; connection: Connection }> {
  const proxy = await startCuttingProxy(database)
  const connection = connect({ database: proxy.url, pool })
  onTestFinished(async () => {
    await connection.close()
    await proxy.close()
  })
  return { proxy, connection }
}

async function inTime<T>(what: string, work: Promise<T>): Promise<T> {
  const hung = sleep(HUNG_MS, undefined, { ref: false }).then(() => {
    throw new Error(`hung: ${what}`)
  })
  return Promise.race([work, hung])
}

describe('a connection that can not be opened', () => {
  it('since a proxy accepts and closes it fails its statement, and is not tried without a pause', async () => {
    let connections = 0
    const server = createServer((socket) => {
      connections += 1
      socket.end()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const connection = connect({ database: `postgres://u:p@127.0.0.1:${port}/db`, pool: { max: 2 } })
    onTestFinished(() => connection.close())
    for (let tries = 1; tries <= 5; tries += 1) {
      const failed = await inTime(
        'a closed connection',
        connection.db.execute(sql`select 1`).catch((error) => error),
      )
      expect(lostDatabase(failed)).toBe('CONNECTION_CLOSED')
    }
    await expect(checkConnection(connection)).rejects.toThrow(/before the server had answered/)
    expect(connections).toBeLessThanOrEqual(8)
  })

  it.each(['', '?sslmode=require'])(
    'since the system refuses it at once fails its statement, and ends no process: %j',
    async (query) => {
      const uncaught = watchUncaught()
      // The broadcast address: no TCP connection leads there.
      const connection = connect({ database: `postgres://u:p@255.255.255.255:5432/db${query}`, pool: { max: 1 } })
      onTestFinished(() => connection.close())
      for (let tries = 1; tries <= 2; tries += 1) {
        const failed = await connection.db.execute(sql`select 1`).catch((error) => error)
        expect(failed).toMatchObject({ syscall: 'connect' })
        expect(lostDatabase(failed)).not.toBeNull()
      }
      await expect(checkConnection(connection)).rejects.toMatchObject({ code: 'backend_unreachable' })
      expect(uncaught).toEqual([])
    },
  )

  it('since its password is not to be had fails its statement with the reason, and ends no process', async () => {
    const uncaught = watchUncaught()
    let asked = 0
    const { username, password, hostname, port, pathname } = new URL(database)
    const host = postgres({
      host: hostname,
      port: Number(port),
      user: username,
      database: pathname.slice(1),
      max: 1,
      password: async () => {
        asked += 1
        if (asked <= 2) throw new Error('the token service is away')
        return password
      },
    })
    onTestFinished(() => host.end())
    const connection = connect({ database: host })
    onTestFinished(() => connection.close())
    await expect(connection.db.execute(sql`select 1`)).rejects.toThrow('the token service is away')
    await expect(checkConnection(connection)).rejects.toThrow('the token service is away')
    expect(await connection.db.execute(sql`select 1 as one`)).toMatchObject([{ one: 1 }])
    await checkConnection(connection)
    expect(uncaught).toEqual([])
  })

  it.each(['comes', 'fails'])('before its password %s ends no process', async (way) => {
    const uncaught = watchUncaught()
    const server = createServer((socket) => {
      socket.on('error', () => {})
      // AuthenticationCleartextPassword: https://www.postgresql.org/docs/current/protocol-message-formats.html
      socket.once('data', () => socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])))
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const answers: (() => void)[] = []
    const host = postgres({
      host: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
      user: 'u',
      database: 'd',
      max: 1,
      connect_timeout: 1,
      password: () =>
        new Promise<string>((resolve, reject) => {
          answers.push(() => (way === 'comes' ? resolve('late') : reject(new Error('the token service is away'))))
        }),
    })
    onTestFinished(() => host.end())
    const connection = connect({ database: host, pool: { max: 1, statementSeconds: 1 } })
    onTestFinished(() => connection.close())
    expect(lostDatabase(await connection.db.execute(sql`select 1`).catch((error) => error))).not.toBeNull()
    await expect(checkConnection(connection, { timeoutSeconds: 1 })).rejects.toThrow()
    // The connections are closed in the meantime.
    await sleep(200)
    expect(answers).toHaveLength(2)
    for (const answer of answers) answer()
    await sleep(200)
    expect(uncaught).toEqual([])
  })
})

describe('links cut in the middle of transactions', () => {
  it(`${CUTS} times end no process, leave nothing hanging, and lose or mix up no answer`, async () => {
    const { proxy, connection } = await through({ max: 6 })
    const { db } = connection
    const uncaught = watchUncaught()
    const done = { committed: new Set<string>(), single: new Set<string>(), lost: 0 }
    const hung: string[] = []
    let isOver = false

    const transaction = (worker: number, n: number): Promise<unknown> =>
      db.transaction(async (tx) => {
        await tx.execute(sql`insert into kept values (${worker}, ${n}, 'first')`)
        if (n % 3 === 0) await sleep(1)
        // A host's code may go on after an error, and may have statements under way beside each other.
        if (n % 5 === 0) await tx.execute(sql`select pg_sleep(0.001)`).catch(() => {})
        await Promise.all([
          tx.execute(sql`insert into kept values (${worker}, ${n}, 'second')`),
          tx.transaction((inner) => inner.execute(sql`insert into kept values (${worker}, ${n}, 'third')`)),
        ])
        if (n % 7 === 0) throw new Error('wanted')
      })
    const single = async (worker: number, n: number): Promise<void> => {
      const rows = await db.execute(sql`insert into kept values (${worker}, ${n}, 'single') returning n`)
      // An answer without its row is that of a statement which was never sent.
      expect(rows).toHaveLength(1)
    }
    const attempt = async (what: string, work: Promise<unknown>): Promise<boolean> => {
      try {
        await inTime(what, work)
        return true
      } catch (error) {
        if (String(error).includes('hung')) hung.push(what)
        else if (lostDatabase(error) !== null) done.lost += 1
        else if (!String(error).includes('wanted')) throw error
        return false
      }
    }
    const workers = Array.from({ length: WORKERS }, async (_, worker) => {
      for (let n = 1; !isOver; n += 1) {
        const key = `${worker}/${n}`
        if (await attempt(`transaction ${key}`, transaction(worker, n))) done.committed.add(key)
        if (await attempt(`statement ${key}`, single(worker, n))) done.single.add(key)
        await sleep(0)
      }
    })
    for (let cut = 0; cut < CUTS; cut += 1) {
      await sleep(Math.random() * 20)
      proxy.cut(cut % 4 === 0 ? 1 : 0.5)
      const before = done.committed.size
      await vi.waitUntil(() => done.committed.size > before, { timeout: HUNG_MS, interval: 1 })
    }
    isOver = true
    await Promise.all(workers)

    expect(uncaught).toEqual([])
    expect(hung).toEqual([])
    // As many statements as there may be connections, at once: each of them works.
    await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        inTime('a statement afterwards', db.execute(sql`select pg_sleep(0.02), ${n}::int as n`)),
      ),
    )
    expect(done.lost).toBeGreaterThan(CUTS / 2)

    // A transaction's rows are there all together or not at all, and those of one that said so are there.
    const rows = await direct<{ key: string; parts: string[] }[]>`
      select worker || '/' || n as key, array_agg(part order by part) as parts from kept group by 1`
    const parts = new Map(rows.map(({ key, parts }) => [key, parts]))
    const halves = rows.filter(({ parts }) => ![0, 3].includes(parts.filter((part) => part !== 'single').length))
    expect(halves).toEqual([])
    expect([...done.committed].filter((key) => !parts.get(key)?.includes('third'))).toEqual([])
    expect([...done.single].filter((key) => !parts.get(key)?.includes('single'))).toEqual([])
    // One that threw, or was cut, before its commit has left nothing. A commit whose answer was cut may have.
    const thrown = rows.filter(({ key, parts }) => Number(key.split('/')[1]) % 7 === 0 && parts.includes('third'))
    expect(thrown).toEqual([])
  }, 120_000)
})

describe('a transaction whose link is cut while it does something else', () => {
  it('fails, and sends nothing more, also not into the transaction that follows', async () => {
    const { proxy, connection } = await through({ max: 1 })
    const { db } = connection
    const uncaught = watchUncaught()
    const insert = (part: string) => sql`insert into kept values (-1, 1, ${part})`
    const begun = occasion()
    const cut = occasion()
    const first = db.transaction(async (tx) => {
      await tx.execute(insert('first'))
      begun.happen()
      await cut.happened
      await tx.execute(insert('late')).catch(() => {})
      await tx.execute(insert('later'))
    })
    first.catch(() => {})
    await begun.happened
    proxy.cut()
    await vi.waitUntil(() => proxy.links === 0, SOON)
    const second = db.transaction(async (tx) => {
      await tx.execute(insert('second'))
      cut.happen()
      await expect(first).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
      await tx.execute(insert('second again'))
    })
    await second
    const parts = await direct`select part from kept where worker = -1 order by part`
    expect(parts.map(({ part }) => part)).toEqual(['second', 'second again'])
    expect(uncaught).toEqual([])
  })
})

describe('a statement that gets no answer', () => {
  it('fails at its limit, and the next one goes over another connection', async () => {
    const { proxy, connection } = await through({ max: 1, statementSeconds: 3 })
    await connection.db.execute(sql`select 1`)
    proxy.fallSilent()
    const error = await connection.db.execute(sql`select 2`).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'STATEMENT_TIMEOUT', message: 'Postgres: no answer within 3 s' })
    expect(lostDatabase(error)).toBe('STATEMENT_TIMEOUT')
    expect(await connection.db.execute(sql`select 3 as n`)).toEqual([{ n: 3 }])
  })

  it('ends its transaction, which sends no rollback', async () => {
    const { connection } = await through({ max: 1, statementSeconds: 3 })
    const slow = connection.db.transaction((tx) => tx.execute(sql`select pg_sleep(20)`))
    await expect(slow).rejects.toMatchObject({ code: 'STATEMENT_TIMEOUT' })
    expect(await connection.db.execute(sql`select 4 as n`)).toEqual([{ n: 4 }])
  })

  it('does not take effect later, when the lock that it waited for is free', async () => {
    const { connection } = await through({ max: 1, statementSeconds: 1 })
    await direct.begin(async (tx) => {
      await tx`lock table kept in exclusive mode`
      const late = connection.db.execute(sql`insert into kept values (-2, ${1}::int, 'late')`)
      await expect(late).rejects.toMatchObject({ code: 'STATEMENT_TIMEOUT' })
      const waiting = () => tx`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%late%'`
      await expect.poll(waiting, SOON).toHaveLength(0)
    })
    expect(await direct`select part from kept where worker = -2`).toEqual([])
  })

  it('and can not be cancelled, since Postgres is away, leaves no error unhandled', async () => {
    const uncaught = watchUncaught()
    const { proxy, connection } = await through({ max: 1, statementSeconds: 1 })
    await connection.db.execute(sql`select 1`)
    proxy.fallSilent()
    const late = connection.db.execute(sql`select 2`)
    const back = proxy.refuse('spared')
    await expect(late).rejects.toMatchObject({ code: 'STATEMENT_TIMEOUT' })
    back()
    expect(await connection.db.execute(sql`select 3 as n`)).toEqual([{ n: 3 }])
    expect(uncaught).toEqual([])
  })
})
