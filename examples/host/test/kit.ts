/** This host in a test: its listeners and tables on the testing kit. */
import type { Integration } from 'durable-integrations'
import type { GitHubIssue } from 'durable-integrations/github'
import { GitHubProvider } from 'durable-integrations/github'
import type { ScriptedTransport, TestIntegrations } from 'durable-integrations/testing'
import { createTestIntegrations } from 'durable-integrations/testing'
import { issueModel, register } from '../listeners.ts'
import { SCHEMA } from '../tables.ts'

export const SECRET = 'a-webhook-secret'

export async function hostUnderTest(transport?: ScriptedTransport): Promise<TestIntegrations> {
  const kit = await createTestIntegrations({
    now: '2026-03-01T12:00:00Z',
    providers: { github: new GitHubProvider() },
    models: { issue: issueModel },
    ...(transport === undefined ? {} : { transport }),
  })
  await kit.sql.unsafe(SCHEMA)
  register(kit.integrations, kit.db)
  return kit
}

export function widgets({ integrations }: TestIntegrations): Promise<Integration> {
  return integrations.create({
    provider: 'github',
    name: 'widgets',
    credentials: { token: 'a-token', webhook_secret: SECRET },
    metadata: { owner: 'octo', repo: 'widgets' },
  })
}

/** An issue as GitHub answers it, with what the test is about. */
export function issue(number: number, given: Partial<GitHubIssue> = {}): GitHubIssue {
  const url = `https://api.github.com/repos/octo/widgets/issues/${number}`
  const at = '2026-03-01T10:00:00Z'
  return {
    id: 1_000 + number,
    number,
    node_id: `I_${number}`,
    url,
    html_url: url,
    title: `Issue ${number}`,
    state: 'open',
    user: null,
    labels: [],
    comments: 0,
    locked: false,
    attachments: [],
    created_at: at,
    updated_at: at,
    ...given,
  }
}
