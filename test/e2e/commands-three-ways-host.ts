/** The host of commands-three-ways.e2e.test.ts, copied beside the installed package: the module that its worker and its commands load. */
import { pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import type { IntegrationsOptions } from 'durable-integrations'
import { createIntegrations, mappedTable, reduceCheckpointsByMax, SyncItemEvent } from 'durable-integrations'
import { z } from 'zod'

const notes = pgTable('notes', { id: text('id').primaryKey(), createdAt: timestamp('created_at') })

class ThingSynced extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'test.thing'
  static override readonly schema = z.object({ n: z.number() })
}

/** All that a provider can be asked for by a command, but OAuth. */
const demo = {
  label: 'Demo',
  credentialsSchema: z.looseObject({ token: z.string() }),
  healthCheck: () => true,
  verifyWebhookSignature: () => true,
  handleWebhook: () => ({ handled: true }),
  reconcileLookbackSeconds: 86_400,
  async *missedWebhooks() {
    yield {
      deliveryId: 'missed',
      eventType: null,
      payload: '{}',
      headers: {},
      occurredAt: new Date(Date.now() - 3_600_000),
    }
  },
  sync: async () => {},
  handleMissing: async () => {},
  reduceCheckpoints: reduceCheckpointsByMax,
  defaultRateLimit: () => null,
  defaultSyncInterval: () => null,
  syncItemEvents: () => [ThingSynced],
}

const oauth = {
  authorizationUrl: () => 'https://acme.example/authorize',
  exchangeCode: async () => ({ access_token: 'next' }),
  refreshToken: async () => ({ access_token: 'next' }),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}

const options = {
  // `quiet` has what no other row of the table touches.
  providers: { demo, oauth, quiet: demo },
  models: { note: mappedTable(notes, { type: 'note' }) },
}

/** The same host elsewhere: where Postgres or Temporal is away. */
export function hostAt(place: IntegrationsOptions = {}) {
  const integrations = createIntegrations({ ...options, ...place })
  integrations.on(ThingSynced, () => {})
  return integrations
}

export default hostAt()
