/**
 * Of half-minutes.e2e.test.ts: a worker that its Temporal server refuses while it runs, or that loses it for good. What it says, and how
 * its process ends.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http2'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startProcess } from '../../dev/processes.ts'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { freePort } from '../../src/bin/free-port.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { until } from './own-stack.ts'

/** Says when the object that holds its pools is closed. */
const HOST = `
import { createIntegrations } from 'durable-integrations'

const demo = { verifyWebhookSignature: () => true, handleWebhook: () => null }
const integrations = createIntegrations({ providers: { demo }, config: { schedules: { enabled: false }, worker: { shutdown_grace: 1 } } })
const close = integrations.close.bind(integrations)
export default Object.assign(integrations, {
  async close() {
    await close()
    console.log(JSON.stringify({ event: 'host.closed' }))
  },
})
`
/** What a poll is refused with goes on being asked for so long; then the SDK gives up: LONG_POLL_FATAL_GRACE of temporalio_client. */
const REFUSED_SECONDS = 60
/** Until the next poll after that, on a machine that is busy. */
const NOTICED_SECONDS = REFUSED_SECONDS + 60
const READY_SECONDS = 60
/** Longer than the grace and what the steps of the end may take. */
const ENDED_SECONDS = 30
/** https://grpc.io/docs/guides/status-codes/ */
const NOT_FOUND = '5'

interface Line {
  readonly event?: string
  readonly level?: string | number
  readonly sdkComponent?: string
  readonly error?: string
  readonly msg?: string
}

let shared: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let root: string

beforeAll(async () => {
  shared = await sharePostgres()
  database = await createTestDatabase({ adminUrl: shared.url })
  root = await mkdtemp(join(inject('installed'), 'worker-failed-'))
  await writeFile(join(root, 'integrations.config.ts'), HOST)
})

afterAll(async () => {
  if (root !== undefined) await rm(root, { recursive: true, force: true })
  await database?.drop()
  await shared?.release()
})

/** Below those that the system gives to whoever asks for any: nobody gets it between two who listen on it. */
const somePort = () => randomInt(20_000, 30_000)

async function startServer({ onTestFinished }: TestContext): Promise<TemporalServer> {
  const server = await startTemporalServer({ binary: await findTemporalBinary(), port: somePort(), uiPort: null })
  onTestFinished(() => server.stop())
  return server
}

/** Answers each call as the server does whose namespace is not there any more. */
async function refuseAt(address: string, { onTestFinished }: TestContext): Promise<void> {
  const refusals = { 'grpc-status': NOT_FOUND, 'grpc-message': 'Namespace default is not found.' }
  const http = createServer()
  http.on('stream', (stream) =>
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...refusals }, { endStream: true }),
  )
  http.listen(Number(address.split(':')[1]), '127.0.0.1')
  await once(http, 'listening')
  onTestFinished(() => void http.close())
}

async function startWorker(server: TemporalServer, { onTestFinished }: TestContext) {
  const metricsPort = String(await freePort(somePort()))
  const lines: Line[] = []
  const rawLines: string[] = []
  const child = await startProcess({
    name: 'worker',
    command: process.execPath,
    args: [join(inject('installed'), 'node_modules/durable-integrations/dist/bin/worker.js')],
    env: {
      NODE_OPTIONS: undefined,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: server.address,
      INTEGRATIONS_ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
      INTEGRATIONS_CONFIG: join(root, 'integrations.config.ts'),
      INTEGRATIONS__CACHE_PREFIX: `failed-${randomBytes(4).toString('hex')}`,
      INTEGRATIONS__METRICS__PORT: metricsPort,
    },
    onLine: (line) => {
      if (process.env.TEST_SERVER_LOGS) process.stderr.write(`worker ${line}\n`)
      if (isObject(line)) lines.push(JSON.parse(line) as Line)
      else rawLines.push(line)
    },
  })
  onTestFinished(() => child.stop())
  const events = () => lines.map(({ event }) => event)
  await until('the worker is ready', async () => events().includes('worker.ready'), READY_SECONDS)
  return { ...child, lines, rawLines, events, isHealthy: () => isHealthy(metricsPort) }
}

function isObject(line: string): boolean {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}

/** Those of the process's own end, in order; beside them the SDK may have something to say. */
const endOf = (events: readonly (string | undefined)[]) =>
  events.filter((event) => event !== undefined && /^(worker[.](?!ready)|host[.]|process[.])/.test(event))

const isHealthy = (port: string) =>
  fetch(`http://127.0.0.1:${port}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  )

/** Beside each other: the one waits for a minute, and the other has time to start and to end meanwhile. */
describe.concurrent('a worker', () => {
  it(
    'that is refused while it runs says by whom, closes the rest in order, and ends with 2',
    async (context) => {
      const server = await startServer(context)
      const worker = await startWorker(server, context)
      await until('it polls', worker.isHealthy, ENDED_SECONDS)
      await server.stop()
      await refuseAt(server.address, context)
      await until('the worker gives up', async () => worker.events().includes('worker.failed'), NOTICED_SECONDS)
      expect(await worker.exited).toEqual({ code: 2, signal: null })
      expect(endOf(worker.events())).toEqual(['worker.failed', 'host.closed', 'worker.stopped'])
      expect(worker.lines.filter(({ event }) => event === 'worker.failed')).toEqual([
        expect.objectContaining({ error: expect.stringContaining(server.address) }),
      ])
      expect(await worker.isHealthy()).toBe(false)
      expect(worker.rawLines).toEqual([])
    },
    (READY_SECONDS + ENDED_SECONDS + NOTICED_SECONDS + ENDED_SECONDS) * 1_000,
  )

  it('whose Temporal server dies for good waits for it, and ends in order with 0 when it is told to stop', async (context) => {
    const server = await startServer(context)
    const worker = await startWorker(server, context)
    await server.stop()
    await until(
      'the SDK has no answer',
      async () => worker.lines.some(({ event, msg }) => event === 'temporal.sdk' && msg?.includes('retried')),
      ENDED_SECONDS,
    )
    expect(endOf(worker.events())).toEqual([])
    worker.child.kill('SIGTERM')
    await until('it has ended', async () => worker.events().includes('worker.stopped'), ENDED_SECONDS)
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(endOf(worker.events())).toEqual(['worker.stopping', 'host.closed', 'worker.stopped'])
    expect(worker.rawLines).toEqual([])
    const ofNativePart = worker.lines.filter(({ sdkComponent }) => sdkComponent === 'core')
    expect(ofNativePart.length).toBeGreaterThan(0)
    expect(ofNativePart.filter(({ level, event }) => level === undefined || event !== 'temporal.sdk')).toEqual([])
  })
})
