/** What Prometheus asks for. Rule: docs/behaviour/metrics.md, "Scraping". */
import type { MiddlewareHandler } from 'hono'
import { Hono } from 'hono'
import { isLocalHost } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import type { AccessEnvironment } from './caller.ts'
import { hasLoginPage, operator } from './middleware.ts'
import { problemHandler, problemResponse } from './problem.ts'

export interface MetricsRoutes {
  /** Default `metrics.path`; null: nowhere. */
  readonly path?: string | null
  /** Whether nobody is asked for a token. Default `metrics.open`. */
  readonly isOpen?: boolean
  /** Where it is open: only to who calls this machine by its own name, so to no page whose name was re-pointed to it. */
  readonly isOpenHereOnly?: boolean
  /** What the process has to say beside the integrations, in the same format. */
  readonly more?: () => Promise<string>
}

/** Nothing at all without a path, and where nobody could be let in: with no token, and not open. */
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
  const { metrics } = integrations
  // A session is looked up in Postgres, which may be away.
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
  return problemResponse(context, { status: 403, code: 'foreign_host', detail })
}

interface WorkerApp extends Omit<MetricsRoutes, 'path'> {
  /** Whether the process asks Temporal for work. */
  isPolling(): boolean
}

/** What a worker process answers over HTTP, on `metrics.port`. Rule: docs/behaviour/metrics.md, "Scraping". */
export function createWorkerApp(integrations: Integrations, { isPolling, ...routes }: WorkerApp): Hono {
  const app = new Hono()
  // Open to everybody, as the API's. Temporal being away changes nothing here: a restart would not help.
  app.get('/healthz', (context) => {
    const isWell = isPolling()
    return context.json({ status: isWell ? 'ok' : 'not polling' }, isWell ? 200 : 503, { 'Cache-Control': 'no-store' })
  })
  app.route('/', metricsRoutes(integrations, { ...routes, path: '/metrics' }))
  app.notFound((context) => context.json({ error: 'There is no such route.' }, 404))
  return app
}
