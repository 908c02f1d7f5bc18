/** Statements over the operation logs. */
import { and, desc, eq, gt, sql } from 'drizzle-orm'
import type { Json } from '../../core/json.ts'
import type { Database, Transaction } from '../client.ts'
import { jsonText } from '../schema/columns.ts'
import type { LogRow, Tables } from '../schema/tables.ts'

export async function insertLog(
  db: Database | Transaction,
  { logs }: Tables,
  values: typeof logs.$inferInsert,
): Promise<number> {
  const [row] = await db.insert(logs).values(values).returning({ id: logs.id })
  return (row as { id: number }).id
}

/** What a run's log row says about it, in `metadata`. */
export type RunMetadata = {
  readonly run_id: string
  readonly incremental: boolean
  readonly cursor_before: Json
  readonly enumerated: boolean
  readonly [key: string]: Json
}

/** The log of this workflow's run, whatever its status. Null: the run is not open yet. */
export async function findRunLog(
  db: Database | Transaction,
  { logs }: Tables,
  integrationId: number,
  runId: string,
): Promise<LogRow | null> {
  const [row] = await db
    .select()
    .from(logs)
    .where(
      and(
        eq(logs.integrationId, integrationId),
        eq(logs.operation, 'sync'),
        sql`${logs.metadata} ->> 'run_id' = ${runId}`,
      ),
    )
    .orderBy(desc(logs.id))
    .limit(1)
  return row ?? null
}

export async function findLog(db: Database | Transaction, { logs }: Tables, id: number): Promise<LogRow | null> {
  const [row] = await db.select().from(logs).where(eq(logs.id, id))
  return row ?? null
}

/** The row, locked until the transaction ends. */
export async function lockLog(tx: Transaction, { logs }: Tables, id: number): Promise<LogRow | null> {
  const [row] = await tx.select().from(logs).where(eq(logs.id, id)).for('update')
  return row ?? null
}

/** Adds to a row's metadata; keys that are there already are replaced. */
export async function mergeLogMetadata(
  db: Database | Transaction,
  { logs }: Tables,
  id: number,
  patch: Record<string, Json>,
): Promise<void> {
  await db
    .update(logs)
    .set({ metadata: sql`coalesce(${logs.metadata}, '{}'::jsonb) || ${jsonText(patch)}::jsonb` })
    .where(eq(logs.id, id))
}

export async function updateLog(
  db: Database | Transaction,
  { logs }: Tables,
  id: number,
  patch: Partial<typeof logs.$inferInsert>,
): Promise<void> {
  await db.update(logs).set(patch).where(eq(logs.id, id))
}

/** Ends an operation that has this status still. False: its row is gone, or was ended by somebody else. */
export async function endLog(
  db: Database,
  { logs }: Tables,
  id: number,
  from: string,
  patch: Partial<typeof logs.$inferInsert>,
): Promise<boolean> {
  const rows = await db
    .update(logs)
    .set(patch)
    .where(and(eq(logs.id, id), eq(logs.status, from)))
    .returning({ id: logs.id })
  return rows.length > 0
}

/** Whether somebody set the cursor after this run had begun: then the run must leave it alone. */
export async function cursorWasSetAfter(
  tx: Transaction,
  { logs }: Tables,
  integrationId: number,
  runLogId: number,
): Promise<boolean> {
  const rows = await tx
    .select({ id: logs.id })
    .from(logs)
    .where(and(eq(logs.integrationId, integrationId), eq(logs.operation, 'cursor'), gt(logs.id, runLogId)))
    .limit(1)
  return rows.length > 0
}
