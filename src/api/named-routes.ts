/** The routes that the outside world is given, by name. Rule: docs/behaviour/access.md, "Named routes". */
import type { Config } from '../config/schema.ts'

export type RouteName =
  | 'integrations.oauth.authorize'
  | 'integrations.oauth.callback'
  | 'integrations.oauth.revoke'
  | 'integrations.webhook'
  | 'integrations.webhook.specific'

export interface NamedRoute {
  readonly methods: readonly ('GET' | 'POST')[]
  /** Below the base URL's path, with `:id` and `:provider` where they go. */
  readonly path: string
}

/** Where the configuration has them: `namedRoutes(integrations.config)['integrations.webhook'].path`. */
export function namedRoutes({ oauth, webhook }: Pick<Config, 'oauth' | 'webhook'>): Record<RouteName, NamedRoute> {
  return {
    'integrations.oauth.authorize': { methods: ['GET'], path: `/${oauth.route_prefix}/:id/oauth/authorize` },
    'integrations.oauth.callback': { methods: ['GET'], path: `/${oauth.route_prefix}/oauth/callback` },
    'integrations.oauth.revoke': { methods: ['POST'], path: `/${oauth.route_prefix}/:id/oauth/revoke` },
    'integrations.webhook': { methods: ['GET', 'POST'], path: `/${webhook.prefix}/:provider/webhook` },
    'integrations.webhook.specific': { methods: ['GET', 'POST'], path: `/${webhook.prefix}/:provider/:id/webhook` },
  }
}
