/** Functions of drizzle/functions/, as statements name them. */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
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
    const { schema = 'public', name: table } = getTableConfig(tables.cache)
    known = `${identifier(schema)}.${identifier(table)}`
    FUNCTIONS.set(tables, known)
  }
  return known.replace(/cache"$/, `${name}"`)
}

function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
