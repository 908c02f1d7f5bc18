import { index, integer, text, unique } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, json, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/**
 * What was delivered, of deliveries that bring several events: each event is a webhook, and this is kept once. Ours.
 *
 * Rule: docs/behaviour/webhook-parts.md.
 */
export const deliveriesTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_deliveries'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** The provider's id of the whole, else its digest. */
      deliveryId: string('delivery_id').notNull(),
      /** As in a webhook's row. */
      payload: text('payload').notNull(),
      headers: json('headers').$type<Record<string, string[]>>().notNull(),
      /** How many events it brought, those that were known already too. */
      parts: integer('parts').notNull(),
      ...timestamps(),
    },
    (column) => [
      unique(name('_deliveries_delivery_id_key')).on(column.integrationId, column.deliveryId),
      // Pruning.
      index(name('_deliveries_created_at_idx')).on(column.createdAt, column.id),
      ofIntegration(name('_deliveries_integration_fk'), column.integrationId, integrations),
    ],
  )
