/** The shared state of outbound calls, looked at and reset from outside. Admission and settlement: calls.ts. */
import { eq, sql } from 'drizzle-orm'
import type { CallState } from '../../core/call-state.ts'
import type { Database, Transaction } from '../client.ts'
import type { Tables } from '../schema/tables.ts'
import { functionNamed } from './calls.ts'

/** What a row holds; a part that nobody has needed yet is absent. */
export type StoredCallState = Partial<CallState>

export interface CallStates {
  /** The database's clock, in milliseconds since the epoch. */
  readonly nowMs: number
  /** By key; an integration without a call has none. */
  readonly states: Readonly<Record<string, StoredCallState>>
}

/** The states under these keys, and the moment by which to judge them: one statement, however many. */
export async function callStates(db: Database, { cache }: Tables, keys: readonly string[]): Promise<CallStates> {
  const [row] = await db.execute<{ now_ms: string; states: Record<string, StoredCallState> | null }>(sql`
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
      (select jsonb_object_agg(key, value) from ${cache}
        where key in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))) as states`)
  return { nowMs: Number(row?.now_ms), states: row?.states ?? {} }
}

/**
 * The state, locked until the transaction ends; null when the integration is gone. Before the integration's own row:
 * everybody takes the two in this order.
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

export async function storeCallState(
  tx: Transaction,
  { cache }: Tables,
  key: string,
  state: StoredCallState,
): Promise<void> {
  await tx.update(cache).set({ value: state }).where(eq(cache.key, key))
}
