/** Each migration over filled tables, while statements that every release knows go on. docs/upgrading.md, "What a migration does". */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assertMigrated, migrate } from '../../src/db/apply-migrations.ts'
import { scratchDatabase } from '../db/scratch-database.ts'
import { fillFirstTables, forget, forgetFunctions, makeFirstTables } from './earlier-tables.ts'
import { writeAllTheTime } from './upgrade-load.ts'

const EACH = 1_000
/** Of tables this small. The wait for a lock that others hold is not among it: nothing holds one here. */
const LONGEST_WAIT_MS = 1_000
const ROWS = { each: EACH, credentials: 'sealed', provider: 'acme', eventClass: 'test.thing' }

async function database(): Promise<Sql> {
  const sql = postgres(await scratchDatabase(), { max: 6, onnotice: () => {} })
  closing.push(sql)
  return sql
}
const closing: Sql[] = []
afterAll(async () => {
  for (const sql of closing) await sql.end({ timeout: 5 })
})

/** All that the first release has stored, in its own columns. */
async function stored(sql: Sql, columns: ReadonlyMap<string, string>): Promise<Record<string, string>> {
  const sums: Record<string, string> = {}
  for (const [table, list] of columns) {
    const [row] = await sql.unsafe(
      `select md5(string_agg(t::text, ',' order by t::text)) as sum from (select ${list} from ${table}) t`,
    )
    sums[table] = String(row?.sum)
  }
  return sums
}

async function columnsOf(sql: Sql): Promise<Map<string, string>> {
  const rows = await sql<{ name: string; list: string }[]>`
    select table_name as name, string_agg(quote_ident(column_name), ', ' order by ordinal_position) as list
    from information_schema.columns where table_schema = 'public' and table_name <> 'integration_migrations' group by 1`
  return new Map(rows.map(({ name, list }) => [name, list]))
}

describe('upgrading from the first tables', () => {
  let sql: Sql
  let later: string[]
  let before: Record<string, string>
  let columns: Map<string, string>

  beforeAll(async () => {
    sql = await database()
    later = await makeFirstTables(sql)
    await fillFirstTables(sql, ROWS)
    columns = await columnsOf(sql)
    before = await stored(sql, columns)
  })

  it('applies each migration beside inserts and updates, and keeps none of them for long', async () => {
    const target = { sql, tablePrefix: 'integration' }
    expect(later.length).toBeGreaterThan(10)
    for (const name of later) {
      const load = writeAllTheTime(sql)
      await forget(sql, name)
      expect(await migrate(target)).toEqual({ applied: [name] })
      const { statements, longestMs } = await load.stop()
      expect(statements).toBeGreaterThan(0)
      expect({ name, longestMs: longestMs < LONGEST_WAIT_MS ? 'short' : longestMs }).toEqual({
        name,
        longestMs: 'short',
      })
    }
    await forgetFunctions(sql)
    await migrate(target)
    await sql`update integration_migrations set hash = null, release = '0.0.1' where name not like 'functions/%'`
    await assertMigrated(target)
  })

  it('leaves every row as it was stored', async () => {
    expect(await stored(sql, columns)).toEqual(before)
  })
})

describe('a migration whose table is held by others', () => {
  it('steps back, so that writes do not wait behind it, and is applied once the others are done', async () => {
    const sql = await database()
    const later = await makeFirstTables(sql)
    await fillFirstTables(sql, { ...ROWS, each: 100 })
    const told: unknown[] = []
    const logger = { debug() {}, info() {}, warn: (fields: unknown) => void told.push(fields), error() {} }
    const target = { sql, tablePrefix: 'integration', logger }
    for (const name of later) await forget(sql, name)
    const holder = await sql.reserve()
    await holder`begin`
    // As pg_dump does, for as long as a backup takes.
    await holder`select count(*) from integration_webhooks`
    const migrating = migrate(target)
    let isApplied = false
    void migrating.then(() => {
      isApplied = true
    })
    await waitsForLock(sql)
    const load = writeAllTheTime(sql)
    // Behind a migration that waits on, no write would come back before the backup ends.
    while (load.webhooksWritten() < 50) await sleep(10)
    expect(isApplied).toBe(false)
    await holder`commit`
    holder.release()
    expect((await migrating).applied).toEqual(expect.arrayContaining(later.slice(-1)))
    await load.stop()
    expect(told[0]).toEqual({
      event: 'database.migration_waits',
      migration: expect.stringMatching(/^\d{4}_/),
      error: expect.stringContaining('lock timeout'),
    })
  })
})

async function waitsForLock(sql: Sql): Promise<void> {
  for (;;) {
    const waiting = await sql`
      select from pg_locks l join pg_database d on d.oid = l.database
      where d.datname = current_database() and not granted and l.relation = 'integration_webhooks'::regclass`
    if (waiting.length > 0) return
    await sleep(5)
  }
}
