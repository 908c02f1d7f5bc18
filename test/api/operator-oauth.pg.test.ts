/** The operator API's authorizations: how one stands, links, revocation, refresh. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { RefreshTokensInput } from '../../src/oauth/oauth-jobs.ts'
import { clearReauthMark, markReauthRequired } from '../../src/oauth/reauth.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { logsOf, makeIntegration, setIntegration } from '../support/rows.ts'

const API = '/operator/api/v1/integrations'
const ACCESS = 'access-canary-51c8'
const REFRESH = 'refresh-canary-51c8'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let integration: Integration
let id: number
const revoke = vi.fn<() => Promise<void>>()
/** As a worker would answer. */
const refresh = vi.fn<(input: RefreshTokensInput) => Promise<object>>()

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: scriptedOAuth(() => ({}), { revokeToken: () => revoke() }), plain: {} },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  Object.assign(test.framework.workflows, { runTokenRefresh: refresh })
  api = createApi(test.integrations)
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  revoke.mockReset().mockResolvedValue()
  refresh.mockReset().mockResolvedValue({ checked: 1, refreshed: 1, failed: 0, reauthRequired: 0 })
  integration = await makeIntegration(test, 'acme', {
    credentials: { access_token: ACCESS, refresh_token: REFRESH, token_expires_at: '2031-06-01T12:00:00Z' },
  })
  id = integration.id
})

const get = (path: string) => api.request(`${API}${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })

function post(path: string, body?: object): Promise<Response> {
  return Promise.resolve(
    api.request(`${API}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  )
}

/** As the API's own document has them, by their status. */
async function describedAnswers(path: string, method: string): Promise<object> {
  const answer = await api.request('/operator/api/v1/openapi.json', {
    headers: { authorization: `Bearer ${READ_TOKEN}` },
  })
  const { paths } = (await answer.json()) as { paths: Record<string, Record<string, { responses: object }>> }
  return paths[path]?.[method.toLowerCase()]?.responses ?? {}
}

/** None holds a token. */
async function read(answer: Response | Promise<Response>): Promise<[number, Record<string, unknown>]> {
  const response = await answer
  const text = await response.text()
  for (const secret of [ACCESS, REFRESH]) expect(text).not.toContain(secret)
  return [response.status, JSON.parse(text)]
}

const acts = async () => (await logsOf(test, id, 'operator')).map(({ metadata }) => metadata)
const act = (action: string) => ({ token: 'operator', action, target: `integration:${id}` })

describe('the status', () => {
  it('says how it stands, by columns', async () => {
    expect(await read(get(`/${id}/oauth`))).toEqual([
      200,
      {
        integration_id: id,
        needs_authorization: true,
        connected: true,
        token_expires_at: '2031-06-01T12:00:00.000Z',
        has_refresh_token: true,
        reauth_required: false,
        reauth_reason: null,
        reauth_since: null,
        last_refreshed_at: null,
        next_refresh_at: expect.any(String),
        failures: 0,
        failing_since: null,
      },
    ])
  })

  it('says who waits for a person, as do the list and the integration', async () => {
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    expect(await read(get(`/${id}/oauth`))).toMatchObject([
      200,
      {
        reauth_required: true,
        reauth_reason: 'invalid_grant',
        reauth_since: expect.any(String),
        next_refresh_at: null,
      },
    ])
    expect(await read(get('?limit=1'))).toMatchObject([200, { data: [{ id, reauth_required: true }] }])
    expect(await read(get(`/${id}`))).toMatchObject([200, { reauth_required: true }])
    await clearReauthMark(test.framework, id)
    expect(await read(get(`/${id}`))).toMatchObject([200, { reauth_required: false }])
  })
})

describe('a link', () => {
  it('opens the connect page for an hour unless something else is asked for', async () => {
    const [status, { url, ...rest }] = await read(post(`/${id}/oauth/link`))
    expect([status, rest]).toEqual([200, { integration_id: id }])
    const link = new URL(String(url))
    expect(link.origin + link.pathname).toBe(`${BASE_URL}/integrations/${id}/oauth/connect`)
    expect(Number(link.searchParams.get('expires')) - Date.now() / 1_000).toBeCloseTo(3_600, -2)
    expect(await acts()).toEqual([act('oauth-link connect')])
    const opens = test.integrations.admin.access.isLinkValid({ method: 'GET', path: link.pathname }, link.searchParams)
    expect(opens).toBe(true)
    expect(JSON.stringify(await logsOf(test, id, 'operator'))).not.toContain(link.searchParams.get('signature'))
  })

  it('opens what is asked for, for as long', async () => {
    const [, { url }] = await read(post(`/${id}/oauth/link`, { action: 'revoke', expires_in: 60 }))
    const link = new URL(String(url))
    expect(link.pathname).toBe(`/integrations/${id}/oauth/revoke`)
    expect(Number(link.searchParams.get('expires')) - Date.now() / 1_000).toBeLessThanOrEqual(60)
  })

  it.each([
    [{ action: 'delete' }, 'action'],
    [{ expires_in: 604_801 }, 'expires_in'],
    [{ expires_in: 0 }, 'expires_in'],
    [{ expiresIn: 60 }, 'expiresIn'],
  ])('is refused for %j', async (body, path) => {
    expect(await read(post(`/${id}/oauth/link`, body))).toMatchObject([422, { fields: [{ path }] }])
    expect(await acts()).toEqual([])
  })
})

describe('a revocation', () => {
  it('drops the tokens, once', async () => {
    expect(await read(post(`/${id}/oauth/revoke`))).toEqual([
      200,
      { integration_id: id, revoked: true, outcome: 'revoked' },
    ])
    expect((await integration.refresh()).credentialsArray()).toEqual({})
    expect(await read(post(`/${id}/oauth/revoke`))).toEqual([
      200,
      { integration_id: id, revoked: false, outcome: 'nothing to revoke' },
    ])
    expect(revoke).toHaveBeenCalledTimes(1)
    expect(await acts()).toEqual([act('revoke-oauth')])
  })

  it('that the provider refuses is a 502 and changes nothing, unless it is forced', async () => {
    revoke.mockRejectedValue(new Error(`will not: ${REFRESH}`))
    expect(await read(post(`/${id}/oauth/revoke`))).toMatchObject([502, { code: 'revoke_failed' }])
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ access_token: ACCESS })
    expect(await acts()).toEqual([])
    expect(await read(post(`/${id}/oauth/revoke`, { force: true }))).toMatchObject([
      422,
      { code: 'invalid_fields', fields: [{ path: 'force', message: 'stands in the query' }] },
    ])
    expect(await read(post(`/${id}/oauth/revoke?force=true`, {}))).toMatchObject([200, { revoked: true }])
    expect((await integration.refresh()).credentialsArray()).toEqual({})
  })
})

describe('a refresh', () => {
  it('is made by a worker, and says what came of it', async () => {
    expect(await read(post(`/${id}/oauth/refresh`))).toEqual([
      200,
      { integration_id: id, checked: 1, refreshed: 1, failed: 0, reauth_required: 0 },
    ])
    expect(refresh.mock.calls).toEqual([[{ integrationId: id }]])
    expect(await acts()).toEqual([act('refresh-tokens')])
  })
})

describe.each([
  ['GET', 'oauth'],
  ['POST', 'oauth/link'],
  ['POST', 'oauth/refresh'],
])('%s %s', (method, path) => {
  const ask = (of: number) => read(method === 'GET' ? get(`/${of}/${path}`) : post(`/${of}/${path}`))

  it('is a 422 where the provider knows no OAuth, a 409 where the credentials can not be read, else a 404', async () => {
    const plain = await makeIntegration(test, 'plain')
    expect(await ask(plain.id)).toMatchObject([422, { code: 'unsupported_by_provider' }])
    await setIntegration(test, id, { credentials: 'plain' })
    expect(await ask(id)).toMatchObject([409, { code: 'credentials_unreadable' }])
    expect(Object.keys(await describedAnswers(`/integrations/{id}/${path}`, method))).toContain('409')
    expect(await ask(999_999_999)).toMatchObject([404, { code: 'integration_not_found' }])
    expect(refresh).not.toHaveBeenCalled()
  })
})
