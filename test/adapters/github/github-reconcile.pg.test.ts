/** Deliveries that never arrived, asked for over HTTP at the sandbox: each that is missing is fetched, stored and handled. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import type { LoggedRequest } from '../../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../../sandbox/github/server.ts'
import { deliveries, HOOK_ID } from '../../../sandbox/github/webhook-sender.ts'
import { GitHubProvider, GitHubWebhookReceived } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { runActivity } from '../../support/activities.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, testIntegrations } from '../../support/integrations.ts'
import { makeIntegration, makeWebhook } from '../../support/rows.ts'
import { workOff } from '../../support/work-off.ts'

const LIST = `/repos/octo-sandbox/widgets/hooks/${HOOK_ID}/deliveries`
/** Beyond the five minutes in which they may still arrive by themselves. */
const SECONDS_AGO = 3_600

let database: TestDatabase
let test: TestIntegrations
let sandbox: RunningSandbox | undefined

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { github: new GitHubProvider() },
    egress: { allow: ['127.0.0.1'] },
  })
})
afterEach(async () => {
  await sandbox?.close()
  sandbox = undefined
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

async function against(metadata: Record<string, string | number> = { hook_id: HOOK_ID }): Promise<Integration> {
  sandbox = await startGithubSandbox({ entries: 1 })
  return makeIntegration(test, 'github', {
    credentials: { token: SANDBOX_TOKEN, webhook_secret: 'a secret' },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: sandbox.url, ...metadata },
  })
}

async function control(method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`${sandbox?.url}/_sandbox${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  expect(response.ok).toBe(true)
  return response.json()
}

const lost = (given: object) => control('POST', '/deliveries', { secondsAgo: SECONDS_AGO, ...given })

async function requests(): Promise<LoggedRequest[]> {
  return ((await control('GET', '/requests')) as { requests: LoggedRequest[] }).requests
}
const asked = async () => (await requests()).map(({ canonicalPath }) => canonicalPath)
const paths = async () => (await requests()).map(({ path }) => path)

const reconcile = ({ id }: Integration) => runActivity(test.activities.reconcileIntegration, { integrationId: id })
const stored = ({ id }: Integration) =>
  test.sql`select * from integration_webhooks where integration_id = ${id} order by id`

it('asks the webhook that is registered where the metadata names none', async () => {
  const integration = await against({})
  await lost({ count: 2 })
  await test.sql`
    insert into integration_webhook_subscriptions (integration_id, is_wanted, subscription_id)
    values (${integration.id}, true, ${String(HOOK_ID)})`
  expect(await reconcile(integration)).toMatchObject({ seen: 2, inserted: 2 })
})

it('fetches those that are missing, each once, however often GitHub tried, and none that has arrived', async () => {
  const integration = await against()
  await lost({ count: 6 })
  // Redelivered: another attempt of the same guid.
  await lost({ count: 2 })
  const [first, second] = deliveries(2)
  for (const { deliveryId } of [first, second] as { deliveryId: string }[])
    await makeWebhook(test, integration.id, { deliveryId, status: 'failed' })
  expect(await reconcile(integration)).toMatchObject({ seen: 8, known: 4, inserted: 4, tooLarge: 0, capped: false })
  expect(await asked()).toEqual([LIST, ...Array.from({ length: 4 }, () => expect.stringContaining(`${LIST}/`))])
  expect(await reconcile(integration)).toMatchObject({ inserted: 0 })
})

it('fetches the oldest first, stores what GitHub sent, and hands it on as if it had arrived', async () => {
  const integration = await against({ hook_id: String(HOOK_ID) })
  await lost({ count: 3 })
  await reconcile(integration)
  const fetched = (await paths()).slice(1)
  expect(fetched).toEqual([...fetched].sort())
  const sent = deliveries(3)
  const rows = await stored(integration)
  expect(rows.map((row) => [row.delivery_id, row.event_type, row.status]).sort()).toEqual(
    sent.map(({ deliveryId, event }) => [deliveryId, event, 'pending']).sort(),
  )
  expect(rows.map((row) => row.headers[':source'])).toEqual([['reconcile'], ['reconcile'], ['reconcile']])
  const told: unknown[] = []
  listen(test, GitHubWebhookReceived, ({ event, deliveryId, payload }: GitHubWebhookReceived) =>
    told.push({ event, deliveryId, payload }),
  )
  await workOff(test.framework)
  expect(told).toEqual(
    expect.arrayContaining(
      sent.map(({ event, deliveryId, body }) => ({ event, deliveryId, payload: JSON.parse(body.toString()) })),
    ),
  )
})

it('tells the id of the stored delivery, also of one that came without an id', async () => {
  const integration = await against()
  const told: unknown[] = []
  listen(test, GitHubWebhookReceived, ({ deliveryId }: GitHubWebhookReceived) => told.push(deliveryId))
  await makeWebhook(test, integration.id, { deliveryId: 'a digest', headers: { 'x-github-event': ['ping'] } })
  await workOff(test.framework)
  expect(told).toEqual(['a digest'])
})

it('turns pages of 100 by the cursor, and no further than the window', async () => {
  const integration = await against()
  // A delivery each quarter of an hour: the page on which three days are over is the last one.
  await lost({ count: 400, secondsApart: 900 })
  const result = await reconcile(integration)
  expect((await asked()).filter((path) => path === LIST)).toHaveLength(3)
  // From an hour ago on, for as long as GitHub keeps them.
  expect(result).toMatchObject({ seen: 71 * 4 })
})

it('counts a delivery above webhook.max_payload_bytes, of whatever size, and stores the others', async () => {
  const MIB = 1_048_576
  const bodies = [{ n: 1 }, { n: 2, text: 'x'.repeat(12 * MIB) }, { n: 3 }]
  const listed = bodies.map(({ n }) => ({
    id: n,
    guid: `00000000-0000-4000-8000-00000000000${n}`,
    delivered_at: new Date(Date.now() - (SECONDS_AGO - n) * 1_000).toISOString(),
    event: 'issues',
  }))
  const server = await startHttpServer()
  try {
    server.answer = ({ url = '' }, response) => {
      const payload = bodies.find(({ n }) => url.endsWith(`/deliveries/${n}`))
      const answer = payload === undefined ? listed.toReversed() : { request: { headers: {}, payload } }
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(answer))
    }
    const integration = await makeIntegration(test, 'github', {
      credentials: { token: SANDBOX_TOKEN, webhook_secret: 'a secret' },
      metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: server.url, hook_id: HOOK_ID },
    })
    expect(await reconcile(integration)).toMatchObject({ seen: 3, inserted: 2, tooLarge: 1, capped: false })
    expect((await stored(integration)).map((row) => row.delivery_id).sort()).toEqual([listed[0]?.guid, listed[2]?.guid])
    const [run] = await test.sql`
      select status, metadata from integration_logs
      where integration_id = ${integration.id} and operation = 'webhook_reconcile'`
    expect(run).toMatchObject({ status: 'success', metadata: { too_large: 1, mark: expect.any(String) } })
  } finally {
    await server.close()
  }
})

it('leaves those of the last five minutes alone: they may still arrive', async () => {
  const integration = await against()
  await lost({ count: 2, secondsAgo: 60 })
  expect(await reconcile(integration)).toMatchObject({ seen: 0, inserted: 0 })
  expect(await asked()).toEqual([LIST])
})

it('skips an integration that names no webhook, and fetches what was missed once it names one', async () => {
  const integration = await against({})
  const { id, metadata } = integration
  await lost({ count: 2 })
  expect(await reconcile(integration)).toMatchObject({
    seen: 0,
    skipped: `no webhook to list; set metadata hook_id, or register the webhook: integrations register-webhooks ${id}`,
  })
  expect(await asked()).toEqual([])
  await test.integrations.update(id, { metadata: { ...(metadata as object), hook_id: HOOK_ID } })
  expect(await reconcile(integration)).toMatchObject({ seen: 2, inserted: 2 })
})

it('fails with the call, and stores nothing that it does not know of', async () => {
  const integration = await against({ hook_id: HOOK_ID + 1 })
  await expect(reconcile(integration)).rejects.toThrow('404')
  expect(await stored(integration)).toEqual([])
})
