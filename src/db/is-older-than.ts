/** Pages of rows by the time at which they were written, the newest first. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'

export type Timed = PgTable & { readonly id: PgColumn; readonly createdAt: PgColumn }

/** Whether a row is older than the one of this id; if that is pruned meanwhile: than the next older one. */
export function isOlderThan(table: Timed, id: number): SQL {
  const { id: rowId, createdAt } = table
  const at = sql`(select ${createdAt} from ${table} where ${rowId} <= ${id} order by ${rowId} desc limit 1)`
  return sql`${createdAt} <= ${at} and (${createdAt} < ${at} or ${rowId} < ${id})`
}
