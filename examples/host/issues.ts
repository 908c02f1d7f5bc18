import type { Integration, MappedModel } from 'durable-integrations'
import type { GitHubIssue } from 'durable-integrations/github'
import type { issues } from './tables.ts'

type Issue = typeof issues.$inferSelect
type NewIssue = Partial<typeof issues.$inferInsert>

/** Creates or updates our row of a GitHub issue, found by its number. */
export async function storeIssue(
  integration: Integration,
  model: MappedModel<Issue, NewIssue>,
  issue: GitHubIssue,
): Promise<void> {
  await integration.upsertByExternalId(issue.number, model, (existing) => {
    const updatedAt = new Date(issue.updated_at)
    // Runs overlap by an hour on purpose, so an older copy may come after a newer one. An empty object changes nothing.
    if (existing !== null && existing.updatedAt > updatedAt) return {}
    return {
      number: issue.number,
      title: issue.title,
      state: issue.state,
      author: issue.user?.login ?? null,
      updatedAt,
    }
  })
}
