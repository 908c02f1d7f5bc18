/** The dashboard's pages by their paths. Rule: docs/dashboard.md. */
import { Hono } from 'hono'
import type { Integrations } from '../../create-integrations.ts'
import type { AccessEnvironment } from '../caller.ts'
import { ProblemError, problemResponse } from '../problem.ts'
import { actProgressPage } from './act-progress-page.ts'
import { actRoutes } from './acts.ts'
import { keyDetail, requestDetail } from './call-pages.ts'
import type { DetailOf } from './detail-page.ts'
import { detailPage } from './detail-page.ts'
import { failuresPage } from './failures-page.ts'
import type { Section } from './frame.ts'
import { homePage } from './home.ts'
import { integrationDetail } from './integration-page.ts'
import { listingPage } from './listing-page.ts'
import { LISTINGS } from './listings.ts'
import type { LiveOptions } from './live.ts'
import { liveRoutes } from './live.ts'
import { problemPage, wantsPage } from './problem-page.ts'
import { eventDetail, incidentDetail, logDetail, mappingDetail } from './record-pages.ts'
import { payloadSearchPage, searchPage } from './search-page.ts'
import { itemDetail, runDetail } from './sync-pages.ts'
import { SYSTEM_PAGES, systemPage } from './system-pages.ts'
import { webhookDetail } from './webhook-page.ts'

export function dashboardRoutes(integrations: Integrations, live: LiveOptions): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  routes.onError((error, context) => problemPage(integrations, context, error))
  routes.get('/', (context) => homePage(integrations, context))
  for (const listing of LISTINGS)
    routes.get(`/${listing.section}`, (context) => listingPage(integrations, context, listing))
  for (const page of SYSTEM_PAGES) routes.get(`/${page.section}`, (context) => systemPage(integrations, context, page))
  routes.get('/failures', (context) => failuresPage(integrations, context))
  routes.get('/search', (context) => searchPage(integrations, context))
  routes.get('/search/payloads', (context) => payloadSearchPage(integrations, context))
  for (const [section, detailOf] of DETAILS)
    routes.get(`/${section}/:id{[0-9]+}`, (context) => detailPage(integrations, context, section, detailOf))
  routes.get('/progress', (context) => actProgressPage(integrations, context))
  routes.route('/', actRoutes(integrations))
  routes.route('/', liveRoutes(integrations, live))
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
