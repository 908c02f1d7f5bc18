/** What a worker process answers over HTTP, on `metrics.port`. Rule: docs/behaviour/metrics.md, "Scraping". */
import { Hono } from 'hono'
import type { Integrations } from '../integrations.ts'
import type { MetricsRoutes } from './metrics-routes.ts'
import { metricsRoutes } from './metrics-routes.ts'

export interface WorkerApp extends Omit<MetricsRoutes, 'path'> {
  /** Whether the process asks Temporal for work. */
  isPolling(): boolean
}

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
