/** Postgres over TLS. Rule: docs/behaviour/database.md, "Lost connections". */
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Socket } from 'node:net'
import { connect as connectTo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { sql } from 'drizzle-orm'
import { expect, it, onTestFinished } from 'vitest'
import { checkConnection, connect } from '../../src/db/client.ts'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { MadeCertificate } from '../support/certificate.ts'
import { makeCertificate } from '../support/certificate.ts'
import { SOON } from '../support/soon.ts'
import { scratchDatabase } from './scratch-database.ts'

/** Postgres' own front: an SSLRequest is answered `S`, then TLS (https://www.postgresql.org/docs/current/protocol-flow.html). */
async function startFront(database: string) {
  const { hostname, port } = new URL(database)
  const front = {
    certificate: makeCertificate({ host: 'localhost' }),
    closes: false,
    isSilent: false,
    connections: 0,
    open: new Set<Socket>(),
    port: 0,
  }
  const server = createServer((socket) => {
    front.connections += 1
    socket.on('error', () => {})
    front.open.add(socket.once('close', () => void front.open.delete(socket)))
    socket.once('data', () => {
      if (front.isSilent) return
      socket.write('S')
      const { pem: cert, privateKey: key } = front.certificate
      const secure = new TLSSocket(socket, { isServer: true, cert, key })
      secure.on('error', () => {})
      secure.once('secure', () => {
        if (front.closes) return void secure.end()
        const behind = connectTo(Number(port), hostname)
        behind.on('error', () => secure.destroy())
        secure.pipe(behind).pipe(secure)
        secure.once('close', () => behind.destroy())
      })
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return Object.assign(front, { port: (server.address() as AddressInfo).port })
}

async function through(pool: { max?: number; statementSeconds?: number } = {}) {
  const database = await scratchDatabase()
  const front = await startFront(database)
  const authority = join(mkdtempSync(join(tmpdir(), 'authority-')), 'ca.pem')
  const trust = ({ pem }: MadeCertificate): void => writeFileSync(authority, pem)
  trust(front.certificate)
  const url = Object.assign(new URL(database), { hostname: 'localhost', port: String(front.port) })
  url.searchParams.set('sslmode', 'verify-full')
  url.searchParams.set('sslrootcert', authority)
  const connection = connect({ database: url.href, pool })
  onTestFinished(() => connection.close())
  return { front, trust, connection }
}

it('connects, checks the certificate, and takes a renewed one without a restart', async () => {
  const { front, trust, connection } = await through({ max: 1 })
  const { db } = connection
  expect(await db.execute(sql`select 1 as one`)).toEqual([{ one: 1 }])
  await checkConnection(connection)
  front.certificate = makeCertificate({ host: 'localhost' })
  await expect(checkConnection(connection)).rejects.toThrow(/certificate/)
  trust(front.certificate)
  await checkConnection(connection)
})

it('cancels a statement that takes too long', async () => {
  const { connection } = await through({ max: 2, statementSeconds: 1 })
  const { db } = connection
  await db.execute(sql`create table kept (n int)`)
  const late = db.execute(sql`insert into kept select 1 from pg_sleep(3)`).catch((error: unknown) => error)
  expect(lostDatabase(await late)).toBe('STATEMENT_TIMEOUT')
  await expect
    .poll(() =>
      db.execute(sql`select pid from pg_stat_activity where datname = current_database() and query like 'insert%'`),
    )
    .toEqual([])
  expect(await db.execute(sql`select n from kept`)).toEqual([])
})

it('keeps no connection whose statement can not be cancelled', async () => {
  const { front, connection } = await through({ max: 1, statementSeconds: 1 })
  const { db } = connection
  await db.execute(sql`select 1`)
  const [kept] = front.open
  front.isSilent = true
  await expect(db.execute(sql`select pg_sleep(20)`)).rejects.toMatchObject({ code: 'STATEMENT_TIMEOUT' })
  await expect.poll(() => front.open.has(kept as Socket), SOON).toBe(false)
  front.isSilent = false
  expect(await db.execute(sql`select 2 as two`)).toEqual([{ two: 2 }])
})

it('fails its statement where the server closes before it has answered, and does not try without a pause', async () => {
  const { front, connection } = await through({ max: 1 })
  front.closes = true
  for (let tries = 1; tries <= 3; tries += 1) {
    const failed = await connection.db.execute(sql`select 1`).catch((error: unknown) => error)
    expect(lostDatabase(failed)).not.toBeNull()
  }
  expect(front.connections).toBeLessThanOrEqual(4)
})
