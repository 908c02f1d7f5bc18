import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { apiRoutes } from './api-routes.ts'
import { appRoutes } from './app-routes.ts'
import { attachmentRoutes } from './attachment-routes.ts'
import { createCallers } from './callers.ts'
import { controlRoutes } from './control-routes.ts'
import { GithubFailure, notFound } from './failures.ts'
import { admission, conditionalRequests, githubHeaders, jsonOrText, logAndFaults } from './request-pipeline.ts'
import type { SandboxEnv } from './sandbox-state.ts'
import { createSandboxState } from './sandbox-state.ts'

export interface SandboxOptions {
  /** The one token that is let in, as `Bearer` or `token`. */
  token?: string
  owner?: string
  repository?: string
  /** Issues and pull requests at the start. Default 340: four pages of 100. */
  entries?: number
  /** Requests an hour; an App's installation has as many of its own. */
  rateLimit?: number
  now?: () => Date
}

export interface RunningSandbox {
  url: string
  close(): Promise<void>
}

export const SANDBOX_TOKEN = 'sandbox-token'

/** The app without a socket: `createGithubSandbox().request('/user', ...)`. */
export function createGithubSandbox({
  token = SANDBOX_TOKEN,
  owner = 'octo-sandbox',
  repository = 'widgets',
  entries = 340,
  rateLimit = 5000,
  now = () => new Date(),
}: SandboxOptions = {}): Hono<SandboxEnv> {
  const state = createSandboxState({ owner, name: repository, entries }, now)
  const callerOf = createCallers(token, state.installationTokens, rateLimit, now)

  const app = new Hono<SandboxEnv>()
  app.route('/_sandbox', controlRoutes(state))
  app.use(logAndFaults(state))
  app.use(githubHeaders(callerOf))
  app.route('/', attachmentRoutes(state))
  app.use(conditionalRequests())
  app.route('/app', appRoutes(state))
  app.use(admission(state))
  app.route('/', apiRoutes(state))
  app.notFound(() => answerTo(notFound()))
  app.onError((error) => {
    if (error instanceof GithubFailure) return answerTo(error)
    throw error
  })
  return app
}

/** Listens; port 0 takes a free one. `close()` cuts what is still open. */
export async function startGithubSandbox({
  port = 0,
  host = '127.0.0.1',
  ...options
}: SandboxOptions & { port?: number; host?: string } = {}): Promise<RunningSandbox> {
  const app = createGithubSandbox(options)
  const server = await new Promise<ServerType>((resolve, reject) => {
    const starting = serve({ fetch: app.fetch, port, hostname: host }, () => resolve(starting))
    starting.once('error', reject)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The sandbox listens on no TCP port')
  const shownHost = host.includes(':') ? `[${host}]` : host
  return {
    url: `http://${shownHost}:${address.port}`,
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)))
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}

function answerTo(failure: GithubFailure): Response {
  return jsonOrText(failure.status, failure.body)
}
