import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { OrderedKey } from '../../src/webhooks/order.ts'
import { lockKeys } from '../../src/webhooks/order.ts'
import { connectTestDatabase } from '../support/database.ts'

const tables = createTables('integration')
let connection: Connection
beforeAll(async () => {
  connection = await connectTestDatabase()
})
afterAll(() => connection?.close())

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

it('a key of an integration has a lock of its own, and the same in each transaction', async () => {
  const [one, other, elsewhere] = [
    { integrationId: 1, key: 'a' },
    { integrationId: 1, key: 'b' },
    { integrationId: 2, key: 'a' },
  ] as const
  const each = [await locksOf(one), await locksOf(other), await locksOf(elsewhere)].flat()
  expect(new Set(each).size).toBe(3)
  expect(await locksOf(elsewhere, one, other, one)).toEqual([...each].sort())
})
