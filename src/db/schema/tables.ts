import { PgSchema } from 'drizzle-orm/pg-core'
import { cacheTable } from './cache-table.ts'
import type { Name } from './columns.ts'
import { eventsTable } from './events-table.ts'
import { idempotencyKeysTable } from './idempotency-keys-table.ts'
import { incidentsTable } from './incidents-table.ts'
import { integrationsTable } from './integrations-table.ts'
import { logsTable } from './logs-table.ts'
import { mappingsTable } from './mappings-table.ts'
import { migrationsTable } from './migrations-table.ts'
import { requestsTable } from './requests-table.ts'
import { syncItemsTable } from './sync-items-table.ts'
import { webhooksTable } from './webhooks-table.ts'

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
  return {
    integrations,
    requests: requestsTable(table, name, integrations),
    logs,
    mappings: mappingsTable(table, name, integrations),
    idempotencyKeys: idempotencyKeysTable(table, name, integrations),
    syncItems: syncItemsTable(table, name, integrations, logs),
    incidents: incidentsTable(table, name, integrations),
    webhooks: webhooksTable(table, name, integrations),
    cache: cacheTable(table, name),
    events: eventsTable(table, name, integrations),
    migrations: migrationsTable(table, name),
  }
}

export type Tables = ReturnType<typeof createTables>

export type IntegrationRow = Tables['integrations']['$inferSelect']
export type IncidentRow = Tables['incidents']['$inferSelect']
export type LogRow = Tables['logs']['$inferSelect']
export type MappingRow = Tables['mappings']['$inferSelect']
export type SyncItemRow = Tables['syncItems']['$inferSelect']
export type WebhookRow = Tables['webhooks']['$inferSelect']
