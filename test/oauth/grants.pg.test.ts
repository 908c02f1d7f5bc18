/** Tokens without a person: by client credentials, assertions and keys, at servers of ours and at an independent one. */
import { generateKeyPairSync, verify } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider from 'oidc-provider'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { isInsideTokenWork } from '../../src/oauth/token-work.ts'
import type {
  HttpError,
  Integration,
  OAuth2Assertion,
  OAuth2Client,
  OAuth2ClientAuthentication,
  OAuth2Grant,
} from '../../src/provider.ts'
import { OAuth2Provider } from '../../src/provider.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { startAuthlib } from '../support/authlib.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { HttpServer } from '../support/http-server.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import type { StripePeer } from '../support/stripe-peer.ts'

const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 })
const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const ED = generateKeyPairSync('ed25519')
const pem = ({ privateKey }: { privateKey: typeof RSA.privateKey }): string =>
  privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

let database: TestDatabase
let test: TestIntegrations
let server: HttpServer
let made = 0
const clock = new ManualClock(new Date())
const encryptionKeys = encryptionKey('test')

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { clock, encryptionKeys, egress: { allow: ['127.0.0.1'] } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  clock.set(new Date())
  server = await startHttpServer()
  answerTokens()
})
afterEach(() => server.close())

/** The server's present secret; with `refused`, what it answers to all. */
function answerTokens({
  secret = 's1',
  refused = null,
  lifeSeconds = 3_600,
}: {
  secret?: string
  refused?: string | null
  lifeSeconds?: number
} = {}): void {
  let issued = 0
  server.answer = (request, response) => {
    const proof = Buffer.from(String(request.headers.authorization ?? '').replace('Basic ', ''), 'base64').toString()
    const isKnown = request.headers.authorization === undefined || proof === `client:${secret}`
    const failure = refused ?? (isKnown ? null : 'invalid_client')
    response.setHeader('Content-Type', 'application/json')
    if (failure !== null) {
      response.statusCode = failure === 'invalid_client' ? 401 : 400
      return response.end(JSON.stringify({ error: failure }))
    }
    issued += 1
    return response.end(
      JSON.stringify({ access_token: `token-${issued}`, token_type: 'Bearer', expires_in: lifeSeconds }),
    )
  }
}

interface Given {
  readonly grant?: OAuth2Grant
  readonly client?: Partial<OAuth2Client>
  readonly more?: (provider: Machine) => void
  readonly credentials?: Record<string, unknown>
  readonly token?: string
}

class Machine extends OAuth2Provider {
  protected override readonly grant: OAuth2Grant
  protected override endpoints = { authorization: `${server.url}/authorize`, token: `${server.url}/token` }
  override clientAuthentication: OAuth2ClientAuthentication = 'client_secret_basic'
  override scopes: readonly string[] = []
  readonly #client: OAuth2Client

  constructor(grant: OAuth2Grant, client: Partial<OAuth2Client>) {
    super()
    this.grant = grant
    this.#client = { id: 'client', secret: 's1', ...client }
  }

  protected override client() {
    return this.#client
  }
}

async function make({
  grant = { type: 'client_credentials' },
  client = {},
  more = () => {},
  credentials = {},
}: Given = {}): Promise<Integration> {
  made += 1
  const provider = new Machine(grant, client)
  more(provider)
  test.integrations.register(`machine-${made}`, provider)
  return makeIntegration(test, `machine-${made}`, { credentials })
}

const forms = () => server.received.map(({ body }) => Object.fromEntries(new URLSearchParams(body)))
const pass = (seconds: number): void => clock.set(new Date(clock.now().getTime() + seconds * 1_000))

async function incidentsOf({ id }: Integration) {
  return test.sql`select status, source, reason, peak_severity from integration_incidents where integration_id = ${id}`
}

describe('client credentials', () => {
  it('are asked for a token where there is none, once however many ask, and again before it expires', async () => {
    const integration = await make({
      grant: { type: 'client_credentials', parameters: { audience: 'https://api.acme.example' } },
      more: (provider) => {
        provider.scopes = ['read', 'write']
      },
    })
    const tokens = await Promise.all(Array.from({ length: 20 }, () => integration.getAccessToken()))
    expect(new Set(tokens)).toEqual(new Set(['token-1']))
    expect(forms()).toEqual([
      { grant_type: 'client_credentials', scope: 'read write', audience: 'https://api.acme.example' },
    ])
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ access_token: 'token-1' })
    pass(3_400)
    expect(await (await integration.refresh()).getAccessToken()).toBe('token-2')
  })

  it.each([
    [240, 120],
    [3_600, 3_300],
  ])('that last %i s are asked again once %i s are over, and not by each call', async (lifeSeconds, usedSeconds) => {
    answerTokens({ lifeSeconds })
    const integration = await make()
    const ask = async () => (await integration.refresh()).getAccessToken()
    expect([await ask(), await ask(), await ask()]).toEqual(['token-1', 'token-1', 'token-1'])
    pass(usedSeconds - 20)
    expect(await ask()).toBe('token-1')
    pass(30)
    expect(await ask()).toBe('token-2')
    expect(server.received).toHaveLength(2)
  })

  it('replace a token that was refused, and make the call once more', async () => {
    const integration = await make()
    await integration.getAccessToken()
    let calls = 0
    const answer = await integration.request('me', 'GET', async () => {
      calls += 1
      const token = await integration.getAccessToken()
      return token === 'token-1' ? new Response('{}', { status: 401 }) : Response.json({ token })
    })
    expect([answer, calls]).toEqual([{ token: 'token-2' }, 2])
  })

  it.each<[string, (integration: Integration) => Promise<unknown>]>([
    ['update()', ({ id }) => test.integrations.update(id, { credentials: { client: 'b' } })],
    ['updateCredentials()', (integration) => integration.updateCredentials({ client: 'b' })],
    ['other metadata', ({ id }) => test.integrations.update(id, { metadata: { client_id: 'b' } })],
  ])('are asked for another token after %s: the stored one was for others', async (_, change) => {
    const integration = await make()
    const early = await integration.refresh()
    expect(await integration.getAccessToken()).toBe('token-1')
    await test.integrations.update(integration.id, { name: 'of the same credentials' })
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ access_token: 'token-1' })
    await change(integration)
    const changed = (await integration.refresh()).credentialsArray()
    expect([changed.access_token, changed.token_expires_at]).toEqual([undefined, undefined])
    expect(await (await integration.refresh()).getAccessToken()).toBe('token-2')
    expect(await early.getAccessToken()).toBe('token-2')
    expect(server.received).toHaveLength(2)
  })

  it('are not asked for another one where the change gives it', async () => {
    const integration = await make()
    await integration.getAccessToken()
    await integration.updateCredentials({ client: 'b', access_token: 'given' })
    expect(await (await integration.refresh()).getAccessToken()).toBe('given')
  })

  it('that change while a token is obtained are asked again, and the token of the old ones is not stored', async () => {
    const integration = await make()
    const { answer } = server
    server.answer = async (request, response) => {
      server.answer = answer
      await test.integrations.update(integration.id, { credentials: { client: 'b' } })
      answer(request, response)
    }
    expect(await integration.getAccessToken()).toBe('token-2')
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ client: 'b', access_token: 'token-2' })
  })

  it('replace a token that was refused after the credentials were changed', async () => {
    const integration = await make()
    await integration.getAccessToken()
    const old = await integration.refresh()
    await test.integrations.update(integration.id, { credentials: { client: 'b' } })
    const answer = await old.request('me', 'GET', async () => {
      const token = await old.getAccessToken()
      return token === 'token-1' ? new Response('{}', { status: 401 }) : Response.json({ token })
    })
    expect(answer).toEqual({ token: 'token-2' })
  })

  it('need no person: no link, no mark, and refresh-tokens asks', async () => {
    const integration = await make()
    await expect(test.integrations.oauth.start(integration.id)).rejects.toMatchObject({ code: 'oauth_unsupported' })
    expect(await test.integrations.oauth.status(integration.id)).toMatchObject({
      needsAuthorization: false,
      reauth: null,
    })
    expect(await test.activities.refreshTokensNow({ integrationId: integration.id })).toMatchObject({ refreshed: 1 })
  })

  it('that are refused open an incident, and are left alone for a minute', async () => {
    answerTokens({ secret: 'another' })
    const integration = await make()
    await expect(integration.getAccessToken()).rejects.toMatchObject({
      code: 'tokens_refused',
      reason: 'invalid_client',
    })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    expect(server.received).toHaveLength(1)
    expect(await incidentsOf(integration)).toEqual([
      { status: 'open', source: 'oauth', reason: 'tokens_refused', peak_severity: 'failing' },
    ])
    expect((await test.integrations.oauth.status(integration.id)).reauth).toBeNull()
    await integration.recordFailure('upstream')
    await integration.recordSuccess()
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open' }])
    // The secret was put right at the server; a change of the credentials ends the silence.
    answerTokens()
    await test.integrations.update(integration.id, { credentials: { note: 'put right' } })
    expect(await (await integration.refresh()).getAccessToken()).toBe('token-1')
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
    expect(JSON.stringify(test.lines)).not.toContain('s1')
  })

  it('that are given again close the incident once the lock is free: a listener may work as it likes', async () => {
    answerTokens({ secret: 'another' })
    const integration = await make()
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    const seen: unknown[] = []
    listen(test, 'IncidentClosed', async ({ integration: told }: IntegrationEvents['IncidentClosed']) => {
      const { cache } = test.framework
      const lock = `integration:${told.id}:lock:tokens`
      const isFree = await cache.acquire(lock, 'a listener', 600)
      await cache.release(lock, 'a listener')
      seen.push(isFree, isInsideTokenWork(test.framework, told.id), await told.getAccessToken())
    })
    answerTokens()
    await integration.updateCredentials({ note: 'put right' })
    expect(await integration.getAccessToken()).toBe('token-1')
    expect(seen).toEqual([true, false, 'token-1'])
  })

  it('that are refused by an answer that breaks off are refused, too', async () => {
    server.answer = (_request, response) => {
      response.writeHead(401, { 'Content-Type': 'application/json', 'Content-Length': '500' })
      response.write('{"error":"invalid_client",', () => response.destroy())
    }
    const integration = await make()
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    expect(server.received).toHaveLength(1)
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open', reason: 'tokens_refused' }])
    const rows = await test.sql`
      select status_code, failure_class from integration_requests where integration_id = ${integration.id}`
    expect(rows).toEqual([{ status_code: 401, failure_class: 'client' }])
  })

  it.each(['update()', 'updateCredentials()'])(
    'that were refused are no trouble any more once %s gives an API key in their place',
    async (way) => {
      answerTokens({ secret: 'another' })
      const integration = await make({
        more: (provider) =>
          Object.assign(provider, {
            needsAuthorization: (of: Integration) => of.credentialsArray().api_key === undefined,
          }),
      })
      await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
      const give = (credentials: Record<string, string>) =>
        way === 'update()'
          ? test.integrations.update(integration.id, { credentials })
          : integration.updateCredentials(credentials)
      await give({ note: 'nothing that helps' })
      expect(await incidentsOf(integration)).toMatchObject([{ status: 'open' }])
      await give({ api_key: 'a key in place of tokens' })
      expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
    },
  )

  it('that were refused are no trouble any more once the metadata say that an API key takes their place', async () => {
    answerTokens({ secret: 'another' })
    const integration = await make({
      more: (provider) =>
        Object.assign(provider, { needsAuthorization: ({ metadata }: Integration) => metadata.auth !== 'api_key' }),
    })
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    await test.integrations.update(integration.id, { metadata: { auth: 'api_key' } })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
  })

  it('that were refused are no trouble any more once its provider has no OAuth and a key is given', async () => {
    answerTokens({ secret: 'another' })
    const integration = await make()
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    const released = testIntegrations(database.url, {
      clock,
      encryptionKeys,
      providers: { [integration.provider]: {} },
    })
    onTestFinished(() => released.close())
    await released.integrations.update(integration.id, { credentials: { api_key: 'a key' } })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'closed' }])
  })

  it('whose credentials change while the server refuses them open no incident, and the next caller asks', async () => {
    answerTokens({ secret: 'another' })
    const integration = await make()
    const { answer } = server
    server.answer = async (request, response) => {
      server.answer = answer
      await test.integrations.update(integration.id, { credentials: { note: 'given meanwhile' } })
      answer(request, response)
    }
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'tokens_refused' })
    expect(await incidentsOf(integration)).toEqual([])
    answerTokens()
    expect(await (await integration.refresh()).getAccessToken()).toBe('token-1')
  })

  it('are asked again at once after an outage, which is no refusal', async () => {
    const { answer } = server
    server.answer = (_request, response) => {
      response.statusCode = 503
      response.end()
    }
    const integration = await make()
    await expect(integration.getAccessToken()).rejects.toMatchObject({ code: 'http_error' })
    server.answer = answer
    expect(await integration.getAccessToken()).toBe('token-1')
    expect((await incidentsOf(integration)).filter(({ source }) => source === 'oauth')).toEqual([])
  })
})

describe('a rotated client secret', () => {
  it('is tried after the one that is no longer known, and first from then on', async () => {
    answerTokens({ secret: 's2' })
    const integration = await make({ client: { furtherSecrets: ['s2'] } })
    expect(await integration.getAccessToken()).toBe('token-1')
    expect(server.received).toHaveLength(2)
    pass(3_500)
    expect(await (await integration.refresh()).getAccessToken()).toBe('token-2')
    expect(server.received).toHaveLength(3)
    answerTokens({ secret: 's1' })
    pass(3_500)
    await (await integration.refresh()).getAccessToken()
    expect(server.received).toHaveLength(5)
    const rows = await test.sql`select * from integration_requests where integration_id = ${integration.id}`
    expect(JSON.stringify(rows)).not.toMatch(/"s[12]"/)
  })

  it('serves refreshes of an authorization, too; another refusal is not tried twice', async () => {
    answerTokens({ secret: 's2' })
    const expired = { access_token: 'old', refresh_token: 'r', token_expires_at: '2020-01-01T00:00:00Z' }
    const integration = await make({
      grant: { type: 'authorization_code' },
      client: { furtherSecrets: ['s2'] },
      credentials: expired,
    })
    expect(await integration.getAccessToken()).toBe('token-1')
    expect(forms().map(({ grant_type }) => grant_type)).toEqual(['refresh_token', 'refresh_token'])
    answerTokens({ refused: 'invalid_grant' })
    const other = await make({
      grant: { type: 'authorization_code' },
      client: { furtherSecrets: ['s2'] },
      credentials: expired,
    })
    await expect(other.getAccessToken()).rejects.toMatchObject({ code: 'reauth_required' })
    expect(server.received).toHaveLength(3)
  })
})

describe('an assertion', () => {
  it.each([
    ['RS256', RSA, undefined],
    ['PS256', RSA, 'PS256'],
    ['ES256', EC, undefined],
    ['EdDSA', ED, undefined],
  ] as const)('is signed by %s and claims what RFC 7523 asks for', async (algorithm, pair, asked) => {
    const integration = await make({
      grant: { type: 'jwt_bearer' },
      more: (provider) =>
        Object.assign(provider, {
          clientAuthentication: 'none',
          assertion: () => ({
            key: { pem: pem(pair), kid: 'k1', ...(asked && { algorithm: asked }) },
            issuer: 'app',
            subject: 'user@acme.example',
            claims: { scope: 'read' },
          }),
        }),
    })
    expect(await integration.getAccessToken()).toBe('token-1')
    const [form] = forms()
    expect(form?.grant_type).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
    const [header = '', payload = '', signature = ''] = String(form?.assertion).split('.')
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ alg: algorithm, typ: 'JWT', kid: 'k1' })
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
    expect(claims).toMatchObject({
      iss: 'app',
      sub: 'user@acme.example',
      aud: `${server.url}/token`,
      scope: 'read',
      exp: claims.iat + 300,
    })
    const key = { key: pair.publicKey, ...VERIFIED[algorithm] }
    const hash = algorithm === 'EdDSA' ? null : 'sha256'
    expect(verify(hash, Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url'))).toBe(true)
    const rows = await test.sql`select * from integration_requests where integration_id = ${integration.id}`
    expect(JSON.stringify(rows)).not.toContain(signature)
  })

  it.each([
    ['no key', 'not a key', /private key in PEM/],
    ['a curve that has no algorithm', pem(generateKeyPairSync('ec', { namedCurve: 'secp384r1' })), /secp384r1/],
  ])('with %s is refused before anything is sent, with a message that shows nothing of it', async (_, key, message) => {
    const integration = await make({
      grant: { type: 'jwt_bearer' },
      more: (provider) => Object.assign(provider, { assertion: () => ({ key: { pem: key }, issuer: 'app' }) }),
    })
    const failure = await integration.getAccessToken().catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'tokens_refused', message: expect.stringMatching(message) })
    expect(String(failure)).not.toContain(key.slice(0, 30))
    expect(server.received).toEqual([])
  })
})

const PSS = { padding: 6, saltLength: 32 } // RSA_PKCS1_PSS_PADDING
const VERIFIED = { RS256: {}, PS256: PSS, ES256: { dsaEncoding: 'ieee-p1363' as const }, EdDSA: {} } as const

describe('a server of its own kind', () => {
  it('gets a grant of its own name, as JSON, and its answer is put right', async () => {
    server.answer = (_request, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify({ accessToken: 'odd' }))
    }
    const integration = await make({
      grant: { type: 'other', name: 'account_credentials', parameters: { account_id: '7' } },
      more: (provider) =>
        Object.assign(provider, {
          tokenRequest: (request: { url: string; headers: object; body: string }) => ({
            url: `${server.url}/v2/token`,
            headers: { ...request.headers, 'content-type': 'application/json' },
            body: JSON.stringify(Object.fromEntries(new URLSearchParams(request.body))),
          }),
          correctAnswer: ({ accessToken }: { accessToken?: string }) => ({
            access_token: accessToken,
            token_type: 'Bearer',
          }),
        }),
    })
    expect(await integration.getAccessToken()).toBe('odd')
    expect(server.received).toMatchObject([
      { url: '/v2/token', body: JSON.stringify({ account_id: '7', grant_type: 'account_credentials' }) },
    ])
  })

  it('with a grant that can not be is refused by name', async () => {
    const integration = await make({ grant: { type: 'password' } as never })
    await expect(integration.getAccessToken()).rejects.toMatchObject({
      message: expect.stringMatching(/grant.*client_credentials, jwt_bearer, or other/),
    })
  })
})

describe('oidc-provider, an independent server', () => {
  let independent: Server
  let issuer: string

  beforeAll(async () => {
    const jwk = { ...RSA.publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'RS256' }
    const common = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] as [] }
    const { createServer } = await import('node:http')
    let handle: ((...args: Parameters<ReturnType<Provider['callback']>>) => unknown) | undefined
    independent = createServer((request, response) => void handle?.(request, response))
    independent.listen(0, '127.0.0.1')
    await once(independent, 'listening')
    issuer = `http://127.0.0.1:${(independent.address() as AddressInfo).port}`
    const provider = new Provider(issuer, {
      clients: [
        { ...common, client_id: 'client', client_secret: 'the secret/with+odd characters' },
        {
          ...common,
          client_id: 'by-key',
          token_endpoint_auth_method: 'private_key_jwt',
          token_endpoint_auth_signing_alg: 'RS256',
          jwks: { keys: [jwk as never] },
        },
      ],
      scopes: ['read'],
      features: {
        clientCredentials: { enabled: true },
        revocation: { enabled: true },
        devInteractions: { enabled: false },
      },
    })
    handle = provider.callback()
  })
  afterAll(async () => {
    independent.closeAllConnections()
    independent.close()
    await once(independent, 'close')
  })

  const at = (client: Partial<OAuth2Client>, method: string): Promise<Integration> =>
    make({
      client,
      more: (provider) =>
        Object.assign(provider, { endpoints: {}, issuer, clientAuthentication: method, scopes: ['read'] }),
    })

  it.each([
    ['client_secret_basic', { secret: 'the secret/with+odd characters' }],
    ['client_secret_basic', { secret: 'gone', furtherSecrets: ['the secret/with+odd characters'] }],
    ['private_key_jwt', { id: 'by-key', privateKey: { pem: pem(RSA), kid: 'k1' } }],
  ])('gives tokens to a client that proves itself by %s', async (method, client) => {
    const integration = await at(client, method)
    const token = await integration.getAccessToken()
    expect(token).toMatch(/^[\w-]{20,}$/)
    const { token_expires_at: end } = (await integration.refresh()).credentialsArray()
    expect(Date.parse(String(end))).toBeGreaterThan(Date.now())
    expect(await test.integrations.oauth.revoke(integration.id)).toBe('revoked')
  })

  it.each([
    ['another secret', 'client_secret_basic', { secret: 'wrong' }],
    ['another key', 'private_key_jwt', { id: 'by-key', privateKey: { pem: pem(EC) } }],
  ])('refuses %s, which opens an incident', async (_, method, client) => {
    const integration = await at(client, method)
    await expect(integration.getAccessToken()).rejects.toMatchObject({
      code: 'tokens_refused',
      reason: 'invalid_client',
      cause: expect.objectContaining({ code: 'http_error' } satisfies Partial<HttpError>),
    })
    expect(await incidentsOf(integration)).toMatchObject([{ status: 'open', source: 'oauth' }])
  })
})

describe('Authlib, another independent server', () => {
  let authlib: StripePeer

  beforeAll(async () => {
    authlib = await startAuthlib(RSA.publicKey.export({ type: 'spki', format: 'pem' }).toString())
  })
  afterAll(() => authlib?.close())

  const at = (grant: OAuth2Grant, more: Record<string, unknown>, client: Partial<OAuth2Client> = {}) =>
    make({
      grant,
      client: { id: 'app', secret: 'secret', ...client },
      more: (provider) => {
        const endpoints = { authorization: `${authlib.url}/authorize`, token: `${authlib.url}/token` }
        Object.assign(provider, { endpoints, scopes: ['read'], ...more })
      },
    })

  const asserting = (assertion: Partial<OAuth2Assertion> = {}) => ({
    clientAuthentication: 'none',
    assertion: () => ({ key: { pem: pem(RSA) }, issuer: 'app', subject: 'ada', ...assertion }),
  })

  it.each<[string, OAuth2Grant, Record<string, unknown>, Partial<OAuth2Client>]>([
    ['client credentials', { type: 'client_credentials' }, {}, {}],
    ['the second of two secrets', { type: 'client_credentials' }, {}, { secret: 'gone', furtherSecrets: ['secret'] }],
    [
      'a key',
      { type: 'client_credentials' },
      { clientAuthentication: 'private_key_jwt', issuer: undefined },
      { privateKey: { pem: pem(RSA) } },
    ],
    ['an assertion', { type: 'jwt_bearer' }, asserting(), {}],
  ])('gives tokens for %s', async (_, grant, more, client) => {
    const integration = await at(grant, more, client)
    expect(await integration.getAccessToken()).toMatch(/^[\w-]{20,}$/)
    const { token_expires_at: end } = (await integration.refresh()).credentialsArray()
    expect(Date.parse(String(end)) - Date.now()).toBeGreaterThan(3_500_000)
  })

  it.each<[string, Partial<OAuth2Assertion>]>([
    ['another key', { key: { pem: pem(generateKeyPairSync('rsa', { modulusLength: 2048 })) } }],
    ['another issuer', { issuer: 'nobody' }],
    ['another subject', { subject: 'eve' }],
    ['another audience', { audience: 'https://else.example' }],
  ])('refuses an assertion of %s', async (_, assertion) => {
    const integration = await at({ type: 'jwt_bearer' }, asserting(assertion))
    await expect(integration.getAccessToken()).rejects.toMatchObject({
      code: 'tokens_refused',
      reason: 'invalid_grant',
    })
    expect((await test.integrations.oauth.status(integration.id)).reauth).toBeNull()
  })
})
