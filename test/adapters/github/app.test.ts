/** The credentials of a GitHub App: its installation's token is fetched once, kept, and replaced when it is refused. */
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { AppCredentials } from '../../../sandbox/github/installation-tokens.ts'
import { createGithubSandbox } from '../../../sandbox/github/server.ts'
import { withAccessToken } from '../../../src/adapters/github/app-token.ts'
import { GitHubClient, GitHubCredentials } from '../../../src/adapters/github/index.ts'
import { isFinalFault } from '../../../src/calls/retry.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { PlayedRepository } from './played-repository.ts'
import { API, answer, playRepository } from './played-repository.ts'

const SHOWS_TOKEN = /ghs_[A-Za-z0-9]{36}/

let github: PlayedRepository
let sandbox: ReturnType<typeof createGithubSandbox>
let credentials: AppCredentials

beforeAll(async () => {
  github = await playRepository()
  sandbox = createGithubSandbox({ entries: 5, owner: 'octo', repository: 'widgets' })
  credentials = (await (await sandbox.request('/_sandbox/app')).json()) as AppCredentials
}, 60_000)
afterAll(() => github.kit.close())
beforeEach(() => {
  github.forget()
  github.reply = toSandbox
})

function toSandbox(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  return Promise.resolve(sandbox.fetch(new Request(new URL(pathname.replace('/api/v3', '') + search, API), request)))
}

const made = (given: object = {}) => github.integration({ credentials: { token: undefined, ...credentials, ...given } })
const paths = () => github.urls().map(({ pathname }) => pathname.replace('/api/v3/', ''))
const TOKENS = 'app/installations/50000001/access_tokens'
const ISSUES = 'repos/octo/widgets/issues'
const ISSUE = `${ISSUES}/1`
const get = (integration: Integration) => new GitHubClient(integration).issues.get(1)

describe('an App', () => {
  it('fetches its installation’s token once for all calls, and calls with it', async () => {
    const integration = await made()
    await Promise.all([get(integration), get(integration)])
    await get(await integration.refresh())
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUE, ISSUE])
    const [asked, ...calls] = github.transport.requests.slice(-4)
    expect(asked?.headers.get('authorization')).toMatch(/^Bearer [\w-]+\.[\w-]+\.[\w-]+$/)
    for (const { headers } of calls) expect(headers.get('authorization')?.slice(7)).toMatch(SHOWS_TOKEN)
  })

  it('leaves the JWT, the token and the key in no row and no log line', async () => {
    const integration = await made()
    await get(integration)
    const [jwt = '', token = ''] = github.transport.requests
      .slice(-2)
      .map(({ headers }) => headers.get('authorization')?.slice('Bearer '.length))
    expect([jwt.split('.').length, token]).toEqual([3, expect.stringMatching(SHOWS_TOKEN)])
    const rows = await github.kit
      .sql`select * from integration_requests where integration_id = ${integration.id} order by id`
    const cached = await github.kit.sql`select * from integration_cache`
    expect(rows.map((row) => [row.endpoint, row.method, row.status_code])).toEqual([
      [TOKENS, 'POST', 201],
      [ISSUE, 'GET', 200],
    ])
    const written = JSON.stringify([rows, cached, github.kit.logs])
    expect(written).not.toMatch(SHOWS_TOKEN)
    for (const secret of [jwt, ...jwt.split('.'), token, 'PRIVATE KEY', credentials.private_key.slice(40, 80)])
      expect(written).not.toContain(secret)
  })

  it('fetches another five minutes before the end', async () => {
    const integration = await made()
    github.reply = (request) =>
      request.url.endsWith('access_tokens')
        ? answer(201, {
            token: `ghs_${'a'.repeat(36)}`,
            expires_at: new Date(github.kit.clock.now().getTime() + 3_600_000).toISOString(),
          })
        : answer(404, {})
    await get(integration)
    github.kit.clock.advance(55 * 60 - 1)
    await get(integration)
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUE])
    github.kit.clock.advance(1)
    await get(integration)
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUE, TOKENS, ISSUE])
  })

  it('whose token is revoked gets another, and the call is made again', async () => {
    const integration = await made()
    await get(integration)
    await sandbox.request('/_sandbox/app/tokens', { method: 'DELETE' })
    expect((await get(integration))?.number).toBe(1)
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUE, TOKENS, ISSUE])
  })

  it('that is refused with the new token as well is told so, after one more try', async () => {
    const integration = await made()
    github.reply = (request) =>
      request.url.endsWith('access_tokens') ? toSandbox(request) : answer(401, { message: 'Bad credentials' })
    await expect(get(integration)).rejects.toMatchObject({ status: 401 })
    expect(paths()).toEqual([TOKENS, ISSUE, TOKENS, ISSUE])
  })

  it('whose write is refused with a revoked token writes once, under the same key', async () => {
    const integration = await made()
    await get(integration)
    await sandbox.request('/_sandbox/app/tokens', { method: 'DELETE' })
    const write = () => new GitHubClient(integration).issues.create({ title: 'Once', idempotencyKey: 'once' })
    const { number } = await write()
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUES, TOKENS, ISSUES])
    const rows = await github.kit.sql`
      select status_code as status, idempotency_key as key, retry_of from integration_requests
      where integration_id = ${integration.id} and endpoint = ${ISSUES} order by id`
    expect(rows).toEqual([
      { status: 401, key: 'once', retry_of: null },
      { status: 201, key: 'once', retry_of: null },
    ])
    await expect(write()).rejects.toMatchObject({
      code: 'idempotency_conflict',
      priorState: 'recovered',
      priorResponse: expect.objectContaining({ number }),
    })
    expect(paths()).toHaveLength(5)
  })

  it.each(['', ' ', 'k'.repeat(192), 5 as never, 'half a pair \ud800'])(
    'that is given the key %j refuses it before it fetches a token',
    async (idempotencyKey) => {
      const written = new GitHubClient(await made()).issues.create({ title: 'Once', idempotencyKey })
      await expect(written).rejects.toMatchObject({ code: 'invalid_argument', argument: 'idempotencyKey' })
      expect(paths()).toEqual([])
    },
  )

  it('gets one attempt with another token, whatever the first had left', async () => {
    const integration = await made()
    let calls = 0
    github.reply = (request) => {
      if (request.url.endsWith('access_tokens')) return toSandbox(request)
      calls += 1
      return answer(calls === 1 ? 401 : 503, {})
    }
    await expect(get(integration)).rejects.toMatchObject({ status: 503 })
    expect(paths()).toEqual([TOKENS, ISSUE, TOKENS, ISSUE])
  })

  it('keeps its token when the store that an upload redirects to answers 401', async () => {
    const integration = await made()
    const origin = new URL(API).origin
    const upload = `${origin}/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010`
    github.reply = (request) => {
      const { hostname } = new URL(request.url)
      if (hostname === 'store.example.com') return answer(401, {})
      if (request.url !== upload) return toSandbox(request)
      return new Response(null, { status: 302, headers: { location: 'https://store.example.com/a' } })
    }
    await expect(new GitHubClient(integration).assets.download(upload)).rejects.toMatchObject({
      code: 'github_asset_unavailable',
      status: 401,
    })
    await get(integration)
    expect(paths().filter((path) => path === TOKENS)).toHaveLength(1)
  })

  it('shows its token to no other server after a change of base_url', async () => {
    const integration = await made()
    await get(integration)
    const metadata = { ...integration.metadata, base_url: 'https://other.example.com/api/v3' }
    await github.kit.integrations.update(integration.id, { metadata })
    await get(await integration.refresh())
    const sent = github.transport.requests.slice(-4)
    expect(sent.map(({ url }) => url.hostname)).toEqual([
      'github.example.com',
      'github.example.com',
      'other.example.com',
      'other.example.com',
    ])
    expect(paths()).toEqual([TOKENS, ISSUE, TOKENS, ISSUE])
    const tokens = sent.map(({ headers }) => headers.get('authorization'))
    expect(tokens[3]).not.toBe(tokens[1])
  })

  it('with another App’s key is refused by GitHub, and no call is made', async () => {
    const integration = await made({ private_key: pem('rsa', 'pkcs8') })
    await expect(get(integration)).rejects.toMatchObject({ status: 401 })
    expect(paths()).toEqual([TOKENS])
  })

  it.each<[string, (key: string) => string]>([
    ['with line ends as environment variables hold them', (key) => key.replaceAll('\n', '\\n')],
    ['with line ends of Windows', (key) => key.replaceAll('\n', '\r\n')],
    ['without a line end at its end', (key) => key.trim()],
  ])('takes its key %s', async (_, written) => {
    const integration = await made({
      private_key: written(credentials.private_key),
      app_id: String(credentials.app_id),
    })
    expect((await get(integration))?.number).toBe(1)
  })
})

describe('an App whose installation is gone', () => {
  const gone = { code: 'github_installation_gone', installation: 1, cause: expect.objectContaining({ status: 404 }) }
  const upload = `${new URL(API).origin}/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010`
  const hook = { id: '600000001', url: 'https://us.example', expiresAt: null, isIntact: true }
  const wanted = { url: hook.url, secret: 's', signal: new AbortController().signal }

  it.each<[string, (integration: Integration) => Promise<unknown>]>([
    ['issues.get', get],
    ['issues.close', (own) => new GitHubClient(own).issues.close({ number: 1, stateReason: 'completed' })],
    ['issues.reopen', (own) => new GitHubClient(own).issues.reopen({ number: 1 })],
    ['issues.update', (own) => new GitHubClient(own).issues.update({ number: 1, title: 'Other' })],
    ['comments.add', (own) => new GitHubClient(own).comments.add({ number: 1, body: 'Seen.' })],
    ['assets.download', (own) => new GitHubClient(own).assets.download(upload)],
    ['renewal of a webhook', (own) => github.provider.renewWebhookSubscription(own, hook, wanted)],
    ['removal of a webhook', (own) => github.provider.removeWebhookSubscription(own, hook, wanted)],
  ])('is an error of %s, not “there is no such thing”', async (_, call) => {
    await expect(call(await made({ installation_id: 1 }))).rejects.toMatchObject(gone)
    expect(paths()).toEqual(['app/installations/1/access_tokens'])
  })

  it('is one after the token that was kept is refused, too', async () => {
    const integration = await made()
    await get(integration)
    github.reply = (request) => answer(request.url.endsWith('access_tokens') ? 404 : 401, {})
    await expect(get(integration)).rejects.toMatchObject({ ...gone, installation: 50_000_001 })
    expect(paths()).toEqual([TOKENS, ISSUE, ISSUE, TOKENS])
  })

  it('is a fault that another try does not change', async () => {
    const error = await get(await made({ installation_id: 1 })).catch((thrown: unknown) => thrown)
    expect(isFinalFault(error, github.provider)).toBe(true)
  })
})

describe('an App’s health check', () => {
  const check = async () => github.provider.healthCheck(await made())

  it('is healthy with a token that it has to fetch', async () => {
    expect(await check()).toBe(true)
    expect(paths()).toEqual([TOKENS, 'repos/octo/widgets'])
  })

  it('asks for a token once', async () => {
    github.reply = () => answer(500, {})
    expect(await check()).toBe(false)
    expect(paths()).toEqual([TOKENS])
  })

  it('that is refused with a revoked token is made with another', async () => {
    const integration = await made()
    await get(integration)
    await sandbox.request('/_sandbox/app/tokens', { method: 'DELETE' })
    expect(await github.provider.healthCheck(integration)).toBe(true)
  })
})

describe('a limit for all calls together', () => {
  it('ends the call for a token', async () => {
    const integration = await made()
    github.reply = () => new Promise<Response>(() => {})
    const work = vi.fn(async () => {})
    const call = withAccessToken(integration, { totalMs: 100, attempts: 1 }, work)
    await expect(call).rejects.toMatchObject({ code: 'request_timeout', timeoutMs: expect.any(Number) })
    expect(work).not.toHaveBeenCalled()
  })

  it('leaves the next call what the call for a token has not used', async () => {
    const limits = { totalMs: 60_000, attempts: 1 }
    const given = await withAccessToken(await made(), limits, async (_, options) => options)
    expect(given).toEqual({ attempts: 1, timeoutMs: expect.any(Number) })
    expect(given.timeoutMs).toBeLessThan(60_000)
    expect(given.timeoutMs).toBeGreaterThan(1)
  })
})

it('a personal token that is refused is asked for nowhere', async () => {
  github.reply = () => answer(401, { message: 'Bad credentials' })
  await expect(get(await github.integration())).rejects.toMatchObject({ status: 401 })
  expect(paths()).toEqual([ISSUE])
})

describe('credentials', () => {
  const app = () => ({ ...credentials, private_key: credentials.private_key })

  it.each<[string, () => object, string[]]>([
    ['a token', () => ({ token: 'ghp_x' }), []],
    ['an App', () => app(), []],
    ['an App by its client ID', () => ({ ...app(), app_id: 'Iv23liABCDEFGHIJKLMN' }), []],
    ['an App with a PKCS #8 key', () => ({ ...app(), private_key: pem('rsa', 'pkcs8') }), []],
    ['neither', () => ({}), ['token']],
    ['an empty token', () => ({ token: '' }), ['token']],
    ['both', () => ({ token: 'ghp_x', app_id: 1 }), ['app_id']],
    ['an App without its key', () => ({ ...app(), private_key: undefined }), ['private_key']],
    ['an App without its installation', () => ({ ...app(), installation_id: undefined }), ['installation_id']],
    ['an installation that is no id', () => ({ ...app(), installation_id: '1/../2' }), ['installation_id']],
    ['an App that is none', () => ({ ...app(), app_id: 'my app' }), ['app_id']],
    ['a key that is none', () => ({ ...app(), private_key: 'secret' }), ['private_key']],
    ['a public key', () => ({ ...app(), private_key: publicPem() }), ['private_key']],
    ['a key of another kind', () => ({ ...app(), private_key: pem('ed25519', 'pkcs8') }), ['private_key']],
  ])('of %s', (_, given, refused) => {
    const { error } = GitHubCredentials.safeParse(given())
    expect(error?.issues.map(({ path }) => path.join('.')) ?? []).toEqual(refused)
    expect(JSON.stringify(error?.issues ?? [])).not.toContain('PRIVATE KEY')
  })
})

function pem(kind: 'rsa' | 'ed25519', type: 'pkcs8'): string {
  const pair = kind === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
  return pair.privateKey.export({ type, format: 'pem' }).toString()
}

function publicPem(): string {
  return generateKeyPairSync('rsa', { modulusLength: 2048 })
    .publicKey.export({ type: 'spki', format: 'pem' })
    .toString()
}
