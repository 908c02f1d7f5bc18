/** What drizzle-kit reads to write `drizzle/*.sql`: the tables under the two tokens. */
import { PREFIX_TOKEN, SCHEMA_TOKEN } from './columns.ts'
import { createTables } from './tables.ts'

// drizzle-kit looks for tables among the exports of the module, one export each.
export const {
  integrations,
  requests,
  logs,
  mappings,
  idempotencyKeys,
  syncItems,
  syncStarts,
  streams,
  recordHashes,
  writtenRecords,
  incidents,
  rollups,
  deliveries,
  webhooks,
  webhookSubscriptions,
  cache,
  events,
  tokens,
  audit,
  migrations,
} = createTables(PREFIX_TOKEN, SCHEMA_TOKEN)
