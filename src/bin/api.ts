/** An API process: serves the routes until it is told to stop. Starts while Temporal is away: webhooks are stored. Rule: docs/behaviour/workers.md. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '@hono/node-server'
import { createApi } from '../api/app.ts'
import { redirectRoot } from '../api/operator-routes.ts'
import { attempt, problemsOf } from '../config/faults.ts'
import type { Integrations } from '../create-integrations.ts'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { InvalidConfiguration } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { inTime } from '../framework/waiting.ts'
import { startTracing } from '../observability/tracing-start.ts'
import { sdk } from '../temporal/connection.ts'
import { sweepPending } from '../temporal/sweep.ts'
import { loadHost } from './host.ts'
import { address } from './listen-address.ts'
import { lastSteps, onStop, runProcess } from './run.ts'

const DEFAULT_DRAIN_SECONDS = 1
const MAX_DRAIN_SECONDS = 3_600
/** Requests that are still open after this time are cut: the supervisor would kill the process. */
const LAST_ANSWERS_MS = 10_000
/**
 * How long an idle connection is kept: longer than a balancer does, which would else send a delivery on one that Node closes at the same
 * moment, and answer 502. The longest of the known ones is Cloudflare's 900 s:
 * https://developers.cloudflare.com/fundamentals/reference/connection-limits/
 */
const IDLE_CONNECTION_MS = 910_000

await runProcess(async () => {
  const problems: ConfigurationProblem[] = []
  const listen = attempt(problems, 'PORT', () => address(process.env))
  const drainFor = attempt(problems, 'API_DRAIN_SECONDS', () => drainSeconds(process.env))
  // Also after a faulty port, so that all faults are told together.
  const host = await loadHost().catch((error: unknown) => {
    problems.push(...problemsOf('INTEGRATIONS_CONFIG', error))
    return undefined
  })
  if (listen === undefined || drainFor === undefined || host === undefined) throw new InvalidConfiguration(problems)
  const { hostname, port } = listen
  const { integrations } = host
  const { logger } = integrations.admin
  const stopping = onStop(logger, (why) =>
    logger.info({ event: 'api.stopping', why }, 'API answers what it has, and soon takes nothing new'),
  )
  const tracing = await startTracing({ service: 'integrations-api', logger })
  await integrations.ready()
  // Else the first page or delivery that asks Temporal waits for its package, and every other request with it.
  sdk()
  integrations.admin.metrics.includeProcess()
  const cut = stopping.isAsked() ? 0 : await serveUntil(stopping.asked, { integrations, hostname, port, drainFor })
  const exitCode = await lastSteps(logger, stopping, { steps: [() => integrations.close(), () => tracing.end()] })
  logger.info({ event: 'api.stopped', connections_cut: cut }, 'API has stopped')
  process.exit(exitCode)
})

interface Serving {
  readonly integrations: Integrations
  readonly hostname: string
  readonly port: number
  /** API_DRAIN_SECONDS */
  readonly drainFor: number
}

/** @returns how many connections were cut at the end */
async function serveUntil(asked: Promise<void>, { integrations, hostname, port, drainFor }: Serving): Promise<number> {
  const { logger } = integrations.admin
  const streams = new AbortController()
  void asked.then(() => streams.abort())
  const api = redirectRoot(createApi(integrations, { signal: streams.signal }), integrations)
  const readyz = `/${integrations.config.operator.prefix}/api/v1/readyz`
  let isDraining = (): boolean => false
  const answer: typeof api.fetch = (request, ...rest) =>
    isDraining() && new URL(request.url).pathname === readyz ? notReady() : api.fetch(request, ...rest)
  // Without TLS of its own, which Hono's adapter would take another server for.
  const server = serve({ fetch: answer, hostname, port }, (info) => {
    logger.info({ event: 'api.ready', url: `http://${hostname}:${info.port}`, pid: process.pid }, 'API ready')
  }) as Server
  server.on('error', (error) => {
    if (server.listening) return serverFailed(logger, error)
    process.stderr.write(`The API can't listen on ${hostname}:${port}: ${error.message}\n`)
    process.exit(1)
  })
  server.keepAliveTimeout = IDLE_CONNECTION_MS
  const drain = drainOf(server)
  isDraining = drain.isDraining
  void wakeWaiting(integrations)
  const endSweep = sweepPending(integrations)
  await asked
  const cut = await drain.end(drainFor)
  endSweep()
  return cut
}

/** Requests in hand lose nothing by it: of a connection that could not be taken there is no request yet. */
function serverFailed(logger: Logger, error: Error): void {
  logger.error({ event: 'api.server_failed', error: errorLine(error, 300) }, 'the HTTP server had a fault; it goes on')
}

/** Wakes the inbox for rows that were stored without a wake-up. Beside the requests: Postgres may be slow. */
async function wakeWaiting({ webhooks, admin: { logger } }: Integrations): Promise<void> {
  try {
    await webhooks.wakePending()
  } catch (error) {
    logger.warn({ event: 'webhook.sweep_failed', error: errorLine(error, 300) }, 'could not look for rows that wait')
  }
}

/** As `/readyz` answers itself, without a question: the load balancer shall send requests elsewhere. */
function notReady(): Response {
  return Response.json({ status: 'draining' }, { status: 503, headers: { 'Cache-Control': 'no-store' } })
}

/** API_DRAIN_SECONDS. @throws InvalidConfiguration */
function drainSeconds(environment: NodeJS.ProcessEnv): number {
  const text = environment.API_DRAIN_SECONDS || String(DEFAULT_DRAIN_SECONDS)
  const seconds = Number(text)
  if (!/^\d{1,4}$/.test(text) || seconds > MAX_DRAIN_SECONDS)
    throw new InvalidConfiguration([
      {
        key: 'API_DRAIN_SECONDS',
        expected: `an integer from 0 to ${MAX_DRAIN_SECONDS}`,
        received: JSON.stringify(text),
      },
    ])
  return seconds
}

interface Drain {
  /** From here on `/readyz` has to say no. */
  readonly isDraining: () => boolean
  /**
   * Takes requests for this time, each answer closing its connection (RFC 9112, section 9.6); then none.
   *
   * @returns how many connections were cut, when all have been answered or after 10 s more
   */
  end(seconds: number): Promise<number>
}

/** The end under load. The load balancer is told first. Then nothing new is taken, and what was taken is answered. */
function drainOf(server: Server): Drain {
  const open = new Set<ServerResponse>()
  let isDraining = false
  // Before the routes see it: an answer that has begun can be told nothing any more.
  server.prependListener('request', (_: IncomingMessage, answer: ServerResponse) => {
    if (isDraining) answer.setHeader('Connection', 'close')
    open.add(answer)
    answer.once('close', () => open.delete(answer))
  })
  return {
    isDraining: () => isDraining,
    async end(seconds) {
      isDraining = true
      for (const answer of open) if (!answer.headersSent) answer.setHeader('Connection', 'close')
      await sleep(seconds * 1_000)
      // What is idle is closed with it: https://nodejs.org/api/http.html#serverclosecallback
      const closed = new Promise<true>((resolve) => server.close(() => resolve(true)))
      if (await inTime(closed, LAST_ANSWERS_MS)) return 0
      const left = open.size
      server.closeAllConnections()
      await closed
      return left
    },
  }
}
