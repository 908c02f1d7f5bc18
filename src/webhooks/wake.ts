/** Webhooks that wait, and the wake-up of the inbox for them. Rule: docs/behaviour/webhook-recovery.md, "Wake-ups". */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import { pumpClaims } from '../claims/lease-queries.ts'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { claimedWebhooks } from './queries.ts'

/**
 * Wakes the inbox if it has rows to claim, or if the holder of a claim is silent.
 *
 * @param options `olderThanSeconds`: only where the first row of an integration has waited for longer
 * @returns how many integrations have rows to claim
 */
export async function wakePendingInbox(
  { db, tables, config, workflows }: Framework,
  { olderThanSeconds = 0 }: { olderThanSeconds?: number } = {},
): Promise<number> {
  const ids = await integrationsToWake(db, tables, { olderThanSeconds })
  const held = ids.length > 0 ? [] : await pumpClaims(db, tables, claimedWebhooks(tables), config.cache_prefix)
  const isWoken = ids.length > 0 || held.some(({ served }) => !served)
  if (isWoken) workflows.wakeInbox()
  return ids.length
}

/** Integrations with rows to claim, each once. Rows of an integration that its health disabled wait for an operator. */
export async function integrationsToWake(
  db: Database,
  tables: Tables,
  { olderThanSeconds = 0 }: { olderThanSeconds?: number } = {},
): Promise<number[]> {
  const statement = sql`
    with recursive ${waitingInboxes(tables, sql`w.created_at`)}
    select waiting.integration_id from waiting join ${tables.integrations} i on i.id = waiting.integration_id
    where i.health_status <> 'disabled'
      and waiting.since <= clock_timestamp() - make_interval(secs => ${olderThanSeconds}::double precision)
    order by waiting.integration_id`
  const rows = await db.transaction(async (tx) => {
    // See waitingInboxes().
    await tx.execute(sql`
      select set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)`)
    return tx.execute<{ integration_id: string }>(statement)
  })
  return rows.map((row) => Number(row.integration_id))
}

/**
 * For `with recursive`: `waiting (integration_id, since)`, the first pending webhook of each integration. It walks the index of pending
 * rows from one integration to the next, so a backlog of a million rows costs no more than one row.
 *
 * The caller switches sorts off for the statement. Statistics that lag behind a burst know of few pending rows, and the planner
 * would sort them all for each integration (6 s with 100,000 rows of 50 integrations, 14 s with 300,000).
 *
 * @param since SQL over the row `w`
 */
export function waitingInboxes({ webhooks }: Pick<Tables, 'webhooks'>, since: SQL): SQL {
  return sql`waiting as (
      (select w.integration_id, ${since} as since from ${webhooks} w
       where w.status = 'pending' and w.key_turn is not false order by w.integration_id, w.id limit 1)
      union all
      select next.integration_id, next.since
      from waiting cross join lateral (
        select w.integration_id, ${since} as since from ${webhooks} w
        where w.status = 'pending' and w.key_turn is not false and w.integration_id > waiting.integration_id
        order by w.integration_id, w.id limit 1
      ) next
    )`
}
