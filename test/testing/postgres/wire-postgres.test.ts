/** The kit's database as postgres.js sees it. */
import { existsSync } from 'node:fs'
import { copyFile, rm, truncate } from 'node:fs/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { migrate } from '../../../src/db/apply-migrations.ts'
import { ManualClock } from '../../../src/testing/manual-clock.ts'
import { filesIn, readSnapshot, snapshotPath, writeSnapshot } from '../../../src/testing/postgres/snapshot.ts'
import type { InProcessPostgres } from '../../../src/testing/postgres/wire-postgres.ts'
import { startPostgres } from '../../../src/testing/postgres/wire-postgres.ts'

const PLACE = { prefix: 'integration', schema: 'public' }

let database: InProcessPostgres
let sql: Sql

const client = (of: InProcessPostgres): Sql =>
  postgres({
    host: 'memory',
    database: 'postgres',
    user: 'postgres',
    max: 3,
    fetch_types: false,
    onnotice: () => {},
    ...({ socket: () => of.connect() } as object),
  })

beforeAll(async () => {
  database = await startPostgres({ ...PLACE, clock: new ManualClock(), blockedAfterMs: 250 }, async (fresh) => {
    const own = client(fresh)
    await migrate({ sql: own, tablePrefix: PLACE.prefix, schema: PLACE.schema })
    await own.end()
  })
  sql = client(database)
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.close()
})

describe('a statement beside an open transaction', () => {
  it.each([
    ['simple', () => sql`select 1 as n`],
    ['with parameters', () => sql`select ${1}::int as n`],
  ])('fails by name instead of hanging: %s', async (_, statement) => {
    await expect(sql.begin(() => statement())).rejects.toMatchObject({
      code: '55P03',
      message: expect.stringContaining('one session'),
    })
    // The connection that was refused, and the session, go on.
    expect(await Promise.all([statement(), statement(), statement(), statement()])).toHaveLength(4)
  })

  it('waits for it when it goes on', async () => {
    await sql`create table steps (n int)`
    const [, seen] = await Promise.all([
      sql.begin(async (tx) => {
        for (let n = 0; n < 20; n += 1) await tx`insert into steps values (${n})`
      }),
      sql`select count(*)::int as n from steps`,
    ])
    expect([0, 20]).toContain(seen[0]?.n)
  })
})

it('rolls back what a connection had open when it went away', async () => {
  await sql`create table kept (n int)`
  const streams: ReturnType<InProcessPostgres['connect']>[] = []
  const leaving = client({
    ...database,
    connect: () => {
      const stream = database.connect()
      streams.push(stream)
      return stream
    },
  })
  const left = leaving.begin(async (tx) => {
    await tx`insert into kept values (1)`
    for (const stream of streams) stream.destroy()
    await tx`insert into kept values (2)`
  })
  await expect(left).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
  expect(await sql`select * from kept`).toEqual([])
})

it('gives each error of Postgres to the statement that made it', async () => {
  const ends = await Promise.allSettled([sql`select 1`, sql`bad`, sql`select ${'x'}::int`, sql`select 2`])
  expect(ends.map((end) => (end.status === 'rejected' ? (end.reason as { code: string }).code : 'ok'))).toEqual([
    'ok',
    '42601', // syntax_error
    '22P02', // invalid_text_representation
    'ok',
  ])
})

describe('a snapshot', () => {
  it('is left for the next start, and is another one for another place', async () => {
    const path = await snapshotPath(PLACE)
    expect(existsSync(path)).toBe(true)
    const others = await Promise.all([
      snapshotPath({ ...PLACE, prefix: 'mine' }),
      snapshotPath({ ...PLACE, schema: 'mine' }),
    ])
    expect(new Set([path, ...others]).size).toBe(3)
  })

  it('that was cut off is replaced by a whole one', async () => {
    const place = { ...PLACE, prefix: 'cut_off' }
    const path = await snapshotPath(place)
    onTestFinished(() => rm(path, { force: true }))
    await copyFile(await snapshotPath(PLACE), path)
    await truncate(path, 40_000_000)
    let migrations = 0
    const fresh = await startPostgres({ ...place, clock: new ManualClock() }, async () => {
      migrations += 1
    })
    await fresh.close()
    expect(migrations).toBe(1)
    const files = filesIn((await readSnapshot(path)) ?? new Uint8Array())
    expect(files?.map(({ name }) => name)).toContain('/PG_VERSION')
  }, 60_000)

  it('that is not there is none, and one that can‘t be written costs nothing but time', async () => {
    const path = '/dev/null/no-folder/snapshot.tar'
    await writeSnapshot(path, new Blob(['x']))
    expect(await readSnapshot(path)).toBeNull()
  })
})
