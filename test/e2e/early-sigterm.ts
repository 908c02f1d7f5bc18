/** Of half-minutes.e2e.test.ts: SIGTERM of a process that has just been started, and of a worker whose handler does not end. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedProgram, installedScript } from '../support/installed-script.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { SECRET, sign } from '../support/providers.ts'
import { until } from './own-stack.ts'

const EARLY = new URL('./early-sigterm-process.ts', import.meta.url)
const HOST = new URL('./host-worker-process.ts', import.meta.url)
const SLOW = new URL('./sigterm-process.ts', import.meta.url)
/** Until what still runs is given up. */
const GRACE_SECONDS = 1
const ENDING_SECONDS = 30

let shared: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let sql: Sql
let integrations: Integrations
let environment: Record<string, string>
const started: ManagedProcess[] = []

beforeAll(async () => {
  ;[shared, server] = await Promise.all([sharePostgres(), shareDevServer()])
  database = await createTestDatabase({ adminUrl: shared.url })
  environment = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: 'default',
    INTEGRATIONS_ENCRYPTION_KEYS: `early:${randomBytes(32).toString('base64')}`,
    INTEGRATIONS__CACHE_PREFIX: `early-${randomBytes(4).toString('hex')}`,
    INTEGRATIONS__WORKER__SHUTDOWN_GRACE: String(GRACE_SECONDS),
    HOST: '127.0.0.1',
    PORT: '0',
  }
  const { env } = process
  process.env = { ...env, ...environment }
  const host = await loadHost(fileURLToPath(SLOW))
  process.env = env
  integrations = host.integrations
  await integrations.ready()
  await host.prepare?.()
  sql = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
})

afterAll(async () => {
  await Promise.all(started.map((one) => one.stop()))
  await integrations?.close()
  await sql?.end({ timeout: 5 })
  await database?.drop()
  await server?.release()
  await shared?.release()
})

async function start(kind: 'worker' | 'api' | 'host', module: URL, env: Record<string, string> = {}) {
  const lines: string[] = []
  const child = await startProcess({
    name: kind,
    command: process.execPath,
    args: [kind === 'host' ? installedScript(module) : installedProgram(kind)],
    env: { NODE_OPTIONS: undefined, ...environment, INTEGRATIONS_CONFIG: installedScript(module), ...env },
    onLine: (line) => {
      lines.push(line)
      if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${kind} ${line}\n`)
    },
  })
  started.push(child)
  // Its last lines may be read after its exit: here they are all read.
  const exited = Promise.all([child.exited, once(child.child, 'close')]).then(([exit]) => exit)
  const line = (event: string) => lines.find((each) => each.includes(`"${event}"`))
  return { child: child.child, exited, line, lines }
}

// The half minute that this one waits is time enough for the others.
describe.concurrent('SIGTERM of a worker', () => {
  it('gives up a handler 30 s after the grace, and its row goes back uncounted', async () => {
    const credentials = { webhook_secret: SECRET }
    const { id } = await integrations.create({ provider: 'slow', name: 'slow', credentials })
    const [worker, api] = await Promise.all([start('worker', SLOW), start('api', SLOW)])
    await until('they are ready', async () => Boolean(worker.line('worker.ready') && api.line('api.ready')), 60)
    const { url } = JSON.parse(api.line('api.ready') ?? '') as { url: string }
    const body = JSON.stringify({ id: randomUUID(), work_ms: 60_000 })
    const headers = { 'x-delivery': randomUUID(), 'x-event': 'thing', 'x-signature': sign(body) }
    const answer = await fetch(`${url}/integrations/slow/${id}/webhook`, { method: 'POST', headers, body })
    expect(answer.status).toBe(200)
    const rows = () => sql<{ status: string; attempts: number }[]>`select status, attempts from integration_webhooks`
    // A row that is only claimed goes back at once.
    await until('its handler runs', async () => (await sql`select 1 from begun`).length === 1, 30)

    const at = performance.now()
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    const seconds = (performance.now() - at) / 1_000
    console.log(`a worker with a handler of 60 s ended ${seconds.toFixed(1)} s after SIGTERM`)
    expect(seconds).toBeLessThan(GRACE_SECONDS + ENDING_SECONDS + 10)
    expect(worker.line('webhook.interrupted')).toBeDefined()
    expect([...(await rows())]).toEqual([{ status: 'pending', attempts: 0 }])
  })

  it('of a host that listens for no signal ends in order', async () => {
    const { child, exited, line, lines } = await start('host', HOST, { INTEGRATIONS__CACHE_PREFIX: 'early-host' })
    await until('it runs', async () => Boolean(line('host.running')), 60)
    child.kill('SIGTERM')
    expect(await exited, lines.join('\n')).toEqual({ code: 0, signal: null })
    expect(line('host.ended')).toBeDefined()
  })
})

describe.concurrent('SIGTERM of a process that starts', () => {
  it.each(['api', 'worker'] as const)('%s: ends it at once while it loads its configuration', async (kind) => {
    const { exited, lines } = await start(kind, EARLY, { SIGTERM_AT: 'load' })
    expect(await exited, lines.join('\n')).toEqual({ code: 0, signal: null })
    expect(lines).toEqual([])
  })

  it.each(['api', 'worker'] as const)('%s: is remembered, and what has not begun does not begin', async (kind) => {
    const { exited, lines, line } = await start(kind, EARLY, { SIGTERM_AT: 'ready' })
    expect(await exited, lines.join('\n')).toEqual({ code: 0, signal: null })
    expect([line(`${kind}.ready`), line(`${kind}.stopping`), line(`${kind}.stopped`)]).toEqual([
      undefined,
      expect.any(String),
      expect.any(String),
    ])
  })

  it('api: lets it end in order while waiting rows are looked for', async () => {
    const { exited, lines, line } = await start('api', EARLY, { SIGTERM_AT: 'wakePending' })
    expect(await exited, lines.join('\n')).toEqual({ code: 0, signal: null })
    expect(line('api.ready')).toBeDefined()
    expect(line('api.stopped')).toContain('"connections_cut":0')
  })

  it.each(['api', 'worker'] as const)('%s: says what it could not close, and ends with 1', async (kind) => {
    const { exited, lines, line } = await start(kind, EARLY, { SIGTERM_AT: 'ready', FAILS_TO_CLOSE: 'yes' })
    expect(await exited, lines.join('\n')).toEqual({ code: 1, signal: null })
    expect(line('process.end_failed')).toContain('it can not be closed')
    expect(line(`${kind}.stopped`)).toBeDefined()
  })
})
