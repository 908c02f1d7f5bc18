/** The host's module as the command line loads it: the code that has handled everything. */
import { createIntegrations } from 'durable-integrations'
import postgres from 'postgres'
import { deskHost, deskProvider, models, registerDesk } from './desk-code.ts'

const client = postgres(process.env.DATABASE_URL ?? '', { max: 2, fetch_types: false, onnotice: () => {} })
const code = deskHost(client, process.env.DESK_URL ?? '')

const integrations = createIntegrations({
  providers: { desk: deskProvider(() => code) },
  models,
  egress: { allow: ['127.0.0.1'] },
})
registerDesk(integrations, () => code)

export default integrations
