/** Items that fail again and again, before they have failed for good. Rule: docs/behaviour/sync-items.md. */
import { sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { MAX_LOOKED_AT as MAX_CHARACTERS } from '../../failures/failure-rules.ts'
import { mostFrequentError } from '../../failures/waiting-items.ts'
import { streamOption, syncWords } from '../../syncs/stream-rules.ts'
import type { Check } from './doctor-check.ts'
import { capped, counted, MAX_FINDINGS, MAX_LOOKED_AT, moment, secondsAgo, warning } from './doctor-check.ts'

/** A fault that is over by then, such as a deployment's, needs no person. */
const WAITING_SECONDS = 180
/** Of all integrations, the oldest. */
const MAX_ITEMS = 10_000
/** Errors of each run that are compared. */
const MAX_ERRORS = 200

export const syncWaitingItems: Check = {
  name: 'sync.waiting_items',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const groups = await waitingGroups(db, tables)
    const found = []
    for (const [at, { items, isCapped, runId, since, nextAt, errors, ...of }] of groups.entries()) {
      // No one reads the errors of those that are only counted.
      const error = at <= MAX_FINDINGS ? await mostFrequentError(errors) : null
      const ofRun = runId === null ? '' : ` of run ${runId}`
      found.push(
        warning(
          `${isCapped ? 'At least ' : ''}${counted(items, 'item')}${ofRun} of ${syncWords(of)} failed, ${items === 1 ? 'waits for its' : 'wait for their'} next try and ${items === 1 ? 'holds' : 'hold'} its cursor; the oldest was listed at ${moment(since)}, the next try is due at ${moment(nextAt)}. Most often: ${error}. Mend that; then they go on by themselves, or one at once by \`integrations retry-sync-item ID\`.`,
          `integrations list-failed-items --integration ${of.integrationId}${streamOption(of.stream)} --waiting`,
          { ...of, since },
        ),
      )
    }
    return capped(found, `No item has waited for another try after an error for ${WAITING_SECONDS} s.`)
  },
}

/**
 * Waiting items by integration, stream and run, the longest first. Those that were put off without an error wait on purpose; those of
 * backfills hold no cursor.
 */
async function waitingGroups(db: Database, { syncItems, logs }: Tables) {
  const rows = await db.execute<{
    integration_id: string
    stream: string | null
    sync_log_id: string | null
    items: number
    looked: number
    since: string | Date
    next_at: string | Date
    errors: readonly string[]
  }>(sql`
    with oldest as materialized (
      select integration_id, stream, sync_log_id, attempts, created_at, next_attempt_at, left(last_error, ${MAX_CHARACTERS}) as error
      from ${syncItems} where next_attempt_at is not null order by id limit ${MAX_ITEMS}
    )
    select integration_id, stream, sync_log_id, count(*)::int as items, (select count(*)::int from oldest) as looked,
           min(created_at) as since, min(next_attempt_at) as next_at,
           to_json((array_agg(error order by created_at))[1:${MAX_ERRORS}]) as errors
    from oldest
    where attempts > 0 and error is not null and created_at < ${secondsAgo(WAITING_SECONDS)}
      and not exists (select 1 from ${logs} l where l.id = oldest.sync_log_id and l.operation = 'backfill')
    group by integration_id, stream, sync_log_id
    order by since limit ${MAX_LOOKED_AT}`)
  return rows.map((row) => ({
    integrationId: Number(row.integration_id),
    stream: row.stream,
    runId: row.sync_log_id === null ? null : Number(row.sync_log_id),
    items: row.items,
    isCapped: row.looked === MAX_ITEMS,
    since: new Date(row.since),
    nextAt: new Date(row.next_at),
    errors: row.errors.map((error) => ({ error, items: 1 })),
  }))
}
