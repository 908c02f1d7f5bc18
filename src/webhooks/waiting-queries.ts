/** Which inboxes have something to do, and since when. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Tables } from '../db/schema/tables.ts'

/**
 * For `with recursive`: `waiting (integration_id, since)`, the first pending webhook of each integration. From one integration to
 * the next by the index of pending rows: a backlog of a million rows is not walked, whatever waits behind each.
 *
 * Who asks switches sorts off for the statement: statistics that lag behind a burst know of few pending rows, and the planner
 * would sort them all for each integration (6 s with 100,000 rows of 50 integrations, 14 s with 300,000).
 *
 * @param since of the row `w`
 */
export function waitingInboxes({ webhooks }: Pick<Tables, 'webhooks'>, since: SQL): SQL {
  return sql`waiting as (
      (select w.integration_id, ${since} as since from ${webhooks} w
       where w.status = 'pending' order by w.integration_id, w.id limit 1)
      union all
      select next.integration_id, next.since
      from waiting cross join lateral (
        select w.integration_id, ${since} as since from ${webhooks} w
        where w.status = 'pending' and w.integration_id > waiting.integration_id
        order by w.integration_id, w.id limit 1
      ) next
    )`
}
