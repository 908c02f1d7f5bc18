/** The dashboard's pages by their paths. Rule: docs/behaviour/dashboard.md. */
import { Hono } from 'hono'
import type { Integrations } from '../../create-integrations.ts'
import type { AccessEnvironment } from '../caller.ts'
import { ProblemError, problemResponse } from '../problem.ts'
import { actProgressPage } from './acts/act-progress-page.ts'
import { actRoutes } from './acts/acts.ts'
import type { Section } from './frame/frame.ts'
import { problemPage, wantsPage } from './frame/problem-page.ts'
import { LISTINGS } from './lists/listings.ts'
import type { LiveOptions } from './live.ts'
import { liveRoutes } from './live.ts'
import { chartsPage } from './pages/charts-page.ts'
import type { Deliver } from './pages/console-page.ts'
import { consoleRoutes } from './pages/console-page.ts'
import { failuresPage } from './pages/failures-page.ts'
import { homePage } from './pages/home.ts'
import { payloadSearchPage, searchPage } from './pages/search-page.ts'
import { SYSTEM_PAGES } from './pages/system-pages.ts'
import { keyDetail, requestDetail } from './records/call-pages.ts'
import type { DetailOf } from './records/detail-page.ts'
import { detailPage } from './records/detail-page.ts'
import { integrationDetail } from './records/integration-page.ts'
import { eventDetail, incidentDetail, logDetail, mappingDetail } from './records/record-pages.ts'
import { itemDetail, runDetail } from './records/sync-pages.ts'
import { webhookDetail } from './records/webhook-page.ts'

export function dashboardRoutes(
  integrations: Integrations,
  { deliver, ...live }: LiveOptions & { readonly deliver: Deliver },
): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.onError((error, context) => problemPage(integrations, context, error))
  routes.get('/', (context) => homePage(integrations, context))
  routes.get('/charts', (context) => chartsPage(integrations, context))
  for (const { section, serve } of [...LISTINGS, ...SYSTEM_PAGES])
    routes.get(`/${section}`, (context) => serve(integrations, context))
  routes.get('/failures', (context) => failuresPage(integrations, context))
  routes.get('/search', (context) => searchPage(integrations, context))
  routes.get('/search/payloads', (context) => payloadSearchPage(integrations, context))
  for (const [section, detailOf] of DETAILS)
    routes.get(`/${section}/:id{[0-9]+}`, (context) => detailPage(integrations, context, section, detailOf))
  routes.get('/progress', (context) => actProgressPage(integrations, context))
  routes.route('/', actRoutes(integrations))
  routes.route('/', liveRoutes(integrations, live))
  routes.route('/', consoleRoutes(integrations, deliver))
  routes.all('*', (context) => {
    const problem = { code: 'no_such_route', detail: 'There is no such page.' } as const
    return wantsPage(context)
      ? problemPage(integrations, context, new ProblemError(problem))
      : problemResponse(context, { ...problem, detail: 'There is no such route.' })
  })
  return routes
}

const DETAILS: readonly (readonly [Section, DetailOf])[] = [
  ['integrations', integrationDetail],
  ['webhooks', webhookDetail],
  ['sync-runs', runDetail],
  ['sync-items', itemDetail],
  ['requests', requestDetail],
  ['incidents', incidentDetail],
  ['events', eventDetail],
  ['logs', logDetail],
  ['mappings', mappingDetail],
  ['idempotency-keys', keyDetail],
]
