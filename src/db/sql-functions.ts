/** Functions of drizzle/functions/, as statements name them. */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { getTableConfig } from 'drizzle-orm/pg-core'
import type { Tables } from './schema/tables.ts'

/** By its name without the prefix. */
export function functionNamed(tables: Tables, name: string): SQL {
  return sql.raw(functionName(tables, name))
}

const FUNCTIONS = new WeakMap<Tables, string>()

/** Found once for each set of tables: each call needs it. */
export function functionName(tables: Tables, name: string): string {
  let known = FUNCTIONS.get(tables)
  if (known === undefined) {
    known = quotedName(tables.cache)
    FUNCTIONS.set(tables, known)
  }
  return known.replace(/cache"$/, `${name}"`)
}

/** A table's full name, as SQL has it: `"schema"."name"`. */
export function quotedName(table: PgTable): string {
  const { schema = 'public', name } = getTableConfig(table)
  return [schema, name].map((each) => `"${each.replaceAll('"', '""')}"`).join('.')
}
