/**
 * A small host application: one module that the API, the worker and the CLI share.
 *
 * It keeps the issues of a GitHub repository in a table of its own and notes each webhook that comes in.
 */
import { drizzle } from 'drizzle-orm/postgres-js'
import { createIntegrations, mappedTable } from 'durable-integrations'
import { GitHubIssueSynced, GitHubProvider, GitHubWebhookReceived } from 'durable-integrations/github'
import postgres from 'postgres'
import { storeIssue } from './issues.ts'
import { issues, SCHEMA } from './tables.ts'
import { noteActivity } from './webhooks.ts'

const issueModel = mappedTable(issues, { type: 'issue' })

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: { github: new GitHubProvider() },
  models: { issue: issueModel },
})

// The host's own pool, for its own tables. Without fetch_types a connection that is cut at its start can't end the process.
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 5, fetch_types: false, onnotice: () => {} })
const db = drizzle(sql)

// Runs inside the item's own job, perhaps more than once: storing the same issue twice changes nothing.
integrations.on(GitHubIssueSynced, ({ integration, payload }) => storeIssue(integration, issueModel, payload))

// A listener that throws fails the webhook, so that it can be tried again.
integrations.on(GitHubWebhookReceived, (event) => noteActivity(db, event))

/** The host's own tables; `npm start` calls it once. */
export async function prepare(): Promise<void> {
  await sql.unsafe(SCHEMA)
  await sql.end()
}

export default integrations
