import { unique } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, string, timestamps } from './columns.ts'

/** Which files of `drizzle/` this prefix has. Ours; written by migrate.ts. */
export const migrationsTable = (table: TableFactory, name: Name) =>
  table(
    name('_migrations'),
    {
      id: id(),
      /** The file's name without `.sql`. */
      name: string('name').notNull(),
      ...timestamps(),
    },
    (column) => [unique(name('_migrations_name_key')).on(column.name)],
  )
