/** The ready-made OAuth client against authorization servers: a lenient one of others' making, and a strict one. */
import { inspect } from 'node:util'
import type { MutableResponse } from 'oauth2-mock-server'
import { OAuth2Server as MockServer } from 'oauth2-mock-server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { HttpError } from '../../src/framework/errors.ts'
import { insideTokenWork } from '../../src/oauth/token-work.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'
import { OAuth2Provider } from '../../src/providers/oauth2-provider.ts'
import type { OAuth2Server } from '../../src/providers/oauth2-server.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { AcmeProvider } from './acme-oauth-provider.ts'
import type { StrictServer } from './strict-authorization-server.ts'
import { challengeOf, startStrictServer } from './strict-authorization-server.ts'

const REDIRECT_URI = 'https://host.example/integrations/oauth/callback'
const VERIFIER = 'v'.repeat(43)
/** Every character that the two encodings of RFC 6749, 2.3.1, treat differently. */
const CLIENT = { id: 'acme-client:1/é', secret: 'p@ss w+ord%&=~-_.:secret' }

const ACME = { id: 'acme', secret: 'the secret of acme' }

const KEYS = encryptionKey('test')
let database: TestDatabase
let test: TestIntegrations
let mock: MockServer
let strict: StrictServer

class LocalAcme extends AcmeProvider {
  protected override server() {
    return { issuer: String(mock.issuer.url) }
  }
}

/** By the book, at the strict server. */
class Strict extends OAuth2Provider {
  protected override discovery: 'oidc' | 'oauth2' = 'oauth2'
  protected override clientAuthentication: 'client_secret_basic' | 'client_secret_post' | 'none' = 'client_secret_basic'
  protected override scopes = ['tickets:read', 'offline_access']
  protected override authorizationParameters = { prompt: 'consent', state: 'not ours' }
  protected override client(): { id: string; secret?: string } {
    return CLIENT
  }
  protected override server(): OAuth2Server {
    return { issuer: strict.issuer }
  }
}

/** Discovery and one call an hour. */
class Limited extends Strict {
  readonly defaultRateLimit = () => RateLimit.perHour(2).sliding()
}

beforeAll(async () => {
  mock = new MockServer()
  await mock.issuer.keys.generate('RS256')
  await mock.start(0, '127.0.0.1')
  strict = await startStrictServer(CLIENT)
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: KEYS,
    baseUrl: 'https://host.example',
    egress: { allow: ['127.0.0.1', 'localhost'] },
    config: { rate_limiting: { max_wait_seconds: 0 } },
    providers: { acme: new LocalAcme(ACME), strict: new Strict(), limited: new Limited() },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
  await strict.http.close()
  await mock.stop()
})

let integration: Integration

beforeEach(async () => {
  integration = await makeIntegration(test, 'strict', { credentials: {} })
})

const initially: { behaviour?: StrictServer['behaviour'] } = {}
beforeAll(() => {
  initially.behaviour = { ...strict.behaviour }
})
afterEach(() => {
  Object.assign(strict.behaviour, initially.behaviour)
  strict.http.received.length = 0
  vi.useRealTimers()
})

/** As the framework calls it: a 401 in there is an answer like any other. */
function asFramework<T>(work: () => Promise<T>): Promise<T> {
  return insideTokenWork(test.framework, integration.id, work)
}

async function connect(provider: OAuth2Provider, { withPkce = true } = {}): Promise<Credentials> {
  const codeChallenge = challengeOf(VERIFIER)
  const code = strict.code({ redirectUri: REDIRECT_URI, ...(withPkce && { codeChallenge }) })
  const pkce = withPkce ? { codeVerifier: VERIFIER } : undefined
  const credentials = await asFramework(() => provider.exchangeCode(integration, code, REDIRECT_URI, pkce))
  await integration.updateCredentials(credentials)
  integration = await integration.refresh()
  return credentials
}

async function refresh(provider: OAuth2Provider): Promise<Credentials> {
  const credentials = await asFramework(() => provider.refreshToken(integration))
  await integration.updateCredentials(credentials)
  integration = await integration.refresh()
  return credentials
}

async function rows(): Promise<Record<string, unknown>[]> {
  return test.sql`select method, endpoint, status_code, failure_class, request_data, response_data, error
    from integration_requests where integration_id = ${integration.id} order by id`
}

async function failure(work: () => Promise<unknown>): Promise<Error & { code?: string }> {
  try {
    await asFramework(work)
  } catch (error) {
    return error as Error
  }
  throw new Error('it did not fail')
}

/** Everything a log or a history could show of it. */
function allOf(error: unknown): string {
  return inspect(error, { depth: 20, showHidden: true })
}

describe('a short provider at a server of others’ making', () => {
  it('is authorized with discovery and PKCE, refreshed and revoked, each call in a row without a token', async () => {
    integration = await makeIntegration(test, 'acme', { credentials: {} })
    const provider = new LocalAcme(ACME)
    const pkce = { codeChallenge: challengeOf(VERIFIER), codeChallengeMethod: 'S256' as const }
    const consent = await fetch(await provider.authorizationUrl(integration, REDIRECT_URI, 'state-1', pkce), {
      redirect: 'manual',
    })
    const callback = new URL(consent.headers.get('location') ?? '')
    expect(callback.searchParams.get('state')).toBe('state-1')

    const first = await provider.exchangeCode(integration, String(callback.searchParams.get('code')), REDIRECT_URI, {
      codeVerifier: VERIFIER,
    })
    expect(first).toEqual({
      access_token: expect.stringMatching(/^ey/),
      refresh_token: expect.any(String),
      token_expires_at: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    await integration.updateCredentials(first)
    integration = await integration.refresh()
    const second = await provider.refreshToken(integration)
    expect(second.refresh_token).not.toBe(first.refresh_token)
    await provider.revokeToken(integration)
    expect(await rows()).toEqual([
      expect.objectContaining({ method: 'GET', endpoint: '/.well-known/openid-configuration', status_code: 200 }),
      expect.objectContaining({
        method: 'POST',
        endpoint: '/token',
        status_code: 200,
        request_data: '{"grant_type":"authorization_code"}',
      }),
      expect.objectContaining({ endpoint: '/token', request_data: '{"grant_type":"refresh_token"}' }),
      expect.objectContaining({ endpoint: '/revoke', status_code: 200, failure_class: null }),
    ])
    const stored = JSON.stringify(await rows())
    for (const secret of [first, second].flatMap(({ access_token, refresh_token }) => [access_token, refresh_token]))
      expect(stored).not.toContain(secret)
  })

  it('has a server error of the token endpoint as that', async () => {
    integration = await makeIntegration(test, 'acme', { credentials: { refresh_token: 'refresh-of-a-test' } })
    mock.service.once('beforeResponse', (response: MutableResponse) => {
      response.statusCode = 503
      response.body = {}
    })
    const error = await failure(() => new LocalAcme(ACME).refreshToken(integration))
    expect(error).toMatchObject({ code: 'http_error', status: 503 })
    expect((await rows()).at(-1)).toMatchObject({ status_code: 503, failure_class: 'upstream' })
  })
})

describe('within the framework', () => {
  it('is authorized by a person, refreshed when the token is used, refused for good, authorized again, and revoked', async () => {
    const authorize = async (): Promise<void> => {
      const { url } = await test.integrations.oauth.start(integration.id)
      const asked = new URL(url).searchParams
      const redirectUri = asked.get('redirect_uri') ?? ''
      const code = strict.code({ redirectUri, codeChallenge: asked.get('code_challenge') ?? '' })
      const query = new URLSearchParams({ code, state: asked.get('state') ?? '', iss: strict.issuer })
      await test.integrations.oauth.complete({ query, cookie: () => undefined })
    }
    const token = async (): Promise<string | null> => (await test.integrations.get(integration.id)).getAccessToken()
    const nearTheEnd = async (): Promise<void> => {
      const soon = new Date(Date.now() + 60_000).toISOString()
      await (await test.integrations.get(integration.id)).updateCredentials({ token_expires_at: soon })
    }
    await authorize()
    await nearTheEnd()
    const first = (await test.integrations.get(integration.id)).credentialsArray().access_token
    const second = await token()
    expect(second).not.toBe(first)
    expect(strict.good).toContain(second)

    strict.good.clear()
    await nearTheEnd()
    const handle = await test.integrations.get(integration.id)
    await expect(handle.refreshTokenIfNeeded()).rejects.toMatchObject({
      code: 'reauth_required',
      reason: 'invalid_grant',
    })
    expect(await test.integrations.oauth.status(integration.id)).toMatchObject({
      reauth: { reason: 'invalid_grant' },
    })
    await authorize()
    expect(strict.good).toContain(await token())
    expect(await test.integrations.oauth.status(integration.id)).toMatchObject({ reauth: null })

    expect(await test.integrations.oauth.revoke(integration.id)).toBe('revoked')
    expect(await token()).toBeNull()
    expect([...strict.good].filter((each) => each.startsWith('refresh-'))).toEqual([])
  })
})

describe('the authorization URL', () => {
  it('has what RFC 6749 and RFC 7636 ask for, more parameters, and the query of the endpoint', async () => {
    const pkce = { codeChallenge: 'the-challenge', codeChallengeMethod: 'S256' as const }
    const url = new URL(await new Strict().authorizationUrl(integration, REDIRECT_URI, 'state-1', pkce))
    expect(url.origin + url.pathname).toBe(`${strict.issuer}/authorize`)
    expect(Object.fromEntries(url.searchParams)).toEqual({
      tenant: '1',
      response_type: 'code',
      client_id: CLIENT.id,
      redirect_uri: REDIRECT_URI,
      scope: 'tickets:read offline_access',
      state: 'state-1',
      code_challenge: 'the-challenge',
      code_challenge_method: 'S256',
      prompt: 'consent',
    })
  })

  it('names no challenge and no scope that there is not', async () => {
    class Plain extends Strict {
      override readonly pkce = undefined
      protected override scopes = []
    }
    const url = new URL(await new Plain().authorizationUrl(integration, REDIRECT_URI, 'state-1'))
    expect([...url.searchParams.keys()].filter((key) => /challenge|scope/.test(key))).toEqual([])
    expect(new Plain().pkce).toBeUndefined()
  })
})

describe('the client proves who it is', () => {
  it.each(['client_secret_basic', 'client_secret_post', 'none'] as const)('by %s, at every endpoint', async (proof) => {
    class Proving extends Strict {
      protected override clientAuthentication = proof
    }
    strict.behaviour.proof = proof
    const provider = new Proving()
    await connect(provider)
    await refresh(provider)
    await asFramework(() => provider.revokeToken(integration))
    expect((await rows()).map(({ status_code }) => status_code)).toEqual([200, 200, 200, 200])
  })

  it('with an id and a secret of the integration’s own', async () => {
    class OfCustomer extends Strict {
      protected override client(of: Integration = integration) {
        return { id: String(of.metadata.client_id), secret: String(of.credentialsArray().client_secret) }
      }
    }
    integration = await makeIntegration(test, 'strict', {
      credentials: { client_secret: CLIENT.secret },
      metadata: { client_id: CLIENT.id },
    })
    expect(await connect(new OfCustomer())).toHaveProperty('access_token')
  })

  it('and is not sent out without one', async () => {
    class Nameless extends Strict {
      protected override client(): { id: string; secret?: string } {
        return { id: '' }
      }
    }
    class Secretless extends Strict {
      protected override client(): { id: string; secret?: string } {
        return { id: CLIENT.id }
      }
    }
    const errors = [
      await failure(() => new Nameless().exchangeCode(integration, 'code', REDIRECT_URI)),
      await failure(() => new Secretless().exchangeCode(integration, 'code', REDIRECT_URI)),
    ]
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('client id'),
      expect.stringContaining('client_secret_basic needs one'),
    ])
    expect(strict.forms('/token')).toEqual([])
  })

  it('and is told when it is refused, without the secret', async () => {
    class Wrong extends Strict {
      protected override client() {
        return { id: CLIENT.id, secret: 'the-wrong-secret-of-all' }
      }
    }
    const error = await failure(() => connect(new Wrong()))
    expect(error).toMatchObject({ code: 'http_error', status: 401, body: { error: 'invalid_client' } })
    expect(allOf(error)).not.toContain('the-wrong-secret-of-all')
  })

  it.each([
    ['client_secret_basic', 'a-b', true],
    ['client_secret_basic', 'ab', false],
    ['client_secret_post', 'a-b', false],
  ] as const)('and refused by %s with %s: says that it was percent-encoded: %s', async (method, text, isTold) => {
    class Wrong extends Strict {
      protected override clientAuthentication = method
      protected override client() {
        return { id: text, secret: 'wrong' }
      }
    }
    const { message } = await failure(() => new Wrong().exchangeCode(integration, 'code', REDIRECT_URI))
    const words = "percent-encoded (RFC 6749, 2.3.1): a server that does not decode it needs clientAuthentication = 'cl"
    expect(message.includes(words)).toBe(isTold)
    expect(message).toContain('The provider answered 401.')
  })
})

describe('the code is exchanged', () => {
  it('with the verifier and the redirect URI, once', async () => {
    const provider = new Strict()
    await connect(provider)
    const [form] = strict.forms('/token')
    expect(form?.get('code_verifier')).toBe(VERIFIER)
    const used = await failure(() => provider.exchangeCode(integration, form?.get('code') ?? '', REDIRECT_URI))
    expect(used).toMatchObject({ code: 'http_error', status: 400 })
  })

  it('without a verifier where PKCE is off', async () => {
    await connect(new Strict(), { withPkce: false })
    expect(strict.forms('/token')[0]?.has('code_verifier')).toBe(false)
  })

  it('not for another verifier; neither error nor row quotes what was sent', async () => {
    const code = strict.code({ redirectUri: REDIRECT_URI, codeChallenge: challengeOf(VERIFIER) })
    const pkce = { codeVerifier: 'w'.repeat(43) }
    const error = await failure(() => new Strict().exchangeCode(integration, code, REDIRECT_URI, pkce))
    expect((error as HttpError).body).toMatchObject({
      error: 'invalid_grant',
      error_description: expect.stringContaining('[REDACTED]'),
    })
    const shown = allOf(error) + JSON.stringify(await rows())
    for (const secret of [code, pkce.codeVerifier, CLIENT.secret]) expect(shown).not.toContain(secret)
  })
})

describe('the tokens', () => {
  it('expire by the clock at the answer', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2027-01-01T00:00:00Z') })
    expect(await connect(new Strict())).toMatchObject({ token_expires_at: '2027-01-01T01:00:00.000Z' })
  })

  it.each([
    ['no expiry', undefined, null],
    ['a text of digits', '60', '2027-01-01T00:01:00.000Z'],
    ['now', 0, '2027-01-01T00:00:00.000Z'],
    ['a hundred years', 3_153_600_000, '2126-12-08T00:00:00.000Z'],
    ['longer than any date', 1e300, null],
    ['null', null, null],
    ['an empty text', '', null],
    ['less than 0', -1, null],
    ['words', 'never', null],
  ])('with an expires_in of %s', async (_name, expiresIn, expected) => {
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2027-01-01T00:00:00Z') })
    strict.behaviour.answer = (body) => ({ ...body, expires_in: expiresIn })
    expect(await connect(new Strict())).toHaveProperty('token_expires_at', expected)
  })

  it('are those of the newest refresh; a refresh token that is not sent stays', async () => {
    const provider = new Strict()
    const first = await connect(provider)
    const second = await refresh(provider)
    expect(second.refresh_token).not.toBe(first.refresh_token)
    strict.behaviour.answer = ({ refresh_token: _kept, ...body }) => body
    const third = await refresh(provider)
    expect(Object.keys(third).sort()).toEqual(['access_token', 'token_expires_at'])
    expect(integration.credentialsArray().refresh_token).toBe(second.refresh_token)
  })

  it.each([null, ''])('keep the refresh token where the new one is %j, and need no scope', async (none) => {
    const provider = new Strict()
    const { refresh_token: kept } = await connect(provider)
    strict.behaviour.answer = (body) => ({ ...body, refresh_token: none, scope: null })
    expect(Object.keys(await refresh(provider)).sort()).toEqual(['access_token', 'token_expires_at'])
    expect(integration.credentialsArray().refresh_token).toBe(kept)
  })

  it('take with them what the author asks for, and nothing else', async () => {
    class Scoped extends Strict {
      protected override extraCredentials(answer: Record<string, unknown>) {
        return { scope: answer.scope, instance_url: answer.instance_url, access_token: 'not this way' }
      }
    }
    strict.behaviour.answer = (body) => ({ ...body, instance_url: 'https://eu.acme.example' })
    const tokens = ['access_token', 'refresh_token', 'token_expires_at']
    expect(Object.keys(await connect(new Strict())).sort()).toEqual(tokens)
    const credentials = await connect(new Scoped())
    expect(credentials).toMatchObject({ scope: 'tickets:read', instance_url: 'https://eu.acme.example' })
    expect(credentials.access_token).toMatch(/^access-/)
  })

  it('are in no row, whatever the provider calls them', async () => {
    strict.behaviour.answer = (body) => ({ ...body, bot: { key: 'a-key-of-its-own-name' }, id_token: 'not.a.jwt' })
    const { access_token, refresh_token } = await connect(new Strict())
    const stored = JSON.stringify(await rows())
    expect(stored).toContain('tickets:read')
    for (const secret of [access_token, refresh_token, 'a-key-of-its-own-name']) expect(stored).not.toContain(secret)
  })

  it('are refused when the answer is not as it must be; the author can put it right', async () => {
    strict.behaviour.answer = ({ token_type: _left, ...body }) => body
    const error = await failure(() => connect(new Strict()))
    expect(error).toMatchObject({ code: 'schema_drift', message: expect.stringContaining('token_type') })
    expect(allOf(error)).not.toMatch(/(access|refresh)-[\w-]{8}/)
    expect((await rows()).at(-1)).toMatchObject({ status_code: 200, failure_class: 'unknown' })

    class Mended extends Strict {
      protected override correctAnswer(answer: Record<string, unknown>) {
        return { token_type: 'Bearer', ...answer }
      }
    }
    expect(await connect(new Mended())).toHaveProperty('access_token')
  })

  it('do not come from a page, nor from another address', async () => {
    strict.behaviour.instead = ({ url }, response) => {
      if (url !== '/token') return false
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<p>access_token=a-token-in-a-page')
      return true
    }
    const page = await failure(() => connect(new Strict()))
    expect(page).toMatchObject({ code: 'schema_drift' })
    expect(allOf(page)).not.toContain('a-token-in-a-page')
    strict.behaviour.instead = ({ url }, response) => {
      if (url !== '/token') return false
      response.writeHead(307, { Location: `${strict.issuer}/elsewhere` }).end()
      return true
    }
    expect(await failure(() => connect(new Strict()))).toMatchObject({ code: 'schema_drift' })
    expect(strict.forms('/elsewhere')).toEqual([])
  })
})

describe('a refresh that is refused for good', () => {
  it('asks for a person: a used refresh token, without a secret in the error', async () => {
    const provider = new Strict()
    await connect(provider)
    const stale = await integration.refresh()
    await refresh(provider)
    const error = await failure(() => provider.refreshToken(stale))
    expect(error).toMatchObject({ code: 'reauth_required', integrationId: integration.id, reason: 'invalid_grant' })
    expect(error.cause).toMatchObject({ code: 'http_error', status: 400 })
    expect(allOf(error)).not.toContain(stale.credentialsArray().refresh_token)
    expect(allOf(error)).not.toContain(encodeURIComponent(CLIENT.secret))
  })

  it('asks for a person where there is no refresh token, and asks nobody else', async () => {
    expect(await failure(() => new Strict().refreshToken(integration))).toMatchObject({
      code: 'reauth_required',
      reason: 'there is no refresh_token',
    })
    expect(strict.http.received).toEqual([])
  })

  it.each<[string, string | null]>([
    ['does not end', null],
    ['is not over', '2100-01-01T00:00:00Z'],
  ])('asks for nobody while the access token %s: one call may be refused for want of rights', async (_, expiry) => {
    await integration.updateCredentials({ access_token: 'a-lasting-one', token_expires_at: expiry })
    const error = await failure(async () => new Strict().refreshToken(await integration.refresh()))
    expect(error).toMatchObject({ code: 'invalid_argument', argument: 'refresh_token' })
    expect(strict.http.received).toEqual([])
  })

  it('asks for a person where there is no refresh token and the access token is over', async () => {
    await integration.updateCredentials({ access_token: 'an-old-one', token_expires_at: '2000-01-01T00:00:00Z' })
    const error = await failure(async () => new Strict().refreshToken(await integration.refresh()))
    expect(error).toMatchObject({ code: 'reauth_required', reason: 'there is no refresh_token' })
  })

  it.each([{}, { access_token: null }, { access_token: '' }])(
    'in words of the provider’s own is a refusal of the client, also with 200 and %j',
    async (noToken) => {
      await connect(new Strict())
      strict.behaviour.answer = () => ({ error: 'bad_refresh_token', ...noToken })
      const plain = await failure(() => new Strict().refreshToken(integration))
      expect(plain).toMatchObject({ code: 'http_error', body: { error: 'bad_refresh_token' } })
      expect((await rows()).at(-1)).toMatchObject({ status_code: 200, failure_class: 'client' })
    },
  )

  it('in the provider’s own words asks for a person, where the author names them', async () => {
    class GitHubLike extends Strict {
      protected override reauthorizationErrors = ['invalid_grant', 'bad_refresh_token']
    }
    await connect(new Strict())
    strict.behaviour.answer = () => ({ error: 'bad_refresh_token' })
    expect(await failure(() => new GitHubLike().refreshToken(integration))).toMatchObject({
      code: 'reauth_required',
      reason: 'bad_refresh_token',
    })
  })

  it('is not meant by other errors', async () => {
    await connect(new Strict())
    strict.behaviour.proof = 'none'
    expect(await failure(() => new Strict().refreshToken(integration))).toMatchObject({
      code: 'http_error',
      status: 401,
      body: { error: 'invalid_client' },
    })
  })
})

describe('a revocation', () => {
  it('is of the refresh token, else of the access token', async () => {
    const provider = new Strict()
    const { refresh_token } = await connect(provider)
    await asFramework(() => provider.revokeToken(integration))
    expect(Object.fromEntries(strict.forms('/revoke')[0] ?? [])).toEqual({
      token: refresh_token,
      token_type_hint: 'refresh_token',
    })
    expect(strict.good).not.toContain(refresh_token)
    await integration.updateCredentials({ access_token: 'an-access-token', refresh_token: null })
    integration = await integration.refresh()
    await asFramework(() => provider.revokeToken(integration))
    expect(strict.forms('/revoke')[1]?.get('token')).toBe('an-access-token')
    await integration.updateCredentials({ access_token: null })
    integration = await integration.refresh()
    await asFramework(() => provider.revokeToken(integration))
    expect(strict.forms('/revoke')).toHaveLength(2)
  })

  it('is of the access token where the author says so', async () => {
    class Access extends Strict {
      protected override readonly revokes = 'access_token'
    }
    const { access_token } = await connect(new Access())
    await asFramework(() => new Access().revokeToken(integration))
    expect(strict.forms('/revoke')[0]?.get('token')).toBe(access_token)
    expect(strict.forms('/revoke')[0]?.get('token_type_hint')).toBe('access_token')
  })

  it('fails when the server does, without the token', async () => {
    const { refresh_token } = await connect(new Strict())
    strict.behaviour.instead = ({ url, body }, response) => {
      if (url !== '/revoke') return false
      response.writeHead(503, { 'Content-Type': 'text/plain' }).end(`try again: ${body}`)
      return true
    }
    const error = await failure(() => new Strict().revokeToken(integration))
    expect(error).toMatchObject({ code: 'http_error', status: 503 })
    expect(allOf(error) + JSON.stringify(await rows())).not.toContain(refresh_token)
  })

  it('without an endpoint is refused: the tokens stay good there', async () => {
    const { revocation_endpoint: _none, ...metadata } = strict.behaviour.metadata
    strict.behaviour.metadata = metadata
    await connect(new Strict())
    expect(await failure(() => new Strict().revokeToken(integration))).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining("`revokes = 'nothing'`"),
    })
  })

  it('of nothing asks nobody', async () => {
    class Forgetting extends Strict {
      protected override readonly revokes = 'nothing'
    }
    await connect(new Strict())
    strict.http.received.length = 0
    await new Forgetting().revokeToken(integration)
    expect(strict.http.received).toEqual([])
  })
})

describe('the metadata', () => {
  const discoveries = (): number => strict.http.received.filter(({ url }) => url.startsWith('/.well-known/')).length

  it('is asked for once an hour by a process', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2027-01-01T00:00:00Z') })
    const provider = new Strict()
    await provider.authorizationUrl(integration, REDIRECT_URI, 's')
    vi.setSystemTime(new Date('2027-01-01T00:59:59.999Z'))
    await provider.authorizationUrl(integration, REDIRECT_URI, 's')
    expect(discoveries()).toBe(1)
    vi.setSystemTime(new Date('2027-01-01T01:00:00Z'))
    await provider.authorizationUrl(integration, REDIRECT_URI, 's')
    expect(discoveries()).toBe(2)
  })

  it('is asked for again after a failure', async () => {
    const provider = new Strict()
    strict.behaviour.instead = (_request, response) => {
      response.writeHead(404).end()
      return true
    }
    expect(await failure(() => provider.authorizationUrl(integration, REDIRECT_URI, 's'))).toMatchObject({
      code: 'http_error',
      status: 404,
    })
    strict.behaviour.instead = null
    expect(await provider.authorizationUrl(integration, REDIRECT_URI, 's')).toContain('/authorize')
  })

  it('of another issuer is refused, be it by a slash', async () => {
    strict.behaviour.metadata = { ...strict.behaviour.metadata, issuer: `${strict.issuer}/` }
    expect(await failure(() => new Strict().authorizationUrl(integration, REDIRECT_URI, 's'))).toMatchObject({
      message: expect.stringContaining('must be exactly what the metadata says'),
    })
    strict.behaviour.metadata = { ...strict.behaviour.metadata, issuer: 'https://elsewhere.example' }
    expect(await failure(() => new Strict().authorizationUrl(integration, REDIRECT_URI, 's'))).toMatchObject({
      code: 'schema_drift',
    })
  })

  it('can lead neither to http elsewhere nor to a script', async () => {
    for (const target of [
      'http://login.example/authorize',
      'javascript:alert(1)',
      'https://me:secret@login.example/',
    ]) {
      strict.behaviour.metadata = { ...strict.behaviour.metadata, authorization_endpoint: target }
      expect(await failure(() => new Strict().authorizationUrl(integration, REDIRECT_URI, 's'))).toMatchObject({
        code: 'invalid_argument',
        message: expect.stringContaining('an https URL'),
      })
    }
  })

  it('is not needed with endpoints, and single ones win over it', async () => {
    class Explicit extends Strict {
      protected override server(): OAuth2Server {
        return { endpoints: { authorization: `${strict.issuer}/authorize`, token: `${strict.issuer}/token` } }
      }
    }
    await connect(new Explicit())
    expect(discoveries()).toBe(0)
    class Partly extends Strict {
      protected override server(): OAuth2Server {
        return { issuer: strict.issuer, endpoints: { authorization: 'https://consent.acme.example/' } }
      }
    }
    expect(await new Partly().authorizationUrl(integration, REDIRECT_URI, 's')).toContain(
      'https://consent.acme.example/?',
    )
    expect(discoveries()).toBe(1)
  })

  it('has to be somewhere', async () => {
    class Nowhere extends Strict {
      protected override server(): OAuth2Server {
        return {}
      }
    }
    expect(await failure(() => new Nowhere().authorizationUrl(integration, REDIRECT_URI, 's'))).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('issuer'),
    })
  })
})

describe('the calls of the client', () => {
  it('keep the integration’s rate limit', async () => {
    integration = await makeIntegration(test, 'limited', { credentials: {} })
    const provider = new Limited()
    await connect(provider)
    const error = await failure(() => provider.refreshToken(integration))
    expect(error).toMatchObject({ code: 'rate_limit_exceeded' })
    expect(strict.forms('/token')).toHaveLength(1)
  })

  it('reach no private address that is not allowed', async () => {
    const guarded = testIntegrations(database.url, {
      encryptionKeys: KEYS,
      providers: { strict: new Strict() },
    })
    try {
      const handle = await guarded.integrations.get(integration.id)
      const error = await failure(() => new Strict().authorizationUrl(handle, REDIRECT_URI, 's'))
      expect(error).toMatchObject({ code: 'egress_refused' })
      expect(strict.http.received).toEqual([])
    } finally {
      await guarded.close()
    }
  })
})
