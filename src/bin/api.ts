/** An API process: serves the routes until it is told to stop. Starts while Temporal is away: webhooks are stored. */
import { serve } from '@hono/node-server'
import { createApi } from '../api/app.ts'
import { attempt, attemptLater } from '../config/faults.ts'
import type { ConfigurationProblem } from '../core/errors.ts'
import { InvalidConfiguration } from '../core/errors.ts'
import { sweepPending } from '../temporal/sweep.ts'
import { loadHost } from './host.ts'
import { address } from './listen-address.ts'
import { onStop, runProcess } from './run.ts'

/** Requests that are still open then are cut: whoever supervises the process would kill it. */
const LAST_ANSWERS_MS = 10_000

await runProcess(async () => {
  const problems: ConfigurationProblem[] = []
  const listen = attempt(problems, 'PORT', () => address(process.env))
  // With a port that is none, the host's own faults are still looked for, to be told together.
  const host = await attemptLater(problems, 'INTEGRATIONS_CONFIG', loadHost())
  if (listen === undefined || host === undefined) throw new InvalidConfiguration(problems)
  const { hostname, port } = listen
  const { integrations } = host
  await integrations.ready()
  const api = createApi(integrations)
  const server = serve({ fetch: api.fetch, hostname, port }, (info) => {
    console.log(JSON.stringify({ event: 'api.ready', url: `http://${hostname}:${info.port}`, pid: process.pid }))
  })
  server.on('error', (error) => {
    process.stderr.write(`The API can't listen on ${hostname}:${port}: ${error.message}\n`)
    process.exit(1)
  })
  // Rows that were stored while nobody could be told.
  await integrations.webhooks.wakePending()
  const endSweep = sweepPending(integrations)
  onStop(() => {
    endSweep()
    server.close(() => void integrations.close().then(() => process.exit(0)))
    // Some answers wait for a worker, which may not be there.
    setTimeout(() => 'closeAllConnections' in server && server.closeAllConnections(), LAST_ANSWERS_MS).unref()
  })
})
