import { sql } from 'drizzle-orm'
import { index, PgSchema, text, unique } from 'drizzle-orm/pg-core'
import { auditTable } from './audit-table.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, json, moment, origin, reference, string, timestamps } from './columns.ts'
import { deliveriesTable } from './deliveries-table.ts'
import { eventsTable } from './events-table.ts'
import { incidentsTable } from './incidents-table.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { integrationsTable, ofIntegration } from './integrations-table.ts'
import { logsTable } from './logs-table.ts'
import { recordHashesTable } from './record-hashes-table.ts'
import { requestsTable } from './requests-table.ts'
import { rollupsTable } from './rollups-table.ts'
import { streamsTable } from './streams-table.ts'
import { syncItemsTable } from './sync-items-table.ts'
import { syncStartsTable } from './sync-starts-table.ts'
import { tokensTable } from './tokens-table.ts'
import { webhookSubscriptionsTable } from './webhook-subscriptions-table.ts'
import { webhooksTable } from './webhooks-table.ts'
import { writtenRecordsTable } from './written-records-table.ts'

/**
 * The tables of one deployment.
 *
 * Every statement names the schema, `public` too, so that a role's or a pooler's `search_path` can't turn it to other
 * tables. Hence the class: Drizzle's function `pgSchema()` refuses `public`.
 *
 * @param prefix config `table_prefix`
 */
export function createTables(prefix: string, schema = 'public') {
  const { table } = new PgSchema(schema)
  const name: Name = (suffix) => `${prefix}${suffix}` as `<prefix>${typeof suffix}`
  const integrations = integrationsTable(table, name)
  const logs = logsTable(table, name, integrations)
  const deliveries = deliveriesTable(table, name, integrations)
  return {
    integrations,
    requests: requestsTable(table, name, integrations),
    logs,
    mappings: mappingsTable(table, name, integrations),
    idempotencyKeys: idempotencyKeysTable(table, name, integrations),
    syncItems: syncItemsTable(table, name, integrations, logs),
    syncStarts: syncStartsTable(table, name, integrations),
    streams: streamsTable(table, name, integrations),
    recordHashes: recordHashesTable(table, name, integrations),
    writtenRecords: writtenRecordsTable(table, name, integrations),
    incidents: incidentsTable(table, name, integrations),
    rollups: rollupsTable(table, name, integrations),
    deliveries,
    webhooks: webhooksTable(table, name, integrations, deliveries),
    webhookSubscriptions: webhookSubscriptionsTable(table, name, integrations),
    cache: cacheTable(table, name),
    events: eventsTable(table, name, integrations),
    tokens: tokensTable(table, name),
    audit: auditTable(table, name),
    migrations: migrationsTable(table, name),
  }
}

export type Tables = ReturnType<typeof createTables>

export type IntegrationRow = Tables['integrations']['$inferSelect']
export type IncidentRow = Tables['incidents']['$inferSelect']
export type LogRow = Tables['logs']['$inferSelect']
export type MappingRow = Tables['mappings']['$inferSelect']
export type RequestRow = Tables['requests']['$inferSelect']
export type StreamRow = Tables['streams']['$inferSelect']
export type SyncItemRow = Tables['syncItems']['$inferSelect']
export type TokenRow = Tables['tokens']['$inferSelect']
export type WebhookSubscriptionRow = Tables['webhookSubscriptions']['$inferSelect']
export type WebhookRow = Tables['webhooks']['$inferSelect']

/** Which model of the host an external id stands for. */
const mappingsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_mappings'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      externalId: string('external_id', 500).notNull(),
      /** The model's name in `models`. */
      internalType: string('internal_type').notNull(),
      internalId: string('internal_id').notNull(),
      origin: origin(),
      ...timestamps(),
    },
    (column) => [
      unique(name('_mappings_external_id_key')).on(column.integrationId, column.externalId, column.internalType),
      // The external id of a model, and whether anything maps it: then of all integrations.
      index(name('_mappings_internal_id_idx')).on(column.internalType, column.internalId, column.integrationId),
      // The newest of an integration.
      index(name('_mappings_integration_idx')).on(column.integrationId, column.id),
      // Where a period begins among the ids.
      index(name('_mappings_created_at_idx')).on(column.integrationId, column.createdAt),
      // What a webhook or an item has mapped.
      index(name('_mappings_origin_idx')).on(column.origin, column.id).where(sql`${column.origin} is not null`),
      ofIntegration(name('_mappings_integration_fk'), column.integrationId, integrations),
    ],
  )

/** The keys that an integration has spent. The row is the reservation. */
const idempotencyKeysTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_idempotency_keys'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      key: string('key', 191).notNull(),
      /** The random token of the caller that spent it, or had the turn last to call with it. */
      owner: string('owner'),
      /** A call may be under way until then. Null: no caller has the turn, or the provider does not know keys. */
      turnEndsAt: moment('turn_ends_at'),
      ...timestamps(),
    },
    (column) => [
      unique(name('_idempotency_keys_key_key')).on(column.integrationId, column.key),
      // Pruning.
      index(name('_idempotency_keys_created_at_idx')).on(column.createdAt),
      ofIntegration(name('_idempotency_keys_integration_fk'), column.integrationId, integrations),
    ],
  )

/** State that processes share: breaker and limiter windows, locks, OAuth state, markers, cached values. Ours. */
const cacheTable = (table: TableFactory, name: Name) =>
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
      // Pruning. The hot rows never expire, or their end moves once a day: their updates stay cheap (HOT).
      index(name('_cache_expires_at_idx')).on(column.expiresAt).where(sql`${column.expiresAt} is not null`),
    ],
  )

/** Which files of `drizzle/` this prefix has. Ours; written by apply-migrations.ts. */
const migrationsTable = (table: TableFactory, name: Name) =>
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
