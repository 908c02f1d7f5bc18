/**
 * A secret goes wherever an outbound call can carry one, on a real worker: nothing that we write, log, hand to Temporal or
 * say in an error of ours may hold it.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { inspect } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { createApi } from '../../src/api/app.ts'
import { readBundle } from '../../src/bundled-workflows.ts'
import { createWorkers } from '../../src/create-workers.ts'
import { InvalidArgumentException, isIntegrationsError } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { workflowId } from '../../src/workflows/ids.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { SECRET, sign, syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'

/** With what each encoding spells otherwise; its core stands in all of them but base64. */
const CORE = 'kanarienvogel'
const CANARY = `"${CORE}"/é+&\n€%`
const BYTES = Buffer.from(CANARY)
/** Without the last characters, which depend on what follows. */
const TRACES = [CORE, BYTES.toString('base64').slice(0, 20), BYTES.toString('base64url').slice(0, 20)]
const PREFIX = `canary-${randomBytes(4).toString('hex')}`

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let client: Client
let test: TestIntegrations
let provider: Server
let url: string
let stopWorkers: () => Promise<void>
/** What the calls threw. */
const thrown: unknown[] = []

beforeAll(async () => {
  silenceTemporal()
  const [startedPostgres, startedServer, workflowBundle] = await Promise.all([
    sharePostgres(),
    shareDevServer(),
    readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE),
  ])
  postgres = startedPostgres
  server = startedServer
  database = await createTestDatabase({ adminUrl: postgres.url })
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
  provider = createServer(echo)
  provider.listen(0, '127.0.0.1')
  await once(provider, 'listening')
  url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
  test = testIntegrations(database.url, {
    recordStarts: false,
    temporal: { address: server.address },
    config: { cache_prefix: PREFIX, schedules: { enabled: false }, sync: { item_tries: 1 } },
    providers: {
      // Of a kind that is not tried again: the run fails at once.
      'lists-badly': syncProvider(({ integration }) =>
        leak(integration).catch((error: Error) => {
          throw new InvalidArgumentException('cursor', error.message, { cause: error })
        }),
      ),
      'lists-well': {
        ...syncProvider((session) => session.dispatch(new ThingSynced(session.integration, { n: 1 }), null, '1')),
        ...webhookProvider({
          handleWebhook: async (integration, request) => {
            if (request.headers.get('x-event') === 'returns')
              return { [CANARY]: CANARY, deep: [BYTES.toString('base64')] }
            return leak(integration)
          },
        }),
        healthCheck: (integration: Integration) => leak(integration).then(() => true),
        classifyFailure: () => {
          throw new Error(CANARY)
        },
      } as never,
    },
  })
  test.framework.listeners.on(ThingSynced, (event: ThingSynced) => leak(event.integration))
  const workers = await createWorkers(test.integrations, { workflowBundle })
  const running = workers.run()
  stopWorkers = async () => {
    workers.shutdown()
    await running
  }
})

afterAll(async () => {
  await stopWorkers?.()
  provider?.closeAllConnections()
  provider?.close()
  await test?.close()
  await client?.connection.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

describe('a secret of the credentials', () => {
  it('is found in no row, log line, history or message of ours, wherever calls have carried it', async () => {
    const bad = await make('lists-badly')
    const good = await make('lists-well')
    for (const { id } of [bad, good]) await test.integrations.syncs.start(id)
    for (const event of ['throws', 'returns']) await deliver(good.id, event)
    await expect(leak(good)).rejects.toThrow(CORE)
    const operation = await good.startOperation({ operation: 'import', direction: 'inbound', summary: CANARY })
    await operation.fail(new Error(CANARY), { metadata: { note: CANARY } })

    await ended(bad.id)
    await ended(good.id)
    await vi.waitFor(async () => expect(await settledWebhooks(good.id)).toEqual(['failed', 'processed']), SOON)

    // Each place was reached, so that its silence says something.
    const calls = await test.sql`select failure_class, count(*)::int as calls from integration_requests group by 1`
    expect(new Set(calls.map((row) => row.failure_class))).toEqual(new Set([null, 'client', 'upstream', 'unknown']))
    expect(await test.sql`select from integration_sync_items where status = 'failed'`).toHaveLength(1)
    expect(test.lines.length).toBeGreaterThan(0)

    expect(await rowsWithTraces()).toEqual([])
    expect(test.lines.map((line) => inspect(line, { depth: 10 })).filter(hasTrace)).toEqual([])
    const { texts, workflows } = await histories()
    expect(workflows).toEqual(
      expect.arrayContaining([
        workflowId.syncIntegration(PREFIX, { integrationId: bad.id }),
        workflowId.syncIntegration(PREFIX, { integrationId: good.id }),
        workflowId.webhookInbox(PREFIX),
      ]),
    )
    expect(texts.filter(hasTrace)).toEqual([])
    const ours = thrown.filter((error) => isIntegrationsError(error)) as (Error & { code: string })[]
    expect(new Set(ours.map(({ code }) => code))).toEqual(new Set(['http_error', 'schema_drift', 'request_timeout']))
    expect(ours.map(({ message }) => message).filter(hasTrace)).toEqual([])
    // The provider's own error is not ours to change.
    expect(thrown.filter((error) => !isIntegrationsError(error)).every((error) => hasTrace(String(error)))).toBe(true)
  })
})

/** Carries the secret in headers, query, body and error messages, through answers of each kind; ends with its own failure. */
async function leak(integration: Integration): Promise<never> {
  const secret = String(integration.credentialsArray().token)
  const query = new URLSearchParams({ token: secret })
  const endpoint = `echo?token=${secret}&${query}`
  const data = { secret, list: [{ [secret]: secret }], form: query.toString(), base64: BYTES.toString('base64') }
  const send =
    (status: number, kind: string) =>
    ({ signal }: { signal: AbortSignal }) =>
      fetch(`${url}/echo?status=${status}&kind=${kind}&${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${encodeURIComponent(secret)}`, 'x-basic': BYTES.toString('base64') },
        body: JSON.stringify(data),
        signal,
      })
  const calls: (() => Promise<unknown>)[] = [
    () => integration.request(endpoint, 'POST', send(200, 'json'), { data, cacheFor: 60 }),
    () => integration.request(endpoint, 'POST', send(200, 'text'), { data: JSON.stringify(data) }),
    () => integration.request(endpoint, 'POST', send(422, 'json'), { data: query.toString() }),
    () => integration.request(endpoint, 'POST', send(503, 'escaped'), { data, serveStale: true }),
    () => integration.requestAs(z.object({ none: z.string() }), endpoint, 'POST', send(200, 'escaped'), { data }),
    () => integration.request(endpoint, 'POST', () => new Promise(() => {}), { data, timeoutMs: 20 }),
    () =>
      integration.request(endpoint, 'POST', send(200, 'escaped'), { idempotencyKey: randomBytes(8).toString('hex') }),
    () =>
      integration.request(endpoint, 'POST', ({ report }) => {
        report({ providerRequestId: secret })
        throw new Error(`refused ${secret}`, { cause: new Error(secret) })
      }),
  ]
  for (const call of calls)
    await call().catch((error: unknown) => {
      thrown.push(error)
    })
  throw Object.assign(new Error(`it failed for ${secret}`), { code: secret })
}

/** Says all that it was told as JSON, for some kinds with every escape that JSON allows; `text` is not called JSON. */
async function echo(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) {
  const query = new URL(request.url ?? '', 'http://x').searchParams
  const said = JSON.stringify({ url: request.url, headers: request.headers, body: JSON.parse(await text(request)) })
  const kind = query.get('kind')
  const escaped = said
    .replaceAll('/', '\\/')
    .replace(/[^\x20-\x7e]|[&+]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
  response.writeHead(Number(query.get('status')), {
    'content-type': kind === 'text' ? 'text/plain' : 'application/json',
    'x-request-id': encodeURIComponent(CANARY),
  })
  response.end(kind === 'json' ? said : escaped)
}

function make(provider: string): Promise<Integration> {
  const credentials = { token: CANARY, webhook_secret: SECRET }
  return test.integrations.create({ provider, name: 'of a test', credentials })
}

async function deliver(id: number, event: string): Promise<void> {
  const sent = await createApi(test.integrations).request(`/integrations/lists-well/${id}/webhook`, {
    method: 'POST',
    headers: { 'x-signature': sign('{}'), 'x-event': event, 'x-delivery': event },
    body: '{}',
  })
  expect(sent.status).toBe(200)
}

/** However it ends. */
async function ended(id: number): Promise<void> {
  await client.workflow
    .getHandle(workflowId.syncIntegration(PREFIX, { integrationId: id }))
    .result()
    .catch(() => {})
}

async function settledWebhooks(id: number): Promise<string[]> {
  const rows = await test.sql<{ status: string }[]>`
    select status from integration_webhooks where integration_id = ${id} order by status`
  return rows.map(({ status }) => status)
}

/** Every table of ours, every column. */
async function rowsWithTraces(): Promise<string[]> {
  const tables = await test.sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' and tablename like 'integration%'`
  expect(tables.length).toBeGreaterThan(8)
  const found: string[] = []
  for (const { name } of tables)
    for (const { line } of await test.sql<{ line: string }[]>`select t::text as line from ${test.sql(name)} as t`)
      if (hasTrace(line)) found.push(`${name}: ${line}`)
  return found
}

/** Every text in the histories of this deployment's workflows, payloads decoded. */
async function histories(): Promise<{ workflows: string[]; texts: string[] }> {
  const workflows: string[] = []
  const texts: string[] = []
  const visit = (value: unknown): void => {
    if (typeof value === 'string') texts.push(value)
    else if (value instanceof Uint8Array) texts.push(Buffer.from(value).toString())
    else if (typeof value === 'object' && value !== null) for (const inner of Object.values(value)) visit(inner)
  }
  for await (const { workflowId: id, runId } of client.workflow.list()) {
    if (!id.startsWith(PREFIX)) continue
    workflows.push(id)
    visit(await client.workflow.getHandle(id, runId).fetchHistory())
  }
  return { workflows, texts }
}

function hasTrace(line: string): boolean {
  return TRACES.some((trace) => line.includes(trace))
}
