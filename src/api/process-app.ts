/** The routes of our API process. Rule: docs/behaviour/operator-api.md, "Pages". */
import type { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { createApi } from './app.ts'
import { hasLoginPage, operatorRoot } from './middleware.ts'

/** The API's routes, and `/`, which redirects to the operator's pages. A host that mounts the routes has its own `/`. */
export function createProcessApp(integrations: Integrations): Hono {
  const app = createApi(integrations)
  if (!hasLoginPage(integrations)) return app
  return app.get('/', (context) =>
    context.body(null, 302, { Location: operatorRoot(integrations), 'Cache-Control': 'no-store' }),
  )
}
