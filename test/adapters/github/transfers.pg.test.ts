/** Issues that have gone to another repository, over real HTTP: GitHub redirects, and the way out follows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { GitHubClient, GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { HttpServer } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { issue } from './played-repository.ts'

const ELSEWHERE = 'repositories/5'

let database: TestDatabase
let test: TestIntegrations
let server: HttpServer
let github: GitHubClient
/** By path: where it is answered from, or what is answered. */
let redirects: Record<string, string>
let answers: Record<string, unknown>

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { github: new GitHubProvider() },
    egress: { allow: ['127.0.0.1'] },
  })
  server = await startHttpServer()
  server.answer = ({ url = '' }, response) => {
    const path = url.replace(/^\/api\/v3\//, '').replace(/\?.*$/, '')
    const [beginning] = Object.keys(redirects).filter((one) => path === one || path.startsWith(`${one}/`))
    if (beginning !== undefined) {
      const location = `${server.url}/api/v3/${redirects[beginning]}${path.slice(beginning.length)}`
      return void response.writeHead(301, { location }).end('{"message":"Moved Permanently"}')
    }
    response.writeHead(path in answers ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answers[path] ?? { message: 'Not Found' }))
  }
  const integration = await test.integrations.create({
    provider: 'github',
    name: 'of the test',
    credentials: { token: 'ghp_token-of-the-test' },
    metadata: { owner: 'octo', repo: 'Widgets', base_url: `${server.url}/api/v3` },
  })
  github = new GitHubClient(integration)
}, 60_000)

beforeEach(() => {
  server.received.length = 0
  redirects = {}
  answers = {}
})

afterAll(async () => {
  await test.close()
  await server.close()
  await database.drop()
})

const COMMENT = {
  id: 7,
  node_id: 'IC_7',
  url: 'https://github.example.com/comments/7',
  html_url: 'https://github.example.com/octo/another/issues/9#issuecomment-7',
  issue_url: 'https://github.example.com/repos/octo/another/issues/9',
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
}
const EVENT = { id: 8, node_id: 'LE_8', event: 'labeled', created_at: '2026-01-01T00:00:00Z', label: { name: 'x' } }

/** As GitHub has issue 9, below one repository. */
function ofIssue(repository: string) {
  const path = `${repository}/issues/9`
  return { [path]: issue(9), [`${path}/comments`]: [COMMENT], [`${path}/timeline`]: [EVENT] }
}

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

const asked = () => server.received.map(({ url }) => url.replace(/^\/api\/v3\//, '').replace(/\?.*$/, ''))

describe('an issue that was transferred', () => {
  beforeEach(() => {
    redirects = { 'repos/octo/Widgets/issues/9': `${ELSEWHERE}/issues/9` }
    answers = { ...ofIssue(ELSEWHERE), 'repos/octo/Widgets': { id: 1, full_name: 'octo/Widgets' } }
  })

  it('is null, though it has the same number there', async () => {
    expect(await github.issues.get(9)).toBeNull()
    expect(asked()).toEqual(['repos/octo/Widgets/issues/9', `${ELSEWHERE}/issues/9`, 'repos/octo/Widgets'])
  })

  it.each([
    ['comments', () => collected(github.comments.list(9))],
    ['timeline', () => collected(github.issues.timeline(9))],
  ])('gives none of its %s there', async (path, list) => {
    await expect(list()).rejects.toMatchObject({
      code: 'github_issue_transferred',
      repository: 'repos/octo/Widgets',
      movedTo: `/api/v3/${ELSEWHERE}/issues/9/${path}`,
    })
  })

  it('with another number there is null without a question', async () => {
    answers = { [`${ELSEWHERE}/issues/9`]: issue(3) }
    expect(await github.issues.get(9)).toBeNull()
    expect(asked()).toHaveLength(2)
  })
})

describe('a repository that was renamed', () => {
  it.each([
    ['its id', ELSEWHERE],
    ['its name', 'repos/octo/gadgets'],
  ])('is read on by a redirect to %s', async (_, now) => {
    redirects = { 'repos/octo/Widgets': now }
    answers = { ...ofIssue(now), [now]: { id: 5, full_name: 'octo/Gadgets' } }
    expect((await github.issues.get(9))?.number).toBe(9)
    expect(await collected(github.comments.list(9))).toHaveLength(1)
    expect(await collected(github.issues.timeline(9))).toHaveLength(1)
  })
})

it('an issue that is where it was asked for costs one request', async () => {
  answers = ofIssue('repos/octo/Widgets')
  await github.issues.get(9)
  await collected(github.comments.list(9))
  await collected(github.issues.timeline(9))
  expect(asked()).toEqual(Object.keys(answers))
})
