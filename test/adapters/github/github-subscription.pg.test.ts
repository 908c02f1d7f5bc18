/** The repository's webhook, registered over HTTP at the sandbox: created, put right, told of a new secret, removed. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { RunningSandbox } from '../../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../../sandbox/github/server.ts'
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { makeIntegration } from '../../support/rows.ts'

interface Hook {
  readonly id: number
  readonly active: boolean
  readonly events: string[]
  readonly config: Record<string, string>
}

const HOOKS = '/repos/octo-sandbox/widgets/hooks'

let database: TestDatabase
let test: TestIntegrations
let sandbox: RunningSandbox

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    baseUrl: 'https://hooks.example.com',
    providers: { github: new GitHubProvider() },
    egress: { allow: ['127.0.0.1'] },
  })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  sandbox = await startGithubSandbox({ entries: 1 })
})
afterEach(() => sandbox.close())

async function ask<T>(method: string, path: string, body?: object): Promise<T> {
  const answer = await fetch(sandbox.url + path, {
    method,
    headers: { authorization: `Bearer ${SANDBOX_TOKEN}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  expect(answer.ok).toBe(true)
  return (answer.status === 204 ? null : await answer.json()) as T
}

const hooks = () => ask<Hook[]>('GET', HOOKS)

const make = (metadata: Record<string, unknown> = {}): Promise<Integration> =>
  makeIntegration(test, 'github', {
    credentials: { token: SANDBOX_TOKEN },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: sandbox.url, ...metadata },
  })

describe('a registered webhook', () => {
  it('delivers JSON of the wanted events to our door, and is gone when the integration is deleted', async () => {
    await ask('POST', HOOKS, { config: { url: 'https://else.example' } })
    const integration = await make({ webhook_events: ['issues', 'push'] })
    const { subscriptionId, expiresAt } = await test.integrations.webhooks.register(integration.id)
    expect(expiresAt).toBeNull()
    expect((await hooks()).find(({ id }) => String(id) === subscriptionId)).toMatchObject({
      active: true,
      events: ['issues', 'push'],
      config: {
        url: `https://hooks.example.com/integrations/github/${integration.id}/webhook`,
        content_type: 'json',
        secret: '********',
      },
    })
    await test.integrations.delete(integration.id)
    expect(await hooks()).toMatchObject([{ config: { url: 'https://else.example' } }])
  })

  it('keeps its secret out of the request log, however short it is', async () => {
    const integration = await make()
    await integration.updateCredentials({ webhook_secret: 'hook7' })
    const { subscriptionId: id } = await test.integrations.webhooks.register(integration.id)
    await ask('PATCH', `${HOOKS}/${id}`, { active: false })
    await test.integrations.webhooks.checkSubscription(integration.id)
    const rows = await test.sql<{ method: string; data: string }[]>`
      select method, request_data as data from integration_requests
      where integration_id = ${integration.id} and method in ('POST', 'PATCH') order by id`
    expect(rows.map(({ method, data }) => [method, JSON.parse(data).config.secret])).toEqual([
      ['POST', '[REDACTED]'],
      ['PATCH', '[REDACTED]'],
    ])
  })

  it.each<[string, object]>([
    ['switched off', { active: false }],
    ['asked for other events', { events: ['push'] }],
  ])('is put right after it was %s', async (_, change) => {
    const integration = await make()
    const { subscriptionId: id } = await test.integrations.webhooks.register(integration.id)
    await ask('PATCH', `${HOOKS}/${id}`, change)
    await test.integrations.webhooks.checkSubscription(integration.id)
    expect(await hooks()).toMatchObject([{ id: Number(id), active: true, events: ['*'] }])
  })

  it('is created again after a person has deleted it', async () => {
    const integration = await make()
    const { subscriptionId: id } = await test.integrations.webhooks.register(integration.id)
    await ask('DELETE', `${HOOKS}/${id}`)
    const again = await test.integrations.webhooks.checkSubscription(integration.id)
    expect(again.subscriptionId).not.toBe(id)
    expect(await hooks()).toHaveLength(1)
    await ask('DELETE', `${HOOKS}/${again.subscriptionId}`)
    // Gone already is as good.
    await test.integrations.webhooks.unregister(integration.id)
  })

  it('is found on the second page of the list', async () => {
    const integration = await make()
    for (let n = 0; n < 100; n += 1) await ask('POST', HOOKS, { config: { url: `https://${n}.example` } })
    await test.integrations.webhooks.register(integration.id)
    await test.sql`update integration_webhook_subscriptions set subscription_id = null where integration_id = ${integration.id}`
    await test.integrations.webhooks.checkSubscription(integration.id)
    expect(await ask<Hook[]>('GET', `${HOOKS}?per_page=100&page=2`)).toHaveLength(1)
  })
})
