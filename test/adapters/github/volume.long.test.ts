/** A listing of 10,000 entries over real HTTP: a hundred full pages and the empty one that ends it. */
import { expect, it, onTestFinished } from 'vitest'
import type { LoggedRequest } from '../../../sandbox/github/request-log.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../../sandbox/github/server.ts'
import { GitHubIssueSynced, GitHubProvider } from '../../../src/adapters/github/index.ts'
import { createTestIntegrations } from '../../../src/testing/index.ts'

const ENTRIES = 10_000
/** Each eighth entry of the sandbox is a pull request. */
const ISSUES = ENTRIES - ENTRIES / 8

it('asks for each page once, in order, and for nothing else', { timeout: 240_000 }, async () => {
  const sandbox = await startGithubSandbox({ entries: ENTRIES })
  onTestFinished(() => sandbox.close())
  const provider = new GitHubProvider()
  const kit = await createTestIntegrations({
    providers: { github: provider },
    egress: { allow: ['127.0.0.1'] },
    allowRequests: true,
  })
  onTestFinished(() => kit.close())
  const integration = await kit.integrations.create({
    provider: 'github',
    name: 'large',
    credentials: { token: SANDBOX_TOKEN },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: sandbox.url },
  })

  const session = kit.syncSession(integration, null)
  await provider.syncIncremental(integration, session)

  session.assertDispatchedCount(ISSUES, GitHubIssueSynced)
  const { requests } = (await (await fetch(`${sandbox.url}/_sandbox/requests`)).json()) as { requests: LoggedRequest[] }
  expect(requests.map(({ method, canonicalPath, query }) => [method, canonicalPath, query.page])).toEqual(
    Array.from({ length: ENTRIES / 100 + 1 }, (_, at) => ['GET', '/repos/octo-sandbox/widgets/issues', String(at + 1)]),
  )
})
