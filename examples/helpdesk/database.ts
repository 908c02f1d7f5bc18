import postgres from 'postgres'
import { SCHEMA } from './tables.ts'

/** Makes the database, where the server has none of this name, and the host's own table in it. Run twice, it changes nothing. */
export async function prepareDatabase(databaseUrl: string): Promise<void> {
  const server = new URL(databaseUrl)
  const name = decodeURIComponent(server.pathname.slice(1))
  server.pathname = '/postgres'
  await onServer(server.href, async (sql) => {
    const known = await sql`select from pg_database where datname = ${name}`
    if (known.length === 0) await sql`create database ${sql(name)}`
  })
  await onServer(databaseUrl, (sql) => sql.unsafe(SCHEMA))
}

async function onServer(url: string, work: (sql: postgres.Sql) => PromiseLike<unknown>): Promise<void> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    await work(sql)
  } finally {
    await sql.end()
  }
}
