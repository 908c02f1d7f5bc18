/**
 * What explain() says against what another one saw: two tenants of the GitHub sandbox, as `npm start` has one, and the sandbox's
 * own logs of what it was asked and what it has sent. Rule: docs/behaviour/explain.md, "Origin".
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { LoggedRequest } from '../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../sandbox/github/server.ts'
import { HOOK_ID } from '../../sandbox/github/webhook-sender.ts'
import { GitHubIssueSynced, GitHubProvider, GitHubWebhookReceived } from '../../src/adapters/github/index.ts'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { processPending } from '../../src/testing/jobs-in-process.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const REPOSITORY = { owner: 'octo-sandbox', repo: 'widgets' }
const PATH = '/repos/octo-sandbox/widgets'
const SECRET = 'a secret of both'
/** Of the comments of the first issues that are asked for: each is asked again. */
const FAULTS = 5

interface Tenant {
  readonly sandbox: RunningSandbox
  readonly integration: Integration
}

/** @param rows to explain, of some 3.5 for each entry and 2 for each webhook; `entries` and `webhooks` are of each tenant */
export function namesTrueOrigins({
  rows,
  entries,
  webhooks,
}: {
  rows: number
  entries: number
  webhooks: number
}): void {
  let database: TestDatabase
  let test: TestIntegrations
  let tenants: Tenant[]
  /** By the row's reference. */
  const truth = new Map<string, string>()

  beforeAll(async () => {
    database = await createTestDatabase()
    test = testIntegrations(database.url, {
      providers: { github: new GitHubProvider() },
      egress: { allow: ['127.0.0.1'] },
    })
    const ask = (integration: Integration, path: string) => {
      const { base_url: url } = integration.metadata as { base_url: string }
      return integration.request(path, 'GET', ({ fetch }) =>
        fetch(`${url}${PATH}${path}`, { headers: { authorization: `Bearer ${SANDBOX_TOKEN}` } }),
      )
    }
    test.integrations.on(GitHubIssueSynced, async ({ integration, payload: { number } }) => {
      await ask(integration, `/issues/${number}/comments`)
      await integration.mapExternalId(`issue-${number}`, { type: 'issue', id: String(number) })
    })
    test.integrations.on(GitHubWebhookReceived, async ({ integration, deliveryId }) => {
      await ask(integration, `/issues/1?delivery=${deliveryId}`)
    })
    tenants = await Promise.all(
      [1, 2].map(async () => {
        const sandbox = await startGithubSandbox({ entries })
        const credentials = { token: SANDBOX_TOKEN, webhook_secret: SECRET }
        const metadata = { ...REPOSITORY, base_url: sandbox.url }
        return { sandbox, integration: await makeIntegration(test, 'github', { credentials, metadata }) }
      }),
    )
    const api = createApi(test.integrations)
    const server = serve({ fetch: api.fetch, port: 0, hostname: '127.0.0.1' }) as Server
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    for (const { sandbox, integration } of tenants) {
      const url = `http://127.0.0.1:${port}/integrations/github/${integration.id}/webhook`
      await control(sandbox, 'POST', '/webhooks', { url, secret: SECRET, limit: webhooks, fresh: true })
      await control(sandbox, 'POST', '/faults', { match: `GET ${PATH}/issues/*/comments`, status: 502, times: FAULTS })
    }
    server.closeAllConnections()
    server.close()
    // At the same time, so that the work of one could be taken for another's.
    const clock = new ManualClock(new Date())
    await Promise.all([
      processPending(test.framework),
      ...tenants.map(({ integration }) => runSync(test.framework, clock, { integrationId: integration.id })),
    ])
    for (const tenant of tenants) await learn(test, tenant, truth)
  }, 300_000)

  afterAll(async () => {
    for (const { sandbox } of tenants ?? []) await sandbox.close()
    await test?.close()
    await database?.drop()
  })

  it(`names the origin of ${rows} random rows that the sandbox saw, each time`, async () => {
    // No random of the machine: a sample that fails can be looked at again.
    const references = [...truth.keys()].sort((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, rows)
    expect(references).toHaveLength(rows)
    const wrong: unknown[] = []
    const kinds = new Set<string>()
    for (const reference of references) {
      const explained = await test.integrations.admin.explain(reference)
      // Before the work stands the attempt that was made again.
      const origins = explained.outcome === 'found' ? explained.origins : []
      const link = origins.find((each) => each.link?.kind !== 'request')?.link
      const said = link == null ? null : `${link.kind}:${link.id}`
      if (said !== truth.get(reference)) wrong.push([reference, said, truth.get(reference)])
      kinds.add(`${reference.split(':')[0]} of ${truth.get(reference)?.split(':')[0]}`)
    }
    expect(wrong).toEqual([])
    expect([...kinds]).toEqual(
      expect.arrayContaining([
        'request of item',
        'request of webhook',
        'mapping of item',
        'item of run',
        'log of webhook',
      ]),
    )
  })

  it('and of what was asked again after a fault', async () => {
    const again = await test.sql<{ id: string }[]>`select id from integration_requests where retry_of is not null`
    expect(again.length).toBeGreaterThanOrEqual(FAULTS)
    for (const { id } of again) expect(truth.get(`request:${id}`)).toMatch(/^item:/)
  })
}

/** What the sandbox saw, in the references of our rows: which they are is told by its request ids and its deliveries alone. */
async function learn(
  test: TestIntegrations,
  { sandbox, integration: { id } }: Tenant,
  truth: Map<string, string>,
): Promise<void> {
  const { requests } = (await control(sandbox, 'GET', '/requests')) as { requests: LoggedRequest[] }
  const seen = new Map(requests.map((request) => [request.requestId, request]))
  const sent = await fetch(`${sandbox.url}${PATH}/hooks/${HOOK_ID}/deliveries?per_page=100`, {
    headers: { authorization: `Bearer ${SANDBOX_TOKEN}` },
  })
  const guids = ((await sent.json()) as { guid: string }[]).map(({ guid }) => guid)

  const webhooks = await test.sql<{ id: string; delivery_id: string }[]>`
    select id, delivery_id from integration_webhooks where integration_id = ${id}`
  const webhookOf = new Map(webhooks.map((row) => [row.delivery_id, `webhook:${row.id}`]))
  // Not all: some of the payloads are the same, and a body that comes again is stored once.
  expect(guids).toEqual(expect.arrayContaining([...webhookOf.keys()]))
  const items = await test.sql<{ id: string; external_id: string }[]>`
    select id, external_id from integration_sync_items where integration_id = ${id}`
  const itemOf = new Map(items.map((row) => [row.external_id, `item:${row.id}`]))
  const [run, ...others] = await test.sql<{ id: string }[]>`
    select id from integration_logs where integration_id = ${id} and operation = 'sync'`
  expect(others).toEqual([])

  const calls = await test.sql<{ id: string; provider_request_id: string }[]>`
    select id, provider_request_id from integration_requests where integration_id = ${id}`
  for (const call of calls) {
    const { canonicalPath, query } = seen.get(call.provider_request_id) as LoggedRequest
    const issue = /\/issues\/(\d+)\/comments$/.exec(canonicalPath)?.[1]
    const origin = query.delivery ? webhookOf.get(query.delivery) : issue ? itemOf.get(issue) : `run:${run?.id}`
    truth.set(`request:${call.id}`, String(origin))
  }
  for (const item of itemOf.values()) truth.set(item, `run:${run?.id}`)
  const mappings = await test.sql<{ id: string; external_id: string }[]>`
    select id, external_id from integration_mappings where integration_id = ${id}`
  for (const mapping of mappings) truth.set(`mapping:${mapping.id}`, String(itemOf.get(mapping.external_id.slice(6))))
  const logs = await test.sql<{ id: string; external_id: string }[]>`
    select id, external_id from integration_logs where integration_id = ${id} and operation = 'webhook'`
  for (const log of logs) truth.set(`log:${log.id}`, String(webhookOf.get(log.external_id)))
}

async function control({ url }: RunningSandbox, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(`${url}/_sandbox${path}`, { method, ...(body && { body: JSON.stringify(body) }) })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

/** Has nothing to do with the order of the references. */
const order = (reference: string): string => createHash('sha256').update(reference).digest('hex')
