/**
 * Every operation of the GitHub client against the sandbox: what is sent and what comes back are what GitHub publishes, what
 * it leaves in the request log, and what it gives.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { SANDBOX_TOKEN } from '../../../sandbox/github/server.ts'
import {
  GitHubClient,
  GitHubComment,
  GitHubIssue,
  GitHubRawComment,
  GitHubTimelineEvent,
  GitHubUser,
} from '../../../src/adapters/github/index.ts'
import { requestViolations, violations } from '../../sandbox/published-description.ts'
import type { PlayedGitHub } from './played-github.ts'
import { API, playGitHub } from './played-github.ts'

const ISSUES = 'repos/octo-sandbox/widgets/issues'
const ISSUE = '/repos/{owner}/{repo}/issues/{issue_number}'

let github: PlayedGitHub
let client: GitHubClient
beforeAll(async () => {
  github = await playGitHub({ entries: 120 })
  client = new GitHubClient(github.integration)
}, 60_000)
afterAll(() => github.close())
beforeEach(() => github.clear())

/** What an operation is asked for, and what GitHub is sent for it. */
interface OperationCase {
  readonly name: string
  readonly call: () => Promise<unknown> | AsyncGenerator<unknown>
  readonly returns: z.ZodType
  readonly operation: string
  /** One for each request. */
  readonly endpoints: readonly string[]
  readonly body?: Readonly<Record<string, unknown>>
}

const OPERATIONS: readonly OperationCase[] = [
  {
    name: 'issues.create',
    call: () => client.issues.create({ title: 'A title', body: 'A body', labels: ['bug'] }),
    returns: GitHubIssue,
    operation: 'POST /repos/{owner}/{repo}/issues',
    endpoints: [ISSUES],
    body: { title: 'A title', body: 'A body', labels: ['bug'] },
  },
  {
    name: 'issues.create with a title alone',
    call: () => client.issues.create({ title: 'A title', body: null, labels: null }),
    returns: GitHubIssue,
    operation: 'POST /repos/{owner}/{repo}/issues',
    endpoints: [ISSUES],
    body: { title: 'A title' },
  },
  {
    name: 'issues.get',
    call: () => client.issues.get(7),
    returns: GitHubIssue,
    operation: `GET ${ISSUE}`,
    endpoints: [`${ISSUES}/7`],
  },
  {
    name: 'issues.since',
    call: () => client.issues.since('2015-01-01T00:00:00+01:00'),
    returns: GitHubIssue,
    operation: 'GET /repos/{owner}/{repo}/issues',
    endpoints: [`${ISSUES}?page=1`, `${ISSUES}?page=2`],
  },
  ...(['completed', 'not_planned', 'duplicate'] as const).map((stateReason) => ({
    name: `issues.close as ${stateReason}`,
    call: () => client.issues.close({ number: 9, stateReason }),
    returns: GitHubIssue,
    operation: `PATCH ${ISSUE}`,
    endpoints: [`${ISSUES}/9`],
    body: { state: 'closed', state_reason: stateReason },
  })),
  {
    name: 'issues.reopen',
    call: () => client.issues.reopen({ number: 9 }),
    returns: GitHubIssue,
    operation: `PATCH ${ISSUE}`,
    endpoints: [`${ISSUES}/9`],
    body: { state: 'open', state_reason: 'reopened' },
  },
  {
    name: 'issues.update of the title',
    call: () => client.issues.update({ number: 9, title: 'Another', body: null }),
    returns: GitHubIssue,
    operation: `PATCH ${ISSUE}`,
    endpoints: [`${ISSUES}/9`],
    body: { title: 'Another' },
  },
  {
    name: 'issues.update of the body, to none',
    call: () => client.issues.update({ number: 9, body: '' }),
    returns: GitHubIssue,
    operation: `PATCH ${ISSUE}`,
    endpoints: [`${ISSUES}/9`],
    body: { body: '' },
  },
  {
    name: 'issues.timeline',
    call: () => client.issues.timeline(9),
    returns: GitHubTimelineEvent,
    operation: `GET ${ISSUE}/timeline`,
    endpoints: [`${ISSUES}/9/timeline?page=1`],
  },
  {
    name: 'comments.list',
    call: () => client.comments.list(3),
    returns: GitHubComment,
    operation: `GET ${ISSUE}/comments`,
    endpoints: [`${ISSUES}/3/comments?page=1`],
  },
  {
    name: 'comments.since',
    call: () => client.comments.since(new Date('2015-01-01T00:00:00.900Z')),
    returns: GitHubRawComment,
    operation: 'GET /repos/{owner}/{repo}/issues/comments',
    endpoints: [`${ISSUES}/comments?page=1`, `${ISSUES}/comments?page=2`],
  },
  {
    name: 'comments.add',
    call: () => client.comments.add({ number: 9, body: 'A word' }),
    returns: GitHubComment,
    operation: `POST ${ISSUE}/comments`,
    endpoints: [`${ISSUES}/9/comments`],
    body: { body: 'A word' },
  },
  {
    name: 'viewer',
    call: () => client.viewer(),
    returns: GitHubUser,
    operation: 'GET /user',
    endpoints: ['user'],
  },
]

describe('an operation sends what GitHub publishes, is logged, and gives what it says', () => {
  it.each(OPERATIONS)('$name', async ({ call, returns, operation, endpoints, body }) => {
    const given = await allOf(call())
    expect(given.length).toBeGreaterThan(0)
    for (const value of given) expect(returns.parse(value)).toEqual(value)

    const { exchanges } = github
    expect(exchanges.map((exchange) => exchange.operation)).toEqual(endpoints.map(() => operation))
    for (const { url, headers, requestBody, status, answer } of exchanges) {
      expect(requestViolations(operation, { query: url.searchParams, body: requestBody })).toEqual([])
      expect(violations(operation, status, answer)).toEqual([])
      expect(requestBody === '' ? undefined : JSON.parse(requestBody)).toEqual(body)
      expect(url.href.startsWith(`${API}/`)).toBe(true)
      expect(Object.fromEntries(headers)).toMatchObject({
        accept: 'application/vnd.github.full+json',
        authorization: `Bearer ${SANDBOX_TOKEN}`,
        'x-github-api-version': '2022-11-28',
        ...(body === undefined ? {} : { 'content-type': expect.stringContaining('application/json') }),
      })
    }

    const rows = await github.rows()
    const [method] = operation.split(' ')
    expect(rows.map(({ endpoint, method: of, failure_class: failed }) => [endpoint, of, failed])).toEqual(
      endpoints.map((endpoint) => [endpoint, method, null]),
    )
    expect(rows.map((row) => [row.status_code, row.provider_request_id])).toEqual(
      exchanges.map(({ status, requestId }) => [status, requestId]),
    )
    expect(rows.map((row) => (row.request_data === null ? undefined : JSON.parse(String(row.request_data))))).toEqual(
      endpoints.map(() => body),
    )
    expect(JSON.stringify(rows)).not.toContain(SANDBOX_TOKEN)
  })
})

describe('a list', () => {
  it.each([
    ['issues.since', (see: (item: unknown) => unknown) => client.issues.since('2015-01-01T00:00:00Z', see)],
    ['issues.timeline', (see: (item: unknown) => unknown) => client.issues.timeline(9, see)],
    ['comments.list', (see: (item: unknown) => unknown) => client.comments.list(3, see)],
    ['comments.since', (see: (item: unknown) => unknown) => client.comments.since('2015-01-01T00:00:00Z', see)],
  ])('of %s hands each item to a callback, one after the other', async (_, list) => {
    let running = 0
    let seen = 0
    await list(async () => {
      running += 1
      expect(running).toBe(1)
      await Promise.resolve()
      seen += 1
      running -= 1
    })
    expect(seen).toBeGreaterThan(0)
    await github.clear()
    await expect(list(() => Promise.reject(new Error('no room')))).rejects.toThrow('no room')
    expect(github.exchanges).toHaveLength(1)
  })

  it.each([
    ['issues.since', (signal: AbortSignal) => client.issues.since('2015-01-01T00:00:00Z', { signal })],
    ['comments.since', (signal: AbortSignal) => client.comments.since('2015-01-01T00:00:00Z', { signal })],
  ])('of %s asks for nothing more once it is aborted', async (_, list) => {
    const aborted = new AbortController()
    await expect(async () => {
      for await (const _item of list(aborted.signal)) aborted.abort(new Error('enough'))
    }).rejects.toThrow('enough')
    expect(github.exchanges).toHaveLength(1)
  })

  it('of issues has no pull request, and is sorted newest update first', async () => {
    const issues = (await allOf(client.issues.since('1970-01-01T00:00:00Z'))) as GitHubIssue[]
    expect(issues.some((issue) => 'pull_request' in issue)).toBe(false)
    const times = issues.map((issue) => issue.updated_at)
    expect(times).toEqual([...times].sort().reverse())
  })

  it('of comments has those of pull requests, as they were sent, and is sorted oldest update first', async () => {
    const PULL_REQUEST = 8
    await client.comments.add({ number: PULL_REQUEST, body: 'A word' })
    github.exchanges.length = 0
    const comments = (await allOf(client.comments.since('1970-01-01T00:00:00Z'))) as GitHubRawComment[]
    const sent = github.exchanges.flatMap(({ answer }) => answer as GitHubRawComment[])
    expect(comments).toEqual(sent)
    expect(comments.some(({ html_url: url }) => String(url).includes('/pull/'))).toBe(true)
    const times = comments.map(({ updated_at: at }) => String(at))
    expect(times).toEqual([...times].sort())
  })

  it.each([
    ['an object', { message: 'not a list' }],
    ['a list of texts', ['one', 'two']],
    ['a list with a null', [null]],
    ['a text', 'down for maintenance'],
    ['nothing', null],
  ])('whose page is %s is drift', async (_, body) => {
    const answer = () => Response.json(body)
    const lists = [
      () => client.issues.since('2015-01-01T00:00:00Z'),
      () => client.issues.timeline(9),
      () => client.comments.list(3),
      () => client.comments.since('2015-01-01T00:00:00Z'),
    ]
    for (const list of lists) {
      github.answerNext(answer)
      await expect(allOf(list())).rejects.toMatchObject({ code: 'schema_drift' })
    }
    expect(github.exchanges).toHaveLength(lists.length)
  })
})

describe('the pages of', () => {
  const comment = (n: number) => ({ id: n, html_url: '', issue_url: '' })
  const full = (from: number) => Array.from({ length: 100 }, (_, n) => comment(from + n))

  it('comments without a time are counted, an empty last one too, whatever Link says', async () => {
    const link = `<${API}/repositories/1/issues/comments?page=9>; rel="next"`
    const answer = (body: unknown) => () => Response.json(body, { headers: { link } })
    github.answerNext(answer(full(0)), answer(full(100)), answer([]))
    expect(await allOf(client.comments.since('2015-01-01T00:00:00Z'))).toHaveLength(200)
    expect(github.exchanges.map(({ url }) => url.searchParams.get('page'))).toEqual(['1', '2', '3'])
  })

  it('a timeline go by Link, wherever in it the next one is named', async () => {
    const page = (link: string) => () => Response.json([], { headers: { link } })
    const at = (after: string) => `${API}/repositories/1/issues/9/timeline?after=${after}`
    github.answerNext(
      page(`<${at('zzz')}>; rel="last", <${at('a')}>; title="a, b"; rel="next"`),
      page(`<${at('b')}>; rel=next`),
      page(`<${at('c')}>; rel="prev next"`),
      page(`<${at('b')}>; rel="prev"`),
    )
    expect(await allOf(client.issues.timeline(9))).toEqual([])
    expect(github.exchanges.map(({ url }) => url.searchParams.get('after'))).toEqual([null, 'a', 'b', 'c'])
  })

  it('a timeline go by Link alone: a short page need not be the last, nor a full one have another', async () => {
    const event = (n: number) => ({ id: n, event: 'labeled', created_at: '2026-01-01T00:00:00Z' })
    const page = (from: number, count: number, link?: string) => () =>
      Response.json(
        Array.from({ length: count }, (_, n) => event(from + n)),
        link === undefined ? {} : { headers: { link } },
      )
    github.answerNext(
      page(0, 3, `<${API}/repositories/1/issues/9/timeline?after=abc>; rel="next"`),
      page(3, 2, '<https://elsewhere.example.com/steal?page=3>; rel="next"'),
      page(5, 100),
    )
    expect(await allOf(client.issues.timeline(9))).toHaveLength(105)
    expect(github.exchanges.map(({ url }) => url.href.replace(API, ''))).toEqual([
      '/repos/octo-sandbox/widgets/issues/9/timeline?per_page=100&page=1',
      '/repositories/1/issues/9/timeline?after=abc',
      '/repos/octo-sandbox/widgets/issues/9/timeline?per_page=100&page=3',
    ])
    expect((await github.rows()).map(({ endpoint }) => endpoint)).toEqual(
      [1, 2, 3].map((page) => `${ISSUES}/9/timeline?page=${page}`),
    )
  })
})

describe('a page above what other answers may have', () => {
  const MIB = 1_048_576
  const BODIES = 12

  it.each([
    ['issues.since', () => client.issues.get(3), () => client.issues.since('2015-01-01T00:00:00Z')],
    ['issues.timeline', () => first(client.issues.timeline(9)), () => client.issues.timeline(9)],
    ['comments.list', () => first(client.comments.list(3)), () => client.comments.list(3)],
    [
      'comments.since',
      () => first(client.comments.since('2015-01-01T00:00:00Z')),
      () => client.comments.since('2015-01-01T00:00:00Z'),
    ],
  ])(
    'is read: %s',
    async (_, entry, list) => {
      const large = { ...(await entry()), body_html: 'x'.repeat(MIB) }
      github.answerNext(() => Response.json(Array.from({ length: BODIES }, () => large)))
      const given = await allOf(list())
      expect(given).toHaveLength(BODIES)
      expect(given.at(-1)).toMatchObject({ body_html: large.body_html })
    },
    30_000,
  )

  async function first<T>(list: AsyncGenerator<T>): Promise<T | undefined> {
    for await (const item of list) return item
    return undefined
  }
})

describe('what is not there', () => {
  const CALLS: readonly [name: string, call: () => Promise<unknown>][] = [
    ['issues.get', () => client.issues.get(9)],
    ['issues.close', () => client.issues.close({ number: 9, stateReason: 'completed' })],
    ['issues.reopen', () => client.issues.reopen({ number: 9 })],
    ['issues.update', () => client.issues.update({ number: 9, title: 'x' })],
    ['comments.add', () => client.comments.add({ number: 9, body: 'x' })],
  ]

  it.each(CALLS)('(404, 410) gives null to %s', async (_, call) => {
    for (const status of [404, 410]) {
      github.answerNext(() => Response.json({ message: 'not here' }, { status }))
      expect(await call()).toBeNull()
    }
    expect((await github.rows()).map((row) => [row.status_code, row.failure_class])).toEqual([
      [404, 'client'],
      [410, 'client'],
    ])
  })

  it.each(CALLS)('is not what any other fault of %s says: it is thrown', async (_, call) => {
    for (const status of [400, 401, 403, 422, 501]) {
      github.answerNext(() => Response.json({ message: 'no' }, { status }))
      await expect(call()).rejects.toMatchObject({ code: 'http_error', status, body: { message: 'no' } })
    }
  })

  it('is thrown by issues.create', async () => {
    for (const status of [404, 410]) {
      github.answerNext(() => Response.json({ message: 'not here' }, { status }))
      await expect(client.issues.create({ title: 'x' })).rejects.toMatchObject({ code: 'http_error', status })
    }
  })

  it('is thrown by a list', async () => {
    github.answerNext(() => Response.json({ message: 'not here' }, { status: 404 }))
    await expect(allOf(client.comments.list(9))).rejects.toMatchObject({ code: 'http_error', status: 404 })
  })

  it('is, to issues.get, what has moved to another repository and has another number there', async () => {
    const [moved] = await allOf(client.issues.get(3))
    github.answerNext(() => Response.json({ ...(moved as object), number: 12 }))
    expect(await client.issues.get(9)).toBeNull()
  })
})

describe('labels that the token may not create', () => {
  const refused = { resource: 'Repository', field: 'label', code: 'unauthorized' }
  const answer = (errors: unknown, status = 403) => {
    return () => Response.json({ message: 'You do not have permission to create labels.', errors }, { status })
  }

  it('are named', async () => {
    github.answerNext(answer([refused]))
    await expect(client.issues.create({ title: 'x', labels: ['bug', 'p1'] })).rejects.toMatchObject({
      code: 'github_labels_not_permitted',
      labels: ['bug', 'p1'],
      message: expect.stringContaining('bug, p1'),
      cause: { code: 'http_error', status: 403 },
    })
  })

  it.each([
    ['no errors', undefined, 403],
    ['errors that are no list', 'label', 403],
    ['an error of another field', [{ ...refused, field: 'title' }], 403],
    ['an error of another kind', [{ ...refused, code: 'invalid' }], 422],
    ['a null among the errors', [null], 403],
    ['another status', [refused], 400],
  ])('are not what is wrong with %s', async (_, errors, status) => {
    github.answerNext(answer(errors, status))
    await expect(client.issues.create({ title: 'x', labels: ['bug'] })).rejects.toMatchObject({
      code: 'http_error',
      status,
    })
  })
})

const WRITES: readonly [name: string, call: (idempotencyKey: string | null) => Promise<unknown>][] = [
  ['issues.create', (idempotencyKey) => client.issues.create({ title: 'x', idempotencyKey })],
  ['issues.close', (idempotencyKey) => client.issues.close({ number: 5, stateReason: 'completed', idempotencyKey })],
  ['issues.reopen', (idempotencyKey) => client.issues.reopen({ number: 5, idempotencyKey })],
  ['issues.update', (idempotencyKey) => client.issues.update({ number: 5, body: 'x', idempotencyKey })],
  ['comments.add', (idempotencyKey) => client.comments.add({ number: 5, body: 'x', idempotencyKey })],
]

describe('a keyed write', () => {
  it.each(WRITES)('(%s) is made once; the second one has the answer of the first', async (_, call) => {
    const first = (await call('a-key')) as { id: number }
    await expect(call('a-key')).rejects.toMatchObject({
      code: 'idempotency_conflict',
      priorResponse: expect.objectContaining({ id: first.id }),
    })
    expect(github.exchanges).toHaveLength(1)
    // GitHub knows no such header: the ledger is all there is.
    expect(github.exchanges[0]?.headers.has('idempotency-key')).toBe(false)
  })

  it.each(WRITES)('(%s) without a key is made as often as it is asked for', async (_, call) => {
    await call(null)
    await call(null)
    expect(github.exchanges).toHaveLength(2)
  })
})

describe('a redirect', () => {
  it.each([301, 302, 307, 308])(
    '(%s) is followed by no write: it would be made in another repository',
    async (status) => {
      const location = `${API}/repositories/5/issues/9`
      for (const idempotencyKey of [null, `key-${status}`]) {
        github.answerNext(() => new Response('{"message":"Moved"}', { status, headers: { location } }))
        const call = client.issues.update({ number: 9, title: 'x', idempotencyKey })
        await expect(call).rejects.toMatchObject({ code: 'http_error', status })
      }
      expect(github.exchanges.map(({ operation, status: answered }) => [operation, answered])).toEqual([
        [`PATCH ${ISSUE}`, status],
        [`PATCH ${ISSUE}`, status],
      ])
    },
  )

  it.each([301, 302, 307, 308])(
    '(%s) leaves the key of a write free: GitHub says to repeat it elsewhere, so nothing was done',
    async (status) => {
      for (const [name, call] of WRITES) {
        github.answerNext(() => new Response('{"message":"Moved"}', { status, headers: { location: API } }))
        await expect(call(name)).rejects.toMatchObject({ code: 'http_error', status })
        expect(await github.integration.idempotencyRecord(name)).toBeNull()
        expect((await github.rows()).at(-1)).toMatchObject({ status_code: status, failure_class: 'client' })
        await call(name)
        expect(await github.integration.idempotencyRecord(name)).toMatchObject({ priorState: 'recovered' })
      }
      expect(github.exchanges).toHaveLength(2 * WRITES.length)
    },
  )

  it.each([300, 303])('(%s) leaves the key of a write spent: something may have been done', async (status) => {
    for (const [name, call] of WRITES) {
      github.answerNext(() => new Response(null, { status, headers: { location: API } }))
      await expect(call(name)).rejects.toMatchObject({ code: 'http_error', status })
      expect(await github.integration.idempotencyRecord(name)).toMatchObject({ priorState: 'unknown' })
      await expect(call(name)).rejects.toMatchObject({ code: 'idempotency_conflict' })
    }
    expect(github.exchanges).toHaveLength(WRITES.length)
  })

  it('is followed by a read: a repository may have been renamed', async () => {
    const location = `${API}/${ISSUES}/9?from=an-old-name`
    github.answerNext(() => new Response('{"message":"Moved"}', { status: 301, headers: { location } }))
    expect(await client.issues.get(9)).toMatchObject({ number: 9 })
    const [first, second] = github.exchanges.map(({ url }) => url.href)
    expect([first, second]).toEqual([`${API}/${ISSUES}/9`, location])
  })
})

async function allOf(given: Promise<unknown> | AsyncGenerator<unknown>): Promise<unknown[]> {
  if (given instanceof Promise) return [await given]
  const items: unknown[] = []
  for await (const item of given) items.push(item)
  return items
}
