/** What is asked of a large deployment: the pages, and what they are made of. */
import type { Integrations } from 'durable-integrations'
import type { Size } from './fill.ts'
import { ITEMS_OF_A_RUN } from './fill.ts'

const PAYLOADS = '/search/payloads?kind=webhook&contains=%7B%22n%22%3A500000%7D'
/** No index helps it: it reads for four seconds at most (docs/behaviour/explain.md, "Payloads"), which is its goal. */
export const PAYLOAD_SEARCH = `/operator${PAYLOADS}`

/**
 * Every page that answers GET, below the dashboard's root, but `schedules`: it shows what Temporal says, and the bench has none.
 * The first integrations have the most rows; a single row is one from the middle. {@link HOME} has a goal of its own.
 */
export const dashboardPaths = ({ integrations, requests, webhooks, items }: Size): readonly string[] =>
  [
    '',
    '?after=51',
    '/charts?window=1h',
    '/charts?window=24h',
    '/charts?window=7d',
    '/charts?window=30d',
    '/charts?window=30d&provider=p1',
    '/charts?window=30d&integration=1',
    '/integrations',
    '/integrations?after=51',
    '/integrations?provider=p1',
    '/integrations?health=failing',
    '/integrations/1',
    `/integrations/${0.9 * integrations}`,
    '/webhooks',
    '/webhooks?status=failed',
    '/webhooks?integration=1',
    `/webhooks/${webhooks / 2}`,
    '/sync-runs',
    '/sync-runs?integration=1',
    `/sync-runs/${items / ITEMS_OF_A_RUN / 2}`,
    '/sync-items',
    '/sync-items?status=failed',
    `/sync-items/${items / 2}`,
    '/requests',
    '/requests?success=false',
    '/requests?integration=1',
    `/requests/${requests / 2}`,
    '/incidents',
    '/incidents?status=open',
    '/incidents/100',
    '/failures',
    '/failures?integration=1',
    '/doctor',
    '/events',
    '/events/100',
    '/logs',
    `/logs/${webhooks / 2}`,
    '/mappings',
    '/mappings/100',
    '/idempotency-keys',
    '/notifications',
    '/console',
    '/console?integration=1',
    '/configuration',
    '/keys',
    '/tokens',
    '/audit',
    '/search',
    '/search?q=order%3A17',
    PAYLOADS,
    '/do/post/webhooks/replay?status=failed&integration=1',
  ].map((path) => `/operator${path}`)

/** The page with the most on it. */
export const HOME = '/operator'

/** Reads that pages are made of, by name; each is asked again and again with another `n`. */
export const READS: Readonly<Record<string, (integrations: Integrations, n: number) => Promise<unknown>>> = {
  'charts.series, 1h': ({ admin }) => admin.charts.series({ window: '1h' }),
  'charts.series, 24h': ({ admin }) => admin.charts.series({ window: '24h' }),
  'charts.series, 7d': ({ admin }) => admin.charts.series({ window: '7d' }),
  'charts.series, 30d': ({ admin }) => admin.charts.series({ window: '30d' }),
  'charts.series, 30d of a provider': ({ admin }, n) => admin.charts.series({ window: '30d', provider: `p${n % 8}` }),
  'charts.series, 24h of an integration': ({ admin }, n) =>
    admin.charts.series({ window: '24h', integrationId: 1 + n }),
  'charts.series, 30d of an integration': ({ admin }, n) =>
    admin.charts.series({ window: '30d', integrationId: 1 + n }),
  'charts.series, 7d of an owner': ({ admin }, n) =>
    admin.charts.series({ window: '7d', owner: { type: 'team', id: 1 + n } }),
  'charts.sparklines of 50': ({ admin }, n) =>
    admin.charts.sparklines(Array.from({ length: 50 }, (_, at) => 1 + ((n * 50 + at) % 400))),
  'charts.marks, 30d': ({ admin }) =>
    admin.charts.marks({ from: new Date(Date.now() - 30 * 86_400_000), to: new Date() }),
  'charts.marks, 30d of an integration': ({ admin }, n) =>
    admin.charts.marks({ from: new Date(Date.now() - 30 * 86_400_000), to: new Date(), integrationId: 1 + n }),
  'integrations, a page': ({ admin }) => admin.operator.page({ limit: 50 }),
  'integrations, a page of a provider': ({ admin }, n) => admin.operator.page({ limit: 50, provider: `p${n % 8}` }),
  'integrations, a page of the stale ones': ({ admin }) => admin.operator.page({ limit: 50, stale: true }),
  'integrations, a page of the failing ones': ({ admin }) => admin.operator.page({ limit: 50, health: 'failing' }),
  'integrations, listed with traffic': ({ admin }) => taken(admin.operator.list({ limit: 50 })),
  'an integration: its detail': ({ admin }, n) => admin.operator.detail(1 + n),
  'an integration: its health': ({ admin }, n) => admin.health(1 + n),
  incidents: ({ admin }) => taken(admin.incidents.list({ limit: 50 })),
  'incidents, open': ({ admin }) => taken(admin.incidents.list({ limit: 50, status: 'open' })),
  'incidents of an integration': ({ admin }, n) => taken(admin.incidents.list({ limit: 50, integrationId: 1 + n })),
  'incidents of a provider': ({ admin }, n) => taken(admin.incidents.list({ limit: 50, provider: `p${n % 8}` })),
  webhooks: ({ webhooks }) => taken(webhooks.list({ limit: 50 })),
  'webhooks, failed': ({ webhooks }) => taken(webhooks.list({ limit: 50, status: 'failed' })),
  'webhooks, pending': ({ webhooks }) => taken(webhooks.list({ limit: 50, status: 'pending' })),
  'webhooks, processing': ({ webhooks }) => taken(webhooks.list({ limit: 50, status: 'processing' })),
  'webhooks of an integration': ({ webhooks }, n) => taken(webhooks.list({ limit: 50, integration: 1 + n })),
  'webhooks, failed of an integration': ({ webhooks }, n) =>
    taken(webhooks.list({ limit: 50, integration: 1 + n, status: 'failed' })),
  'webhooks, failed of a small integration': ({ webhooks }, n) =>
    taken(webhooks.list({ limit: 50, integration: 9_000 - n, status: 'failed' })),
  'webhooks of a provider': ({ webhooks }, n) => taken(webhooks.list({ limit: 50, provider: `p${n % 8}` })),
  runs: ({ syncs }) => taken(syncs.runs({ limit: 50 })),
  'runs, failed': ({ syncs }) => taken(syncs.runs({ limit: 50, status: 'failed' })),
  'runs of an integration': ({ syncs }, n) => taken(syncs.runs({ limit: 50, integrationId: 1 + n })),
  items: ({ admin }) => taken(admin.syncItems.list({ limit: 50 })),
  'items, failed': ({ admin }) => taken(admin.syncItems.list({ limit: 50, status: 'failed' })),
  'items, pending': ({ admin }) => taken(admin.syncItems.list({ limit: 50, status: 'pending' })),
  'items, skipped': ({ admin }) => taken(admin.syncItems.list({ limit: 50, status: 'skipped' })),
  'items of an integration': ({ admin }, n) => taken(admin.syncItems.list({ limit: 50, integrationId: 1 + n })),
  'items, failed of an integration': ({ admin }, n) =>
    taken(admin.syncItems.list({ limit: 50, integrationId: 1 + n, status: 'failed' })),
  'items, failed and not made up for': ({ admin }) => admin.syncItems.failed({ limit: 50 }),
  requests: ({ admin }) => taken(admin.requests.list({ limit: 50 })),
  'requests, failed': ({ admin }) => taken(admin.requests.list({ limit: 50, success: false })),
  'requests of a class': ({ admin }) => taken(admin.requests.list({ limit: 50, failureClass: 'throttle' })),
  'requests of an integration': ({ admin }, n) => taken(admin.requests.list({ limit: 50, integrationId: 1 + n })),
  'requests, failed of an integration': ({ admin }, n) =>
    taken(admin.requests.list({ limit: 50, integrationId: 1 + n, success: false })),
  'requests of a small integration': ({ admin }, n) =>
    taken(admin.requests.list({ limit: 50, integrationId: 9_000 - n })),
  'requests of a provider': ({ admin }, n) => taken(admin.requests.list({ limit: 50, provider: `p${n % 8}` })),
  'failures of a day': ({ admin }) => admin.failures(),
  'failures of an integration': ({ admin }, n) => admin.failures({ integrationId: 1 + n }),
  'stored events': ({ admin }) => taken(admin.storedEvents.list({ limit: 50 })),
  notifications: ({ admin }) => admin.notifications.status(),
  audit: ({ admin }) => taken(admin.audit.list({ limit: 50 })),
  'audit of an action': ({ admin }) => taken(admin.audit.list({ limit: 50, action: 'rotate-webhook-secret' })),
  'audit of an integration': ({ admin }, n) => taken(admin.audit.list({ limit: 50, integrationId: 1 + n })),
  logs: ({ admin }) => taken(admin.logs.list({ limit: 50 })),
  mappings: ({ admin }) => taken(admin.mappings.list({ limit: 50 })),
  'idempotency keys': ({ admin }) => taken(admin.idempotencyKeys.list({ limit: 50 })),
  'keys: status': ({ admin }) => admin.keys.status(),
  'charts.busiest, 24h by calls': ({ admin }) => admin.charts.busiest({ window: '24h', by: 'calls' }),
  'charts.busiest, 7d by failures': ({ admin }) => admin.charts.busiest({ window: '7d', by: 'failures' }),
  'charts.busiest, 30d by calls': ({ admin }) => admin.charts.busiest({ window: '30d', by: 'calls' }),
  'integrations, the busiest with traffic': ({ admin }) => taken(admin.operator.list({ limit: 50, after: 51 })),
  statistics: ({ admin }) => admin.stats(),
}

async function taken(list: AsyncIterable<unknown>): Promise<number> {
  let rows = 0
  for await (const _ of list) rows += 1
  return rows
}
