/** The pages that every test of the dashboard visits, beside those that links lead to. A new page joins by a line. */
import type { DashboardRows } from '../../support/dashboard-rows.ts'

/** Below the root. */
export const PATHS: readonly ((rows: DashboardRows) => string)[] = [
  () => '',
  () => '/charts',
  () => '/integrations',
  ({ failing }) => `/integrations/${failing}`,
  ({ off }) => `/integrations/${off}`,
  () => '/webhooks',
  () => '/webhooks?status=failed',
  ({ webhook }) => `/webhooks/${webhook}`,
  () => '/sync-runs',
  ({ run }) => `/sync-runs/${run}`,
  () => '/sync-items',
  ({ item }) => `/sync-items/${item}`,
  ({ waitingItem }) => `/sync-items/${waitingItem}`,
  () => '/requests',
  () => '/incidents',
  () => '/failures',
  () => '/doctor',
  () => '/events',
  () => '/logs',
  () => '/mappings',
  () => '/idempotency-keys',
  () => '/notifications',
  () => '/console',
  () => '/schedules',
  () => '/configuration',
  () => '/keys',
  () => '/tokens',
  () => '/audit',
  ({ webhook }) => `/search?q=webhook:${webhook}`,
]

/** Pages of acts: what only `operate` sees. */
export const ACT_PATHS: readonly ((rows: DashboardRows) => string)[] = [
  () => '/do/post/webhooks/replay?status=failed',
  () => '/do/post/webhooks/dismiss',
  () => '/do/post/tokens',
  () => '/do/post/integrations',
  ({ failing }) => `/do/patch/integrations/${failing}`,
  ({ failing }) => `/do/delete/integrations/${failing}`,
  ({ failing }) => `/do/post/integrations/${failing}/erase`,
  ({ failing }) => `/do/post/integrations/${failing}/backfill`,
  ({ failing }) => `/do/put/integrations/${failing}/rate-limit`,
  ({ failing }) => `/do/put/integrations/${failing}/circuit`,
  ({ failing }) => `/do/put/integrations/${failing}/cursor`,
  ({ failing }) => `/do/post/integrations/${failing}/cancel`,
  ({ failing }) => `/do/post/integrations/${failing}/rotate-webhook-secret`,
  ({ item }) => `/do/post/sync-items/${item}/skip`,
  ({ webhook }) => `/progress?kind=webhook&rows=1&ids=${webhook}&since=2031-01-01T00:00:00Z`,
]
