import type { Socket } from 'node:net'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { eq, sql } from 'drizzle-orm'
import postgres from 'postgres'
import { beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import type { Connection } from '../../src/db/client.ts'
import { checkConnection, connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import { scratchDatabase } from './scratch-database.ts'

const tables = createTables('integration')
const { integrations } = tables
const integration = { provider: 'github', name: 'ours', credentials: 'sealed-credentials' }

let database: string
let connection: Connection

beforeAll(async () => {
  database = await scratchDatabase()
  connection = connect({ database })
  await migrate({ sql: connection.sql, tablePrefix: 'integration' })
  return () => connection.close()
})

describe('JSON columns', () => {
  it.each([
    ['a number', 5],
    ['a string of digits', '12345'],
    ['the strings true, null and {}', ['true', 'null', '{}']],
    ['the string true', 'true'],
    ['a string of JSON', '{"a":1}'],
    ['an ISO 8601 instant', '2026-01-01T00:00:00Z'],
    ['the empty string', ''],
    ['false', false],
    ['a list', [1, 'two', null]],
    ['an object', { page: 1, nested: { since: null } }],
  ])('give %s back as it was stored', async (_, syncCursor) => {
    const [row] = await connection.db
      .insert(integrations)
      .values({ ...integration, syncCursor })
      .returning()
    expect(row?.syncCursor).toEqual(syncCursor)
    const [read] = await connection.db
      .select()
      .from(integrations)
      .where(eq(integrations.id, row?.id ?? 0))
    expect(read?.syncCursor).toEqual(syncCursor)
    const [raw] = await connection.sql`select sync_cursor from integrations where id = ${row?.id ?? 0}`
    expect(raw?.sync_cursor).toEqual(syncCursor)
  })

  it.each([
    ['U+0000', 'a\u0000b', 'a\ufffdb'],
    ['a lone surrogate', { 'k\ud83d': ['\udc00'] }, { 'k\ufffd': ['\ufffd'] }],
    ['a whole pair', '\ud83d\ude00', '\ud83d\ude00'],
    ['a backslash before u0000', '\\u0000 \\\\ud800', '\\u0000 \\\\ud800'],
  ])('hold the replacement character for what jsonb refuses, and nothing else: %s', async (_, given, stored) => {
    const [row] = await connection.db
      .insert(integrations)
      .values({ ...integration, syncCursor: given })
      .returning()
    expect(row?.syncCursor).toEqual(stored)
  })

  it('store no value as SQL null', async () => {
    const [row] = await connection.db
      .insert(integrations)
      .values({ ...integration, syncCursor: null })
      .returning()
    const [raw] = await connection.sql`select sync_cursor is null as empty from integrations where id = ${row?.id ?? 0}`
    expect(raw?.empty).toBe(true)
  })
})

describe('stamps', () => {
  it('hold whole milliseconds, so that a guard on updated_at matches what was read', async () => {
    const [row] = await connection.db.insert(integrations).values(integration).returning()
    const guarded = await connection.db
      .update(integrations)
      .set({ name: 'renamed' })
      .where(sql`${integrations.id} = ${row?.id} and ${integrations.updatedAt} = ${row?.updatedAt}`)
      .returning()
    expect(guarded).toHaveLength(1)
  })

  it('updated_at moves with an update, also within the transaction of the insert', async () => {
    const [before, after] = await connection.db.transaction(async (tx) => {
      const [inserted] = await tx.insert(integrations).values(integration).returning()
      await tx.execute(sql`select pg_sleep(0.01)`)
      const updated = await tx
        .update(integrations)
        .set({ name: 'x' })
        .where(eq(integrations.id, inserted?.id ?? 0))
        .returning()
      return [inserted, updated[0]]
    })
    expect(after?.updatedAt.getTime()).toBeGreaterThan(before?.updatedAt.getTime() ?? 0)
    expect(after?.createdAt).toEqual(before?.createdAt)
  })
})

describe('SQL written by hand', () => {
  it.each(['sql', 'db'] as const)('reads through %s what Drizzle reads', async (door) => {
    const rows =
      door === 'sql'
        ? await connection.sql`select 5::bigint as big, count(*) as n, to_timestamp(0.007) as at, '"s"'::jsonb as json from pg_am`
        : await connection.db.execute(
            sql`select 5::bigint as big, count(*) as n, to_timestamp(0.007) as at, '"s"'::jsonb as json from pg_am`,
          )
    expect(rows[0]).toEqual({ big: 5, n: expect.any(Number), at: new Date(7), json: 's' })
  })

  it('takes dates and JSON as parameters, lists among it', async () => {
    const [row] = await connection.sql`
      select ${new Date(7)}::timestamptz as at, ${connection.sql.json({ a: [1] })} as json,
        (select sum(id::bigint) from jsonb_array_elements_text(${JSON.stringify([1, 2])}::jsonb) as id) as sum`
    expect(row).toEqual({
      at: new Date(7),
      json: { a: [1] },
      sum: '3',
    })
  })
})

describe('an error of Postgres', () => {
  const bad = { ...integration, healthStatus: 'unwell' as never }
  const refusal = {
    name: 'PostgresError',
    code: '23514',
    constraint_name: 'integrations_health_status_check',
    message: 'new row for relation "integrations" violates check constraint "integrations_health_status_check"',
  }

  it.each<[string, () => Promise<unknown>]>([
    ['a statement', () => connection.db.insert(integrations).values(bad).execute()],
    ['a select', () => connection.db.execute(sql`select ${'sealed-credentials'}::int`)],
    ['a transaction', () => connection.db.transaction((tx) => tx.insert(integrations).values(bad))],
    [
      'a nested transaction',
      () => connection.db.transaction((tx) => tx.transaction((inner) => inner.insert(integrations).values(bad))),
    ],
  ])('comes out of %s itself, without the parameters in a wrapper', async (where, run) => {
    const error = await run().then(
      () => null,
      (thrown: Error) => thrown,
    )
    expect(error).toMatchObject(where === 'a select' ? { name: 'PostgresError', code: '22P02' } : refusal)
    expect(error?.cause).toBeUndefined()
    expect(Object.keys(error ?? {})).not.toContain('parameters')
    expect(Object.keys(error ?? {})).not.toContain('params')
    expect(error?.stack).toContain('client.pg.test') // who asked, not only the driver's socket
  })
})

describe("a host's own client", () => {
  it('gives its settings and is left as it was', async () => {
    const host = postgres(database, { max: 1, onnotice: () => {} })
    const ours = connect({ database: host })
    await checkConnection(ours)
    // The host's only connection is busy with a transaction; we have connections of our own.
    await host.begin(async (transaction) => {
      await transaction`select 1`
      expect(await ours.db.$count(integrations)).toBeGreaterThan(0)
    })
    await ours.close()
    const [row] = await host`select to_timestamp(0) as at, ${host.json({ a: 1 })}::jsonb as json, 5::bigint as big`
    expect(row).toEqual({ at: new Date(0), json: { a: 1 }, big: '5' })
    await host.end()
  })
})

describe('checking the connection', () => {
  it('passes on a Postgres that answers', async () => {
    await expect(checkConnection(connection)).resolves.toBeUndefined()
  })

  it.each([
    ['nobody listens', { port: '1', password: 'open-sesame' }, /ECONNREFUSED/],
    ['the host is unknown', { hostname: 'nowhere.invalid', password: 'open-sesame' }, /ENOTFOUND|EAI_AGAIN/],
    ['the database is missing', { pathname: '/nowhere' }, /no database of that name: create it/],
    ['the user may not log in', { username: 'barred', password: 'open-sesame' }, /refused the user or the password/],
  ])('names host and port, and never the password, when %s', async (_, part, remedy) => {
    await connection.sql`drop role if exists barred`
    await connection.sql`create role barred nologin password 'open-sesame'`
    const url = Object.assign(new URL(database), part)
    const unreachable = connect({ database: url.href })
    const error = await checkConnection(unreachable).catch((thrown: unknown) => thrown)
    await unreachable.close()
    expect(error).toMatchObject({
      code: 'backend_unreachable',
      backend: 'Postgres',
      address: `${url.hostname}:${url.port}`,
      message: expect.stringMatching(remedy),
    })
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('open-sesame')
  })

  it('gives up in time on a server that accepts and stays silent', async () => {
    const sockets: Socket[] = []
    const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const silent = connect({ database: `postgres://u:open-sesame@127.0.0.1:${port}/db` })
    await expect(checkConnection(silent, { timeoutSeconds: 0.2 })).rejects.toMatchObject({
      code: 'backend_unreachable',
      message: expect.stringContaining('no answer within 0.2 s'),
    })
    await silent.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  it('refuses a Postgres that is too old', async () => {
    await expect(checkConnection(connection, { minimumVersion: 99 })).rejects.toMatchObject({
      code: 'invalid_configuration',
      problems: [
        { key: 'database', expected: 'Postgres 99 or newer', received: expect.stringMatching(/^Postgres \d\d at /) },
      ],
    })
  })
})
