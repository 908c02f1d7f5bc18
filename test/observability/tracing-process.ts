/** The host of tracing.e2e.test.ts: a webhook and a sync item are each handled by a call to the provider at PROVIDER_URL. */
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'

class CallingItem extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'tracing.item'
  static override readonly schema = z.object({ n: z.number() })
}

/** Its credential goes out in a header, in the query and in the body. */
function call(integration: Integration): Promise<unknown> {
  const token = String(integration.credentialsArray().token)
  return integration.request('/things/4711?access=open', 'POST', async ({ fetch }) => {
    const url = `${process.env.PROVIDER_URL}/things/4711?access_token=${token}`
    return fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ token }),
    })
  })
}

const provider = {
  ...webhookProvider({
    async handleWebhook(integration) {
      await call(integration)
    },
  }),
  ...syncProvider(
    async (session) => {
      await session.dispatch(new CallingItem(session.integration, { n: 1 }), 1, 1)
    },
    { defaultSyncInterval: () => null, defaultRateLimit: () => null, syncItemEvents: () => [CallingItem] },
  ),
}

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  pool: { max: 4 },
  providers: { traced: provider },
  config: { schedules: { enabled: false } },
  egress: { allow: ['127.0.0.1'] },
})

integrations.on(CallingItem, async ({ integration }) => {
  await call(integration)
})

export default integrations
