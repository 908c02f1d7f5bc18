/** The operator API's webhooks: lists, detail, replays, reconciliation, a new secret. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { WebhookRow } from '../../src/db/schema/tables.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { CREDENTIALS, SECRET, TOKEN, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'

const API = '/operator/api/v1'
const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let integration: Integration
/** What Temporal would answer. */
const reconciliation = vi.fn()
const counts = {
  integrations: 1,
  ...{ seen: 5, known: 3, inserted: 1, tooLarge: 1, capped: 0, failed: 0 },
  skipped: 0,
  reasons: [],
}

beforeAll(async () => {
  database = await createTestDatabase()
  const listing: ReconcilesWebhooks = {
    ...webhookProvider(),
    reconcileLookbackSeconds: 86_400,
    missedWebhooks: () => expect.unreachable('the workflow asks'),
  }
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), listing },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  Object.assign(test.framework.workflows, { runReconciliation: reconciliation })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  reconciliation.mockReset()
  reconciliation.mockResolvedValue(counts)
  test.starts.webhookJobs.length = 0
  test.starts.wakes.length = 0
  integration = await makeIntegration(test, 'acme')
})

const failed = (values: Parameters<typeof makeWebhook>[2] = {}): Promise<WebhookRow> =>
  makeWebhook(test, integration.id, { status: 'failed', attempts: 1, error: 'Error: no', ...values })

const acts = async (id = integration.id) => (await logsOf(test, id, 'operator')).map(({ metadata }) => metadata)
const act = (action: string, target = `integration:${integration.id}`) => ({ token: 'operator', action, target })

const TOLD = ['has_payload', 'integration_name', 'provider']

describe('the list', () => {
  it('has every column but what was delivered, newest first, page by page', async () => {
    const rows = [await failed({ payload: TOKEN }), await failed(), await failed()]
    const only = `/webhooks?integration=${integration.id}&limit=2`
    const first = await json(await get(only))
    expect(ids(first)).toEqual([rows[2]?.id, rows[1]?.id])
    const columns = await test.sql`select * from integration_webhooks limit 1`
    const { payload: _payload, headers: _headers, ...shown } = columns[0] ?? {}
    expect(Object.keys(first.data[0] ?? {}).sort()).toEqual([...Object.keys(shown), ...TOLD].sort())
    expect(first.next).toBe(rows[1]?.id)
    const second = await json(await get(`${only}&after=${first.next}`))
    expect([ids(second), second.next]).toEqual([[rows[0]?.id], null])
    expect(JSON.stringify([first, second])).not.toContain(TOKEN)
  })

  it.each<[string, readonly number[]]>([
    ['status=pending', [1]],
    ['status=failed', [2, 0]],
    ['event=issues', [1]],
    ['since=2031-06-01T12:00:00Z', [2, 1]],
    ['until=2031-06-01T14:00:00%2B02:00', [0]],
    ['since=2031-06-01T12:00:00Z&until=2031-06-01T14:00:00%2B02:00', []],
    ['provider=listing', []],
    ['owner=team:7', [2, 1, 0]],
    ['owner=team:8', []],
  ])('?%s', async (filter, expected) => {
    integration = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 7 } })
    const rows = [
      await failed({ createdAt: BEFORE }),
      await makeWebhook(test, integration.id, { createdAt: AT, eventType: 'issues' }),
      await failed({ createdAt: AT }),
    ]
    const page = await json(await get(`/webhooks?integration=${integration.id}&${filter}`))
    expect(ids(page)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it.each([
    ['limit=201', 'limit'],
    ['status=lost', 'status'],
    ['integration=0', 'integration'],
    ['since=2031-06-01', 'since'],
    ['since=2031-06-01T12:00:00Z&until=2031-06-01T11:59:59Z', 'until'],
    ['event=a%00', 'event'],
    ['payload=x', 'payload'],
  ])('refuses ?%s, naming the parameter', async (query, path) => {
    const response = await get(`/webhooks?${query}`)
    expect(await problemOf(response)).toMatchObject({ status: 422, code: 'invalid_fields', fields: [{ path }] })
  })
})

describe('one webhook', () => {
  it('has every column and what was delivered, without secrets', async () => {
    const row = await failed({ payload: `{"token":"${TOKEN}"}`, headers: { 'x-secret': [SECRET] } })
    const shown = (await (await get(`/webhooks/${row.id}`)).json()) as Record<string, unknown>
    const columns = await test.sql`select * from integration_webhooks where id = ${row.id}`
    expect(Object.keys(shown).sort()).toEqual([...Object.keys(columns[0] ?? {}), 'encoding', ...TOLD].sort())
    expect(shown).toMatchObject({
      id: row.id,
      integration_id: integration.id,
      delivery_id: row.deliveryId,
      payload: '{"token":"[REDACTED]"}',
      encoding: 'text',
      headers: { 'x-secret': ['[REDACTED]'] },
      status: 'failed',
    })
  })

  it.each(['0', '01', 'x', '999999', '9007199254740992'])('of the id %s is a 404', async (id) => {
    for (const response of [await get(`/webhooks/${id}`), await post(`/webhooks/${id}/replay`)])
      expect(await problemOf(response)).toMatchObject({ status: 404, code: 'webhook_not_found' })
  })
})

describe('a replay of one', () => {
  it('is started, not waited for, and written down', async () => {
    const { id } = await failed()
    const response = await post(`/webhooks/${id}/replay`)
    expect([response.status, response.headers.get('location')]).toEqual([202, `${API}/webhooks/${id}`])
    expect(await response.json()).toEqual({ webhook_id: id, workflow_id: `integrations:webhook:${id}` })
    expect(test.starts.webhookJobs).toEqual([{ webhookId: id, replay: true }])
    expect(await acts()).toEqual([act('replay', `webhook:${id}`)])
  })

  it.each<[string, Parameters<typeof makeWebhook>[2], string]>([
    ['pending', {}, 'is pending'],
    ['processing', { status: 'processing', claim: 'x:1' }, 'is processing'],
    ['erased', { status: 'failed', error: 'erased', payload: '', headers: {} }, 'was erased or pruned'],
  ])('of what is %s is a 409', async (_, values, detail) => {
    const { id } = await makeWebhook(test, integration.id, values)
    expect(await problemOf(await post(`/webhooks/${id}/replay`))).toMatchObject({
      status: 409,
      code: 'webhook_not_replayable',
      detail: expect.stringContaining(detail),
    })
    expect(test.starts.webhookJobs).toEqual([])
    expect(await acts()).toEqual([])
  })

  it('while another job of it lives is a 409', async () => {
    const { id } = await failed()
    test.starts.runningWebhooks.add(id)
    expect(await problemOf(await post(`/webhooks/${id}/replay`))).toMatchObject({ status: 409 })
  })

  it('without Temporal is a 503, and not written down', async () => {
    const { id } = await failed()
    const { workflows } = test.framework
    const { startProcessWebhook } = workflows
    const away = () => Promise.reject(new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'Start it.' }))
    Object.assign(workflows, { startProcessWebhook: away })
    const response = await post(`/webhooks/${id}/replay`)
    Object.assign(workflows, { startProcessWebhook })
    expect(response.headers.get('retry-after')).toBe('30')
    // Where Temporal is, and what it said, is for the log.
    expect(await response.clone().text()).not.toMatch(/127\.0\.0\.1|Start it/)
    expect(await problemOf(response)).toMatchObject({
      status: 503,
      code: 'backend_unreachable',
      detail: expect.stringMatching(/^Temporal was not reached/),
    })
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({
          event: 'api.failed',
          code: 'backend_unreachable',
          message: expect.stringContaining('127.0.0.1:1'),
        }),
      }),
    )
    expect(await acts()).toEqual([])
  })
})

describe('a dismissal', () => {
  it('hides a failed webhook from the list until it is undone, and is written down', async () => {
    const { id } = await failed()
    const list = async (query = '') => {
      const response = await get(`/webhooks?integration=${integration.id}${query}`)
      return ((await response.json()) as { data: { id: number }[] }).data.map((row) => row.id)
    }
    const response = await post(`/webhooks/${id}/dismiss`)
    expect([response.status, await response.json()]).toEqual([
      200,
      { webhook_id: id, status: 'failed', dismissed_at: expect.any(String) },
    ])
    expect([await list(), await list('&dismissed=true')]).toEqual([[], [id]])
    expect(await (await post(`/webhooks/${id}/dismiss`, { undo: true })).json()).toMatchObject({ dismissed_at: null })
    expect(await list()).toEqual([id])
    expect(await acts()).toEqual([act('dismiss', `webhook:${id}`), act('undo dismiss', `webhook:${id}`)])
  })

  it('of what has not failed is a 409', async () => {
    const { id } = await makeWebhook(test, integration.id)
    expect(await problemOf(await post(`/webhooks/${id}/dismiss`))).toMatchObject({
      status: 409,
      code: 'webhook_not_failed',
    })
  })

  it('of many counts first when it is asked to', async () => {
    const rows = [await failed(), await failed()]
    const filter = { integration: integration.id }
    expect(await (await post('/webhooks/dismiss', { ...filter, dry_run: true })).json()).toEqual({
      count: 2,
      ids: rows.map(({ id }) => id),
      integrations: 1,
      more: false,
      undo: false,
    })
    expect(await (await post('/webhooks/dismiss', filter)).json()).toEqual({
      dismissed: 2,
      integrations: 1,
      more: false,
      undo: false,
    })
    expect(await (await post('/webhooks/dismiss', { ...filter, undo: true, limit: 1 })).json()).toMatchObject({
      dismissed: 1,
    })
    expect(await acts()).toMatchObject([{ action: 'dismiss 2 webhooks' }, { action: 'undo dismiss 1 webhook' }])
  })
})

describe('a replay of many', () => {
  it('counts first when it is asked to, and changes nothing', async () => {
    const rows = [await failed(), await failed()]
    const response = await post('/webhooks/replay', { integration: integration.id, limit: 1, dry_run: true })
    expect([response.status, await response.json()]).toEqual([
      200,
      { count: 1, ids: [rows[0]?.id], integrations: 1, waiting: 0, more: true },
    ])
    expect(await Promise.all(rows.map(({ id }) => webhookOf(test, id)))).toEqual(rows)
    expect(await acts()).toEqual([])
  })

  it('puts them back into the queue, wakes the inbox, and is written down', async () => {
    const rows = [
      await failed({ createdAt: AT, eventType: 'issues' }),
      await failed({ createdAt: BEFORE, eventType: 'issues' }),
      await failed({ createdAt: AT }),
    ]
    const filter = { integration: integration.id, event: 'issues', since: AT.toISOString() }
    const response = await post('/webhooks/replay', filter)
    expect([response.status, await response.json()]).toEqual([
      200,
      { replayed: 1, integrations: 1, span: [rows[0]?.id, rows[0]?.id], more: false },
    ])
    const statuses = await Promise.all(rows.map(async ({ id }) => (await webhookOf(test, id)).status))
    expect(statuses).toEqual(['pending', 'failed', 'failed'])
    expect(test.starts.wakes).toEqual(['arrived'])
    expect(await acts()).toEqual([act('replay 1 webhook')])
  })

  it.each<[string, unknown, string]>([
    ['another status', { status: 'pending' }, 'status'],
    ['a limit of 0', { limit: 0 }, 'limit'],
    ['a word for a flag', { dry_run: 'yes' }, 'dry_run'],
    ['a moment without its offset', { since: '2031-06-01T12:00:00' }, 'since'],
    ['an end before its beginning', { since: AT, until: BEFORE }, 'until'],
    ['an id in a text', { integration: '7' }, 'integration'],
    ['a field that is none', { payload: 'x' }, 'payload'],
  ])('refuses %s, naming the field', async (_, body, path) => {
    const row = await failed()
    const response = await post('/webhooks/replay', body)
    expect(await problemOf(response)).toMatchObject({ status: 422, code: 'invalid_fields', fields: [{ path }] })
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('without a body is refused: an empty object is all that has failed', async () => {
    const row = await failed()
    expect((await post('/webhooks/replay')).status).toBe(415)
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('of an integration that is not there is a 404', async () => {
    expect(await problemOf(await post('/webhooks/replay', { integration: 999_999 }))).toMatchObject({ status: 404 })
  })
})

describe('a reconciliation', () => {
  beforeEach(async () => {
    integration = await makeIntegration(test, 'listing')
  })
  const path = () => `/integrations/${integration.id}/reconcile`

  it('answers with the counts, and is written down', async () => {
    const response = await post(path())
    const { tooLarge, ...same } = counts
    expect([response.status, await response.json()]).toEqual([200, { ...same, too_large: tooLarge }])
    expect(reconciliation).toHaveBeenLastCalledWith({ integrationId: integration.id, dryRun: false })
    expect(await acts()).toEqual([act('reconcile')])
  })

  it('takes a moment and a dry run, which is not written down', async () => {
    expect((await post(path(), { since: '2021-06-01T14:00:00+02:00', dry_run: true })).status).toBe(200)
    const since = '2021-06-01T12:00:00.000Z'
    expect(reconciliation).toHaveBeenLastCalledWith({ integrationId: integration.id, since, dryRun: true })
    expect(await acts()).toEqual([])
  })

  it('is a 409 while one runs, and a 422 where the provider can not', async () => {
    reconciliation.mockResolvedValue('already running')
    expect(await problemOf(await post(path()))).toMatchObject({ status: 409, code: 'already_running' })
    const { id } = await makeIntegration(test, 'acme')
    const refused = await problemOf(await post(`/integrations/${id}/reconcile`))
    expect(refused).toMatchObject({ status: 422, code: 'unsupported_by_provider' })
    expect((await post(path(), { since: 'today' })).status).toBe(422)
  })
})

describe('a new webhook secret', () => {
  const path = () => `/integrations/${integration.id}/rotate-webhook-secret`
  const stored = async () => (await test.integrations.get(integration.id)).credentialsArray()

  it('is made and shown once, the old one stays for a while', async () => {
    const response = await post(path())
    const made = (await response.json()) as Record<string, string>
    expect([response.status, made]).toEqual([
      200,
      {
        integration_id: integration.id,
        secret: expect.stringMatching(/^whsec_/),
        old_valid_until: expect.stringMatching(/Z$/),
      },
    ])
    expect(await stored()).toEqual({
      ...CREDENTIALS,
      webhook_secret: made.secret,
      webhook_secrets: [{ secret: SECRET, expires_at: made.old_valid_until }],
    })
    const detail = `the former secret is valid until ${made.old_valid_until}`
    expect(await acts()).toEqual([{ ...act('rotate-webhook-secret'), detail }])
  })

  it('that is given is not repeated', async () => {
    const response = await post(path(), { secret: 'of-the-provider' })
    const answer = await response.text()
    expect(answer).not.toContain('of-the-provider')
    expect(JSON.parse(answer)).toMatchObject({ secret: null })
    expect(await stored()).toMatchObject({ webhook_secret: 'of-the-provider' })
  })

  it.each<[string, unknown, string]>([
    ['an empty one', { secret: '' }, 'secret'],
    ['a blank one', { secret: ' ' }, 'secret'],
    ['the present one', { secret: SECRET }, 'secret'],
    ['another field', { webhook_secret: 'of-the-provider' }, 'webhook_secret'],
  ])('refuses %s and changes nothing', async (_, body, field) => {
    const response = await post(path(), body)
    expect(await problemOf(response)).toMatchObject({ status: 422, fields: [{ path: field }] })
    expect(await stored()).toEqual(CREDENTIALS)
    expect(await acts()).toEqual([])
  })
})

it('lets a reader look, and change nothing', async () => {
  const { id } = await failed()
  for (const path of ['/webhooks', `/webhooks/${id}`]) expect((await get(path)).status).toBe(200)
  for (const path of [
    '/webhooks/replay',
    `/webhooks/${id}/replay`,
    `/integrations/${integration.id}/reconcile`,
    `/integrations/${integration.id}/rotate-webhook-secret`,
  ]) {
    const response = await post(path, {}, READ_TOKEN)
    expect(await problemOf(response)).toMatchObject({ status: 403, code: 'insufficient_scope' })
  }
  expect(await webhookOf(test, id)).toMatchObject({ status: 'failed' })
  expect(test.starts.webhookJobs).toEqual([])
  expect(await acts()).toEqual([])
})

interface Page {
  readonly data: readonly Record<string, unknown>[]
  readonly next: number | null
}

const ids = ({ data }: Page): unknown[] => data.map(({ id }) => id)

const json = async (response: Response): Promise<Page> => {
  expect(response.status).toBe(200)
  return (await response.json()) as Page
}

async function get(path: string): Promise<Response> {
  return api.request(`${API}${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })
}

async function post(path: string, body?: unknown, token = OPERATE_TOKEN): Promise<Response> {
  const authorization = `Bearer ${token}`
  return api.request(
    `${API}${path}`,
    body === undefined
      ? { method: 'POST', headers: { authorization } }
      : {
          method: 'POST',
          headers: { authorization, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        },
  )
}

async function problemOf(response: Response): Promise<Record<string, unknown>> {
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const problem = (await response.json()) as Record<string, unknown>
  expect(problem).toMatchObject({ status: response.status, detail: expect.any(String) })
  return problem
}
