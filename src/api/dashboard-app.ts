/** The dashboard alone, at an address of its own and with a token that its address signs in with. */
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import { devLogin, operatorRoot } from './middleware.ts'
import { operatorRoutes, redirectRoot } from './operator-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

export interface DashboardApp extends Pick<Hono, 'fetch'> {
  /** Path of the dashboard. */
  readonly root: string
  /** Path that signs a browser in. */
  readonly login: string
}

/**
 * Reached at any address: through a tunnel, a published port, another name of this machine. So a page's own origin is that of its
 * request, as in `dev`, and the host's base URL does not count. Rule: docs/behaviour/access.md, "Same origin".
 *
 * @param options `token`: one that is known as an operator's
 */
export function dashboardApp(
  integrations: Integrations,
  { token, signal }: { readonly token: string; readonly signal: AbortSignal },
): DashboardApp {
  const { admin } = integrations
  const access = { ...admin.access, baseUrl: null, dev: true, devToken: token, isAlone: true }
  const own: Integrations = Object.assign(Object.create(integrations), {
    admin: Object.assign(Object.create(admin), { access }),
  })
  const webhooks = webhookRoutes(own)
  const app = new Hono()
  app.route(
    '/',
    operatorRoutes(own, (request, env) => webhooks.fetch(request, env as object), { signal }),
  )
  redirectRoot(app, own)
  const root = operatorRoot(own)
  return { fetch: app.fetch, root, login: devLogin(own) ?? `${root}/login` }
}
