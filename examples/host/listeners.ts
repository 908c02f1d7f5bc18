/** What this host does with what comes in. A function, so that its tests register the very same. */
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type { Integrations, MappedModel } from 'durable-integrations'
import { mappedTable } from 'durable-integrations'
import { GitHubIssueSynced, GitHubWebhookReceived } from 'durable-integrations/github'
import { storeIssue } from './issues.ts'
import { issues } from './tables.ts'
import { noteActivity } from './webhooks.ts'

type IssueModel = MappedModel<typeof issues.$inferSelect, Partial<typeof issues.$inferInsert>>

export const issueModel: IssueModel = mappedTable(issues, { type: 'issue' })

/** @param db the host's own tables */
export function register(integrations: Integrations, db: PostgresJsDatabase): void {
  // Runs inside the item's own job, perhaps more than once: storing the same issue twice changes nothing.
  integrations.on(GitHubIssueSynced, ({ integration, payload }) => storeIssue(integration, issueModel, payload))

  // A listener that throws fails the webhook, so that it can be tried again.
  integrations.on(GitHubWebhookReceived, (event) => noteActivity(db, event))
}
