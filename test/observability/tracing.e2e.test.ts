/** Traces of real processes, as a collector gets them: one per webhook, one per sync run, whoever started it, and nothing when they are off. */
import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { until } from '../e2e/own-stack.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import { installedScript } from '../support/installed-script.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { SECRET, sign } from '../support/providers.ts'
import type { Collector } from './collector.ts'
import { startCollector } from './collector.ts'
import type { SentSpan } from './otlp.ts'

const HOST = new URL('./tracing-process.ts', import.meta.url)
const PROBE = fileURLToPath(new URL('./loaded-modules.cjs', import.meta.url))
const TOKEN = `canary-token-${randomBytes(8).toString('hex')}`
const IN_PAYLOAD = `canary-payload-${randomBytes(8).toString('hex')}`
const IN_QUERY = `canary-query-${randomBytes(8).toString('hex')}`
const COLLECTOR_KEY = 'key-of-the-collector'
const KIND = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const

let shared: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let integrations: Integrations
let collector: Collector
let provider: HttpServer
let environment: Record<string, string>
let integrationId = 0
let sql: Sql
const started: ManagedProcess[] = []

beforeAll(async () => {
  ;[shared, server, collector] = await Promise.all([sharePostgres(), shareDevServer(), startCollector()])
  provider = await startHttpServer()
  database = await createTestDatabase({ adminUrl: shared.url })
  environment = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: 'default',
    INTEGRATIONS_ENCRYPTION_KEYS: `tracing:${randomBytes(32).toString('base64')}`,
    INTEGRATIONS_CONFIG: installedScript(HOST),
    INTEGRATIONS__CACHE_PREFIX: `traces-${randomBytes(4).toString('hex')}`,
    INTEGRATIONS_DEV: '1',
    API_DRAIN_SECONDS: '0',
    PROVIDER_URL: provider.url,
    HOST: '127.0.0.1',
    PORT: '0',
    NODE_OPTIONS: `--require ${PROBE}`,
  }
  sql = postgres(database.url, { max: 1, fetch_types: false, onnotice: () => {} })
  // The probe is for the processes alone.
  Object.assign(process.env, environment, { NODE_OPTIONS: process.env.NODE_OPTIONS ?? '' })
  integrations = (await loadHost(fileURLToPath(HOST))).integrations
  await integrations.ready()
  const credentials = { webhook_secret: SECRET, token: TOKEN }
  integrationId = (await integrations.create({ provider: 'traced', name: 'traced', credentials })).id
})

afterAll(async () => {
  await Promise.all(started.map((one) => one.stop()))
  await integrations?.close()
  await sql?.end({ timeout: 5 })
  await database?.drop()
  await Promise.all([provider?.close(), collector?.close()])
  await server?.release()
  await shared?.release()
})

/** What a process said, as its lines, and where it listens. */
interface Running {
  readonly child: ManagedProcess
  readonly lines: readonly string[]
  readonly url: string
}

async function start(kind: 'worker' | 'api', env: Record<string, string>): Promise<Running> {
  const lines: string[] = []
  let onReady: (line: string) => void = () => {}
  const ready = new Promise<string>((resolve) => {
    onReady = resolve
  })
  const child = await startProcess({
    name: kind,
    command: process.execPath,
    args: [join(inject('installed'), `node_modules/durable-integrations/dist/bin/${kind}.js`)],
    env: { ...environment, ...env },
    onLine: (line) => {
      lines.push(line)
      if (line.includes(`"${kind}.ready"`)) onReady(line)
    },
  })
  started.push(child)
  const failed = child.exited.then(() => Promise.reject(new Error(lines.join('\n'))))
  const line = await Promise.race([ready, failed])
  return { child, lines, url: kind === 'api' ? (JSON.parse(line) as { url: string }).url : '' }
}

async function deliver(url: string, headers: Record<string, string> = {}): Promise<string> {
  const deliveryId = randomUUID()
  const body = JSON.stringify({ id: deliveryId, note: IN_PAYLOAD })
  const response = await fetch(`${url}/integrations/traced/${integrationId}/webhook?note=${IN_QUERY}`, {
    method: 'POST',
    headers: { 'x-delivery': deliveryId, 'x-event': 'thing', 'x-signature': sign(body), ...headers },
    body,
  })
  expect(response.status).toBe(200)
  return deliveryId
}

async function processed(deliveryId: string): Promise<{ id: number; traceparent: string | null }> {
  let row: { id: string; traceparent: string | null } | undefined
  await until('the webhook is processed', async () => {
    ;[row] = await sql<{ id: string; traceparent: string | null }[]>`
      select id::text as id, traceparent from integration_webhooks
      where delivery_id = ${deliveryId} and status = 'processed'`
    return row !== undefined
  })
  return { id: Number(row?.id), traceparent: row?.traceparent ?? null }
}

async function stopped({ child }: Running): Promise<void> {
  child.child.kill('SIGTERM')
  await child.exited
}

const loaded = ({ lines }: Running): string[] => {
  const line = lines.find((text) => text.includes('"test.loaded"')) ?? '{"packages":["it did not say"]}'
  return (JSON.parse(line) as { packages: string[] }).packages
}

const SDK = ['@opentelemetry/exporter-trace-otlp-proto', '@opentelemetry/sdk-trace-node']

describe('processes without the variables', () => {
  it('store no trace, load no SDK and send nothing', async () => {
    const off = { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_SERVICE_NAME: 'nobody' }
    const [api, worker] = await Promise.all([start('api', off), start('worker', off)])
    const { traceparent } = await processed(await deliver(api.url))
    await Promise.all([stopped(api), stopped(worker)])

    expect(traceparent).toBeNull()
    expect(loaded(api)).toEqual(['@opentelemetry/api'])
    expect(loaded(worker)).toEqual(['@opentelemetry/api'])
    expect(collector.requests).toEqual([])
    expect([...api.lines, ...worker.lines].filter((line) => line.includes('trace_id'))).toEqual([])
  })
})

describe('processes with a collector', () => {
  it('tell one trace per webhook and one per sync run, by the processes that had a part in it, without a secret', async () => {
    const on = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: `x-key=${COLLECTOR_KEY}`,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=tests',
    }
    const [api, worker] = await Promise.all([
      start('api', { ...on, OTEL_SERVICE_NAME: 'front' }),
      start('worker', { ...on, OTEL_SERVICE_NAME: 'back' }),
    ])
    const stranger = { traceId: randomBytes(16).toString('hex'), spanId: randomBytes(8).toString('hex') }
    const traceparent = `00-${stranger.traceId}-${stranger.spanId}-01`
    const row = await processed(await deliver(api.url, { traceparent }))
    const begun = await fetch(`${api.url}/operator/api/v1/integrations/${integrationId}/sync`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${integrations.admin.access.devToken}` },
      body: '{}',
    })
    expect({ status: begun.status, body: await begun.text() }).toMatchObject({ status: 202 })
    await until('the item has called', async () => provider.received.length >= 3)
    await until('the run is over', async () => {
      for await (const run of integrations.syncs.runs({ integrationId })) if (run.status === 'success') return true
      return false
    })
    const announced = async (): Promise<string[]> => {
      const rows = await sql<{ run_id: string }[]>`
        select metadata->>'run_id' as run_id from integration_logs
        where operation = 'sync' and status = 'success' and metadata ? 'announced_at' order by id`
      return rows.map(({ run_id }) => run_id)
    }
    await until('the run is announced', async () => (await announced()).length === 1)
    // This process does not trace, as the command line and a Schedule do not.
    await until('its workflow is over', async () => (await integrations.syncs.progress(integrationId)) === null)
    await integrations.syncs.start(integrationId)
    await until('the second run is announced', async () => (await announced()).length === 2)
    // The orderly end sends what is left.
    await Promise.all([stopped(api), stopped(worker)])

    const { spans } = collector
    const names = (): string => spans.map(({ name }) => name).join(', ')
    const one = (isIt: (span: SentSpan) => boolean, what: string): SentSpan => {
      const found = spans.filter(isIt)
      expect(
        found.map(({ name }) => name),
        what,
      ).toHaveLength(1)
      return found[0] as SentSpan
    }
    const request = one(({ name }) => name === 'POST /integrations/:provider/:id/webhook', 'the request')
    const inTrace = ({ traceId }: SentSpan): boolean => traceId === request.traceId
    const store = one((span) => inTrace(span) && span.name === 'webhook store', 'the store')
    const handle = one((span) => inTrace(span) && span.name === 'webhook handle', 'the handling')
    const call = one((span) => inTrace(span) && span.kind === KIND.client, 'the call')
    const activity = one(
      ({ spanId }) => handle.links.some((link) => link.spanId === spanId),
      'what handled it together with others',
    )

    expect(request).toMatchObject({
      service: 'front',
      parentId: null,
      kind: KIND.server,
      links: [stranger],
      attributes: { 'http.request.method': 'POST', 'http.response.status_code': 200 },
    })
    expect(request.traceId).not.toBe(stranger.traceId)
    expect(store).toMatchObject({ parentId: request.spanId, attributes: { 'webhook.id': row.id } })
    expect(row.traceparent).toBe(`00-${store.traceId}-${store.spanId}-01`)
    expect(handle).toMatchObject({
      service: 'back',
      parentId: store.spanId,
      kind: KIND.consumer,
      attributes: {
        'integration.id': integrationId,
        'integration.provider': 'traced',
        'webhook.id': row.id,
        'webhook.attempt': 1,
        'webhook.outcome': 'processed',
      },
    })
    expect(activity).toMatchObject({ name: 'activity pumpWebhooks', service: 'back', parentId: null })
    expect(activity.traceId).not.toBe(request.traceId)
    expect(call).toMatchObject({
      name: 'POST /things/{id}',
      parentId: handle.spanId,
      status: 0,
      attributes: {
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'server.address': '127.0.0.1',
        'url.template': '/things/{id}',
        'integration.id': integrationId,
        'integration.provider': 'traced',
      },
    })

    const begin = one(({ name }) => name.startsWith('POST /operator/'), `the start of the run, of ${names()}`)
    const ofRun = spans.filter(({ traceId }) => traceId === begin.traceId)
    const activities = ofRun.filter(({ name }) => name.startsWith('activity '))
    expect(new Set(activities.map(({ parentId }) => parentId))).toEqual(new Set([begin.spanId]))
    // A small run is one activity.
    expect(activities.map(({ name }) => name)).toEqual(['activity openSyncRun'])
    const itemCall = ofRun.find(({ kind }) => kind === KIND.client)
    expect(activities.map(({ spanId }) => spanId)).toContain(itemCall?.parentId)

    const [, untracedRun = ''] = await announced()
    const ofUntraced = spans.filter(({ traceId }) => traceId === untracedRun.replaceAll('-', ''))
    const itsActivities = ofUntraced.filter(({ name }) => name.startsWith('activity '))
    expect(new Set(itsActivities.map(({ name }) => name))).toEqual(new Set(activities.map(({ name }) => name)))
    expect(new Set(itsActivities.map(({ parentId }) => parentId))).toEqual(new Set([null]))
    const itsCall = ofUntraced.find(({ kind }) => kind === KIND.client)
    expect(itsActivities.map(({ spanId }) => spanId)).toContain(itsCall?.parentId)

    // Nobody outside is told of our traces, and the collector nothing that is secret.
    expect(provider.received.filter(({ headers }) => 'traceparent' in headers)).toEqual([])
    for (const secret of [TOKEN, SECRET, IN_PAYLOAD, IN_QUERY, 'access_token', COLLECTOR_KEY])
      expect(collector.said().includes(secret), secret).toBe(false)
    expect(collector.requests.map(({ path, headers }) => [path, headers['x-key']])).toContainEqual([
      '/v1/traces',
      COLLECTOR_KEY,
    ])
    expect(loaded(api)).toEqual(expect.arrayContaining(SDK))
    expect(loaded(worker)).toEqual(expect.arrayContaining(SDK))
    const stored = api.lines.find((line) => line.includes('"webhook.stored"')) ?? '{}'
    expect(JSON.parse(stored)).toMatchObject({ trace_id: request.traceId, span_id: request.spanId })
  })
})
