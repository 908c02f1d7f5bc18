import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'

/** A hundred years. */
const LONGEST_SECONDS = 3_155_760_000

/**
 * A number of seconds as an interval, at most a hundred years. Two large values multiplied would be no interval that Postgres
 * has, or no moment that it can add it to: one such row would fail a statement over all rows.
 */
export function intervalOf(seconds: SQL): SQL {
  return sql`make_interval(secs => least((${seconds})::double precision, ${sql.raw(String(LONGEST_SECONDS))}))`
}
