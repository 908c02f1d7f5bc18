/** What tests share that call the functions of drizzle/functions/ as they are. */
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { expect } from 'vitest'
import { createTestDatabase } from './database.ts'
import { SOON } from './soon.ts'

export interface DirectSql {
  readonly sql: Sql
  /** The database goes, too. */
  end(): Promise<void>
}

/** A database of its own. A walk without an end is a failure there after `limitMs`, not a wait. */
export async function directSql(connections: number, limitMs = 10_000): Promise<DirectSql> {
  const database = await createTestDatabase()
  const connection = { statement_timeout: limitMs }
  const sql = postgres(database.url, { max: connections, fetch_types: false, connection, onnotice: () => {} })
  return {
    sql,
    async end() {
      await sql.end()
      await database.drop()
    },
  }
}

/** Until one session of the database waits for a lock. */
export async function lockIsAwaited(sql: Sql): Promise<void> {
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await expect.poll(async () => (await waiting()).length, SOON).toBe(1)
}

/** What `synchronous_commit` is in the transaction of a call, and in the next one of its session. */
export async function commitsAround(sql: Sql, call: (session: Sql) => PromiseLike<unknown>): Promise<string[]> {
  const session = await sql.reserve()
  const setting = async () => (await session`select current_setting('synchronous_commit') as value`)[0]?.value as string
  try {
    await session`set synchronous_commit to on`
    await session`begin`
    await call(session)
    const within = await setting()
    await session`commit`
    return [within, await setting()]
  } finally {
    await session`reset synchronous_commit`
    session.release()
  }
}
