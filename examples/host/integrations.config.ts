/**
 * A small host application: one module that the API, the worker and the CLI share.
 *
 * It keeps the issues of a GitHub repository in a table of its own and notes each webhook that comes in.
 */
import { drizzle } from 'drizzle-orm/postgres-js'
import { createIntegrations } from 'durable-integrations'
import { GitHubProvider } from 'durable-integrations/github'
import postgres from 'postgres'
import { issueModel, register } from './listeners.ts'
import { SCHEMA } from './tables.ts'

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: { github: new GitHubProvider() },
  models: { issue: issueModel },
  // `npm start` puts the sandbox on this machine; elsewhere calls reach public addresses only.
  ...(process.env.INTEGRATIONS_DEV === '1' ? { egress: { allow: ['127.0.0.1'] } } : {}),
})

// The host's own pool, for its own tables. Without fetch_types a connection that is cut at its start can't end the process.
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 5, fetch_types: false, onnotice: () => {} })

register(integrations, drizzle(sql))

/** The host's own tables; `npm start` calls it once. */
export async function prepare(): Promise<void> {
  await sql.unsafe(SCHEMA)
  await sql.end()
}

export default integrations
