/** What the OAuth routes answer, and what each answer leaves behind. Rule: docs/behaviour/oauth.md. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import { markReauthRequired, reauthMark } from '../../src/oauth/reauth.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, signIn, TOKENS } from '../support/operators.ts'
import { logsOf, makeIntegration, setIntegration } from '../support/rows.ts'
import type { OAuthScript } from './oauth-visit.ts'
import { Browser, oauthScript, PROVIDER_PAGE } from './oauth-visit.ts'

const CALLBACK = `${BASE_URL}/integrations/oauth/callback`
const STATE_TTL_SECONDS = 600
const CREDENTIALS = { client_id: 'client-of-the-tests', kept: 'kept-of-the-tests', dropped: 'dropped-of-the-tests' }
const BEARER = { authorization: `Bearer ${OPERATE_TOKEN}` }
const keys = encryptionKey('oauth')

let database: TestDatabase
let test: TestIntegrations
let script: OAuthScript
let nowMs: number
const started = Date.now()
const clock = { now: () => new Date(nowMs) }

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(() => {
  nowMs = started
  test = deployment()
})

/** Where the provider is `script`'s, as each test sets it. */
function deployment({ provider, ...options }: IntegrationsOptions & { provider?: OAuthScript } = {}): TestIntegrations {
  script = provider ?? oauthScript()
  const made = testIntegrations(database.url, {
    encryptionKeys: keys,
    baseUrl: BASE_URL,
    clock,
    providers: { acme: script.provider, plain: { label: 'Plain' } },
    ...options,
    config: { operator: { tokens: TOKENS }, ...options.config },
  })
  onTestFinished(() => made.close())
  return made
}

const connected = (of = test): Promise<Integration> => makeIntegration(of, 'acme', { credentials: CREDENTIALS })

interface Begun {
  readonly browser: Browser
  readonly id: number
  readonly state: string
  /** Where the provider leads back. */
  back(parameters: Record<string, string>): string
}

async function begin(of = test, known?: Integration): Promise<Begun> {
  const { id } = known ?? (await connected(of))
  const browser = new Browser(of)
  const { location } = await browser.open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
  const state = location?.searchParams.get('state') ?? ''
  return { browser, id, state, back: (parameters) => back({ state, ...parameters }) }
}

function back(parameters: Record<string, string>): string {
  return `/integrations/oauth/callback?${new URLSearchParams(parameters)}`
}

/** All that must be as before when something was refused. */
async function stored(id: number, of = test) {
  const integration = await of.integrations.get(id)
  return {
    credentials: integration.credentialsArray(),
    mark: await reauthMark(of.framework, id),
    successes: (await logsOf(of, id, 'oauth')).filter(({ status }) => status === 'success').length,
  }
}

describe('authorize', () => {
  it('leads to the provider’s page with a state and a challenge, and binds the browser by a cookie', async () => {
    const { id } = await connected()
    const browser = new Browser(test)
    const { status, location, headers } = await browser.open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([status, `${location?.origin}${location?.pathname}`]).toEqual([302, PROVIDER_PAGE])
    expect(Object.fromEntries(location?.searchParams ?? [])).toEqual({
      response_type: 'code',
      redirect_uri: CALLBACK,
      state: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
    const hash = createHash('sha256')
      .update(location?.searchParams.get('state') ?? '')
      .digest('hex')
    const [cookie = ''] = headers.getSetCookie()
    expect(cookie).toMatch(new RegExp(`^integrations_oauth_${hash.slice(0, 12)}=[\\w-]{43}; `))
    expect(cookie.split('; ').slice(1).sort()).toEqual([
      'HttpOnly',
      `Max-Age=${STATE_TTL_SECONDS}`,
      'Path=/integrations/oauth/callback',
      'SameSite=Lax',
      'Secure',
    ])
    expect([headers.get('cache-control'), headers.get('referrer-policy')]).toEqual(['no-store', 'no-referrer'])
  })

  it('stores state, nonce and verifier neither in clear nor as a key', async () => {
    const { browser, state, back } = await begin()
    const nonces = [...browser.cookies.values()]
    const hash = createHash('sha256').update(state).digest('hex')
    const [row] = await test.sql<{ key: string; value: unknown }[]>`
      select key, value from integration_cache where key = ${`integrations:oauth-state:${hash}`}`
    expect(row?.value).toMatchObject({ redirect_uri: CALLBACK })
    await browser.open(back({ code: 'a-code' }))
    const verifier = script.exchanges[0]?.codeVerifier ?? ''
    for (const secret of [state, verifier, ...nonces]) {
      expect(secret).toMatch(/^[\w-]{43}$/)
      expect(JSON.stringify(row)).not.toContain(secret)
    }
    expect(nonces).toHaveLength(1)
  })

  it.each([
    ['an id that is not there', '999999', 404, 'integration_not_found'],
    ['what is no id', 'abc', 404, 'integration_not_found'],
    ['an id beyond 2^53', '9999999999999999', 404, 'integration_not_found'],
  ])('answers %s', async (_, id, status, error) => {
    const answer = await new Browser(test).open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([answer.status, answer.json()]).toEqual([status, { error, message: expect.any(String) }])
  })

  it('answers 400 for a provider without OAuth, or one that is no longer registered', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const plain = await new Browser(test).open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([plain.status, plain.json()]).toMatchObject([400, { error: 'oauth_unsupported' }])
    const without = deployment({ providers: {} })
    const gone = await new Browser(without).open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([gone.status, gone.json()]).toMatchObject([400, { error: 'unknown_provider' }])
  })

  it('answers 500 where nobody has said what the address is, whatever the Host header says', async () => {
    const { id } = await connected()
    const homeless = testIntegrations(database.url, {
      encryptionKeys: keys,
      providers: { acme: script.provider },
      config: { operator: { tokens: TOKENS } },
    })
    onTestFinished(() => homeless.close())
    const headers = { ...BEARER, host: 'evil.example', 'x-forwarded-host': 'evil.example' }
    const answer = await new Browser(homeless).open(`/integrations/${id}/oauth/authorize`, { headers })
    expect([answer.status, answer.json()]).toMatchObject([500, { error: 'base_url_missing' }])
  })

  it.each<[string, HasOAuth2['authorizationUrl']]>([
    ['throws', () => Promise.reject(new Error('SENTINEL'))],
    ['gives a path', () => '/authorize'],
    ['gives a script', () => 'javascript:alert(1)'],
    ['gives nothing', () => undefined as never],
  ])('answers 502 when authorizationUrl() %s, and begins nothing', async (_, authorizationUrl) => {
    const of = deployment({ provider: oauthScript(undefined, { authorizationUrl }) })
    const failures: unknown[] = []
    of.integrations.on(
      'OAuthFailed',
      ({ stage, error }) => void failures.push([stage, (error as { code: string }).code]),
    )
    const { id } = await connected(of)
    const browser = new Browser(of)
    const answer = await browser.open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([answer.status, answer.json()]).toMatchObject([502, { error: 'authorization_url_failed' }])
    expect(answer.text).not.toContain('SENTINEL')
    expect(browser.cookies.size).toBe(0)
    expect(failures).toEqual([['authorize', 'authorization_url_failed']])
    expect(await logsOf(of, id, 'oauth')).toMatchObject([
      { status: 'failed', error: expect.stringContaining('authorization_url_failed') },
    ])
  })

  it('lets an inactive integration be authorized', async () => {
    const integration = await connected()
    await setIntegration(test, integration.id, { isActive: false })
    const { browser, back } = await begin(test, integration)
    expect((await browser.open(back({ code: 'a-code' }))).status).toBe(302)
  })
})

describe('a callback', () => {
  it('stores the tokens beside what there is, and leads on', async () => {
    const answer = {
      access_token: 'access-1234',
      refresh_token: 'refresh-1234',
      token_expires_at: '2100-01-01T00:00:00Z',
      dropped: null,
    }
    const of = deployment({ provider: oauthScript(() => answer) })
    const events: unknown[] = []
    of.integrations.on('CredentialsUpdated', ({ keys }) => void events.push(['CredentialsUpdated', ...keys]))
    of.integrations.on(
      'OAuthCompleted',
      ({ integration }) =>
        void events.push(['OAuthCompleted', integration.id, integration.credentialsArray().access_token]),
    )
    const { browser, id, back } = await begin(of)
    const done = await browser.open(back({ code: 'a-code' }))
    expect([done.status, done.location?.href]).toEqual([302, 'http://relative.invalid/integrations'])
    expect((await of.integrations.get(id)).credentialsArray()).toEqual({
      client_id: 'client-of-the-tests',
      kept: 'kept-of-the-tests',
      access_token: 'access-1234',
      refresh_token: 'refresh-1234',
      token_expires_at: '2100-01-01T00:00:00Z',
    })
    const keysGiven = ['access_token', 'refresh_token', 'dropped', 'token_expires_at']
    expect(events).toEqual([
      ['CredentialsUpdated', ...keysGiven],
      ['OAuthCompleted', id, 'access-1234'],
    ])
    expect(await logsOf(of, id, 'oauth')).toMatchObject([
      { status: 'success', metadata: { stage: 'exchange', keys: keysGiven } },
    ])
    expect(await (await of.integrations.get(id)).getAccessToken()).toBe('access-1234')
    expect((await of.integrations.oauth.status(id)).lastRefreshedAt).toEqual(clock.now())
    expect(browser.cookies.size).toBe(0)
  })

  it('keeps the refresh token before where it brings none, and not the expiry', async () => {
    const before = {
      ...CREDENTIALS,
      ...{ access_token: 'old', refresh_token: 'kept', token_expires_at: '2000-01-01T00:00:00Z' },
    }
    const { browser, id, back } = await begin(test, await makeIntegration(test, 'acme', { credentials: before }))
    await browser.open(back({ code: 'a-code' }))
    const after = { ...CREDENTIALS, access_token: 'access-of-the-tests', refresh_token: 'kept' }
    expect((await stored(id)).credentials).toEqual(after)
  })

  it('exchanges the code with the verifier of the challenge and the redirect URI that was sent', async () => {
    const { id } = await connected()
    const browser = new Browser(test)
    const { location } = await browser.open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    // Meanwhile the deployment moves: what the provider was told stays what it is told.
    const moved = deployment({ baseUrl: 'https://moved.example' })
    const elsewhere = new Browser(moved)
    for (const [name, value] of browser.cookies) elsewhere.cookies.set(name, value)
    await elsewhere.open(back({ state: location?.searchParams.get('state') ?? '', code: 'a-code' }))
    expect(script.exchanges).toEqual([{ code: 'a-code', redirectUri: CALLBACK, codeVerifier: expect.any(String) }])
    const challenge = createHash('sha256')
      .update(script.exchanges[0]?.codeVerifier ?? '')
      .digest('base64url')
    expect(location?.searchParams.get('code_challenge')).toBe(challenge)
  })

  it('of a provider without PKCE shows no verifier', async () => {
    const { pkce: _, ...provider } = oauthScript().provider
    const of = deployment({ provider: { ...oauthScript(), provider } })
    const { id } = await connected(of)
    const { location } = await new Browser(of).open(`/integrations/${id}/oauth/authorize`, { headers: BEARER })
    expect([...(location?.searchParams.keys() ?? [])].sort()).toEqual(['redirect_uri', 'response_type', 'state'])
  })

  it('makes a state good for one callback, of many at the same moment', async () => {
    const { browser, back } = await begin()
    const copies = Array.from({ length: 8 }, () => {
      const copy = new Browser(test)
      for (const [name, value] of browser.cookies) copy.cookies.set(name, value)
      return copy
    })
    const answers = await Promise.all(copies.map((copy) => copy.open(back({ code: 'a-code' }))))
    expect(answers.map(({ status }) => status).sort()).toEqual([302, ...Array.from({ length: 7 }, () => 400)])
    expect(script.exchanges).toHaveLength(1)
  })

  it('lifts the mark of a needed authorization and forgets who it was', async () => {
    let asked = 0
    const authenticatedUser = async () => {
      asked += 1
      return { id: `user-${asked}`, name: null, email: null, username: null }
    }
    const identified = { ...oauthScript().provider, authenticatedUser }
    const of = deployment({ provider: { ...oauthScript(), provider: identified } })
    const integration = await connected(of)
    await markReauthRequired(of.framework, integration, 'invalid_grant')
    expect(await integration.authenticatedUser(3_600)).toMatchObject({ id: 'user-1' })
    const { browser, back } = await begin(of, integration)
    await browser.open(back({ code: 'a-code' }))
    expect(await reauthMark(of.framework, integration.id)).toBeNull()
    expect(await (await integration.refresh()).authenticatedUser(3_600)).toMatchObject({ id: 'user-2' })
  })

  describe('is refused as invalid_state, and nothing is changed', () => {
    it.each<[string, (begun: Begun) => Promise<string> | string]>([
      ['without a state', () => back({ code: 'a-code' })],
      ['with an empty one', () => back({ state: '', code: 'a-code' })],
      ['with one of another shape', () => back({ state: "'; drop table", code: 'a-code' })],
      ['with one that nobody made', () => back({ state: 'A'.repeat(43), code: 'a-code' })],
      [
        'with one that is exactly too old',
        (begun) => {
          nowMs += STATE_TTL_SECONDS * 1_000
          return begun.back({ code: 'a-code' })
        },
      ],
      [
        'without the cookie of the browser',
        (begun) => {
          begun.browser.cookies.clear()
          return begun.back({ code: 'a-code' })
        },
      ],
      [
        'with the cookie of another authorization',
        async (begun) => {
          const other = await begin()
          const [name = ''] = begun.browser.cookies.keys()
          begun.browser.cookies.set(name, [...other.browser.cookies.values()][0] ?? '')
          return begun.back({ code: 'a-code' })
        },
      ],
    ])('%s', async (_, comeBack) => {
      const begun = await begin()
      const before = await stored(begun.id)
      const answer = await begun.browser.open(await comeBack(begun))
      expect([answer.status, answer.json()]).toEqual([400, { error: 'invalid_state', message: expect.any(String) }])
      expect([script.exchanges, await stored(begun.id)]).toEqual([[], before])
    })

    it('a second time, also after a failure', async () => {
      const begun = await begin()
      await begun.browser.open(begun.back({ error: 'access_denied' }))
      const answer = await begun.browser.open(begun.back({ code: 'a-code' }))
      expect([answer.status, answer.json()]).toMatchObject([400, { error: 'invalid_state' }])
      expect(script.exchanges).toEqual([])
    })
  })

  it('is in time to the last millisecond', async () => {
    const { browser, back } = await begin()
    nowMs += STATE_TTL_SECONDS * 1_000 - 1
    expect((await browser.open(back({ code: 'a-code' }))).status).toBe(302)
  })

  it('with the state of another integration changes that one alone', async () => {
    const [one, other] = [await begin(), await begin()]
    const before = await stored(one.id)
    for (const [name, value] of other.browser.cookies) one.browser.cookies.set(name, value)
    expect((await one.browser.open(other.back({ code: 'a-code' }))).status).toBe(302)
    expect(await stored(one.id)).toEqual(before)
    expect((await stored(other.id)).credentials.access_token).toBe('access-of-the-tests')
  })

  it('of an integration that is gone is 404', async () => {
    const { browser, id, back } = await begin()
    await test.integrations.delete(id)
    const answer = await browser.open(back({ code: 'a-code' }))
    expect([answer.status, answer.json()]).toMatchObject([404, { error: 'integration_not_found' }])
    expect(script.exchanges).toEqual([])
  })

  it.each<[string, Record<string, string>, string, string | undefined]>([
    ['a denial', { error: 'access_denied' }, 'authorization_denied', 'access_denied'],
    ['a denial with a code', { error: 'access_denied', code: 'c' }, 'authorization_denied', 'access_denied'],
    ['another error', { error: 'temporarily_unavailable' }, 'authorization_failed', 'temporarily_unavailable'],
    ['an error that is no code', { error: '<b>call 555</b>' }, 'authorization_failed', undefined],
    ['the wrong issuer', { code: 'c', iss: 'https://evil.example' }, 'invalid_issuer', undefined],
    ['the issuer with a slash more', { code: 'c', iss: 'https://provider.example/' }, 'invalid_issuer', undefined],
    ['no code', {}, 'missing_code', undefined],
    ['an empty code', { code: '' }, 'missing_code', undefined],
  ])('with %s is 400 and stores nothing', async (_, parameters, error, providerError) => {
    const of = deployment({ provider: oauthScript(undefined, { issuer: 'https://provider.example' }) })
    const failures: unknown[] = []
    of.integrations.on(
      'OAuthFailed',
      ({ integration, stage, error }) => void failures.push([integration.id, stage, (error as { code: string }).code]),
    )
    const { browser, id, back } = await begin(of)
    const before = await stored(id, of)
    const answer = await browser.open(back({ error_description: 'DESCRIPTION', ...parameters }))
    expect([answer.status, answer.json()]).toEqual([
      400,
      { error, message: expect.any(String), ...(providerError && { provider_error: providerError }) },
    ])
    expect(answer.text).not.toMatch(/DESCRIPTION|555|evil/)
    expect([script.exchanges, await stored(id, of)]).toEqual([[], before])
    expect(failures).toEqual([[id, 'callback', error]])
    expect(await logsOf(of, id, 'oauth')).toMatchObject([
      { status: 'failed', metadata: { stage: 'callback', code: error, provider_error: providerError ?? null } },
    ])
  })

  it.each([
    ['the right issuer', { iss: 'https://provider.example' }],
    ['no issuer', {}],
  ])('with %s is taken', async (_, parameters) => {
    const of = deployment({ provider: oauthScript(undefined, { issuer: 'https://provider.example' }) })
    const { browser, back } = await begin(of)
    expect((await browser.open(back({ code: 'c', ...parameters }))).status).toBe(302)
  })

  it.each([
    ['two codes', '&code=a&code=b'],
    ['two states', `&code=a&state=${'A'.repeat(43)}`],
    ['a code of 4,097 characters', `&code=${'a'.repeat(4_097)}`],
  ])('with %s is 400, and its state is good still', async (_, query) => {
    const { browser, back } = await begin()
    const answer = await browser.open(`${back({})}${query}`)
    expect([answer.status, answer.json()]).toMatchObject([400, { error: 'invalid_callback' }])
    expect((await browser.open(back({ code: 'a-code' }))).status).toBe(302)
  })

  it.each<[string, () => unknown, string | undefined]>([
    ['throws', () => Promise.reject(Object.assign(new Error('SENTINEL'), { error: 'invalid_grant' })), 'invalid_grant'],
    ['gives nothing', () => undefined, undefined],
    ['gives no access_token', () => ({ refresh_token: 'refresh-1234' }), undefined],
    ['gives an empty access_token', () => ({ access_token: '' }), undefined],
    ['gives an expiry that is no time', () => ({ access_token: 'a', token_expires_at: 'soon' }), undefined],
    [
      'gives an expiry that is no valid Date',
      () => ({ access_token: 'a', token_expires_at: new Date(Number.NaN) }),
      undefined,
    ],
    ['gives an expiry in seconds', () => ({ access_token: 'a', token_expires_at: 3_600 }), undefined],
    ['gives what the schema refuses', () => ({ access_token: 'a', kept: 7 }), undefined],
    ['gives what the schema would drop', () => ({ access_token: 'a', refresh_token: 'refresh-1234' }), undefined],
    [
      'gives an expiry that the schema would drop',
      () => ({ access_token: 'a', token_expires_at: '2031-06-01T12:00:00Z' }),
      undefined,
    ],
    ['gives more than 64 KiB', () => ({ access_token: 'a', kept: 'x'.repeat(65_537) }), undefined],
  ])('is 502 when exchangeCode() %s, and nothing is stored', async (what, answerOf, providerError) => {
    const withoutExpiry = z.object({
      client_id: z.string(),
      kept: z.string(),
      dropped: z.string(),
      access_token: z.string().optional(),
    })
    const credentialsSchema = what.startsWith('gives an expiry that the schema')
      ? withoutExpiry
      : withoutExpiry.extend({ token_expires_at: z.unknown().optional() })
    const of = deployment({ provider: oauthScript(answerOf, { credentialsSchema }) })
    const stages: string[] = []
    of.integrations.on('OAuthFailed', ({ stage }) => void stages.push(stage))
    const { browser, id, back } = await begin(of)
    const before = await stored(id, of)
    const answer = await browser.open(back({ code: 'a-code' }))
    expect([answer.status, answer.json()]).toEqual([
      502,
      {
        error: 'code_exchange_failed',
        message: expect.any(String),
        ...(providerError && { provider_error: providerError }),
      },
    ])
    expect(answer.text).not.toContain('SENTINEL')
    expect(await stored(id, of)).toEqual(before)
    expect(stages).toEqual(['exchange'])
  })

  it('never leads to where a parameter or a header wants', async () => {
    const { browser, back } = await begin()
    const target = 'https://evil.example/'
    const path = back({
      code: 'a-code',
      next: target,
      redirect: target,
      redirect_uri: target,
      success_redirect: target,
    })
    const { location } = await browser.open(path, {
      headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example', referer: target },
    })
    expect(location?.href).toBe('http://relative.invalid/integrations')
  })

  it('asks for no cookie where the configuration asks for none', async () => {
    const of = deployment({ config: { oauth: { callback_middleware: [] } } })
    const { browser, back } = await begin(of)
    browser.cookies.clear()
    expect((await browser.open(back({ code: 'a-code' }))).status).toBe(302)
  })

  it('of a host that leads the browser itself needs no cookie', async () => {
    const { id } = await connected()
    const { url, state } = await test.integrations.oauth.start(id)
    expect(new URL(url).searchParams.get('state')).toBe(state)
    expect((await new Browser(test).open(back({ state, code: 'a-code' }))).status).toBe(302)
  })

  it('that began with a key which the ring has lost since is begun anew', async () => {
    const { browser, id, back } = await begin()
    const other = deployment({ encryptionKeys: encryptionKey('other') })
    const elsewhere = new Browser(other)
    for (const [name, value] of browser.cookies) elsewhere.cookies.set(name, value)
    const answer = await elsewhere.open(back({ code: 'a-code' }))
    expect([answer.status, answer.json()]).toMatchObject([400, { error: 'invalid_state' }])
    expect((await stored(id)).successes).toBe(0)
  })
})

describe('a person', () => {
  it('who denied reads so, and may try again by a fresh link', async () => {
    const { browser, id, back } = await begin()
    const answer = await browser.open(back({ error: 'access_denied' }), { asPerson: true })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'text/html; charset=UTF-8'])
    const retry = new URL(hrefIn(answer.text))
    expect(retry.pathname).toBe(`/integrations/${id}/oauth/connect`)
    expect(Number(retry.searchParams.get('expires')) * 1_000 - Math.floor(nowMs / 1_000) * 1_000).toBe(900_000)
    const stranger = new Browser(test)
    const connect = await stranger.open(retry.pathname + retry.search, { asPerson: true })
    expect(connect.status).toBe(200)
    const onward = await stranger.open(hrefIn(connect.text))
    expect(onward.location?.href).toContain(PROVIDER_PAGE)
  })

  it.each([
    ['with an unknown state', async () => back({ state: 'A'.repeat(43), code: 'c' })],
    [
      'without the cookie',
      async () => {
        const { state } = await begin()
        return back({ state, code: 'c' })
      },
    ],
  ])('%s is given no link', async (_, path) => {
    const answer = await new Browser(test).open(await path(), { asPerson: true })
    expect(answer.status).toBe(400)
    expect(answer.text).toContain('invalid_state')
    expect(answer.text).not.toContain('href=')
  })

  it('with an expired link reads so, and is not asked for a token', async () => {
    const { id } = await connected()
    const link = new URL(await test.integrations.oauth.link(id, { action: 'connect', expiresIn: 1 }))
    nowMs += 2_000
    const answer = await new Browser(test).open(link.pathname + link.search, { asPerson: true })
    expect([answer.status, answer.location]).toEqual([401, null])
    expect(answer.text).toContain('invalid_link')
  })

  it('without a link is sent to the login page', async () => {
    const { id } = await connected()
    const { status, location } = await new Browser(test).open(`/integrations/${id}/oauth/connect`, { asPerson: true })
    expect([status, location?.pathname]).toEqual([302, '/operator/login'])
  })

  it('is led on for exactly as long as the link to the page is good', async () => {
    const { id } = await connected()
    const link = new URL(await test.integrations.oauth.link(id, { action: 'connect', expiresIn: 60 }))
    nowMs += 30_000
    const page = await new Browser(test).open(link.pathname + link.search, { asPerson: true })
    const onward = new URL(hrefIn(page.text), BASE_URL)
    expect(onward.pathname).toBe(`/integrations/${id}/oauth/authorize`)
    expect(onward.searchParams.get('expires')).toBe(link.searchParams.get('expires'))
  })

  it('who is signed in needs no signature', async () => {
    const { id } = await connected()
    const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
    const page = await new Browser(test).open(`/integrations/${id}/oauth/connect`, {
      asPerson: true,
      headers: { cookie },
    })
    expect(hrefIn(page.text)).toBe(`/integrations/${id}/oauth/authorize`)
  })

  it('is told that it is done on a page of ours, while no other is configured', async () => {
    const page = await new Browser(test).open('/integrations', { asPerson: true })
    expect([page.status, page.headers.get('content-security-policy')]).toEqual([
      200,
      expect.stringContaining("default-src 'none'"),
    ])
    const elsewhere = deployment({ config: { oauth: { success_redirect: '/done' } } })
    expect((await new Browser(elsewhere).open('/integrations')).status).toBe(404)
  })
})

describe('revoke', () => {
  const TOKENS_STORED = {
    ...CREDENTIALS,
    access_token: 'access-1234',
    refresh_token: 'refresh-1234',
    token_expires_at: '2100-01-01T00:00:00Z',
  }
  const withTokens = (of = test): Promise<Integration> => makeIntegration(of, 'acme', { credentials: TOKENS_STORED })
  const path = (id: number) => `/integrations/${id}/oauth/revoke`

  it('revokes at the provider and drops the three keys alone', async () => {
    const events: string[] = []
    test.integrations.on('CredentialsUpdated', ({ keys }) => void events.push(`CredentialsUpdated ${keys}`))
    test.integrations.on('OAuthRevoked', () => void events.push('OAuthRevoked'))
    const integration = await withTokens()
    await markReauthRequired(test.framework, integration, 'invalid_grant')
    const answer = await new Browser(test).open(path(integration.id), { method: 'POST', headers: BEARER })
    expect([answer.status, answer.json()]).toEqual([200, { status: 'revoked' }])
    expect(script.revocations).toEqual(['access-1234'])
    expect(await stored(integration.id)).toEqual({ credentials: CREDENTIALS, mark: null, successes: 1 })
    expect(events).toEqual(['CredentialsUpdated access_token,refresh_token,token_expires_at', 'OAuthRevoked'])
  })

  /** What the one button of a page sends, and its headers: under `no-referrer` a browser names no origin (Fetch, 3.2). */
  const pressed = async (browser: Browser, page: Awaited<ReturnType<Browser['open']>>, headers = {}) => {
    const action = /<form method="post" action="([^"]+)"><button/.exec(page.text)?.[1]?.replaceAll('&amp;', '&') ?? ''
    const origin = page.headers.get('referrer-policy') === 'no-referrer' ? 'null' : BASE_URL
    return browser.open(action, { method: 'POST', asPerson: true, headers: { ...headers, origin } })
  }

  it('by a link shows a person a page with one button, which does it and leads on', async () => {
    const { id } = await withTokens()
    const before = await stored(id)
    const link = new URL(await test.integrations.oauth.link(id, { action: 'revoke' }))
    const browser = new Browser(test)
    const page = await browser.open(link.pathname + link.search, { asPerson: true })
    expect(page.status).toBe(200)
    expect(page.text).toContain('<h1>Disconnect')
    expect(page.text.match(/<(button|a|input)/g)).toEqual(['<button'])
    expect(page.headers.get('content-security-policy')).toContain("form-action 'self';")
    expect([script.revocations, await stored(id)]).toEqual([[], before])

    const { status, location } = await pressed(browser, page)
    expect([status, location?.href, script.revocations]).toEqual([
      302,
      'http://relative.invalid/integrations',
      ['access-1234'],
    ])
    const shown = () => browser.open('/integrations', { asPerson: true })
    expect((await shown()).text).toContain('<h1>Disconnected')
    expect((await shown()).text).toContain('<h1>Connected')
  })

  it.each<[string, Record<string, string>, unknown[]]>([
    ['a page', { accept: 'text/html,*/*;q=0.8' }, [302, '/integrations', '']],
    ['anything', { accept: '*/*' }, [302, '/integrations', '']],
    ['nothing', {}, [302, '/integrations', '']],
    ['JSON', { accept: 'application/json' }, [200, null, '{"status":"revoked"}']],
    ['anything, by a token', { accept: '*/*', ...BEARER }, [200, null, '{"status":"revoked"}']],
    ['nothing, by a token', BEARER, [200, null, '{"status":"revoked"}']],
    ['a page, by a token', { accept: 'text/html', ...BEARER }, [302, '/integrations', '']],
  ])('answers a caller who accepts %s', async (_, headers, expected) => {
    const { id } = await withTokens()
    const { pathname, search } = new URL(await test.integrations.oauth.link(id, { action: 'revoke' }))
    const query = 'authorization' in headers ? '' : search
    const answer = await new Browser(test).open(pathname + query, { method: 'POST', headers })
    expect([answer.status, answer.headers.get('location'), answer.text]).toEqual(expected)
    expect(script.revocations).toEqual(['access-1234'])
  })

  it('leads on to a configured address as it stands, without a cookie', async () => {
    const of = deployment({ config: { oauth: { success_redirect: 'https://app.example/settings?tab=crm' } } })
    const { id } = await withTokens(of)
    const { pathname, search } = new URL(await of.integrations.oauth.link(id, { action: 'revoke' }))
    const { headers } = await new Browser(of).open(pathname + search, { method: 'POST' })
    expect([headers.get('location'), headers.getSetCookie()]).toEqual(['https://app.example/settings?tab=crm', []])
  })

  it('shows an operator the same page, whose button says where it stands', async () => {
    const { id } = await withTokens()
    const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
    const browser = new Browser(test)
    const page = await browser.open(path(id), { asPerson: true, headers: { cookie } })
    expect([page.status, page.text]).toEqual([200, expect.stringContaining(`action="${path(id)}"`)])
    const { status } = await pressed(browser, page, { cookie })
    expect([status, script.revocations]).toEqual([302, ['access-1234']])
  })

  it('is done without a call where there is no token', async () => {
    const { id } = await connected()
    const answer = await new Browser(test).open(path(id), { method: 'POST', headers: BEARER })
    expect([answer.status, answer.json(), script.revocations]).toEqual([200, { status: 'revoked' }, []])
  })

  it('keeps the tokens when the provider fails, unless it is forced', async () => {
    const failing = oauthScript(undefined, { revokeToken: () => Promise.reject(new Error('SENTINEL')) })
    const of = deployment({ provider: failing })
    const stages: string[] = []
    of.integrations.on('OAuthFailed', ({ stage }) => void stages.push(stage))
    const { id } = await withTokens(of)
    const before = await stored(id, of)
    const refused = await new Browser(of).open(path(id), { method: 'POST', headers: BEARER })
    expect([refused.status, refused.json()]).toEqual([502, { error: 'revoke_failed', message: expect.any(String) }])
    expect(refused.text).not.toContain('SENTINEL')
    expect([await stored(id, of), stages]).toEqual([before, ['revoke']])
    const forced = await new Browser(of).open(`${path(id)}?force=true`, { method: 'POST', headers: BEARER })
    expect([forced.status, (await stored(id, of)).credentials]).toEqual([200, CREDENTIALS])
  })

  it('may be forced by true alone, and not by a link', async () => {
    const { id } = await withTokens()
    const odd = await new Browser(test).open(`${path(id)}?force=1`, { method: 'POST', headers: BEARER })
    expect([odd.status, odd.json()]).toMatchObject([400, { error: 'invalid_argument' }])
    const link = new URL(await test.integrations.oauth.link(id, { action: 'revoke' }))
    const forced = await new Browser(test).open(`${link.pathname}${link.search}&force=true`, {
      method: 'POST',
      headers: { origin: BASE_URL },
    })
    expect(forced.status).toBe(401)
    expect(script.revocations).toEqual([])
  })

  it.each<[string, string, Record<string, string>, number]>([
    ['from a page of another site', 'POST', { origin: 'https://evil.example' }, 403],
    ['without an origin', 'POST', {}, 403],
    ['by GET', 'GET', {}, 200],
    ['by PUT', 'PUT', { origin: BASE_URL }, 405],
  ])('%s changes nothing', async (_, method, headers, status) => {
    const { id } = await withTokens()
    const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
    const before = await stored(id)
    const answer = await new Browser(test).open(path(id), { method, headers: { cookie, ...headers } })
    expect([answer.status, script.revocations, await stored(id)]).toEqual([status, [], before])
  })

  it('without a link or a sign-in changes nothing', async () => {
    const { id } = await withTokens()
    const answer = await new Browser(test).open(path(id), { method: 'POST', headers: { origin: BASE_URL } })
    expect([answer.status, script.revocations]).toEqual([401, []])
  })
})

describe('HEAD, as a program that looks at links sends it,', () => {
  it('of authorize and of the callback is refused, and uses nothing up', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const { state } = await test.integrations.oauth.start(id)
    for (const path of [`/integrations/${id}/oauth/authorize`, `/integrations/oauth/callback?state=${state}&code=c`]) {
      const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
      const answer = await new Browser(test).open(path, { method: 'HEAD', headers: { cookie } })
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET'])
      // The callback's address has the code and the state.
      expect([answer.headers.get('cache-control'), answer.headers.get('referrer-policy')]).toEqual([
        'no-store',
        'no-referrer',
      ])
    }
    const completed = await test.integrations.oauth.complete({
      query: new URLSearchParams({ state, code: 'a-code' }),
      cookie: () => undefined,
    })
    expect(completed.integrationId).toBe(id)
  })
})

function hrefIn(page: string): string {
  return (/href="([^"]*)"/.exec(page)?.[1] ?? '').replaceAll('&amp;', '&')
}
