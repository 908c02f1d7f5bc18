/** `metrics.port` of a worker process. Rule: docs/behaviour/metrics.md, "Scraping". */
import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { createWorkerApp } from '../api/metrics-routes.ts'
import type { Integrations } from '../create-integrations.ts'
import { InvalidConfiguration } from '../framework/errors.ts'
import { freePort } from './free-port.ts'
import { address } from './listen-address.ts'

const LOOPBACK: readonly string[] = ['127.0.0.1', '::1', 'localhost']
/** The SDK's own server is in this very process: what takes longer is not coming. */
const SDK_ANSWER_MS = 2_000
/** Another process may take a free port before we do. */
const PORT_TRIES = 5

export interface WorkerMetrics {
  /** From now on `/healthz` goes by it. */
  watch(worker: { isPolling(): boolean }): void
  close(): void
}

/**
 * Serves `/metrics` and `/healthz`; nothing where `metrics.port` is null.
 *
 * @param install makes the SDK serve its own metrics at this address, or none
 * @throws InvalidConfiguration when the port is taken
 */
export async function startWorkerMetrics(
  integrations: Integrations,
  install: (sdkMetrics?: string) => void,
): Promise<WorkerMetrics> {
  const {
    config,
    admin: { logger, metrics },
  } = integrations
  const { port } = config.metrics
  if (port === null) {
    install()
    return { watch: () => {}, close: () => {} }
  }
  const { hostname } = address({ HOST: process.env.HOST })
  let isPolling = (): boolean => false
  const sdkMetrics = await installBeside(install)
  const app = createWorkerApp(integrations, {
    isPolling: () => isPolling(),
    // Users of this machine can read the process's memory figures anyway.
    isOpen: config.metrics.open || LOOPBACK.includes(hostname),
    isOpenHereOnly: !config.metrics.open,
    more: async () => {
      try {
        const answer = await fetch(`http://${sdkMetrics}/metrics`, { signal: AbortSignal.timeout(SDK_ANSWER_MS) })
        if (!answer.ok) throw new Error(`it answered ${answer.status}`)
        return await answer.text()
      } catch (error) {
        const fields = { event: 'metrics.sdk_unread', error: error instanceof Error ? error.message : String(error) }
        logger.warn(fields, "the Temporal SDK's own metrics could not be read; the others are served")
        return ''
      }
    },
  })
  const server = await listening(app.fetch, hostname, port)
  server.on('error', (error) => {
    const fault = { event: 'metrics.server_failed', error: error.message }
    logger.error(fault, 'the HTTP server of the metrics had a fault; the worker goes on')
  })
  metrics.includeProcess()
  logger.info({ event: 'metrics.ready', url: `http://${hostname}:${port}/metrics` }, 'metrics are served')
  return {
    watch: (worker) => {
      isPolling = () => worker.isPolling()
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** The SDK does not tell which port it got, so it is given one that is free. */
async function installBeside(install: (sdkMetrics: string) => void): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    const sdkMetrics = `127.0.0.1:${await freePort()}`
    try {
      install(sdkMetrics)
      return sdkMetrics
    } catch (error) {
      if (tries === PORT_TRIES || !String(error).includes('in use')) throw error
    }
  }
}

function listening(fetch: Parameters<typeof serve>[0]['fetch'], hostname: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, hostname, port }, () => {
      server.off('error', refused)
      resolve(server)
    }) as Server
    const refused = (error: Error): void =>
      reject(
        new InvalidConfiguration([
          {
            key: 'metrics.port',
            expected: `a port that this process can listen on at ${hostname}`,
            received: `${port}: ${error.message}`,
          },
        ]),
      )
    server.once('error', refused)
  })
}
