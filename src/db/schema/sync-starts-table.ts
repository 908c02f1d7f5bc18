import { primaryKey } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'
import { STREAM_LENGTH } from './streams-table.ts'

/**
 * What was asked of the streams of integrations and has not begun: a row only while something is remembered. Apart from the integration's
 * own row, which each call reads and many write. Ours.
 */
export const syncStartsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_sync_starts'),
    {
      integrationId: reference('integration_id').notNull(),
      /** Empty: the integration's own. */
      stream: string('stream', STREAM_LENGTH).notNull().default(''),
      /** A run follows the one that lives. When that was first asked for; null: it was not. */
      againAt: moment('again_at'),
      /** A run begins then, or soon after; null: none waits. */
      laterAt: moment('later_at'),
      /** First of the asks that wait together. */
      laterSince: moment('later_since'),
      ...timestamps(),
    },
    (column) => [
      primaryKey({ name: name('_sync_starts_pkey'), columns: [column.integrationId, column.stream] }),
      ofIntegration(name('_sync_starts_integration_fk'), column.integrationId, integrations),
    ],
  )
