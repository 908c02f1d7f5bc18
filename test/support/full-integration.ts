/** An integration with rows in every table that belongs to it, for what removes or blanks them. */
import { integrationKey } from '../../src/cache/integration-keys.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestIntegrations } from './integrations.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook } from './rows.ts'

/** What a tenant's data looks like in payloads, bodies, results, errors. */
export const PERSONAL = 'ada.lovelace@example.com'

export interface FullIntegration {
  readonly integration: Integration
  readonly run: number
  readonly webhooks: {
    readonly processed: number
    readonly failed: number
    readonly pending: number
    readonly processing: number
  }
  readonly items: { readonly success: number; readonly failed: number; readonly pending: number }
}

export async function makeFullIntegration(test: TestIntegrations): Promise<FullIntegration> {
  const { db, tables, cache } = test.framework
  const integration = await makeIntegration(test, 'plain', { metadata: { region: 'eu' } })
  const { id: integrationId } = integration
  const ended = { processedAt: new Date('2031-01-01') }
  const content = { payload: `{"mail":"${PERSONAL}"}`, headers: { 'x-user': [PERSONAL] } }
  const webhook = async (values: Parameters<typeof makeWebhook>[2]) =>
    (await makeWebhook(test, integrationId, { ...content, ...values })).id
  const webhooks = {
    processed: await webhook({ status: 'processed', attempts: 1, ...ended }),
    failed: await webhook({ status: 'failed', attempts: 3, error: `Error: no ${PERSONAL}`, ...ended }),
    pending: await webhook({}),
    processing: await webhook({ status: 'processing', attempts: 1, claim: 'run:1' }),
  }
  await db.insert(tables.requests).values([
    {
      integrationId,
      endpoint: 'users',
      method: 'GET',
      statusCode: 200,
      requestData: PERSONAL,
      responseData: PERSONAL,
      durationMs: 12,
      requestHash: 'a'.repeat(64),
      expiresAt: new Date('2099-01-01'),
    },
    {
      integrationId,
      endpoint: 'users',
      method: 'POST',
      error: PERSONAL,
      failureClass: 'upstream',
      idempotencyKey: 'k',
    },
  ])
  const run = await makeRun(test, integrationId, { cursor_before: 'c1', success_count: 1 }, { status: 'partial' })
  await makeRun(test, integrationId, {}, { status: 'processing' })
  const own = { integrationId, direction: 'inbound' } as const
  await db.insert(tables.logs).values([
    {
      ...own,
      operation: 'webhook',
      status: 'failed',
      externalId: 'd-1',
      resultData: { mail: PERSONAL },
      error: PERSONAL,
    },
    { ...own, operation: 'import', status: 'success', summary: PERSONAL, metadata: { mail: PERSONAL }, durationMs: 7 },
    { ...own, operation: 'cursor', status: 'success', metadata: { to: 'c0' } },
  ])
  const payload = { v: 1, data: { mail: PERSONAL } }
  const item = async (values: Parameters<typeof makeItem>[2]) =>
    (await makeItem(test, run, { payload, checkpointValue: 'c2', ...values })).id
  const items = {
    success: await item({ status: 'success', completedAt: ended.processedAt, externalId: 'e-1', attempts: 1 }),
    failed: await item({ status: 'failed', completedAt: ended.processedAt, externalId: 'e-2', error: PERSONAL }),
    pending: await item({ externalId: 'e-3' }),
  }
  await db.insert(tables.mappings).values({ integrationId, externalId: 'e-1', internalType: 'thing', internalId: '9' })
  await db
    .insert(tables.recordHashes)
    .values({ integrationId, eventClass: 'test.thing', externalId: 'e-1', hash: PERSONAL })
  await db.insert(tables.writtenRecords).values({ integrationId, key: 'thing:e-1', hash: PERSONAL })
  await db
    .insert(tables.rollups)
    .values({ integrationId, seconds: 60, startsAt: new Date(0), calls: 1, failures: 0, counters: [0], counts: [1] })
  await db.insert(tables.idempotencyKeys).values({ integrationId, key: 'k' })
  await db.insert(tables.incidents).values({
    integrationId,
    source: 'health',
    reason: 'health_degraded',
    peakSeverity: 'failing',
    openedAt: ended.processedAt,
    annotations: ['seen', PERSONAL].map((text) => ({ at: '2031-01-01T00:00:00.000Z', by: 'grace', text })),
  })
  await db.insert(tables.events).values({ integrationId, name: 'SyncCompleted', payload: { mail: PERSONAL } })
  await cache.set(integrationKey(integrationId, 'identity'), { mail: PERSONAL }, null)
  await cache.acquire(integrationKey(integrationId, 'lock:refresh'), 'somebody', 600)
  return { integration, run: run.id, webhooks, items }
}

/** How many rows each table holds of an integration; of the cache, entries under its keys. */
export async function countRows({ sql }: TestIntegrations, id: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of [
    'webhooks',
    'requests',
    'logs',
    'sync_items',
    'mappings',
    'idempotency_keys',
    'incidents',
    'events',
    'record_hashes',
    'written_records',
    'rollups',
  ]) {
    const [row] = await sql`select count(*)::int as n from ${sql(`integration_${table}`)} where integration_id = ${id}`
    counts[table] = row?.n
  }
  const [cached] =
    await sql`select count(*)::int as n from integration_cache where starts_with(key, ${`integrations:integration:${id}:`})`
  return { ...counts, cache: cached?.n }
}
