/** Rows for tests: each factory sets only what the test says. */
import { eq } from 'drizzle-orm'
import type { IncidentRow, LogRow, SyncItemRow, Tables, WebhookRow } from '../../src/db/schema/tables.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestIntegrations } from './integrations.ts'
import { CREDENTIALS } from './providers.ts'

type Values<Table extends keyof Tables> = Partial<Tables[Table]['$inferInsert']>

let made = 0

export function makeIntegration(
  { integrations }: TestIntegrations,
  provider: string,
  given: Partial<Parameters<TestIntegrations['integrations']['create']>[0]> = {},
): Promise<Integration> {
  return integrations.create({ provider, name: 'of a test', credentials: CREDENTIALS, ...given })
}

export async function setIntegration(
  { framework: { db, tables } }: TestIntegrations,
  id: number,
  values: Values<'integrations'>,
): Promise<void> {
  await db.update(tables.integrations).set(values).where(eq(tables.integrations.id, id))
}

export async function makeWebhook(
  { framework: { db, tables } }: TestIntegrations,
  integrationId: number,
  values: Values<'webhooks'> = {},
): Promise<WebhookRow> {
  made += 1
  const [row] = await db
    .insert(tables.webhooks)
    .values({ integrationId, deliveryId: `delivery-${made}`, payload: '{}', headers: {}, ...values })
    .returning()
  return row as WebhookRow
}

export async function webhookOf({ framework: { db, tables } }: TestIntegrations, id: number): Promise<WebhookRow> {
  const [row] = await db.select().from(tables.webhooks).where(eq(tables.webhooks.id, id))
  return row as WebhookRow
}

/** The log of a run, its listing complete unless the test says otherwise. */
export async function makeRun(
  { framework: { db, tables } }: TestIntegrations,
  integrationId: number,
  metadata: Record<string, unknown> = {},
  values: Values<'logs'> = {},
): Promise<LogRow> {
  made += 1
  const [row] = await db
    .insert(tables.logs)
    .values({
      integrationId,
      operation: 'sync',
      direction: 'inbound',
      status: 'processing',
      metadata: { run_id: `run-${made}`, incremental: false, cursor_before: null, enumerated: true, ...metadata },
      ...values,
    })
    .returning()
  return row as LogRow
}

export async function makeItem(
  { framework: { db, tables } }: TestIntegrations,
  run: { integrationId: number; id: number },
  values: Values<'syncItems'> = {},
): Promise<SyncItemRow> {
  const [row] = await db
    .insert(tables.syncItems)
    .values({
      integrationId: run.integrationId,
      syncLogId: run.id,
      eventClass: 'test.thing',
      payload: { v: 1, data: { n: 1 } },
      ...values,
    })
    .returning()
  return row as SyncItemRow
}

/** Closed ones only beside an open one: an integration has at most one that is open. */
export async function makeIncident(
  { framework: { db, tables } }: TestIntegrations,
  integrationId: number,
  values: Values<'incidents'> = {},
): Promise<IncidentRow> {
  const [row] = await db
    .insert(tables.incidents)
    .values({
      integrationId,
      source: 'health',
      reason: 'health_degraded',
      peakSeverity: 'degraded',
      openedAt: new Date(),
      ...values,
    })
    .returning()
  return row as IncidentRow
}

export async function itemOf({ framework: { db, tables } }: TestIntegrations, id: number): Promise<SyncItemRow> {
  const [row] = await db.select().from(tables.syncItems).where(eq(tables.syncItems.id, id))
  return row as SyncItemRow
}

export async function itemsOf({ framework: { db, tables } }: TestIntegrations, runId: number): Promise<SyncItemRow[]> {
  return db.select().from(tables.syncItems).where(eq(tables.syncItems.syncLogId, runId)).orderBy(tables.syncItems.id)
}

export async function logOf({ framework: { db, tables } }: TestIntegrations, id: number): Promise<LogRow> {
  const [row] = await db.select().from(tables.logs).where(eq(tables.logs.id, id))
  return row as LogRow
}

export async function logsOf(
  { framework: { db, tables } }: TestIntegrations,
  integrationId: number,
  operation: string,
): Promise<LogRow[]> {
  const rows = await db
    .select()
    .from(tables.logs)
    .where(eq(tables.logs.integrationId, integrationId))
    .orderBy(tables.logs.id)
  return rows.filter((row) => row.operation === operation)
}

/** Every integration, by id. */
export async function allIntegrations({ integrations }: TestIntegrations): Promise<Integration[]> {
  const found: Integration[] = []
  for await (const integration of integrations.list()) found.push(integration)
  return found
}

/** Statements of the database that wait for a lock. */
export async function waitingForLocks({ sql }: TestIntegrations): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  return row?.count ?? -1
}

/** Statements that Drizzle sends meanwhile. */
export async function countStatements(
  { framework: { db } }: TestIntegrations,
  work: () => Promise<unknown>,
): Promise<number> {
  const { session } = db._
  const prepareQuery = session.prepareQuery.bind(session)
  let statements = 0
  session.prepareQuery = (...given) => {
    statements += 1
    return prepareQuery(...given)
  }
  try {
    await work()
  } finally {
    session.prepareQuery = prepareQuery
  }
  return statements
}
