import type { Sql } from 'postgres'

/** Deleted rows stay in their pages: now and then the tables are truncated, which takes thirty times as long. */
const TRUNCATE_EVERY = 100

/**
 * Empties all tables and sets all sequences back: much quicker than another database.
 *
 * `session_replication_role` would pass foreign keys over, and make Postgres plan all functions of ours again for each seed.
 *
 * @param kept a table that stays
 * @returns empties them, each time that it is called
 */
export async function tableEmptier(sql: Sql, kept: string): Promise<() => Promise<void>> {
  const tables = await sql<{ id: number; name: string }[]>`
    select c.oid::int as id, format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and c.relname <> ${kept}
    order by 2`
  const references = await sql<{ from: number; to: number }[]>`
    select conrelid::int as from, confrelid::int as to from pg_constraint where contype = 'f' and conrelid <> confrelid`
  const sequences = await sql<{ name: string; start: string }[]>`
    select format('%I.%I', schemaname, sequencename) as name, start_value as start from pg_sequences order by 1`
  const whole = `truncate ${tables.map(({ name }) => name).join(', ')} restart identity cascade`
  const ordered = referencingFirst(tables, references)
  const restarts = sequences.map(({ name, start }) => `setval('${name}', ${start}, false)`)
  const quick =
    ordered === null
      ? whole
      : [...ordered.map(({ name }) => `delete from ${name}`), `select ${restarts.join(', ')}`].join(';')
  let times = 0
  return async () => {
    times += 1
    await sql.unsafe(times % TRUNCATE_EVERY === 0 ? whole : quick)
  }
}

/** Each table before those that it refers to; null: they refer to each other in a circle. */
function referencingFirst<Table extends { readonly id: number }>(
  tables: readonly Table[],
  references: readonly { readonly from: number; readonly to: number }[],
): Table[] | null {
  const ordered: Table[] = []
  let left = [...tables]
  while (left.length > 0) {
    const free = left.filter(
      ({ id }) => !references.some(({ from, to }) => to === id && left.some((t) => t.id === from)),
    )
    if (free.length === 0) return null
    ordered.push(...free)
    left = left.filter((table) => !free.includes(table))
  }
  return ordered
}
