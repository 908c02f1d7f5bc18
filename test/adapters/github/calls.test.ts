/** How a call to GitHub fails, whose token it is, and whether GitHub is healthy: over a scripted wire. */
import { createRequire } from 'node:module'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { GitHubClient, GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { ScriptedReply, ScriptedTransport, TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations, scriptedTransport } from '../../../src/testing/index.ts'

const TOKEN = 'ghp_a-secret-token'
const REPOSITORY = { owner: 'octo', repo: 'widgets' }
const USER = {
  ...{ id: 1, login: 'octocat', node_id: 'U_1', avatar_url: 'https://a.example', url: 'https://u.example' },
  ...{ html_url: 'https://h.example', type: 'User', site_admin: false },
}

let wire: ScriptedTransport
let kit: TestIntegrations
let integration: Integration
beforeAll(async () => {
  // Scripted by each test.
  const transport = { ...scriptedTransport([]), fetch: (...given) => wire.fetch(...given) } satisfies ScriptedTransport
  kit = await createTestIntegrations({ providers: { github: new GitHubProvider() }, transport })
  integration = await made({})
}, 60_000)
afterAll(() => kit.close())

function made(metadata: Record<string, string>): Promise<Integration> {
  return kit.integrations.create({
    provider: 'github',
    name: 'of a test',
    credentials: { token: TOKEN },
    metadata: { ...REPOSITORY, ...metadata },
  })
}

/** The first bytes of an answer, then a connection that breaks. */
const cutBody = (status: number) => () => {
  let reads = 0
  const stream = new ReadableStream({
    pull(controller) {
      reads += 1
      if (reads === 1) controller.enqueue(new TextEncoder().encode('[{"id": 1'))
      else controller.error(Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }))
    },
  })
  return new Response(stream, { status, headers: { 'content-type': 'application/json; charset=utf-8' } })
}

it('is made for a provider of the host’s own that is no GitHubProvider: a write, too', async () => {
  const issue = { ...USER, number: 7, title: 'a', labels: [], assignees: [], comments: 0, locked: false, state: 'open' }
  const moments = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }
  const own = await createTestIntegrations({
    providers: { github: { label: 'of the host' } },
    transport: scriptedTransport([{ body: { ...issue, ...moments } }]),
  })
  onTestFinished(() => own.close())
  const given = { provider: 'github', name: 'of a test', credentials: { token: TOKEN }, metadata: REPOSITORY }
  const { issues } = new GitHubClient(await own.integrations.create(given))
  expect(await issues.create({ title: 'a' })).toMatchObject({ number: 7 })
})

describe('what fails below a call comes out as itself', () => {
  it('a connection that breaks', async () => {
    wire = scriptedTransport(['cut'])
    const adding = new GitHubClient(integration).comments.add({ number: 1, body: 'x' })
    await expect(adding).rejects.toMatchObject({
      name: 'TypeError',
      message: 'fetch failed',
      cause: { code: 'ECONNRESET' },
    })
    expect(await newestRow()).toMatchObject({ status_code: null, failure_class: 'upstream' })
  })

  it.each([
    [200, { code: 'UND_ERR_SOCKET' }],
    [500, { code: 'http_error', status: 500, body: null, cause: { code: 'UND_ERR_SOCKET' } }],
  ])('a body that breaks off after %s: no empty answer, and no list that is short', async (status, fault) => {
    wire = Object.assign(scriptedTransport([]), { fetch: async () => cutBody(status)() })
    const adding = new GitHubClient(integration).comments.add({ number: 1, body: 'x' })
    await expect(adding).rejects.toMatchObject(fault)
    expect(await newestRow()).toMatchObject({ status_code: status, failure_class: 'upstream' })
  })

  it('the caller‘s own reason to stop', async () => {
    wire = scriptedTransport(['hang'])
    const stop = new AbortController()
    const reason = new Error('no longer needed')
    const getting = new GitHubClient(integration).issues.get(1, { signal: stop.signal })
    await kit.sql`select 1`
    stop.abort(reason)
    await expect(getting).rejects.toBe(reason)
  })

  it('an address that calls may not reach', async () => {
    const real = await createTestIntegrations({ providers: { github: new GitHubProvider() }, allowRequests: true })
    try {
      const metadata = { ...REPOSITORY, base_url: 'http://169.254.169.254/api/v3' }
      const created = { provider: 'github', name: 'private', credentials: { token: TOKEN }, metadata }
      const client = new GitHubClient(await real.integrations.create(created))
      await expect(client.viewer()).rejects.toMatchObject({ code: 'egress_refused', host: '169.254.169.254' })
    } finally {
      await real.close()
    }
  })

  it.each([
    ['a page of HTML', { status: 500, body: '<html>oops</html>', headers: { 'content-type': 'text/html' } }],
    ['null', { status: 500, body: null, headers: { 'content-type': 'application/json' } }],
    ['nothing', { status: 500 }],
    ['a content type that is none', { status: 500, body: 'x', headers: { 'content-type': ';;;' } }],
  ])('a 500 with %s', async (_, reply) => {
    wire = scriptedTransport([reply])
    const adding = new GitHubClient(integration).comments.add({ number: 1, body: 'x' })
    await expect(adding).rejects.toMatchObject({ code: 'http_error', status: 500 })
    expect(await newestRow()).toMatchObject({ status_code: 500, failure_class: 'upstream' })
  })

  it('a page of more than 100 MiB', async () => {
    const MIB = 1_048_576
    const chunk = new Uint8Array(MIB).fill(0x20)
    let sentMiB = 0
    const body = new ReadableStream({
      pull(controller) {
        sentMiB += 1
        controller.enqueue(chunk)
      },
    })
    wire = Object.assign(scriptedTransport([]), { fetch: async () => new Response(body) })
    const listing = new GitHubClient(integration).issues.since('2015-01-01T00:00:00Z').next()
    await expect(listing).rejects.toMatchObject({ code: 'response_too_large', maxBytes: 100 * MIB })
    expect(sentMiB).toBeLessThan(110)
    expect(await newestRow()).toMatchObject({ status_code: 200, failure_class: 'unknown' })
  })

  it('and never with the token in it', async () => {
    wire = scriptedTransport([{ status: 401, body: { message: `Bad credentials: ${TOKEN}` } }])
    const error = await new GitHubClient(integration).viewer().catch((thrown: Error) => thrown)
    expect(JSON.stringify(await newestRow())).not.toContain(TOKEN)
    expect(String((error as Error).stack)).not.toContain(TOKEN)
  })
})

describe('the API of an Enterprise server', () => {
  it.each([
    ['https://github.example.com/api/v3', 'https://github.example.com/api/v3/user'],
    ['https://github.example.com/api/v3/', 'https://github.example.com/api/v3/user'],
  ])('at %s is asked at %s', async (base_url, url) => {
    wire = scriptedTransport([{ body: USER }])
    await new GitHubClient(await made({ base_url })).viewer()
    expect(wire.requests.map((request) => request.url.href)).toEqual([url])
  })

  it('is not asked over http unless egress allows it: the token would go in the clear', async () => {
    wire = scriptedTransport([])
    const client = new GitHubClient(await made({ base_url: 'http://github.example.com:8080' }))
    await expect(client.viewer()).rejects.toMatchObject({ code: 'egress_refused', host: 'github.example.com' })
    expect(wire.requests).toEqual([])
  })

  it('is GitHub‘s own where none is named', async () => {
    wire = scriptedTransport([{ body: USER }])
    expect(await new GitHubClient(integration).viewer()).toEqual(USER)
    expect(wire.requests.map(({ url }) => url.href)).toEqual(['https://api.github.com/user'])
  })
})

describe('a recorded answer of GitHub', () => {
  it('to issues.create is an issue', async () => {
    const [{ body, response }] = recording('add-labels-to-issue')
    wire = scriptedTransport([{ status: 201, body: response }])
    const issue = await new GitHubClient(integration).issues.create({ title: String(Object(body).title) })
    expect(issue).toEqual({ ...Object(response), attachments: [] })
    expect(JSON.parse(wire.requests[0]?.body ?? '')).toEqual(body)
  })

  it('to issues.since is a page of issues', async () => {
    const [{ response, headers }] = recording('paginate-issues')
    wire = scriptedTransport([{ body: response, headers: { link: String(headers.link) } }])
    const issues: unknown[] = []
    await new GitHubClient(integration).issues.since('2000-01-01T00:00:00Z', (issue) => issues.push(issue))
    expect(issues).toEqual((response as object[]).map((issue) => ({ ...issue, attachments: [] })))
    expect(wire.requests).toHaveLength(1)
  })

  it('to a write in a repository that was renamed (307) is an error that says where it is', async () => {
    const found = recording('rename-repository').find(({ status }) => status === 307)
    wire = scriptedTransport([
      { status: 307, body: found?.response, headers: { location: String(found?.headers.location) } },
    ])
    const closing = new GitHubClient(integration).issues.close({ number: 1, stateReason: 'completed' })
    await expect(closing).rejects.toMatchObject({
      code: 'http_error',
      status: 307,
      body: expect.stringContaining('https://api.github.com/repositories/1000'),
    })
  })
})

describe('the identity of a token', () => {
  it.each([
    [
      'all that it is',
      { name: 'The Octocat', email: 'octo@example.com' },
      { name: 'The Octocat', email: 'octo@example.com' },
    ],
    ['no name, no email', { name: null }, { name: null, email: null }],
  ])('is %s', async (_, given, expected) => {
    wire = scriptedTransport([{ body: { ...USER, ...given } }])
    const identity = await integration.authenticatedUser()
    expect(identity).toMatchObject({ id: '1', username: 'octocat', ...expected })
  })

  it('that GitHub refuses is an error', async () => {
    wire = scriptedTransport([{ status: 401, body: { message: 'Bad credentials' } }])
    await expect(integration.authenticatedUser()).rejects.toMatchObject({ code: 'http_error', status: 401 })
  })
})

describe('GitHub is', () => {
  const replies: readonly [name: string, healthy: boolean, reply: ScriptedReply][] = [
    ['healthy when it gives the repository', true, { body: { id: 1, name: 'widgets' } }],
    [
      'unhealthy when something else answers',
      false,
      { body: '<html>Sign in</html>', headers: { 'content-type': 'text/html' } },
    ],
    ['unhealthy at 204', false, { status: 204 }],
    ['unhealthy at 401', false, { status: 401 }],
    ['unhealthy at 403', false, { status: 403, headers: { 'retry-after': '60' } }],
    ['unhealthy at 404', false, { status: 404 }],
    ['unhealthy at 500', false, { status: 500 }],
    ['unhealthy at 304', false, { status: 304 }],
    ['unhealthy when the connection breaks', false, 'cut'],
  ]
  it.each(replies)('%s', async (_, healthy, reply) => {
    const asked = await made({})
    wire = scriptedTransport([reply])
    expect(await new GitHubProvider().healthCheck(asked)).toBe(healthy)
    // Once: a health check that is repeated would hide that it failed.
    expect(wire.requests.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual(['GET /repos/octo/widgets'])
    expect((await newestRow()).endpoint).toBe('repos/octo/widgets')
  })

  it('unhealthy, and no error, when metadata names no repository', async () => {
    wire = scriptedTransport([])
    const broken = { ...(await made({})), metadata: {} }
    expect(await new GitHubProvider().healthCheck(broken)).toBe(false)
  })
})

interface RecordedExchange {
  readonly status: number
  readonly body: unknown
  readonly response: unknown
  readonly headers: Readonly<Record<string, unknown>>
}

function recording(scenario: string): [RecordedExchange, ...RecordedExchange[]] {
  return createRequire(import.meta.url)(
    `@octokit/fixtures/scenarios/api.github.com/${scenario}/normalized-fixture.json`,
  )
}

async function newestRow(): Promise<Record<string, unknown>> {
  const [row] = await kit.sql`select * from integration_requests order by id desc limit 1`
  return row as Record<string, unknown>
}
