/** The dashboard's pages by their paths. Rule: docs/behaviour/dashboard.md. */
import { Hono } from 'hono'
import type { Integrations } from '../../create-integrations.ts'
import type { AccessEnvironment } from '../caller.ts'
import { actProgressPage } from './act-progress-page.ts'
import { actRoutes } from './acts.ts'
import type { Deliver } from './console-page.ts'
import { consoleRoutes } from './console-page.ts'
import { homePage } from './home.ts'
import type { ListingPage } from './listing-page.ts'
import { listingPage } from './listing-page.ts'
import type { LiveOptions } from './live.ts'
import { liveRoutes } from './live.ts'
import { problemPage } from './problem-page.ts'

export function dashboardRoutes(
  integrations: Integrations,
  { deliver, ...live }: LiveOptions & { readonly deliver: Deliver },
): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.onError((error, context) => problemPage(integrations, context, error))
  routes.get('/', (context) => homePage(integrations, context))
  for (const listing of LISTINGS)
    routes.get(`/${listing.section}`, (context) => listingPage(integrations, context, listing))
  routes.get('/progress', (context) => actProgressPage(integrations, context))
  routes.route('/', actRoutes(integrations))
  routes.route('/', liveRoutes(integrations, live))
  routes.route('/', consoleRoutes(integrations, deliver))
  return routes
}

const LISTINGS: readonly ListingPage[] = [
  { section: 'integrations', title: 'Integrations', operation: 'get /integrations' },
  {
    section: 'webhooks',
    title: 'Webhooks',
    operation: 'get /webhooks',
    acts: [{ operation: 'post /webhooks/replay' }, { operation: 'post /webhooks/dismiss' }],
  },
  { section: 'sync-runs', title: 'Sync runs', operation: 'get /sync-runs' },
  { section: 'sync-items', title: 'Sync items', operation: 'get /sync-items' },
  { section: 'requests', title: 'Requests', operation: 'get /requests' },
  { section: 'incidents', title: 'Incidents', operation: 'get /incidents' },
  { section: 'events', title: 'Events', operation: 'get /events' },
  { section: 'logs', title: 'Operations', operation: 'get /logs' },
  { section: 'mappings', title: 'Mappings', operation: 'get /mappings' },
  { section: 'idempotency-keys', title: 'Idempotency keys', operation: 'get /idempotency-keys' },
  { section: 'tokens', title: 'Tokens', operation: 'get /tokens' },
  { section: 'audit', title: 'Audit', operation: 'get /audit' },
]
