/** Every list of the dashboard, and acts on what it shows. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../../src/api/app.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import type { SignedIn } from '../../support/operators.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, signIn, TOKENS } from '../../support/operators.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook } from '../../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let reader: SignedIn
let operator: SignedIn

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: encryptionKey('shared'),
    providers: { acme: webhookProvider() },
    baseUrl: BASE_URL,
    config: { operator: { tokens: [...TOKENS] } },
  })
  api = createApi(test.integrations)
  reader = await signIn(test.integrations, READ_TOKEN)
  operator = await signIn(test.integrations, OPERATE_TOKEN)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const get = (path: string, { cookie }: SignedIn) =>
  api.request(path, { headers: { accept: 'text/html', cookie, referer: `${BASE_URL}/operator/webhooks` } })
const post = (path: string, { cookie, csrfToken }: SignedIn, fields: Record<string, string> = {}) =>
  api.request(path, {
    method: 'POST',
    headers: {
      origin: BASE_URL,
      referer: `${BASE_URL}/operator/webhooks`,
      cookie,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString(),
  })

describe('the lists', () => {
  it.each([
    'integrations',
    'webhooks',
    'sync-runs',
    'sync-items',
    'requests',
    'incidents',
    'events',
    'logs',
    'mappings',
    'idempotency-keys',
    'tokens',
    'audit',
  ])('%s', async (section) => {
    const answer = await get(`/operator/${section}`, reader)
    const text = await answer.text()
    expect([answer.status, text.includes('<h1>')], text).toEqual([200, true])
  })
})

describe('acts', () => {
  it('dismisses what a filter finds, after saying how many', async () => {
    const integration = await makeIntegration(test, 'acme')
    for (let n = 0; n < 3; n += 1) await makeWebhook(test, integration.id, { status: 'failed', attempts: 3 })
    const asked = await (await get(`/operator/do/post/webhooks/dismiss?integration=${integration.id}`, operator)).text()
    expect(asked).toContain('Dismiss 3 webhooks')
    const done = await post('/operator/do/post/webhooks/dismiss', operator, {
      integration: String(integration.id),
      limit: '3',
      back: '/operator/webhooks',
    })
    expect([done.status, done.headers.get('location')]).toEqual([303, '/operator/webhooks'])
    const [notice = ''] = done.headers.getSetCookie().filter((cookie) => cookie.includes('notice'))
    const shown = await api.request('/operator/webhooks', {
      headers: { accept: 'text/html', cookie: `${operator.cookie}; ${notice.split(';')[0]}` },
    })
    expect(await shown.text()).toContain('Dismissed: 3 webhooks of 1 integration.')
  })
})
