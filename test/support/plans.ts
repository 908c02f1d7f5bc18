/** How Postgres runs a statement of ours. */
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import type { Database } from '../../src/db/client.ts'

interface Planned<T> {
  readonly answer: T
  readonly statements: number
  /** Of the first statement, as run a second time. */
  readonly plan: string
}

/** Over a connection of its own: Drizzle changes how its client reads and writes dates and JSON. */
export async function planned<T>(url: string, ask: (db: Database) => Promise<T>): Promise<Planned<T>> {
  const client = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    const answer = await ask(drizzle(client, { logger: { logQuery } }) as never)
    const [query] = asked
    const rows = await client.unsafe(`explain (analyze, costs off) ${query?.text}`, query?.parameters as never[])
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
    return { answer, statements: asked.length, plan }
  } finally {
    await client.end({ timeout: 5 })
  }
}
