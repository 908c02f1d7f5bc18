/**
 * After a load run the sum over all processes' /metrics is what the database has: two API and two worker processes, webhooks good
 * and bad, a sync with failing items, outbound calls that fail.
 *
 * Rule: docs/behaviour/metrics.md.
 */
import { createHash, createHmac, randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { freePort } from '../../src/bin/free-port.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import { until } from '../e2e/own-stack.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedScript } from '../support/installed-script.ts'
import type { Sample } from './prometheus-text.ts'
import { readMetrics, sumsBy } from './prometheus-text.ts'

const SECRET = 'of-the-load-run'
const SCRAPER = 'token-of-the-scraper-000000000000000000000000'
const WEBHOOKS = 144
const ITEMS = 60
/** Asked in turn by the handlers; what the provider answers there. */
const CALLS: Readonly<Record<string, number>> = { '/ok': 200, '/gone': 404, '/busy': 429, '/down': 503 }

let database: TestDatabase
let temporal: Awaited<ReturnType<typeof shareDevServer>>
let sql: Sql
let integrations: Integrations
let upstream: Server
let integrationId: number
let apis: string[]
let workers: string[]
let environment: Record<string, string>
const processes: ManagedProcess[] = []
const lines: string[] = []

beforeAll(async () => {
  ;[database, temporal] = await Promise.all([createTestDatabase(), shareDevServer()])
  sql = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
  await sql`create table host_deferrals (n int primary key)`
  upstream = createServer(({ url }, response) => {
    response.statusCode = CALLS[url ?? ''] ?? 400
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const { port } = upstream.address() as AddressInfo
  const encryptionKeys = `load:${randomBytes(32).toString('base64')}`
  const prefix = `load-${randomBytes(4).toString('hex')}`
  integrations = createIntegrations({ database: database.url, encryptionKeys, providers: { load: {} }, logger: SILENT })
  const metadata = { provider_url: `http://127.0.0.1:${port}`, secret: SECRET, items: ITEMS }
  ;({ id: integrationId } = await integrations.create({ provider: 'load', name: 'Load', credentials: {}, metadata }))
  environment = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: 'default',
    INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
    INTEGRATIONS__CACHE_PREFIX: prefix,
    INTEGRATIONS_CONFIG: installedScript(new URL('load-process.ts', import.meta.url)),
    SCRAPER_SHA256: createHash('sha256').update(SCRAPER).digest('hex'),
  }
  apis = await Promise.all([startApi(), startApi()])
  workers = await Promise.all([startWorker(), startWorker()])
})

afterAll(async () => {
  await Promise.all(processes.map((process) => process.stop()))
  upstream?.close()
  await integrations?.close()
  await sql?.end({ timeout: 5 })
  await Promise.all([temporal?.release(), database?.drop()])
})

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** @returns the line by which it has said the event */
async function start(program: string, readyEvent: string, env: Readonly<Record<string, string>>): Promise<string> {
  let ready: (line: string) => void = () => {}
  const isReady = new Promise<string>((resolve) => {
    ready = resolve
  })
  const started = await startProcess({
    name: program,
    command: process.execPath,
    args: [join(inject('installed'), `node_modules/durable-integrations/dist/bin/${program}.js`)],
    env: { NODE_OPTIONS: undefined, INTEGRATIONS_ENCRYPTION_KEYS_FILE: undefined, ...environment, ...env },
    onLine: (line) => {
      lines.push(`${program} ${line}`)
      if (line.includes(readyEvent)) ready(line)
    },
  })
  processes.push(started)
  const ended = started.exited.then((): never => {
    throw new Error(`${program} ended: ${lines.slice(-10).join('\n')}`)
  })
  ended.catch(() => {})
  return Promise.race([isReady, ended])
}

async function startApi(): Promise<string> {
  const line = await start('api', '"api.ready"', { HOST: '127.0.0.1', PORT: '0' })
  return (JSON.parse(line) as { url: string }).url
}

async function startWorker(): Promise<string> {
  // Below the ports that the system gives out: nobody who takes any free one gets it before the worker.
  const port = await freePort(randomInt(20_000, 30_000))
  await start('worker', '"worker.ready"', { INTEGRATIONS__METRICS__PORT: String(port) })
  return `http://127.0.0.1:${port}`
}

async function scrape(url: string): Promise<Sample[]> {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${SCRAPER}` } })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  return readMetrics(await response.text())
}

const scrapeAll = async (): Promise<Sample[][]> => Promise.all([...apis, ...workers].map(scrape))

/** To the APIs in turn. */
let posts = 0
async function post(path: string, body: string, headers: Record<string, string> = {}): Promise<number> {
  posts += 1
  const signature = createHmac('sha256', SECRET).update(body).digest('hex')
  const response = await fetch(`${apis[posts % apis.length]}${path}`, {
    method: 'POST',
    headers: { 'x-signature': signature, ...headers },
    body,
  })
  await response.arrayBuffer()
  return response.status
}

async function countsOf(query: Promise<readonly { key: string; count: string }[]>): Promise<Record<string, number>> {
  return Object.fromEntries((await query).map(({ key, count }) => [key, Number(count)]))
}

describe('the metrics after a load run', () => {
  it('agree with the database, summed over two API and two worker processes', async () => {
    const own = `/integrations/load/${integrationId}/webhook`
    const deliver = (n: number): Promise<number> => {
      const call = n % 3 === 0 ? (Object.keys(CALLS)[n % 4] as string) : null
      return post(own, JSON.stringify({ call, fails: n % 9 === 0 }), { 'x-delivery': `delivery-${n}` })
    }
    await startSync()
    const answers = await Promise.all(Array.from({ length: WEBHOOKS }, (_, n) => deliver(n)))
    expect(answers.filter((status) => status !== 200)).toEqual([])
    for (let n = 0; n < 20; n += 1) expect(await deliver(n)).toBe(200)
    for (let n = 0; n < 15; n += 1) expect(await post(own, '{}', { 'x-signature': 'ab' })).toBe(403)
    for (let n = 0; n < 5; n += 1) expect(await post(own, 'x'.repeat(10_001))).toBe(413)
    for (let n = 0; n < 4; n += 1) expect(await post(`/integrations/stranger-${n}/webhook`, '{}')).toBe(404)
    for (let n = 0; n < 3; n += 1) expect(await post('/integrations/load/999999/webhook', '{}')).toBe(404)
    expect(await post('/integrations/load/webhook', '{"call":null,"fails":false}', { 'x-delivery': 'generic' })).toBe(
      200,
    )

    await until('all webhooks and the sync are done', async () => {
      const [left] = await sql`
        select (select count(*)::int from integration_webhooks where status in ('pending', 'processing')) as webhooks,
          (select count(*)::int from integration_logs where operation = 'sync' and status <> 'processing') as runs`
      return left?.webhooks === 0 && left?.runs === 1
    })
    const sum = (await scrapeAll()).flat()

    expect(sumsBy(sum, 'webhooks_received_total', 'outcome')).toEqual({
      queued: Number((await sql`select count(*) from integration_webhooks`)[0]?.count),
      duplicate: 20,
      bad_signature: 15,
      too_large: 5,
      unknown_provider: 4,
      unknown_integration: 3,
    })
    expect(sumsBy(sum, 'webhooks_received_total', 'provider')).toEqual({ load: WEBHOOKS + 1 + 43, '(unknown)': 4 })
    const attempts = await countsOf(sql`
      select case status when 'success' then 'processed' else status end as key, count(*) from integration_logs
      where operation = 'webhook' group by 1`)
    expect(sumsBy(sum, 'webhooks_processed_total', 'status')).toEqual(attempts)
    expect(attempts).toEqual({ processed: expect.any(Number), failed: Math.ceil(WEBHOOKS / 9) })
    expect(sumsBy(sum, 'webhook_duration_seconds_count')).toEqual({ '': WEBHOOKS + 1 })

    const classes = await countsOf(sql`
      select coalesce(failure_class, 'none') as key, count(*) from integration_requests group by 1`)
    const each = WEBHOOKS / 3 / 4
    expect(classes).toEqual({ none: each, client: each, throttle: each, upstream: each })
    expect(sumsBy(sum, 'requests_total', 'failure_class')).toEqual(classes)

    const runs = await countsOf(sql`
      select status as key, count(*) from integration_logs where operation = 'sync' group by 1`)
    expect(sumsBy(sum, 'sync_runs_total', 'status')).toEqual(runs)
    expect(runs).toEqual({ partial: 1 })
    const items = await countsOf(sql`select status as key, count(*) from integration_sync_items group by 1`)
    expect(sumsBy(sum, 'sync_items_total', 'status')).toEqual(items)
    expect(items).toEqual({ success: ITEMS - Math.floor(ITEMS / 7), failed: Math.floor(ITEMS / 7) })
    expect(sumsBy(sum, 'sync_deferrals_total')).toEqual({ '': ITEMS / 10 })
  })

  it('give the same gauges in each process, and they are what is in the tables', async () => {
    const failed = Number((await sql`select count(*) from integration_webhooks where status = 'failed'`)[0]?.count)
    const failedItems = Math.floor(ITEMS / 7)
    // Longer than an answer of before is given again.
    await until('the gauges are read anew', async () => {
      const all = await scrapeAll()
      return all.every((samples) => sumsBy(samples, 'webhooks', 'status').failed === failed)
    })
    const [health] = await sql<{ status: string }[]>`select health_status as status from integrations`
    for (const samples of await scrapeAll()) {
      expect(sumsBy(samples, 'webhooks', 'status')).toEqual({ failed })
      expect(sumsBy(samples, 'sync_items', 'status')).toEqual({ failed: failedItems })
      expect(sumsBy(samples, 'health', 'status')).toEqual({ [String(health?.status)]: 1 })
      expect(sumsBy(samples, 'webhook_oldest_pending_seconds')).toEqual({})
      expect(sumsBy(samples, 'database_up')).toEqual({ '': 1 })
      expect(samples.some(({ name }) => name === 'process_resident_memory_bytes')).toBe(true)
    }
  })

  it("have the Temporal SDK's own on the worker's port, and there alone", async () => {
    for (const url of workers) {
      const samples = await scrape(url)
      expect(samples.some(({ name, value }) => name.startsWith('temporal_') && value > 0)).toBe(true)
    }
    expect((await scrape(apis[0] as string)).some(({ name }) => name.startsWith('temporal_'))).toBe(false)
  })

  it('say that a worker which asks for work is well', async () => {
    const response = await fetch(`${workers[0]}/healthz`)
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
    const polling = await Promise.all(
      [...apis, ...workers].map(async (url) => sumsBy(await scrape(url), 'worker_polling')),
    )
    expect(polling).toEqual([{}, {}, { '': 1 }, { '': 1 }])
  })

  it('are refused to whoever has no token, on the API', async () => {
    expect((await fetch(`${apis[0]}/metrics`)).status).toBe(401)
    const wrong = { authorization: 'Bearer wrong-token-of-the-tests-00000000000000000000' }
    expect((await fetch(`${apis[0]}/metrics`, { headers: wrong })).status).toBe(401)
  })

  it('end the start of a worker whose port is taken, with a line that says so', async () => {
    const taken = new URL(workers[0] as string).port
    await expect(start('worker', '"worker.ready"', { INTEGRATIONS__METRICS__PORT: taken })).rejects.toThrow(
      /metrics\.port: .*EADDRINUSE/,
    )
  })
})

/** By a client of its own: the host's module belongs to the processes. */
async function startSync(): Promise<void> {
  const client = createIntegrations({
    database: database.url,
    temporal: { address: temporal.address, namespace: 'default' },
    encryptionKeys: environment.INTEGRATIONS_ENCRYPTION_KEYS as string,
    config: { cache_prefix: environment.INTEGRATIONS__CACHE_PREFIX as string },
    providers: {
      load: {
        sync: async () => {},
        reduceCheckpoints: () => null,
        defaultRateLimit: () => null,
        defaultSyncInterval: () => null,
      },
    },
    logger: SILENT,
  })
  expect(await client.syncs.start(integrationId)).toMatchObject({ kind: 'started' })
  await client.close()
}
