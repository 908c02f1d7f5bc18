/** A help desk's host: the one module that API, worker and command line load. */
import { createIntegrations } from 'durable-integrations'
import postgres from 'postgres'
import { DesklineProvider } from './deskline/provider.ts'
import { register, ticketModel } from './listeners.ts'
import { SCHEMA } from './tables.ts'

// Set: a Deskline on a machine of our own, such as sandbox/deskline. Its address is then allowed though it is not public.
const baseUrl = process.env.DESKLINE_URL

export const deskline = new DesklineProvider({
  clientId: process.env.DESKLINE_CLIENT_ID ?? '',
  clientSecret: process.env.DESKLINE_CLIENT_SECRET ?? '',
  ...(baseUrl === undefined ? {} : { baseUrl }),
})

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: { deskline },
  models: { ticket: ticketModel },
  egress: { allow: baseUrl === undefined ? [] : [new URL(baseUrl).hostname] },
})

register(integrations)

/** The host's own table. */
export async function prepare(): Promise<void> {
  const sql = postgres(process.env.DATABASE_URL ?? '', { max: 1, onnotice: () => {} })
  await sql.unsafe(SCHEMA)
  await sql.end()
}

export default integrations
