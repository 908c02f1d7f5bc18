import type { Sql } from 'postgres'

/** Deleted rows stay in their pages: now and then the tables are truncated, which takes thirty times as long. */
const TRUNCATE_EVERY = 100

/**
 * Empties all tables and sets all sequences back: much quicker than another database.
 *
 * @param kept a table that stays
 * @returns does it
 */
export async function cleanDatabase(sql: Sql, kept: string): Promise<() => Promise<void>> {
  const tables = await sql<{ name: string }[]>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema') and tablename <> ${kept} order by 1`
  const sequences = await sql<{ name: string; start: string }[]>`
    select format('%I.%I', schemaname, sequencename) as name, start_value as start from pg_sequences order by 1`
  const deletes = tables.map(({ name }) => `delete from ${name}`)
  const restarts = sequences.map(({ name, start }) => `setval('${name}', ${start}, false)`)
  // Foreign keys and triggers are passed over: all rows go.
  const quick = [
    'set session_replication_role = replica',
    ...deletes,
    `select ${restarts.join(', ')}`,
    'set session_replication_role = origin',
  ].join(';')
  const whole = `truncate ${tables.map(({ name }) => name).join(', ')} restart identity cascade`
  let times = 0
  return async () => {
    times += 1
    await sql.unsafe(times % TRUNCATE_EVERY === 0 ? whole : quick)
  }
}
