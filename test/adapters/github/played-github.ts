/** The sandbox played to the testing kit: no socket, and everything that goes over the wire is kept. */

import type { SandboxOptions } from '../../../sandbox/github/server.ts'
import { createGithubSandbox, SANDBOX_TOKEN } from '../../../sandbox/github/server.ts'
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations, playedTransport } from '../../../src/testing/index.ts'
import { publishedOperations } from '../../sandbox/published-description.ts'

export const API = 'https://api.github.example.com'

export interface Exchange {
  /** As the description names it: `GET /repos/{owner}/{repo}`. */
  readonly operation: string
  readonly url: URL
  readonly headers: Headers
  readonly requestBody: string
  readonly status: number
  readonly requestId: string | null
  readonly answer: unknown
}

export interface PlayedGitHub {
  readonly kit: TestIntegrations
  readonly integration: Integration
  readonly exchanges: Exchange[]
  /** Answers the next requests in the sandbox's place. */
  answerNext(...answers: (() => Response)[]): void
  /** The rows of the requests so far, oldest first. */
  rows(): Promise<Record<string, unknown>[]>
  /** Forgets what was sent and stored. */
  clear(): Promise<void>
  close(): Promise<void>
}

export async function playGitHub(options: SandboxOptions = {}): Promise<PlayedGitHub> {
  const sandbox = createGithubSandbox(options)
  const exchanges: Exchange[] = []
  const planned: (() => Response)[] = []
  const transport = playedTransport(async (request) => {
    const url = new URL(request.url)
    const requestBody = await request.clone().text()
    const response = planned.shift()?.() ?? (await sandbox.fetch(request))
    exchanges.push({
      // A link names the repository by its id.
      operation: operationOf(
        request.method,
        url.pathname.replace(/^\/repositories\/\d+/, '/repos/octo-sandbox/widgets'),
      ),
      url,
      headers: request.headers,
      requestBody,
      status: response.status,
      requestId: response.headers.get('x-github-request-id'),
      answer: await response.clone().text().then(parsed),
    })
    return response
  })
  const kit = await createTestIntegrations({ providers: { github: new GitHubProvider() }, transport })
  const integration = await kit.integrations.create({
    provider: 'github',
    name: 'of a test',
    credentials: { token: SANDBOX_TOKEN },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: API },
  })
  return {
    kit,
    integration,
    exchanges,
    answerNext: (...answers) => void planned.push(...answers),
    rows: async () => kit.sql`select * from integration_requests order by id`,
    async clear() {
      exchanges.length = 0
      planned.length = 0
      await kit.sql`delete from integration_requests`
      await kit.sql`delete from integration_idempotency_keys`
    },
    close: () => kit.close(),
  }
}

function operationOf(method: string, path: string): string {
  const fitting = publishedOperations.filter((operation) => {
    const pattern = operation.replace(/\{[^}]+\}/g, '[^/]+')
    return new RegExp(`^${pattern}$`).test(`${method} ${path}`)
  })
  // `issues/comments` is not an issue of that number.
  const placeholders = (operation: string): number => operation.split('{').length
  return fitting.sort((a, b) => placeholders(a) - placeholders(b))[0] ?? `${method} ${path}`
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
