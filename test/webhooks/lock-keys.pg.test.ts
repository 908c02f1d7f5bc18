import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { OrderedKey } from '../../src/webhooks/order.ts'
import { lockKeys } from '../../src/webhooks/order.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'

const tables = createTables('integration')
let database: TestDatabase
let connection: Connection
beforeAll(async () => {
  database = await createTestDatabase()
  connection = connect({ database: database.url })
})
afterAll(async () => {
  await connection?.close()
  await database?.drop()
})

/** The locks that a transaction holds once it has locked these keys. */
function locksOf(...keys: OrderedKey[]): Promise<string[]> {
  return connection.db.transaction(async (tx) => {
    await lockKeys(tx, tables, keys)
    const rows = await tx.execute<{ lock: string }>(
      sql`select classid || ':' || objid as lock from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
    )
    return rows.map(({ lock }) => lock).sort()
  })
}

it('keys of an integration have locks of their own, as a rule, and the same in each transaction', async () => {
  const [one, other, elsewhere] = [
    { integrationId: 1, key: 'a' },
    { integrationId: 1, key: 'b' },
    { integrationId: 2, key: 'a' },
  ] as const
  const each = [await locksOf(one), await locksOf(other), await locksOf(elsewhere)].flat()
  expect(new Set(each).size).toBe(3)
  expect(await locksOf(elsewhere, one, other, one)).toEqual([...each].sort())
})

it('ten thousand keys share at most 1,024 locks: the table of locks is one for all sessions', async () => {
  const keys = Array.from({ length: 10_000 }, (_, n) => ({ integrationId: 1, key: `key ${n}` }))
  const locks = await locksOf(...keys)
  expect(locks.length).toBeGreaterThan(1_000)
  expect(locks.length).toBeLessThanOrEqual(1_024)
})

it('a client that freezes while it holds them loses its session after 10 s, and keeps its own setting afterwards', async () => {
  const session = postgres(database.url, { max: 1 })
  const limit = async () =>
    (await session`select current_setting('idle_in_transaction_session_timeout') as value`)[0]?.value
  try {
    const before = await limit()
    await session`begin`
    await session`select integration_lock_keys('[[1, "a"]]')`
    expect(await limit()).toBe('10s')
    await session`commit`
    expect(await limit()).toBe(before)
  } finally {
    await session.end()
  }
})
