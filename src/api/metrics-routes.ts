/** The metrics, as Prometheus scrapes them. Rule: docs/behaviour/metrics.md, "Scraping". */
import type { MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { isLocalHost } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import type { AccessEnvironment } from './caller.ts'
import { hasLoginPage, operator } from './middleware.ts'
import { problemHandler, problemResponse } from './problem.ts'

export interface MetricsRoutes {
  /** Default `metrics.path`; null: no route. */
  readonly path?: string | null
  /** Whether the route needs no token. Default `metrics.open`. */
  readonly isOpen?: boolean
  /** Without a token: answers only a local Host header, so no page whose name was re-pointed to this machine. */
  readonly isOpenHereOnly?: boolean
  /** More metrics of the process, in the same format. */
  readonly more?: () => Promise<string>
}

/** No route without a path, or where no caller could be admitted: not open, and no token is configured. */
export function metricsRoutes(
  integrations: Integrations,
  {
    path = integrations.config.metrics.path,
    isOpen = integrations.config.metrics.open,
    isOpenHereOnly = false,
    more,
  }: MetricsRoutes = {},
): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  const { metrics } = integrations.admin
  // The look-up of a session fails when Postgres is away.
  routes.onError(problemHandler(integrations))
  if (path === null || (!isOpen && !hasLoginPage(integrations))) return routes
  if (!isOpen) routes.use(path, operator(integrations))
  else if (isOpenHereOnly) routes.use(path, hereOnly)
  routes.get(path, async (context) => {
    const [own, others = ''] = await Promise.all([metrics.text(), more?.()])
    return context.body(`${own}${others}`, 200, {
      'Content-Type': metrics.contentType,
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
    })
  })
  return routes
}

const hereOnly: MiddlewareHandler = async function hereOnly(context, next) {
  if (isLocalHost(context.req.header('host'))) return next()
  const detail = 'Without a token this is for this machine only: ask for 127.0.0.1 or localhost, or set metrics.open.'
  return problemResponse(context, { code: 'foreign_host', detail })
}

interface WorkerApp extends Omit<MetricsRoutes, 'path'> {
  /** Whether the process polls Temporal for work. */
  isPolling(): boolean
}

/** The routes of a worker process, on `metrics.port`. Rule: docs/behaviour/metrics.md, "Scraping". */
export function createWorkerApp(integrations: Integrations, { isPolling, ...routes }: WorkerApp): Hono {
  const app = new Hono()
  // Open to any caller, like the API's. It does not depend on Temporal: a restart would not bring Temporal back.
  app.get('/healthz', (context) => {
    const isWell = isPolling()
    return context.json({ status: isWell ? 'ok' : 'not polling' }, isWell ? 200 : 503, { 'Cache-Control': 'no-store' })
  })
  app.route('/', metricsRoutes(integrations, { ...routes, path: '/metrics' }))
  app.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return app
}
