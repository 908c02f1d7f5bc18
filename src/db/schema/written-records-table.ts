import { sql } from 'drizzle-orm'
import { boolean, index, unique, uuid } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/**
 * What we wrote last to each record of a provider, so that its echo is known. Ours.
 *
 * Rule: docs/behaviour/echoes.md.
 */
export const writtenRecordsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_written_records'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** The provider's name of the record, such as `issue:42`; of a record that is being created the write's own id. */
      key: string('key').notNull(),
      /** SHA-256 of what the record said after our write. Null: not known (a write is under way, or something foreign came since). */
      hash: string('hash', 64),
      /** The newest write under way; null: none is, or something foreign came since it began. */
      writing: uuid('writing'),
      /** Whether the row stands for a record that is being created: the answer tells its key. */
      isNew: boolean('is_new').notNull().default(false),
      /** The arrival in whose handling the newest write began, such as `webhook:4711`; null: in none. */
      arrival: string('arrival', 32),
      /** The row of the call that wrote it. */
      requestId: reference('request_id'),
      /** Whether something foreign came since the newest write began: then the next write answers it. */
      isAnswered: boolean('is_answered').notNull().default(false),
      /** When the last writes were made that answered an arrival of the same record, oldest first. */
      answers: moment('answers').array().notNull().default(sql`'{}'`),
      /** Since when these count as a loop; null: they do not. */
      loopingSince: moment('looping_since'),
      ...timestamps(),
    },
    (column) => [
      unique(name('_written_records_key_key')).on(column.integrationId, column.key),
      // Records that are being created: few, and each arrival asks for them.
      index(name('_written_records_new_idx')).on(column.integrationId).where(sql`${column.isNew}`),
      // Loops: whether an incident may close, and which ones have ended.
      index(name('_written_records_loop_idx')).on(column.integrationId).where(sql`${column.loopingSince} is not null`),
      // Pruning.
      index(name('_written_records_updated_idx')).on(column.updatedAt),
      ofIntegration(name('_written_records_integration_fk'), column.integrationId, integrations),
    ],
  )
