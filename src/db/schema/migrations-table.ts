import { unique } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, string, timestamps } from './columns.ts'

/** Which files of `drizzle/` this prefix has. Ours; written by migrate.ts. */
export const migrationsTable = (table: TableFactory, name: Name) =>
  table(
    name('_migrations'),
    {
      id: id(),
      /** The file's path in `drizzle/`, without `.sql`. */
      name: string('name').notNull(),
      /** SHA-256 of a function's text as it was applied last; null for a migration of the tables, which never changes. */
      hash: string('hash', 64),
      /** Version of the package that applied the file last. */
      release: string('release'),
      ...timestamps(),
    },
    (column) => [unique(name('_migrations_name_key')).on(column.name)],
  )
