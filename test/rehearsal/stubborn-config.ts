/** A host's module that takes its database from somewhere else than DATABASE_URL. */
import { createIntegrations } from 'durable-integrations'

export default createIntegrations({ database: process.env.LIVE_URL })
