/** An integration with a row of each kind, whose texts are given: what a page must show as text, or not at all. */
import type { TestIntegrations } from './integrations.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from './rows.ts'

/** Ids by the paths of their lists. */
export type Everything = Readonly<Record<(typeof DETAILED)[number], number>>

export const DETAILED = [
  'integrations',
  'webhooks',
  'sync-runs',
  'sync-items',
  'requests',
  'incidents',
  'events',
  'logs',
  'mappings',
  'idempotency-keys',
] as const

/** @param text in each field that others may fill; @param short where a column holds less */
export async function makeOneOfEverything(
  test: TestIntegrations,
  text: string,
  { provider = 'acme', credentials }: { provider?: string; credentials?: Record<string, string> } = {},
): Promise<Everything> {
  const { db, tables } = test.framework
  const integration = await makeIntegration(test, provider, {
    name: text,
    metadata: { note: text },
    ...(credentials === undefined ? {} : { credentials }),
  })
  const { id: integrationId } = integration
  const own = { integrationId, direction: 'inbound' } as const
  const webhook = await makeWebhook(test, integrationId, {
    eventType: text,
    deliveryId: `d-${integrationId}-${text}`.slice(0, 250),
    payload: JSON.stringify({ text, number: 17 }),
    headers: { 'x-text': [text], authorization: [`Bearer ${text}`] },
    status: 'failed',
    attempts: 3,
    error: text,
    processedAt: new Date(),
  })
  const run = await makeRun(
    test,
    integrationId,
    { cursor_before: { text }, bookmark: { text }, listed: 3, success_count: 1, failure_count: 1 },
    { status: 'partial', error: text, durationMs: 1_200 },
  )
  const item = await makeItem(test, run, {
    status: 'failed',
    externalId: text,
    eventClass: text,
    error: text,
    attempts: 3,
    completedAt: new Date(),
    payload: { v: 1, data: { text, number: 17 } },
    checkpointValue: { text },
  })
  const origin = `item:${item.id}`
  const [request] = await db
    .insert(tables.requests)
    .values({
      integrationId,
      endpoint: text,
      method: 'POST',
      statusCode: 500,
      failureClass: 'upstream',
      error: text,
      requestData: JSON.stringify({ text }),
      responseData: text,
      idempotencyKey: text,
      providerRequestId: text,
      durationMs: 12,
      origin,
    })
    .returning()
  const [log] = await db
    .insert(tables.logs)
    .values({
      ...own,
      operation: text,
      status: 'failed',
      summary: text,
      error: text,
      externalId: text,
      metadata: { text },
      resultData: { text },
    })
    .returning()
  await db
    .insert(tables.logs)
    .values({ ...own, operation: 'part', status: 'success', summary: text, parentId: log?.id })
  const incident = await makeIncident(test, integrationId, {
    reason: text,
    acknowledgedAt: new Date(),
    acknowledgedBy: text,
    annotations: [{ at: new Date().toISOString(), by: text, text }],
  })
  const [event] = await db
    .insert(tables.events)
    .values({
      integrationId,
      name: 'IncidentOpened',
      payload: { text },
      origin: `incident:${incident.id}`,
      attempts: 10,
      deliveredAt: new Date(),
      outcomes: {
        [`listener:${text}`]: { status: 'given_up', attempts: 10, at: new Date().toISOString(), error: text },
      },
    })
    .returning()
  const [mapping] = await db
    .insert(tables.mappings)
    .values({
      integrationId,
      externalId: text,
      internalType: text.slice(0, 200),
      internalId: text.slice(0, 200),
      origin,
    })
    .returning()
  const [key] = await db.insert(tables.idempotencyKeys).values({ integrationId, key: text }).returning()
  await db.insert(tables.audit).values({
    integrationId,
    provider,
    by: text,
    action: text,
    target: `webhook:${webhook.id}`,
    detail: text,
    from: '127.0.0.1',
  })
  return {
    integrations: integrationId,
    webhooks: webhook.id,
    'sync-runs': run.id,
    'sync-items': item.id,
    requests: idOf(request),
    incidents: incident.id,
    events: idOf(event),
    logs: idOf(log),
    mappings: idOf(mapping),
    'idempotency-keys': idOf(key),
  }
}

function idOf(row: { readonly id: number } | undefined): number {
  if (row === undefined) throw new Error('expected the row to be written')
  return row.id
}
