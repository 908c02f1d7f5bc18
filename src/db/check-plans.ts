/** Plans of the checks that Postgres makes of foreign keys, for each row that is written. Rule: docs/decisions/0046-named-statements.md. */
import { sql } from 'drizzle-orm'

/**
 * A column of the last select of a statement that writes many rows. Postgres plans all statements of a connection each time,
 * those of its own checks too: 10 µs for each foreign key of a row. The checks come after the statement, so they see this
 * setting, which ends with the transaction.
 */
export const keptCheckPlans = sql`set_config('plan_cache_mode', 'auto', true) as check_plans`
