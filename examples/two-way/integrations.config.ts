/** A host that mirrors a repository's issues and a help desk's tickets: the one module that API, worker and command line load. */
import { createIntegrations } from 'durable-integrations'
import { GitHubProvider } from 'durable-integrations/github'
import postgres from 'postgres'
import { DesklineProvider } from '../helpdesk/deskline/provider.ts'
import { allowedHosts } from '../helpdesk/egress.ts'
import { register } from './listeners.ts'
import { SCHEMA } from './tables.ts'

// Set: another Deskline than the real one, such as sandbox/deskline on this machine.
const baseUrl = process.env.DESKLINE_URL

const deskline = new DesklineProvider({
  clientId: process.env.DESKLINE_CLIENT_ID ?? '',
  clientSecret: process.env.DESKLINE_CLIENT_SECRET ?? '',
  ...(baseUrl === undefined ? {} : { baseUrl }),
})

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: { github: new GitHubProvider(), deskline },
  egress: { allow: allowedHosts(baseUrl, { isDevelopment: process.env.INTEGRATIONS_DEV === '1' }) },
})

/**
 * A pool of the host's own: a handler holds one of its connections while it calls the other side. Without fetch_types a connection
 * that is cut at its start can't end the process.
 */
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 20, fetch_types: false, onnotice: () => {} })

register(integrations, { sql, deskline, requester: process.env.MIRROR_REQUESTER ?? 'issues@example.com' })

/** Before the first start. */
export async function prepare(): Promise<void> {
  await sql.unsafe(SCHEMA)
  await sql.end()
}

export default integrations
