import { sql } from 'drizzle-orm'
import { index, text } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { json, moment, string, timestamps } from './columns.ts'

/** State that processes share: breaker and limiter windows, locks, OAuth state, markers, cached values. Ours. */
export const cacheTable = (table: TableFactory, name: Name) =>
  table(
    name('_cache'),
    {
      key: text('key').primaryKey(),
      value: json('value'),
      /** The random token of a lock's holder. */
      owner: string('owner'),
      /** The row counts as absent from this moment on; null is never. */
      expiresAt: moment('expires_at'),
      ...timestamps(),
    },
    (column) => [
      // Pruning. The hot rows never expire, so they stay out of it and their updates stay cheap (HOT).
      index(name('_cache_expires_at_idx')).on(column.expiresAt).where(sql`${column.expiresAt} is not null`),
    ],
  )
