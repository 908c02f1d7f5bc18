/**
 * The column types that all tables share, and how tables, indexes and constraints are named.
 *
 * Why each type is what it is: docs/decisions/0002-table-types.md.
 */
import type { AnyColumn, SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTableFn } from 'drizzle-orm/pg-core'
import { bigint, customType, timestamp, varchar } from 'drizzle-orm/pg-core'

/** Makes a table in the deployment's schema. */
export type TableFactory = PgTableFn<string>

/**
 * The full name of one of our tables, indexes or constraints: the deployment's prefix and `suffix`.
 *
 * A prefix may take 30 of Postgres' 63 bytes, so a suffix has at most 32; a longer one would be cut without a word.
 * The type holds a stand-in: the compiler can tell the tables apart in a join, and no code can use it as a real name.
 */
export type Name = <Suffix extends string>(suffix: Suffix) => `<prefix>${Suffix}`

/**
 * What stands for the prefix and the schema in the SQL of `drizzle/`; the migrator puts a deployment's own in their place. A real
 * prefix would not do: `integration` also occurs in `integration_id`.
 */
export const PREFIX_TOKEN = '__prefix__'
export const SCHEMA_TOKEN = '__schema__'

export const string = (name: string, length = 255) => varchar(name, { length })

/** A string that holds one of `values` only. The table holds Postgres to it with {@link isOneOf}. */
export const oneOf = <Value extends string>(name: string, values: readonly [Value, ...Value[]], length = 255) =>
  varchar(name, { length, enum: values })

/** The check behind {@link oneOf}. A null passes, as in every check. */
export const isOneOf = (column: AnyColumn, values: readonly string[]): SQL =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`

/**
 * Any JSON value as `jsonb`.
 *
 * Drizzle's own `jsonb()` parses every string that it reads a second time, so a cursor stored as `"12345"` would come back
 * as a number (drizzle-orm 0.45, PgJsonb.mapFromDriverValue). This one returns what was stored.
 */
export const json = customType<{ data: unknown; driverData: string }>({
  dataType: () => 'jsonb',
  toDriver: (value) => jsonText(value),
})

/**
 * A value as JSON text that `jsonb` accepts; for SQL written by hand, too.
 *
 * `jsonb` refuses U+0000 and lone surrogates in strings (22P05, 22P02). One such character in a provider's answer must not
 * fail a whole batch, so it becomes U+FFFD, the replacement character.
 */
export function jsonText(value: unknown): string {
  // JSON.stringify() writes both as escapes, in lower case, and a surrogate only when it is alone. A doubled backslash is
  // matched first, so that the text `\u0000` of six characters stays.
  return JSON.stringify(value).replace(/\\(\\|u0000|ud[89a-f]..)/g, (found) => (found === '\\\\' ? found : '\\ufffd'))
}

/** The greatest `integer`. A column that counts or measures stays there: a figure is no reason to refuse a statement. */
export const MAX_INTEGER = 2_147_483_647

/** The greatest `smallint`. */
export const MAX_SMALLINT = 32_767

/** A moment in whole milliseconds, as a JS date holds it: a guard on `updated_at` read by us matches the stored one. */
export const moment = (name: string) => timestamp(name, { precision: 3, withTimezone: true, mode: 'date' })

/**
 * The database's clock, rounded as a {@link moment} is when it is stored: up by half a millisecond at times. So what was stored
 * before is never later than this.
 */
export const clockNow = () => sql`clock_timestamp()::timestamptz(3)`

/**
 * The row whose work wrote this one, such as `webhook:4711`; null: no row's. Ours, beyond the specification.
 * Rule: docs/behaviour/explain.md, "Origin".
 */
export const origin = () => string('origin', 32)

/** An id of one of our rows, or of a host's. Stays below 2^53 (docs/decisions/0002-table-types.md). */
export const reference = (name: string) => bigint(name, { mode: 'number' })

export const id = () => reference('id').primaryKey().generatedByDefaultAsIdentity()

/**
 * On every table. An update made through Drizzle moves `updated_at` by itself; SQL written by hand says so.
 * The clock is the statement's, not the transaction's: after a wait for a lock `now()` would be in the past.
 */
export const timestamps = () => ({
  createdAt: moment('created_at').notNull().defaultNow(),
  updatedAt: moment('updated_at')
    .notNull()
    .defaultNow()
    .$onUpdate(() => sql`clock_timestamp()`),
})

/** A hundred years. */
const LONGEST_SECONDS = 3_155_760_000

/**
 * A number of seconds as an interval, at most a hundred years. Two large values multiplied would be no interval that Postgres
 * has, or no moment that it can add it to: one such row would fail a statement over all rows.
 */
export function intervalOf(seconds: SQL): SQL {
  return sql`make_interval(secs => least((${seconds})::double precision, ${sql.raw(String(LONGEST_SECONDS))}))`
}
