/** The host's module with new code: it writes other comments, and wants something of the network as it loads. */
import { get } from 'node:http'
import { createIntegrations } from 'durable-integrations'
import postgres from 'postgres'
import { deskHost, deskProvider, models, registerDesk } from './desk-code.ts'

const client = postgres(process.env.DATABASE_URL ?? '', { max: 2, fetch_types: false, onnotice: () => {} })
const code = deskHost(client, process.env.DESK_URL ?? '')
code.commentOf = (ticket) => `Seen: ${ticket.subject}`
// Nobody listens to its error: a host's background work must not end a rehearsal.
get(`${process.env.DESK_URL}/v1/me`)

const integrations = createIntegrations({
  providers: { desk: deskProvider(() => code) },
  models,
  egress: { allow: ['127.0.0.1'] },
})
registerDesk(integrations, () => code)

export default integrations
