/** Statements over the operation logs. */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, isNull, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText, MAX_INTEGER } from '../db/schema/columns.ts'
import type { LogRow, Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'

export async function insertLog(
  db: Database | Transaction,
  tables: Tables,
  values: Tables['logs']['$inferInsert'],
): Promise<number> {
  return (await insertedLog(db, tables, values)).id
}

/** The same, with the row's moment. */
export async function insertedLog(
  db: Database | Transaction,
  { logs }: Tables,
  values: typeof logs.$inferInsert,
): Promise<Pick<LogRow, 'id' | 'createdAt'>> {
  const [row] = await db.insert(logs).values(values).returning({ id: logs.id, createdAt: logs.createdAt })
  return row as Pick<LogRow, 'id' | 'createdAt'>
}

/** What a run's log row says about it, in `metadata`. */
export type RunMetadata = {
  readonly run_id: string
  readonly incremental: boolean
  readonly cursor_before: Json
  readonly enumerated: boolean
  readonly [key: string]: Json
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

/** Ends an operation that has this status still. False: its row is gone, or another caller has ended it. */
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

/**
 * Ends a run's log: what is given of the metadata is added to it. The duration is the run's age by the database's clock, at
 * most what the column holds: a run of 25 days or more must end, too.
 */
export async function endRunLog(
  tx: Transaction,
  { logs }: Tables,
  id: number,
  {
    metadata = {},
    ...end
  }: {
    readonly status: string
    readonly summary?: string
    readonly error?: string
    readonly metadata?: Record<string, Json>
  },
): Promise<void> {
  const ageMs = sql`round(extract(epoch from clock_timestamp() - ${logs.createdAt}) * 1000)`
  await tx
    .update(logs)
    .set({
      ...end,
      durationMs: sql`greatest(0, least(${ageMs}, ${sql.raw(String(MAX_INTEGER))}))`,
      metadata: sql`coalesce(${logs.metadata}, '{}'::jsonb) || ${jsonText(metadata)}::jsonb`,
    })
    .where(eq(logs.id, id))
}

/** The newest run of the stream that has not ended. */
export async function newestOpenRun(db: Database, tables: Tables, of: LogsOf): Promise<number | null> {
  const row = await newestLog(db, tables, { ...of, operation: 'sync' }, eq(tables.logs.status, 'processing'))
  return row?.id ?? null
}

/** An integration, or one stream of it: null, or not given, is its own. */
interface LogsOf {
  readonly integrationId: number
  readonly stream?: string | null | undefined
}

function isOf({ integrationId, stream }: LogsOf, logs: Tables['logs']): SQL | undefined {
  return and(eq(logs.integrationId, integrationId), stream == null ? isNull(logs.stream) : eq(logs.stream, stream))
}

/** The newest row of an operation of a stream, among those that fit the conditions; null: there is none. */
export async function newestLog(
  db: Database | Transaction,
  { logs }: Tables,
  { operation, ...of }: LogsOf & Pick<LogRow, 'operation'>,
  ...conditions: readonly SQL[]
): Promise<LogRow | null> {
  const [row] = await db
    .select()
    .from(logs)
    .where(and(isOf(of, logs), eq(logs.operation, operation), ...conditions))
    .orderBy(desc(logs.id))
    .limit(1)
  return row ?? null
}

/** Runs that may be finalised, or whose cursor may be due: not those that the cursor was set after. Newest first. */
export async function runsToAdvance(db: Database, { logs }: Tables, of: LogsOf, limit: number): Promise<number[]> {
  const rows = await db.execute<{ id: string }>(sql`
    select id from ${logs}
    where ${isOf(of, logs)} and operation = 'sync' and metadata -> 'enumerated' = 'true'::jsonb
      and (status = 'processing' or (status in ('success', 'partial', 'failed') and id > coalesce((
        select max(id) from ${logs} where ${isOf(of, logs)} and operation = 'cursor'), 0)))
    order by id desc limit ${limit}`)
  return rows.map((row) => Number(row.id))
}
