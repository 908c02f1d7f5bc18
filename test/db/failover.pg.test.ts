/** A primary becomes a standby, and a standby the primary. Rule: docs/behaviour/database.md, "Failover". */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Socket } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, inject, it, onTestFinished } from 'vitest'
import type { LocalPostgres } from '../../dev/postgres.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { createApi } from '../../src/api/app.ts'
import type { Connection } from '../../src/db/client.ts'
import { checkConnection, connect } from '../../src/db/client.ts'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'
import { scratchDatabase } from './scratch-database.ts'

const encryptionKeys = encryptionKey('test')
const folders: string[] = []
const running = new Set<LocalPostgres>()

afterAll(async () => {
  await Promise.all([...running].map((server) => server.stop()))
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'durable-failover-'))
  chmodSync(path, 0o711)
  folders.push(path)
  return path
}

async function started(dataFolder: string, preferredPort = 0): Promise<LocalPostgres> {
  const server = await startLocalPostgres({ dataFolder, preferredPort, database: 'app', settings: { fsync: 'off' } })
  running.add(server)
  return server
}

async function stopped(server: LocalPostgres): Promise<void> {
  running.delete(server)
  await server.stop()
}

const makeStandby = (dataFolder: string): void => writeFileSync(join(dataFolder, 'cluster', 'standby.signal'), '')

async function said(url: string, text: string): Promise<unknown[]> {
  const client = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    return await client.unsafe(text)
  } finally {
    await client.end()
  }
}

const write = async ({ db }: Connection): Promise<unknown> => db.execute(sql`insert into kept values (1)`)

/** Of a server that accepts, and never answers. */
async function silentPort(): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => void sockets.add(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A process begins and is ready, whichever server comes first. */
async function begins(database: string): Promise<void> {
  const { integrations, close } = testIntegrations(database, { providers: {}, encryptionKeys })
  onTestFinished(() => close())
  await integrations.migrate()
  await integrations.ready()
  const answer = await createApi(integrations).request('/operator/api/v1/readyz')
  expect(await answer.json()).toMatchObject({ parts: { postgres: 'ok', migrations: 'ok' } })
}

let one = ''
let two = ''
beforeAll(async () => {
  one = folder()
  const server = await started(one)
  await said(server.url, 'create table kept (n int)')
  await stopped(server)
  two = folder()
  execFileSync('cp', ['-a', `${one}/.`, two])
  makeStandby(two)
})

it('of several servers the one that takes writes is used, also after they have changed places', async () => {
  const [first, second] = [await started(one), await started(two)]
  const hosts = (...ports: number[]): string =>
    first.url.replace(`127.0.0.1:${first.port}`, ports.map((port) => `127.0.0.1:${port}`).join(','))
  const both = connect({ database: hosts(second.port, first.port), pool: { max: 4 } })
  onTestFinished(() => both.close())
  // One that reads only is no use, and is not asked.
  const port = { port: first.port }
  const reads = Array.from({ length: 4 }, () => both.db.execute(sql`select current_setting('port')::int as port`))
  expect(await Promise.all(reads)).toEqual([[port], [port], [port], [port]])
  await write(both)
  await checkConnection(both)
  await begins(hosts(second.port, first.port))
  await begins(hosts(1, first.port))
  await begins(hosts(await silentPort(), first.port))

  await stopped(first)
  await expect(checkConnection(both)).rejects.toMatchObject({ code: 'backend_unreachable' })
  const away = await write(both).then(() => null, lostDatabase)
  expect(away).not.toBeNull()

  makeStandby(one)
  const back = await started(one, first.port)
  expect(back.port).toBe(first.port)
  await expect(checkConnection(both)).rejects.toThrow(/takes no writes\. It is a standby/)
  expect(await write(both).then(() => null, lostDatabase)).not.toBeNull()

  await said(second.url, 'select pg_promote()')
  await expect.poll(() => write(both).then(() => 'written', String), SOON).toBe('written')
  await checkConnection(both)
  // No stream of changes leads from one to the other here: what the first has taken stayed there.
  expect(await said(second.url, 'select n from kept')).toEqual([{ n: 1 }])
})

it('a server that has begun to refuse writes is left by all connections, those that only read too', async () => {
  const url = await scratchDatabase()
  const name = new URL(url).pathname.slice(1)
  await said(url, 'create table kept (n int)')
  const connection = connect({ database: url, pool: { max: 4 } })
  onTestFinished(() => connection.close())
  const { db } = connection
  const modes = async (): Promise<unknown[]> => {
    const asked = sql`select current_setting('transaction_read_only') as mode, pg_sleep(0.05)`
    const rows = await Promise.all(Array.from({ length: 4 }, () => db.execute(asked)))
    return rows.flat().map(({ mode }) => mode)
  }

  // Sessions keep what holds when they begin, as those to a former primary lead to it.
  await said(url, `alter database ${name} set default_transaction_read_only = on`)
  expect(await modes()).toEqual(['on', 'on', 'on', 'on'])
  await expect(checkConnection(connection)).rejects.toThrow(/takes no writes/)
  await said(inject('postgresUrl'), `alter database ${name} set default_transaction_read_only = off`)

  const failed = await write(connection).catch((error: unknown) => error)
  expect(lostDatabase(failed)).toBe('25006')
  expect(await modes()).toEqual(['off', 'off', 'off', 'off'])
  await write(connection)
  await checkConnection(connection)
})

it('a transaction that meets such a server ends with its word, and the next one is made', async () => {
  const url = await scratchDatabase()
  await said(url, 'create table kept (n int)')
  const connection = connect({ database: url, pool: { max: 1 } })
  onTestFinished(() => connection.close())
  const failed = connection.db.transaction(async (tx) => {
    await tx.execute(sql`set transaction read only`)
    await tx.execute(sql`insert into kept values (1)`)
  })
  expect(lostDatabase(await failed.catch((error: unknown) => error))).toBe('25006')
  await connection.db.transaction((tx) => tx.execute(sql`insert into kept values (2)`))
  expect(await said(url, 'select n from kept')).toEqual([{ n: 2 }])
})
