/** Signing in and out in a browser. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../../src/api/app.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import { BASE_URL, COOKIE, OPERATE_TOKEN, READ_TOKEN, signIn, TOKENS, WRONG_TOKEN } from '../../support/operators.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration } from '../../support/rows.ts'

const HTML = { accept: 'text/html,application/xhtml+xml' }
const encryptionKeys = encryptionKey('shared')

let database: TestDatabase
let test: TestIntegrations
let api: Hono

beforeAll(async () => {
  database = await createTestDatabase()
  test = made(TOKENS)
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

function made(tokens: readonly (typeof TOKENS)[number][], baseUrl: string = BASE_URL): TestIntegrations {
  const providers = { acme: webhookProvider() }
  return testIntegrations(database.url, { encryptionKeys, providers, baseUrl, config: { operator: { tokens } } })
}

function post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}, app = api) {
  return app.request(path, {
    method: 'POST',
    headers: { origin: BASE_URL, 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields).toString(),
  })
}

describe('signing in', () => {
  it('leads from any page to the login page, and back to it', async () => {
    const asked = '/operator/api/v1/integrations?provider=acme&limit=2'
    const sent = await api.request(asked, { headers: HTML })
    expect([sent.status, sent.headers.get('location')]).toEqual([
      302,
      `/operator/login?${new URLSearchParams({ next: asked })}`,
    ])
    const page = await (await api.request(sent.headers.get('location') ?? '', { headers: HTML })).text()
    expect(page).toContain(`name="next" value="${asked.replace('&', '&amp;')}"`)
    const answer = await post('/operator/login', { token: READ_TOKEN, next: asked })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, asked])
    const [cookie = ''] = (answer.headers.get('set-cookie') ?? '').split(';')
    expect((await api.request(asked, { headers: { cookie } })).status).toBe(200)
  })

  it('is asked of a browser that opens the page of the API, to which the menu leads', async () => {
    const asked = '/operator/api/v1/docs'
    const sent = await api.request(asked, { headers: HTML })
    expect([sent.status, sent.headers.get('location')]).toEqual([
      302,
      `/operator/login?${new URLSearchParams({ next: asked }).toString()}`,
    ])
    const answer = await post('/operator/login', { token: READ_TOKEN, next: asked })
    const [cookie = ''] = (answer.headers.get('set-cookie') ?? '').split(';')
    const home = await (await api.request('/operator', { headers: { ...HTML, cookie } })).text()
    expect(home).toContain(`<a href="${asked}">API</a>`)
    expect(await (await api.request(asked, { headers: { ...HTML, cookie } })).text()).toContain('Operator API')
  })

  it.each([
    ['a program', { accept: 'application/json' }],
    ['a browser that shows a wrong token', { ...HTML, authorization: `Bearer ${WRONG_TOKEN}` }],
  ])('is not asked of %s: 401 and how to do it', async (_, headers) => {
    const answer = await api.request('/operator', { headers })
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
    expect(await answer.json()).toMatchObject({ code: 'unauthenticated' })
  })

  it.each([
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/\t/evil.example',
    'javascript:alert(1)',
    '',
  ])('never leads to %j', async (next) => {
    const page = await (await api.request(`/operator/login?${new URLSearchParams({ next })}`)).text()
    expect(page).toContain('name="next" value="/operator"')
    const answer = await post('/operator/login', { token: READ_TOKEN, next })
    expect(answer.headers.get('location')).toBe('/operator')
  })

  it('sets a cookie that scripts, other sites and plain http do not get', async () => {
    const answer = await post('/operator/login', { token: READ_TOKEN })
    const [value, ...attributes] = (answer.headers.get('set-cookie') ?? '').split('; ')
    expect(value).toMatch(new RegExp(`^${COOKIE}=[\\w-]{43}$`))
    expect(attributes.map((attribute) => attribute.replace(/=.*GMT$/, '')).sort()).toEqual(
      ['Expires', 'HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure'].sort(),
    )
    const expires = new Date(attributes.find((attribute) => attribute.startsWith('Expires='))?.slice(8) ?? '')
    expect(Math.abs(expires.getTime() - Date.now() - 8 * 3_600_000)).toBeLessThan(60_000)
  })

  it('without https goes without the prefix and Secure', async () => {
    const plain = made(TOKENS, 'http://localhost:3000')
    const headers = { origin: 'http://localhost:3000' }
    const answer = await post('/operator/login', { token: READ_TOKEN }, headers, createApi(plain.integrations))
    expect(answer.headers.get('set-cookie')).toMatch(/^integrations_operator=[\w-]{43}; (?!.*Secure)/)
    await plain.close()
  })

  it('with a token that is nobody’s is a 401 page with one log line, neither of which names it', async () => {
    const before = test.lines.length
    const answer = await post('/operator/login', { token: WRONG_TOKEN })
    const page = await answer.text()
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([401, null])
    expect(page).toContain('role="alert"')
    expect(test.lines.slice(before)).toMatchObject([
      { level: 'warn' },
      { fields: { event: 'api.request', status: 401 } },
    ])
    expect(page + JSON.stringify(test.lines.slice(before))).not.toContain(WRONG_TOKEN)
  })

  it.each([
    ['another content type', 'application/json', JSON.stringify({ token: READ_TOKEN })],
    ['a file in its place', 'multipart/form-data; boundary=x', `--x\r\n\r\n${READ_TOKEN}\r\n--x--`],
  ])('with %s is a 401', async (_, type, body) => {
    const headers = { origin: BASE_URL, 'content-type': type }
    expect((await api.request('/operator/login', { method: 'POST', headers, body })).status).toBe(401)
  })

  it('works below a path of the base URL', async () => {
    const below = made(TOKENS, `${BASE_URL}/hub`)
    const app = createApi(below.integrations)
    expect((await app.request('/operator', { headers: HTML })).headers.get('location')).toBe(
      '/hub/operator/login?next=%2Fhub%2Foperator',
    )
    const answer = await post('/operator/login', { token: READ_TOKEN }, {}, app)
    expect(answer.headers.get('location')).toBe('/hub/operator')
    await below.close()
  })
})

describe('signing out', () => {
  it('ends the session and takes the cookie back', async () => {
    const { cookie, csrfToken } = await signIn(test.integrations, READ_TOKEN)
    const answer = await post('/operator/logout', { csrf_token: csrfToken }, { cookie })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/operator/login'])
    expect(answer.headers.get('set-cookie')).toMatch(new RegExp(`^${COOKIE}=; Max-Age=0; Path=/`))
    expect((await api.request('/operator', { headers: { cookie } })).status).toBe(401)
  })

  it('needs the session’s own CSRF token', async () => {
    const { cookie } = await signIn(test.integrations, READ_TOKEN)
    const other = await signIn(test.integrations, READ_TOKEN)
    const answer = await post('/operator/logout', { csrf_token: other.csrfToken }, { cookie })
    expect([answer.status, await answer.json()]).toMatchObject([403, { code: 'invalid_csrf_token' }])
    expect((await api.request('/operator', { headers: { cookie } })).status).toBe(200)
  })
})

it('a session ends with its token', async () => {
  const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
  const later = made([TOKENS[0]])
  expect((await createApi(later.integrations).request('/operator', { headers: { cookie } })).status).toBe(401)
  await later.close()
})

it('escapes what the address says', async () => {
  const next = `/"><script>alert(1)</script>`
  const page = await (await api.request(`/operator/login?${new URLSearchParams({ next })}`)).text()
  expect(page).not.toContain('<script>')
})

it('the page allows our own style and script, and is neither framed, kept nor told to others', async () => {
  const answer = await api.request('/operator/login')
  const page = await answer.text()
  const [, nonce = ''] = /<script nonce="([^"]+)"/.exec(page) ?? []
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'text/html; charset=UTF-8',
    'content-security-policy': `default-src 'none'; style-src 'self'; img-src 'self'; script-src 'nonce-${nonce}' 'strict-dynamic'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types dashboard`,
    // Under no-referrer a browser would send "Origin: null" with these very forms.
    'referrer-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'cache-control': 'no-store',
  })
  expect(page).not.toMatch(/\sstyle=|\son\w+=|https?:\/\//)
  expect(page).toMatch(/<html lang="en">/)
})

it('in `dev` lets in who has opened the address that it logs, and nobody by looking like this machine', async () => {
  const dev = testIntegrations(database.url, { encryptionKeys, providers: { acme: webhookProvider() }, dev: true })
  const { id } = await makeIntegration(dev, 'acme')
  const server = serve({ fetch: createApi(dev.integrations).fetch, port: 0, hostname: '127.0.0.1' }) as Server
  if (!server.listening) await new Promise((listening) => server.once('listening', listening))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const open = (path: string, init: RequestInit = {}) => fetch(`${origin}${path}`, { redirect: 'manual', ...init })
  try {
    // As Vite's development proxy and nginx ask: from this machine, under its name, with no header of a proxy's.
    expect((await open('/operator')).status).toBe(401)
    expect(
      (await open(`/operator/do/post/integrations/${id}/disable`, { method: 'POST', headers: { origin } })).status,
    ).toBe(401)

    const login = String(dev.lines.find(({ fields }) => fields.event === 'access.dev')?.fields.login)
    expect((await open(`${login}x`)).status).toBe(401)
    const entered = await open(`${login}&next=/operator/incidents`)
    expect([entered.status, entered.headers.get('location')]).toEqual([303, '/operator/incidents'])
    expect(Object.fromEntries(entered.headers)).toMatchObject({
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    })
    const setCookie = entered.headers.get('set-cookie') ?? ''
    expect(setCookie).toMatch(/; HttpOnly; SameSite=Strict$/)
    const [cookie = ''] = setCookie.split(';')
    const page = await (await open('/operator', { headers: { cookie } })).text()
    const csrf_token = /name="csrf_token" value="([^"]+)"/.exec(page)?.[1] ?? ''
    const disable = await open(`/operator/do/post/integrations/${id}/disable`, {
      method: 'POST',
      headers: { cookie, origin },
      body: new URLSearchParams({ csrf_token }),
    })
    expect([disable.status, (await dev.integrations.get(id)).isActive]).toEqual([303, false])
  } finally {
    server.closeAllConnections()
    server.close()
    await dev.close()
  }
})

it('takes no token in an address outside of `dev`', async () => {
  const answer = await api.request(`/operator/login?token=${OPERATE_TOKEN}`)
  expect([answer.status, answer.headers.get('set-cookie')]).toEqual([200, null])
})
