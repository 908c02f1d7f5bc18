import { foreignKey, index, unique } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'

/** Which model of the host an external id stands for. */
export const mappingsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_mappings'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      externalId: string('external_id', 500).notNull(),
      /** The model's name in `models`. */
      internalType: string('internal_type').notNull(),
      internalId: string('internal_id').notNull(),
      ...timestamps(),
    },
    (column) => [
      unique(name('_mappings_external_id_key')).on(column.integrationId, column.externalId, column.internalType),
      // The external id of a model, and whether anything maps it: then of all integrations.
      index(name('_mappings_internal_id_idx')).on(column.internalType, column.internalId, column.integrationId),
      foreignKey({
        name: name('_mappings_integration_fk'),
        columns: [column.integrationId],
        foreignColumns: [integrations.id],
      }).onDelete('cascade'),
    ],
  )
