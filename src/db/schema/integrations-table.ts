import { sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import { boolean, check, foreignKey, index, integer, text } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, json, moment, oneOf, reference, string, timestamps } from './columns.ts'

export const HEALTH_STATUSES = ['healthy', 'degraded', 'failing', 'disabled'] as const

/** One connection of one owner to one provider. */
export const integrationsTable = (table: TableFactory, name: Name) =>
  table(
    name('s'),
    {
      id: id(),
      /** A key of the `providers` config. */
      provider: string('provider').notNull(),
      name: string('name').notNull(),
      /** The encrypted envelope; its text is bound to this row's id. */
      credentials: text('credentials').notNull(),
      metadata: json('metadata'),
      ownerType: string('owner_type'),
      ownerId: reference('owner_id'),
      /** False where a person or its health has switched it off. */
      isActive: boolean('is_active').notNull().default(true),
      /** When a person did; health never undoes it. */
      switchedOffAt: moment('switched_off_at'),
      healthStatus: oneOf('health_status', HEALTH_STATUSES).notNull().default('healthy'),
      /** Upstream failures since the last success. */
      consecutiveFailures: integer('consecutive_failures').notNull().default(0),
      lastErrorAt: moment('last_error_at'),
      /** Set while the failure rate counts as elevated. */
      anomalyAlertedAt: moment('anomaly_alerted_at'),
      /** End of the last run without failed items; staleness is measured from it. */
      lastSyncedAt: moment('last_synced_at'),
      /** Moves with every finalised run, clean or not. */
      nextSyncAt: moment('next_sync_at'),
      /** Runs finalised with failures since the last clean one. */
      consecutiveSyncFailures: integer('consecutive_sync_failures').notNull().default(0),
      /** Set while the integration counts as stale. */
      syncStaleAlertedAt: moment('sync_stale_alerted_at'),
      /** Since when the authorization server refuses tokens that need no person. */
      tokensRefusedAt: moment('tokens_refused_at'),
      /** Overrides the provider's default interval. */
      syncIntervalMinutes: integer('sync_interval_minutes'),
      syncCursor: json('sync_cursor'),
      circuitOverride: string('circuit_override'),
      circuitOverrideUntil: moment('circuit_override_until'),
      rateLimitOverride: json('rate_limit_override'),
      rateLimitOverrideUntil: moment('rate_limit_override_until'),
      ...timestamps(),
    },
    (column) => [
      // Who receives a delivery on a provider's generic route, lowest id first.
      index(name('s_provider_idx')).on(column.provider, column.id),
      // What one tenant owns.
      index(name('s_owner_idx')).on(column.ownerType, column.ownerId).where(sql`${column.ownerId} is not null`),
      // Who is due: never planned first, then the longest overdue.
      index(name('s_due_idx')).on(column.nextSyncAt.asc().nullsFirst(), column.id).where(sql`${column.isActive}`),
      check(name('s_health_status_check'), isOneOf(column.healthStatus, HEALTH_STATUSES)),
    ],
  )

export type IntegrationsTable = ReturnType<typeof integrationsTable>

/** The foreign key of a table's `integration_id`: deleting an integration deletes its rows. */
export const ofIntegration = <Table extends string>(
  name: string,
  column: AnyPgColumn<{ tableName: Table }>,
  { id }: IntegrationsTable,
) => foreignKey({ name, columns: [column], foreignColumns: [id] }).onDelete('cascade')
