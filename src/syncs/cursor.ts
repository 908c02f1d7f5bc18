/** Writes the cursor from outside a run. Rule: docs/behaviour/sync-cursor.md, "By hand". */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { isJson, isStorableJson, MAX_DEPTH } from '../framework/json.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { SyncOf } from './sync-jobs.ts'
import { lockSyncRow, updateCursor } from './sync-rows.ts'

export interface CursorChange {
  readonly from: Json
  readonly to: Json
}

/** Null: the next run lists everything. */
export function cursorOf({ syncCursor }: Pick<IntegrationRow, 'syncCursor'>): Json {
  return (syncCursor ?? null) as Json
}

/** A cursor comes back to its provider as it was set. @throws InvalidArgumentException */
export function checkedCursor(cursor: Json): Json {
  if (isJson(cursor) && isStorableJson(cursor)) return cursor
  throw new InvalidArgumentException(
    'cursor',
    `a JSON value of at most ${MAX_DEPTH} levels is allowed, whose texts have neither U+0000 nor half of a surrogate pair; give dates as ISO 8601 text`,
  )
}

/** `operator`: by hand. `code`: `updateSyncCursor()` of a provider or the host. */
export type CursorSetter = 'operator' | 'code'

/**
 * Sets the cursor and writes a `cursor` log row, under the lock of the integration: a run opens under the same lock, so
 * its log id tells whether it knew of the change. A run with a lower id leaves the cursor alone from then on.
 *
 * @throws IntegrationNotFound, InvalidArgumentException
 */
export async function changeCursor(
  { db, tables }: Framework,
  of: SyncOf,
  cursor: Json,
  by: CursorSetter,
): Promise<CursorChange> {
  const to = checkedCursor(cursor)
  return db.transaction(async (tx) => {
    const row = await lockSyncRow(tx, tables, of)
    if (row === null) throw new IntegrationNotFound(of.integrationId)
    const from = cursorOf(row)
    await updateCursor(tx, tables, row, to)
    await insertLog(tx, tables, {
      ...of,
      operation: 'cursor',
      direction: 'inbound',
      status: 'success',
      metadata: { from, to, by },
    })
    return { from, to }
  })
}
