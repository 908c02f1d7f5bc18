import { sql } from 'drizzle-orm'
import { index, integer, smallint, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/**
 * What happened in a bucket of time, as sums: of one integration, of all integrations of a provider, or of all. Ours.
 *
 * Rule: docs/behaviour/charts.md.
 */
export const rollupsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_rollups'),
    {
      id: id(),
      /** Width of the bucket. */
      seconds: integer('seconds').notNull(),
      startsAt: moment('starts_at').notNull(),
      /** Null: the row is a provider's. */
      integrationId: reference('integration_id'),
      /** Null: the row is an integration's. Empty: it is of all integrations. */
      provider: string('provider'),
      calls: integer('calls').notNull(),
      /** Calls of any failure class. */
      failures: integer('failures').notNull(),
      /** Which counters are not zero (rollup-rules.ts), ascending. */
      counters: smallint('counters').array().notNull(),
      /** The value of each of them. */
      counts: integer('counts').array().notNull(),
      ...timestamps(),
    },
    (column) => [
      uniqueIndex(name('_rollups_integration_key'))
        .on(column.integrationId, column.seconds, column.startsAt)
        .where(sql`${column.integrationId} is not null`),
      uniqueIndex(name('_rollups_provider_key'))
        .on(column.provider, column.seconds, column.startsAt)
        .where(sql`${column.provider} is not null`),
      // The busiest integrations, read from the index alone; pruning, and what is counted again.
      index(name('_rollups_busiest_idx')).on(
        column.seconds,
        column.startsAt,
        column.integrationId,
        column.calls,
        column.failures,
      ),
      ofIntegration(name('_rollups_integration_fk'), column.integrationId, integrations),
    ],
  )
