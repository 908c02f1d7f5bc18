/** How Postgres runs a statement of ours. */
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import type { Database, Transaction } from '../../src/db/client.ts'

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

interface PlanNode {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Rows of tables that all statements read, those too that a filter dropped. Each is run a second time. */
export async function rowsRead(url: string, ask: (db: Database) => Promise<unknown>): Promise<number> {
  const client = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  const second = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    await ask(drizzle(client, { logger: { logQuery } }) as never)
    let rows = 0
    for (const { text, parameters } of asked) {
      const [plan] = await second.unsafe(`explain (analyze, format json) ${text}`, parameters as never[])
      rows += rowsOfNode(plan?.['QUERY PLAN'][0].Plan)
    }
    return rows
  } finally {
    await Promise.all([client.end({ timeout: 5 }), second.end({ timeout: 5 })])
  }
}

/** Rows of tables that a plan, of `explain (analyze, format json)`, has read. */
export function rowsOfNode(node: PlanNode): number {
  const own = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
  const below = (node.Plans ?? []).reduce((sum, each) => sum + rowsOfNode(each), 0)
  return below + (node['Relation Name'] === undefined ? 0 : own)
}

/**
 * How Postgres plans what comes in a transaction before and after a statement. After it come its checks of foreign
 * keys: planned for each row by `force_custom_plan`, kept by `auto`.
 */
export function planModesAround(db: Database, ask: (tx: Transaction) => Promise<unknown>): Promise<unknown[]> {
  return db.transaction(async (tx) => {
    const mode = async (): Promise<unknown> => {
      const [row] = await tx.execute<{ mode: string }>(sql`select current_setting('plan_cache_mode') as mode`)
      return row?.mode
    }
    const before = await mode()
    await ask(tx)
    return [before, await mode()]
  })
}
