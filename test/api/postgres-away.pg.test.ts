/** What callers are told while Postgres is away: to try again, on every route that needs it. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, COOKIE, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider } from '../support/providers.ts'

/** Nobody listens there: it is reserved, and not for us. */
const AWAY = 'postgres://nobody@127.0.0.1:1/nothing'
const API = '/operator/api/v1'
const BEARER = { authorization: `Bearer ${OPERATE_TOKEN}` }
const JSON_BODY = { ...BEARER, 'content-type': 'application/json' }
/** A session's id of the right shape. */
const SESSION = { cookie: `${COOKIE}=${'a'.repeat(43)}` }

const options = {
  providers: { acme: syncProvider(() => {}) },
  baseUrl: BASE_URL,
  config: { operator: { tokens: TOKENS } },
} as const

let test: TestIntegrations
let api: Hono

beforeAll(() => {
  test = testIntegrations(AWAY, options)
  api = createApi(test.integrations)
})

afterAll(() => test.close())

describe('the operator API while Postgres is away', () => {
  it.each<[what: string, method: string, path: string, init: RequestInit]>([
    ['a list', 'GET', '/integrations', { headers: BEARER }],
    ['one integration', 'GET', '/integrations/7', { headers: BEARER }],
    ['a change', 'PATCH', '/integrations/7', { headers: JSON_BODY, body: '{"name":"Ours"}' }],
    ['a switch', 'POST', '/integrations/7/disable', { headers: BEARER }],
    ['a sample, which fails before the provider is asked', 'POST', '/integrations/7/sample', { headers: BEARER }],
    ['a session that can not be looked up', 'GET', '/integrations', { headers: SESSION }],
  ])('answers %s with a problem that says when to try again', async (_, method, path, init) => {
    const response = await api.request(API + path, { method, ...init })
    expect(response.status).toBe(503)
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    expect(response.headers.get('retry-after')).toBe('30')
    expect(await response.json()).toMatchObject({ status: 503, code: 'backend_unreachable' })
  })

  it('tells the log why, and the caller nothing of where Postgres is', async () => {
    const before = test.lines.length
    const response = await api.request(`${API}/integrations`, { headers: BEARER })
    expect(await response.text()).not.toContain('127.0.0.1')
    expect(test.lines.slice(before)).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({ event: 'api.failed', code: 'ECONNREFUSED' }),
      }),
    )
  })
})

it('answers /metrics the same way to a session', async () => {
  const response = await api.request('/metrics', { headers: SESSION })
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '30'])
})

describe('the OAuth routes while Postgres is away', () => {
  const path = '/integrations/7/oauth/connect'

  it('answer a program with a code and when to try again', async () => {
    const response = await api.request(path, { headers: BEARER })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '30'])
    expect(await response.json()).toMatchObject({ error: 'backend_unreachable' })
  })

  it('answer a person with a page', async () => {
    const response = await api.request(path, { headers: { ...BEARER, accept: 'text/html' } })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '30'])
    expect(await response.text()).toContain('Wait a minute')
  })
})
