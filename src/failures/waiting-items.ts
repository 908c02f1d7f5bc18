/** Items that have failed and wait for their next try: they are no failures yet. Rule: docs/behaviour/failures.md, "Waiting items". */
import { setImmediate } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import type { IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem } from '../db/integrations-of.ts'
import type { Framework } from '../framework/context.ts'
import type { WaitingItems } from './failure-rules.ts'
import { AT_A_TIME, MAX_LOOKED_AT, MAX_SCANNED, normalisedError } from './failure-rules.ts'

/** The newest ones; by an index that has waiting items alone. Such as were put off without an error are left out. */
export async function waitingItems({ db, tables }: Framework, of: IntegrationSelection): Promise<WaitingItems> {
  const isOfThem = belongsToThem(tables, sql`r.integration_id`, of)
  const rows = await db.execute<{ error: string | null; items: number; looked: number }>(sql`
    select error, count(*)::int as items, sum(count(*)) over ()::int as looked
    from (
      select case when r.attempts > 0 then left(r.last_error, ${MAX_LOOKED_AT}) end as error from ${tables.syncItems} r
      where r.next_attempt_at is not null ${isOfThem === undefined ? sql`` : sql`and ${isOfThem}`}
      order by r.id desc limit ${MAX_SCANNED + 1}
    ) newest
    group by error`)
  const errors = rows.flatMap(({ error, items }) => (error === null ? [] : [{ error, items }]))
  return {
    count: errors.reduce((sum, { items }) => sum + items, 0),
    error: await mostFrequentError(errors),
    truncated: (rows[0]?.looked ?? 0) > MAX_SCANNED,
  }
}

/** The error that most of these have, normalised; null: there are none. */
export async function mostFrequentError(
  errors: readonly { readonly error: string; readonly items: number }[],
): Promise<string | null> {
  const normalised = new Map<string, string>()
  const counts = new Map<string, number>()
  for (const { error: text, items } of errors) {
    let error = normalised.get(text)
    if (error === undefined) {
      if (normalised.size % AT_A_TIME === AT_A_TIME - 1) await setImmediate()
      error = normalisedError(text)
      normalised.set(text, error)
    }
    counts.set(error, (counts.get(error) ?? 0) + items)
  }
  const [most] = [...counts].sort(([, a], [, b]) => b - a)
  return most?.[0] ?? null
}
