/** People sign in at an OpenID provider. Rule: docs/behaviour/access.md, "People". */
import type { MutableToken } from 'oauth2-mock-server'
import { OAuth2Server } from 'oauth2-mock-server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, COOKIE, from, READ_TOKEN, TOKENS } from '../support/operators.ts'

const ADA = { email: 'ada@example.com', email_verified: true }
const ADDRESS = '192.0.2.7'
const SECRET = 'the secret of our client'
const KEYS = encryptionKey('people')
const PEOPLE = { operate: ['ada@example.com', 'groups=operators'], read: ['@Example.org'] }

const provider = new OAuth2Server()
let database: TestDatabase
let test: TestIntegrations
let nowMs = Date.now()
/** Of the next ID token, beside what belongs there. */
let claims: Record<string, unknown>
/** Puts the next ID token wrong. */
let spoil: (token: MutableToken) => void

beforeAll(async () => {
  await provider.issuer.keys.generate('RS256')
  await provider.start(0, '127.0.0.1')
  provider.service.on('beforeTokenSigning', (token: MutableToken) => {
    // The access token is signed as well; its audience is another.
    Object.assign(token.payload, claims)
    spoil(token)
  })
  database = await createTestDatabase()
  test = withOidc(settings())
})
beforeEach(() => {
  claims = ADA
  spoil = () => {}
  nowMs = Date.now()
})
afterEach(() => {
  // The state, the nonce and the code of a sign-in are over; the secret and the tokens never leave the process.
  expect(JSON.stringify(test.lines)).not.toMatch(new RegExp(`${SECRET}|eyJ`))
})
afterAll(async () => {
  await test.close()
  await database.drop()
  await provider.stop()
})

function settings() {
  return { issuer: String(provider.issuer.url), client_id: 'us', client_secret: SECRET, ...PEOPLE }
}

function withOidc(
  oidc: NonNullable<ConfigInput['operator']>['oidc'],
  tokens: NonNullable<ConfigInput['operator']>['tokens'] = TOKENS,
): TestIntegrations {
  return testIntegrations(database.url, {
    providers: { plain: {} },
    baseUrl: BASE_URL,
    encryptionKeys: KEYS,
    clock: { now: () => new Date(nowMs) },
    config: { operator: { tokens, ...(oidc === undefined ? {} : { oidc }) } },
  })
}

/** A browser: it keeps cookies, and follows nothing by itself. */
class TestBrowser {
  readonly cookies = new Map<string, string>()
  constructor(readonly integrations = test.integrations) {}

  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { accept: 'text/html', ...(cookie && { cookie }), ...init.headers }
    const answer = await createApi(this.integrations).request(path, { ...init, headers }, from(ADDRESS))
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      if (value === '') this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    return answer
  }

  /** To the provider, which knows the person and asks nothing. @returns where it leads back to */
  async toProvider(next = '/operator/incidents'): Promise<string> {
    const begun = await this.ask(`/operator/login/oidc?next=${encodeURIComponent(next)}`)
    const answer = await fetch(begun.headers.get('location') as string, { redirect: 'manual' })
    const back = new URL(answer.headers.get('location') as string)
    expect(back.origin + back.pathname).toBe(`${BASE_URL}/operator/login/oidc/callback`)
    return back.pathname + back.search
  }

  async signIn(): Promise<Response> {
    return this.ask(await this.toProvider())
  }
}

const acts = async (since: number) => {
  const all = []
  for await (const { id, by, action, detail, from: where } of test.integrations.admin.audit.list())
    if (id > since) all.push({ by, action, detail, from: where })
  return all.reverse()
}
const lastAct = async () =>
  Number((await test.sql`select coalesce(max(id), 0)::int as id from integration_audit`)[0]?.id)

describe('a sign-in', () => {
  it('begins at the provider, with a code, PKCE, a state and a nonce', async () => {
    const answer = await new TestBrowser().ask('/operator/login/oidc?next=/operator/incidents')
    const url = new URL(answer.headers.get('location') as string)
    expect([answer.status, url.origin]).toEqual([302, new URL(settings().issuer).origin])
    expect(Object.fromEntries(url.searchParams)).toEqual({
      response_type: 'code',
      client_id: 'us',
      redirect_uri: `${BASE_URL}/operator/login/oidc/callback`,
      scope: 'openid email',
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(
      /^__Host-integrations_sign_in=[^;]+; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Lax$/,
    )
  })

  it('makes a session of the person, who is who has acted', async () => {
    const before = await lastAct()
    const browser = new TestBrowser()
    const entered = await browser.signIn()
    expect([entered.status, entered.headers.get('refresh')]).toEqual([200, '0; url=/operator/incidents'])
    expect(entered.headers.getSetCookie().find((set) => set.startsWith(`${COOKIE}=`))).toMatch(
      /; HttpOnly; Secure; SameSite=Strict$/,
    )
    expect([...browser.cookies.keys()]).toEqual([COOKIE])
    const page = await (await browser.ask('/operator')).text()
    expect(page).toContain('<span>ada@example.com</span>')

    const csrf = /name="csrf_token" value="([^"]+)"/.exec(page)?.[1] as string
    const post = (path: string) =>
      browser.ask(path, {
        method: 'POST',
        headers: { origin: BASE_URL, 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ csrf_token: csrf }),
      })
    const { id } = await test.integrations.create({ provider: 'plain', name: 'of a person', credentials: {} })
    expect((await post(`/operator/do/post/integrations/${id}/disable`)).status).toBe(303)
    expect(await acts(before)).toEqual([
      { by: 'ada@example.com', action: 'sign-in', detail: `operate, by ${settings().issuer}`, from: ADDRESS },
      { by: 'ada@example.com', action: 'disable', detail: null, from: ADDRESS },
    ])
    const session = new Map(browser.cookies)
    expect((await post('/operator/logout')).headers.get('location')).toBe('/operator/login')
    expect(browser.cookies.size).toBe(0)
    for (const [name, value] of session) browser.cookies.set(name, value)
    expect((await browser.ask('/operator')).headers.get('location')).toMatch(/\/operator\/login\?/)
  })

  it.each<[string, Record<string, unknown>, string, 'read' | 'operate']>([
    ['an address in any case', { ...ADA, email: 'Ada@Example.com' }, 'ada@example.com', 'operate'],
    ['an address whose mark is a text', { ...ADA, email_verified: 'true' }, 'ada@example.com', 'operate'],
    ['a domain', { email: 'bob@example.org', email_verified: true }, 'bob@example.org', 'read'],
    [
      'a claim that holds the value',
      { groups: ['a', 'operators'], email: 'c:d@x.test' },
      'c_d@x.test (johndoe)',
      'operate',
    ],
    ['a claim that is the value', { groups: 'operators' }, 'johndoe', 'operate'],
  ])('lets in by %s', async (_, given, name, scope) => {
    claims = given
    const browser = new TestBrowser()
    await browser.signIn()
    const session = await test.integrations.admin.access.bySession(browser.cookies.get(COOKIE) as string)
    expect(session?.principal).toEqual({ name, scopes: [scope], via: 'session' })
  })

  it.each<[string, Record<string, unknown>]>([
    ['another address', { email: 'eve@example.com', email_verified: true }],
    ['an address that is not verified', { ...ADA, email_verified: false }],
    ['an address of which nobody says that it is', { email: 'ada@example.com' }],
    ['a domain that ends alike', { email: 'bob@notexample.org', email_verified: true }],
    ['no claim at all', {}],
  ])('lets nobody in by %s', async (_, given) => {
    claims = given
    const browser = new TestBrowser()
    const answer = await browser.signIn()
    expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('lets no one of this name in')])
    expect(browser.cookies.size).toBe(0)
  })

  it('writes down whom it did not let in', async () => {
    const before = await lastAct()
    const fresh = withOidc(settings())
    claims = { email: 'eve@example.com', email_verified: true }
    await new TestBrowser(fresh.integrations).signIn()
    await fresh.close()
    expect(await acts(before)).toEqual([
      { by: 'unknown', action: 'sign-in refused', detail: 'eve@example.com', from: ADDRESS },
    ])
  })
})

describe('a sign-in is refused', () => {
  const refused = async (answer: Response, text: string) => {
    expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining(text)])
    expect(answer.headers.getSetCookie().join()).not.toContain(COOKIE)
  }
  const BEGIN_AGAIN = 'Please begin again'
  const NOT_VALID = 'its answer is not valid'

  it('with another state', async () => {
    const browser = new TestBrowser()
    const back = await browser.toProvider()
    await refused(await browser.ask(back.replace(/state=[\w-]+/, `state=${'x'.repeat(43)}`)), BEGIN_AGAIN)
  })

  it('in another browser', async () => {
    const back = await new TestBrowser().toProvider()
    const other = new TestBrowser()
    await refused(await other.ask(back), BEGIN_AGAIN)
    await other.toProvider()
    await refused(await other.ask(back), BEGIN_AGAIN)
  })

  it('with a cookie that was changed', async () => {
    const browser = new TestBrowser()
    const back = await browser.toProvider()
    const [[name, value] = ['', '']] = [...browser.cookies]
    const [seed, endsAt, , signature] = value.split('.')
    browser.cookies.set(name, [seed, endsAt, Buffer.from('//evil.example').toString('base64url'), signature].join('.'))
    await refused(await browser.ask(back), BEGIN_AGAIN)
  })

  it('when the code comes again', async () => {
    const browser = new TestBrowser()
    const back = await browser.toProvider()
    const kept = new Map(browser.cookies)
    expect((await browser.ask(back)).status).toBe(200)
    const again = new TestBrowser()
    for (const [name, value] of kept) again.cookies.set(name, value)
    await refused(await again.ask(back), BEGIN_AGAIN)
  })

  it('after ten minutes', async () => {
    const browser = new TestBrowser()
    const back = await browser.toProvider()
    nowMs += 600_000
    await refused(await browser.ask(back), BEGIN_AGAIN)
  })

  it('when the person says no', async () => {
    const browser = new TestBrowser()
    const back = new URL(await browser.toProvider(), BASE_URL)
    back.searchParams.delete('code')
    back.searchParams.set('error', 'access_denied')
    await refused(await browser.ask(back.pathname + back.search), BEGIN_AGAIN)
  })

  it.each<[string, (token: MutableToken) => void]>([
    ['another nonce', ({ payload }) => void Object.assign(payload, { nonce: 'of another sign-in' })],
    ['another audience', ({ payload }) => void Object.assign(payload, { aud: 'another client' })],
    ['another issuer', ({ payload }) => void Object.assign(payload, { iss: 'https://evil.example' })],
    ['an end in the past', ({ payload }) => void Object.assign(payload, { exp: Math.floor(Date.now() / 1_000) - 60 })],
    ['no signature by a key of the provider', ({ header }) => void Object.assign(header, { kid: 'another key' })],
  ])('where the ID token has %s', async (_, how) => {
    const browser = new TestBrowser()
    const back = await browser.toProvider()
    spoil = how
    await refused(await browser.ask(back), NOT_VALID)
    expect(test.lines).toContainEqual(
      expect.objectContaining({ fields: expect.objectContaining({ event: 'access.oidc_failed' }) }),
    )
  })

  it('while the provider is away', async () => {
    const away = withOidc({ ...settings(), issuer: 'http://127.0.0.1:1' })
    await refused(await new TestBrowser(away.integrations).ask('/operator/login/oidc'), 'could not be asked')
    await away.close()
  })
})

describe('a session of a person', () => {
  it('is over after 8 hours', async () => {
    const browser = new TestBrowser()
    await browser.signIn()
    nowMs += 8 * 3_600_000 - 1_000
    expect((await browser.ask('/operator')).status).toBe(200)
    nowMs += 1_000
    expect((await browser.ask('/operator')).status).toBe(302)
  })

  it('is over where the configuration is another one, or none', async () => {
    const browser = new TestBrowser()
    await browser.signIn()
    for (const oidc of [settings(), { ...settings(), operate: ['groups=operators'] }, undefined]) {
      const other = withOidc(oidc)
      const session = await other.integrations.admin.access.bySession(browser.cookies.get(COOKIE) as string)
      expect(session?.principal.name).toBe(oidc?.operate.includes('ada@example.com') ? 'ada@example.com' : undefined)
      await other.close()
    }
  })

  it('of the scope read changes nothing', async () => {
    claims = { email: 'bob@example.org', email_verified: true }
    const browser = new TestBrowser()
    await browser.signIn()
    const init = { method: 'POST', headers: { origin: BASE_URL, accept: 'application/json' } }
    expect((await browser.ask('/operator/integrations/1/disable', init)).status).toBe(403)
  })
})

describe('the login page', () => {
  it('leads to the provider, and takes a token where there is one', async () => {
    const page = await (await new TestBrowser().ask('/operator/login?next=/operator/incidents')).text()
    expect(page).toContain('<a href="/operator/login/oidc?next=%2Foperator%2Fincidents">Sign in with localhost:')
    expect(page).toContain('name="token"')
    const without = withOidc(settings(), [])
    const other = await (await new TestBrowser(without.integrations).ask('/operator/login')).text()
    await without.close()
    expect(other).toContain('Sign in with')
    expect(other).not.toContain('name="token"')
  })

  it('has none of it where it is not configured', async () => {
    const plain = withOidc(undefined)
    const browser = new TestBrowser(plain.integrations)
    expect(await (await browser.ask('/operator/login')).text()).not.toContain('Sign in with')
    const headers = { authorization: `Bearer ${READ_TOKEN}` }
    for (const path of ['/operator/login/oidc', '/operator/login/oidc/callback?code=1&state=2'])
      expect((await browser.ask(path, { headers })).status).toBe(404)
    await plain.close()
  })

  it('says so where no base URL is configured', async () => {
    const nowhere = testIntegrations(database.url, {
      encryptionKeys: KEYS,
      config: { operator: { tokens: TOKENS, oidc: settings() } },
    })
    const answer = await new TestBrowser(nowhere.integrations).ask('/operator/login/oidc')
    await nowhere.close()
    expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('set the option baseUrl')])
  })
})
