/** Pages of the rows of few integrations, the newest first. */
import type { SQL } from 'drizzle-orm'
import { and, desc, lt, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Page } from '../framework/list-filter.ts'
import { bigints } from './integrations-of.ts'
import type { Timed } from './is-older-than.ts'
import { isOlderThan } from './is-older-than.ts'

/** What the index has behind the columns that it leads with: the id, or the time at which the row was written. */
export type NewestBy = 'id' | 'time'

/** Rows in groups, and an index that leads with what tells the groups apart. */
interface Groups {
  /** The groups, as an item of `from`. */
  readonly from: SQL
  /** The columns that the index leads with, in its order, each with its value of a group. */
  readonly led: readonly (readonly [PgColumn, SQL])[]
  /** Which rows of a group are meant. */
  readonly where: SQL | undefined
}

/** These integrations, for an index that leads with the integration. */
export function ofFew(few: readonly number[], column: PgColumn, where: SQL | undefined): Groups {
  return { from: asFew(few), led: [[column, sql`few.integration_id`]], where }
}

/** These ids as `few.integration_id`. */
export const asFew = (few: readonly number[]): SQL => sql`unnest(${bigints(few)}) few (integration_id)`

/** The order of a page. */
export function newestBy({ id, createdAt }: Timed, by: NewestBy): SQL[] {
  return by === 'id' ? [desc(id)] : [desc(createdAt), desc(id)]
}

/**
 * Ids of a page: the newest of each group by its index, and of those the newest. A condition on all groups at once would walk back
 * through the rows of all integrations, to the oldest one where a group has less than a page.
 */
export function newestOfEach(rows: Timed, { from, led, where }: Groups, by: NewestBy, { below, limit }: Page): SQL {
  const older = below === undefined ? undefined : by === 'id' ? lt(rows.id, below) : isOlderThan(rows, below)
  const of = and(isOfGroup(led, by), where, older)
  const columns = by === 'id' ? sql`${rows.id}` : sql`${rows.id}, ${rows.createdAt}`
  // With the columns of an equality Postgres drops them from the order, and the primary key has that order, too.
  const order = [...(by === 'id' ? led.map(([column]) => desc(column)) : []), ...newestBy(rows, by)]
  return sql`
    select n.id from ${from} cross join lateral (
      select ${columns} from ${rows} where ${of} order by ${sql.join(order, sql`, `)} limit ${limit}) n
    order by ${sql.raw(by === 'id' ? 'n.id desc' : 'n.created_at desc, n.id desc')} limit ${limit}`
}

/**
 * By id these are two comparisons: with an equality Postgres takes the primary key for the cheaper way to the newest rows of one
 * integration in a hundred.
 */
function isOfGroup(led: Groups['led'], by: NewestBy): SQL {
  const list = (parts: readonly (PgColumn | SQL)[]) => sql`(${sql.join([...parts], sql`, `)})`
  const [columns, values] = [list(led.map(([column]) => column)), list(led.map(([, value]) => value))]
  return by === 'id' ? sql`${columns} >= ${values} and ${columns} <= ${values}` : sql`${columns} = ${values}`
}
