import { z } from 'zod'
import { compare, cursorOf, positionOf } from './cursor.ts'
import { invalidParameter } from './failures.ts'

const Limit = z.coerce.number().int().min(1).max(100).default(50)
const Moment = z.iso.datetime({ offset: true }).optional()

/**
 * One page in ascending order of moment and id.
 *
 * @param names of the query's parameters: the first is inclusive, the second exclusive
 */
export function pageOf<Row extends { id: string }>(
  rows: Row[],
  momentOf: (row: Row) => string,
  query: Record<string, string>,
  [from, before]: [string, string],
): { rows: Row[]; next_cursor: string | null } {
  const limit = checked(Limit, 'limit', query.limit, 'must be a whole number from 1 to 100')
  const earliest = moment(from, query[from])
  const end = moment(before, query[before])
  const after = query.cursor === undefined ? null : positionOf(query.cursor)
  const place = (row: Row): { at: string; id: string } => ({ at: momentOf(row), id: row.id })
  const wanted = rows
    .filter((row) => (earliest === null || momentOf(row) >= earliest) && (end === null || momentOf(row) < end))
    .filter((row) => after === null || compare(place(row), after) > 0)
    .sort((a, b) => compare(place(a), place(b)))
  const page = wanted.slice(0, limit)
  const last = page.at(-1)
  return { rows: page, next_cursor: last === undefined || page.length === wanted.length ? null : cursorOf(place(last)) }
}

/** In the spelling of the rows, so that texts can be compared. */
function moment(name: string, given: string | undefined): string | null {
  const value = checked(Moment, name, given, 'must be a time as in RFC 3339')
  return value === undefined ? null : new Date(value).toISOString()
}

function checked<T>(schema: z.ZodType<T>, name: string, given: string | undefined, allowed: string): T {
  const parsed = schema.safeParse(given)
  if (!parsed.success) throw invalidParameter(name, allowed)
  return parsed.data
}
