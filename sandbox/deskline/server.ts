import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createFaultList } from '../faults.ts'
import { answerHeaders } from './answer-headers.ts'
import { apiRoutes } from './api-routes.ts'
import { createAuthorizationServer } from './authorization-server.ts'
import { controlRoutes } from './control-routes.ts'
import { DesklineFailure, notFound } from './failures.ts'
import { createMinuteQuota } from './minute-quota.ts'
import { oauthRoutes } from './oauth-routes.ts'
import { orderedFaults } from './ordered-faults.ts'
import { logRequests } from './request-log.ts'
import type { DesklineEnv, DesklineState } from './state.ts'
import { createTicketStore } from './tickets.ts'

export interface DesklineOptions {
  clientId?: string
  clientSecret?: string
  /** Where an authorization may lead back to. */
  redirectUris?: string[]
  /** Tickets at the start. Default 240. */
  tickets?: number
  /** Requests to the API a minute. Default 300. */
  rateLimit?: number
  /** How long an access token is good. Default 3600. */
  tokenSeconds?: number
  now?: () => Date
}

export interface RunningDeskline {
  url: string
  close(): Promise<void>
}

export const DESKLINE_CLIENT = { id: 'deskline-client', secret: 'deskline-client-secret' }

/** The app without a socket: `createDesklineSandbox().request('/v1/me', …)`. */
export function createDesklineSandbox({
  clientId = DESKLINE_CLIENT.id,
  clientSecret = DESKLINE_CLIENT.secret,
  redirectUris = [],
  tickets = 240,
  rateLimit = 300,
  tokenSeconds = 3600,
  now = () => new Date(),
}: DesklineOptions = {}): Hono<DesklineEnv> {
  const client = { id: clientId, secret: clientSecret, redirectUris: [...redirectUris] }
  const state: DesklineState = {
    tickets: createTicketStore(tickets, now),
    oauth: createAuthorizationServer(client, tokenSeconds, now),
    faults: createFaultList(),
    quota: createMinuteQuota(rateLimit, now),
    requests: [],
    sentEvents: new Set(),
    now,
  }
  const app = new Hono<DesklineEnv>()
  app.route('/_sandbox', controlRoutes(state))
  for (const path of ['/v1/*', '/oauth/token', '/oauth/revoke'])
    app.use(path, logRequests(state), answerHeaders(state), orderedFaults(state))
  app.route('/', oauthRoutes(state.oauth))
  app.route('/v1', apiRoutes(state))
  app.notFound((c) => notFound(`${c.req.method} ${c.req.path}`).toResponse())
  app.onError((error) => {
    if (error instanceof DesklineFailure) return error.toResponse()
    throw error
  })
  return app
}

/** Listens; port 0 takes a free one. `close()` cuts what is still open. */
export async function startDesklineSandbox({
  port = 0,
  host = '127.0.0.1',
  ...options
}: DesklineOptions & { port?: number; host?: string } = {}): Promise<RunningDeskline> {
  const app = createDesklineSandbox(options)
  const server = await new Promise<ServerType>((resolve, reject) => {
    const starting = serve({ fetch: app.fetch, port, hostname: host }, () => resolve(starting))
    starting.once('error', reject)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('Deskline listens on no TCP port')
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)))
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}
