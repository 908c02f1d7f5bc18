import { foreignKey, index, unique } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'

/** The keys that an integration has spent. The row is the reservation. */
export const idempotencyKeysTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_idempotency_keys'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      key: string('key', 191).notNull(),
      ...timestamps(),
    },
    (column) => [
      unique(name('_idempotency_keys_key_key')).on(column.integrationId, column.key),
      // Pruning.
      index(name('_idempotency_keys_created_at_idx')).on(column.createdAt),
      foreignKey({
        name: name('_idempotency_keys_integration_fk'),
        columns: [column.integrationId],
        foreignColumns: [integrations.id],
      }).onDelete('cascade'),
    ],
  )
