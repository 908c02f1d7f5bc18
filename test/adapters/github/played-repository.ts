/** A repository's lists as GitHub pages them, played to the testing kit: the counts of a test's own. */
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { Json } from '../../../src/framework/json.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { FakeSyncSession, TestIntegrations, Transport } from '../../../src/testing/index.ts'
import { createTestIntegrations, playedTransport } from '../../../src/testing/index.ts'

export const API = 'https://github.example.com/api/v3'
export const REPOSITORY = `${API}/repos/octo/widgets`
export const TOKEN = 'ghp_token-of-a-test'
export const NOW = '2026-03-01T12:00:00Z'

/** A bookmark that `paginate()` set in a list of a repository. */
export function keptAt(at: Json, repository = REPOSITORY): Json {
  return { lists: { [repository]: { place: { at }, pages: 1, loop: ['', 1, 0] } } }
}

/** The positions of the bookmarks that a session was given. */
export function placesOf({ bookmarks }: FakeSyncSession): Json[] {
  const lists = bookmarks as readonly { lists: Record<string, { place: { at: Json } }> }[]
  return lists.map(({ lists: { [REPOSITORY]: kept } }) => kept?.place.at ?? null)
}

export type Reply = (request: Request) => Response | Promise<Response> | null

export interface PlayedRepository {
  readonly kit: TestIntegrations
  readonly provider: GitHubProvider
  readonly transport: Transport
  issues: object[]
  comments: object[]
  /** Issues that are fetched alone; others are not found. */
  alone: Map<number, object>
  /** Asked first; null: as ever. */
  reply: Reply
  /** What was asked for, such as `issues?page=1`, since the last `forget()`. */
  asked(): string[]
  urls(): URL[]
  forget(): void
  integration(given?: {
    credentials?: Record<string, unknown>
    metadata?: Record<string, string | number>
  }): Promise<Integration>
}

/** The kit's waits between attempts are real; how long one is that the provider does not name, request.pg.test.ts tells. */
class HastyGitHubProvider extends GitHubProvider {
  override retryDelayMs(...given: Parameters<GitHubProvider['retryDelayMs']>): number {
    return super.retryDelayMs(...given) ?? 0
  }
}

export async function playRepository(): Promise<PlayedRepository> {
  const provider = new HastyGitHubProvider()
  let forgotten = 0
  const played: PlayedRepository = {
    provider,
    kit: undefined as never,
    transport: playedTransport(
      async (request) => (await played.reply(request)) ?? listOf(played, new URL(request.url)),
    ),
    issues: [],
    comments: [],
    alone: new Map(),
    reply: () => null,
    urls: () => played.transport.requests.slice(forgotten).map(({ url }) => url),
    asked: () =>
      played.urls().map((url) => {
        const page = url.searchParams.get('page')
        return `${url.pathname.replace(/^.*\/widgets\//, '')}${page === null ? '' : `?page=${page}`}`
      }),
    forget() {
      forgotten = played.transport.requests.length
      Object.assign(played, { issues: [], comments: [], alone: new Map(), reply: () => null })
    },
    integration: (given = {}) =>
      played.kit.integrations.create({
        provider: 'github',
        name: 'of a test',
        credentials: { token: TOKEN, ...given.credentials },
        metadata: { owner: 'octo', repo: 'widgets', base_url: API, ...given.metadata },
      }),
  }
  const kit = await createTestIntegrations({ providers: { github: provider }, transport: played.transport, now: NOW })
  return Object.assign(played, { kit })
}

export function issue(number: number, updatedAt = at(number)) {
  const url = `${REPOSITORY}/issues/${number}`
  const texts = { node_id: `I_${number}`, url, html_url: `https://github.example.com/octo/widgets/issues/${number}` }
  const state = { title: `Issue ${number}`, state: 'open', labels: [], comments: 0, locked: false }
  return { id: number, number, ...texts, ...state, created_at: at(0), updated_at: updatedAt }
}

export function comment(parent: number, given: object = {}) {
  return {
    id: parent,
    html_url: `https://github.example.com/octo/widgets/issues/${parent}#issuecomment-1`,
    issue_url: `${REPOSITORY}/issues/${parent}`,
    ...given,
  }
}

/** A minute for each number. */
export function at(number: number): string {
  return new Date(Date.UTC(2026, 0, 1) + number * 60_000).toISOString().replace('.000Z', 'Z')
}

export const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

export function answer(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } })
}

function listOf({ issues, comments, alone }: PlayedRepository, { pathname, searchParams }: URL): Response {
  const number = /\/issues\/(\d+)$/.exec(pathname)?.[1]
  if (number !== undefined) {
    const found = alone.get(Number(number))
    return found === undefined ? answer(404, { message: 'Not Found' }) : answer(200, found)
  }
  const [page, size] = [Number(searchParams.get('page')), Number(searchParams.get('per_page'))]
  const list = pathname.endsWith('/issues/comments') ? comments : issues
  return answer(200, list.slice((page - 1) * size, page * size))
}
