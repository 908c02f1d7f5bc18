/** What an API process of ours answers. Rule: docs/behaviour/operator-api.md, "Pages". */
import type { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { createApi } from './app.ts'
import { hasLoginPage, operatorRoot } from './middleware.ts'

/** The routes, and `/`, whose address the process prints: it leads to the pages. A host that mounts the routes has a `/` of its own. */
export function createProcessApp(integrations: Integrations): Hono {
  const app = createApi(integrations)
  if (!hasLoginPage(integrations)) return app
  return app.get('/', (context) =>
    context.body(null, 302, { Location: operatorRoot(integrations), 'Cache-Control': 'no-store' }),
  )
}
