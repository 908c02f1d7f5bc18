/** A listing of the GitHub adapter over a scripted wire: what is asked for next, and what is handed in. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GitHubIssueSynced, GitHubProvider } from '../../src/adapters/github/index.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { FakeSyncSession, ScriptedTransport, TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations, scriptedTransport } from '../../src/testing/index.ts'

const API = 'https://github.example.com/api/v3'
const PULL_REQUESTS = 12

let wire: ScriptedTransport
let kit: TestIntegrations
let integration: Integration
const provider = new GitHubProvider()

beforeAll(async () => {
  // Scripted by each test.
  const transport = { ...scriptedTransport([]), fetch: (...given) => wire.fetch(...given) } satisfies ScriptedTransport
  kit = await createTestIntegrations({ providers: { github: provider }, transport })
  integration = await kit.integrations.create({
    provider: 'github',
    name: 'of a test',
    credentials: { token: 'a-token' },
    metadata: { owner: 'octo', repo: 'widgets', base_url: API },
  })
}, 60_000)
afterAll(() => kit.close())

describe('the pages of a listing', () => {
  it.each([
    ['leads to another origin', '<http://127.0.0.1:9/steal?page=2>; rel="next"'],
    ['is no URL', '<nowhere>; rel="next"'],
    ['names no next', '<http://127.0.0.1:9/x>; rel="last"'],
  ])('are counted on when Link %s: the token goes nowhere else', async (_, link) => {
    wire = scriptedTransport([{ body: page(1, 100), headers: { link } }, { body: page(101, 50) }])
    const session = await list()
    wire.assertDone()
    expect(wire.requests.map(({ url }) => [url.origin + url.pathname, url.searchParams.get('page')])).toEqual([
      [`${API}/repos/octo/widgets/issues`, '1'],
      [`${API}/repos/octo/widgets/issues`, '2'],
    ])
    session.assertDispatchedCount(150 - PULL_REQUESTS, GitHubIssueSynced)
  })
})

describe('a listing', () => {
  it('hands in number as external id and updated_at as checkpoint, and asks from an hour before the cursor', async () => {
    wire = scriptedTransport([{ body: [entry(7), { ...entry(8), pull_request: {} }, entry(9)] }, { body: [] }])
    const session = await list('2020-06-01T05:00:00Z')
    expect(
      wire.requests.map(({ url }) => [url.pathname.replace(/^.*widgets/, ''), url.searchParams.get('since')]),
    ).toEqual([
      ['/issues', '2020-06-01T04:00:00Z'],
      ['/issues/comments', '2020-06-01T04:00:00Z'],
    ])
    session.assertCheckpoints([entry(7).updated_at, entry(9).updated_at])
    session.assertDispatched(GitHubIssueSynced, ({ payload }, item) => payload.number === 7 && item.externalId === '7')
  })

  it('of a cursor that is no instant fails, nothing sent', async () => {
    wire = scriptedTransport([])
    await expect(list('yesterday')).rejects.toMatchObject({ code: 'invalid_argument', argument: 'cursor' })
    expect(wire.requests).toEqual([])
  })
})

async function list(cursor: string | null = null): Promise<FakeSyncSession> {
  const session = kit.syncSession(integration, cursor)
  await provider.syncIncremental(integration, session)
  return session
}

/** Entries of consecutive numbers, the first of them pull requests on the first page. */
function page(from: number, entries: number) {
  return Array.from({ length: entries }, (_, index) => {
    const number = from + index
    return number <= PULL_REQUESTS ? { ...entry(number), pull_request: {} } : entry(number)
  })
}

function entry(number: number) {
  const url = `${API}/repos/octo/widgets/issues/${number}`
  const at = new Date(Date.UTC(2026, 0, 1) + number * 60_000).toISOString()
  const texts = { node_id: `I_${number}`, url, html_url: url, title: `Issue ${number}`, state: 'open' }
  return { id: number, number, ...texts, labels: [], comments: 0, locked: false, created_at: at, updated_at: at }
}
