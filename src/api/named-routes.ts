/** The routes that providers and people are given, by name. Rule: docs/behaviour/access.md, "Named routes". */
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

/**
 * An id in a path: a positive integer that a JS number holds exactly. 0, which no row has, for any other text: the route then
 * answers as for a row that does not exist.
 */
export function idIn(text: string | undefined): number {
  const id = /^[1-9]\d{0,15}$/.test(text ?? '') ? Number(text) : 0
  return Number.isSafeInteger(id) ? id : 0
}

/** The routes at the configured paths: `namedRoutes(integrations.config)['integrations.webhook'].path`. */
export function namedRoutes({ oauth, webhook }: Pick<Config, 'oauth' | 'webhook'>): Record<RouteName, NamedRoute> {
  return {
    'integrations.oauth.authorize': { methods: ['GET'], path: `/${oauth.route_prefix}/:id/oauth/authorize` },
    'integrations.oauth.callback': { methods: ['GET'], path: `/${oauth.route_prefix}/oauth/callback` },
    'integrations.oauth.revoke': { methods: ['POST'], path: `/${oauth.route_prefix}/:id/oauth/revoke` },
    'integrations.webhook': { methods: ['GET', 'POST'], path: `/${webhook.prefix}/:provider/webhook` },
    'integrations.webhook.specific': { methods: ['GET', 'POST'], path: `/${webhook.prefix}/:provider/:id/webhook` },
  }
}
