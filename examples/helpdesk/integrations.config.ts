/** A help desk's host: the one module that API, worker and command line load. */
import { createIntegrations } from 'durable-integrations'
import { prepareDatabase } from './database.ts'
import { DesklineProvider } from './deskline/provider.ts'
import { allowedHosts } from './egress.ts'
import { register, ticketModel } from './listeners.ts'

// Set: another Deskline than the real one, such as sandbox/deskline on this machine.
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
  egress: { allow: allowedHosts(baseUrl, { isDevelopment: process.env.INTEGRATIONS_DEV === '1' }) },
})

register(integrations)

/** Before the first start. */
export const prepare = (): Promise<void> => prepareDatabase(process.env.DATABASE_URL ?? '')

export default integrations
