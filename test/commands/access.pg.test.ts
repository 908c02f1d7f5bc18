/** The audit, operators' tokens and acts on incidents: by the command line, and over HTTP with and without limits. */
import { hostname, userInfo } from 'node:os'
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'
import { runCommand } from './cli/run.ts'

const byUser = `cli:${userInfo().username}`
const MINE = { type: 'team', id: 7 }
const LATER = new Date(Date.now() + 86_400_000).toISOString()

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let mine: number
let other: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), other: webhookProvider() },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit, integration_tokens`
  mine = (await makeIntegration(test, 'acme', { name: 'ours', owner: MINE })).id
  other = (await makeIntegration(test, 'other')).id
})

async function run<Document>(...words: (string | number)[]): Promise<Document> {
  const ran = await runCommand(test.integrations, [...words.map(String), '--json'])
  expect([ran.exitCode, ran.err]).toEqual([0, ''])
  return ran.json()
}

// biome-ignore lint/suspicious/noExplicitAny: a document, whose fields each test names
type Answer = { readonly status: number; readonly body: any }

async function ask(method: string, path: string, token: string, body?: unknown): Promise<Answer> {
  const response = await api.request(`/operator/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

/** A token that sees the records of one owner only. */
async function limitedToken(scope: 'read' | 'operate' = 'operate'): Promise<string> {
  const made = await test.integrations.admin.tokens.create({ name: 'support', scope, owner: MINE, by: 'ada' })
  return made.token
}

describe('audit', () => {
  it('lists who did what, from where, and is filtered; a deleted integration stays in it', async () => {
    await run('disable', mine)
    await run('delete', mine, '--yes')
    await run('disable', other)
    const entries = await run<object[]>('audit', '--integration', mine)
    expect(entries).toEqual([
      {
        id: expect.any(Number),
        at: expect.stringMatching(/Z$/),
        by: byUser,
        action: 'delete',
        target: `integration:${mine}`,
        from: hostname(),
        detail: null,
        integration: { id: mine, name: 'ours', provider: 'acme', owner_type: 'team', owner_id: 7 },
      },
      expect.objectContaining({ action: 'disable', by: byUser }),
    ])
    expect(await run('audit', '--action', 'delete')).toHaveLength(1)
    expect(await run('audit', '--provider', 'other')).toMatchObject([{ action: 'disable' }])
    expect(await run('audit', '--by', 'nobody')).toEqual([])
    const { out } = await runCommand(test.integrations, ['audit', '--limit', '1'])
    expect(out).toMatch(/^ *ID +At +By +Action +Target +From +Detail$/m)
  })

  it('shows a limited token the acts on what it may see, also on what was deleted since', async () => {
    await run('disable', mine)
    await run('disable', other)
    await run('delete', mine, '--yes')
    const token = await limitedToken('read')
    const { status, body } = await ask('GET', '/audit?limit=2', token)
    expect([status, body.next]).toEqual([200, null])
    expect(body.data).toMatchObject([
      { action: 'delete', integration: { id: mine } },
      { action: 'disable', integration: { id: mine } },
    ])
    expect((await ask('GET', '/audit?provider=other', token)).body.data).toEqual([])
    expect((await ask('GET', '/audit?owner=team:8', token)).status).toBe(403)
    expect((await ask('GET', '/audit', READ_TOKEN)).body.data).toMatchObject([
      { action: 'create-token' },
      { action: 'delete' },
      { action: 'disable', integration: { id: other } },
      { action: 'disable', integration: { id: mine } },
    ])
  })
})

describe('tokens', () => {
  it('are made, shown once, listed without themselves, and revoked', async () => {
    const made = await run<{ id: number; token: string }>(
      ...['create-token', 'grafana', '--scope', 'read', '--owner', 'team:7', '--expires-at', LATER],
    )
    const row = {
      id: made.id,
      name: 'grafana',
      scope: 'read',
      provider: null,
      owner: MINE,
      state: 'good',
      expires_at: LATER,
      created_by: byUser,
      created_at: expect.stringMatching(/Z$/),
      revoked_at: null,
      last_used_at: null,
    }
    expect(made).toEqual({ ...row, token: expect.stringMatching(/^dio_/) })
    expect(await run('list-tokens', '--state', 'good')).toEqual([row])
    const asked: string[] = []
    const { exitCode } = await runCommand(test.integrations, ['revoke-token', String(made.id)], {
      answers: { 'Revoke token': true },
      asked,
    })
    expect([exitCode, asked]).toEqual([
      0,
      [`Revoke token ${made.id} ("grafana", read)? Its user is refused from now on.`],
    ])
    expect((await ask('GET', '/integrations', made.token)).status).toBe(401)
    expect(await run('list-tokens')).toMatchObject([{ id: made.id, state: 'revoked' }])
    expect(await run('audit')).toMatchObject([
      { action: 'revoke-token', by: byUser, from: hostname(), target: `token:${made.id}` },
      { action: 'create-token', by: byUser, from: hostname(), target: `token:${made.id}` },
    ])
  })

  it('over HTTP are the same, for a caller without limits', async () => {
    const body = { name: 'acme-support', scope: 'operate', owner: 'team:7', expires_at: LATER }
    const made = await ask('POST', '/tokens', OPERATE_TOKEN, body)
    expect(made).toMatchObject({ status: 201, body: { owner: MINE, created_by: 'operator', expires_at: LATER } })
    const { token, ...row } = made.body
    expect(await ask('GET', '/tokens', READ_TOKEN)).toEqual({ status: 200, body: { data: [row], next: null } })
    for (const [method, path, given] of [
      ['GET', '/tokens'],
      ['POST', '/tokens', { name: 'more', scope: 'operate' }],
      ['DELETE', `/tokens/${row.id}`],
    ] as const)
      expect(await ask(method, path, token, given)).toMatchObject({ status: 403, body: { code: 'insufficient_scope' } })
    expect((await ask('POST', '/tokens', READ_TOKEN, body)).status).toBe(403)
    expect(await ask('DELETE', `/tokens/${row.id}`, OPERATE_TOKEN)).toMatchObject({
      status: 200,
      body: { state: 'revoked' },
    })
    expect(await ask('DELETE', '/tokens/999999', OPERATE_TOKEN)).toMatchObject({
      status: 404,
      body: { code: 'token_not_found' },
    })
  })

  it.each<[object, string]>([
    [{ name: 'a:b', scope: 'read' }, 'name'],
    [{ name: 'operator', scope: 'read' }, 'name'],
    [{ name: 'x', scope: 'admin' }, 'scope'],
    [{ name: 'x' }, 'scope'],
    [{ name: 'x', scope: 'read', provider: 'nobody' }, 'provider'],
    [{ name: 'x', scope: 'read', expires_at: '2001-01-01T00:00:00Z' }, 'expires_at'],
  ])('are refused for %j, naming the field', async (body, path) => {
    const answer = await ask('POST', '/tokens', OPERATE_TOKEN, body)
    expect(answer).toMatchObject({ status: 422, body: { fields: [{ path }] } })
    expect((await ask('GET', '/tokens', READ_TOKEN)).body.data).toEqual([])
  })
})

describe('acts on an incident', () => {
  it('are made by commands, and each shows the incident', async () => {
    const { id } = await makeIncident(test, mine)
    expect(await run('acknowledge-incident', id, '--note', 'on it')).toMatchObject({
      id,
      acknowledged_by: byUser,
      annotations: [{ by: byUser, text: 'on it' }],
    })
    expect(await run('snooze-incident', id, '--until', LATER)).toMatchObject({
      snoozed_until: LATER,
      snoozed_by: byUser,
    })
    expect(await run('annotate-incident', id, 'still down')).toMatchObject({
      annotations: [{ text: 'on it' }, { text: 'still down', at: expect.stringMatching(/Z$/) }],
    })
    expect(await run('audit')).toMatchObject(
      ['annotate', 'snooze', 'acknowledge'].map((action) => ({
        action,
        by: byUser,
        from: hostname(),
        target: `incident:${id}`,
      })),
    )
  })

  it('are made over HTTP, by a limited token only on what it may see', async () => {
    const token = await limitedToken()
    const [seen, unseen] = [(await makeIncident(test, mine)).id, (await makeIncident(test, other)).id]
    const acts = [
      ['acknowledge', {}],
      ['snooze', { until: LATER }],
      ['annotations', { text: 'still down' }],
    ] as const
    for (const [act, body] of acts) {
      expect((await ask('POST', `/incidents/${seen}/${act}`, READ_TOKEN, body)).status).toBe(403)
      expect(await ask('POST', `/incidents/${seen}/${act}`, token, body)).toMatchObject({ status: 200 })
      expect(await ask('POST', `/incidents/${unseen}/${act}`, token, body)).toMatchObject({
        status: 404,
        body: { code: 'incident_not_found' },
      })
    }
    expect((await ask('GET', '/incidents', token)).body.data).toMatchObject([
      { id: seen, acknowledged_by: 'support', snoozed_by: 'support', annotations: [{ by: 'support' }] },
    ])
    expect((await ask('GET', `/incidents/${unseen}`, token)).status).toBe(404)
    expect((await ask('GET', '/incidents?provider=other', READ_TOKEN)).body.data).toMatchObject([{ id: unseen }])
  })

  it('that is closed, or of what does not fit, are refused', async () => {
    const closed = await makeIncident(test, mine, { status: 'closed', closedAt: new Date() })
    const post = (act: string, body: object) => ask('POST', `/incidents/${closed.id}/${act}`, OPERATE_TOKEN, body)
    expect(await post('acknowledge', {})).toMatchObject({ status: 409, body: { code: 'incident_not_open' } })
    expect(await post('snooze', { until: '2001-01-01T00:00:00Z' })).toMatchObject({
      status: 422,
      body: { fields: [{ path: 'until' }] },
    })
    expect(await post('annotations', { text: 'x'.repeat(2_001) })).toMatchObject({
      status: 422,
      body: { fields: [{ path: 'text' }] },
    })
    expect((await post('annotations', { text: 'late' })).status).toBe(200)
  })
})

describe('many webhooks', () => {
  const failed = async (of: number) => (await makeWebhook(test, of, { status: 'failed', attempts: 1, error: 'no' })).id

  it('are replayed and dismissed by a limited token only where it may see them', async () => {
    const token = await limitedToken()
    const [seen, unseen] = [await failed(mine), await failed(other)]
    expect(await ask('POST', '/webhooks/dismiss', token, {})).toMatchObject({ status: 200, body: { dismissed: 1 } })
    expect(await ask('POST', '/webhooks/dismiss', token, { undo: true })).toMatchObject({ body: { dismissed: 1 } })
    expect(await ask('POST', '/webhooks/replay', token, {})).toMatchObject({ status: 200, body: { replayed: 1 } })
    expect((await ask('POST', '/webhooks/replay', token, { integration: other })).status).toBe(404)
    expect((await ask('POST', `/webhooks/${unseen}/replay`, token)).status).toBe(404)
    expect(await webhookOf(test, seen)).toMatchObject({ status: 'pending' })
    expect(await webhookOf(test, unseen)).toMatchObject({ status: 'failed', dismissedAt: null })
  })

  it('are no more than was agreed to, whatever fails while a person thinks', async () => {
    const first = await failed(mine)
    let late = 0
    const previewed = test.integrations.webhooks.previewDismissal
    Object.assign(test.integrations.webhooks, {
      previewDismissal: async (...given: Parameters<typeof previewed>) => {
        const preview = await previewed(...given)
        late = await failed(mine)
        return preview
      },
    })
    const ran = await runCommand(test.integrations, ['dismiss-webhook', '--provider', 'acme', '--json'], {
      answers: { Dismiss: true },
    })
    Object.assign(test.integrations.webhooks, { previewDismissal: previewed })
    expect(ran.json()).toMatchObject({ dismissed: 1, more: true })
    expect([await webhookOf(test, first), await webhookOf(test, late)]).toMatchObject([
      { dismissedAt: expect.any(Date) },
      { dismissedAt: null },
    ])
  })
})
