/** The shared state of outbound calls, read and reset from outside. Admission and settlement: call-queries.ts. */
import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { functionNamed } from '../../db/sql-functions.ts'
import type { CallState } from './state-rules.ts'

/** A part that no call has needed yet is absent. */
export type StoredCallState = Partial<CallState>

/**
 * The states under these keys, and the moment to judge them by, in one statement.
 *
 * @returns `nowMs` by the database's clock; `states` by key: an integration without a call has none
 */
export async function callStates(
  db: Database,
  tables: Tables,
  keys: readonly string[],
): Promise<{ readonly nowMs: number; readonly states: Readonly<Record<string, StoredCallState>> }> {
  const { cache } = tables
  const [row] = await db.execute<{ now_ms: string; states: Record<string, StoredCallState> | null }>(sql`
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
      (select jsonb_object_agg(whole.key, ${functionNamed(tables, 'merged_calls')}(whole.value, ended.value, spent.value))
        from ${cache} as whole
        left join ${cache} as ended on ended.key = whole.key || ':ended'
        left join ${cache} as spent on spent.key = whole.key || ':window'
        where whole.key in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))) as states`)
  return { nowMs: Number(row?.now_ms), states: row?.states ?? {} }
}

/**
 * The state, locked until the transaction ends; null when the integration is gone. Lock it before the integration's own row: every
 * transaction takes the two in this order.
 */
export async function lockCallState(
  tx: Transaction,
  tables: Tables,
  integrationId: number,
  key: string,
): Promise<StoredCallState | null> {
  const [row] = await tx.execute<{ state: StoredCallState | null }>(
    sql`select ${functionNamed(tables, 'lock_calls')}(${integrationId}, ${key}) as state`,
  )
  return row?.state ?? null
}

/** Under the lock of {@link lockCallState}. */
export async function storeCallState(
  tx: Transaction,
  tables: Tables,
  key: string,
  state: StoredCallState,
): Promise<void> {
  await tx.execute(sql`select ${functionNamed(tables, 'store_calls')}(${key}, ${JSON.stringify(state)}::jsonb)`)
}
