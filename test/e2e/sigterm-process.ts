/** The host of sigterm.e2e.test.ts: the module that its workers and APIs load. Handlers and listeners take their time. */
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'

const ITEMS = 120
const ITEM_MS = 300

const Payload = z.object({ work_ms: z.number() })
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 4, fetch_types: false, onnotice: () => {} })

class SlowItem extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'sigterm.item'
  static override readonly schema = z.object({ n: z.number() })
}

const provider = {
  ...webhookProvider({
    async handleWebhook(_integration, request, { deliveryId }) {
      const { work_ms } = Payload.parse(request.json())
      await sql`insert into begun (delivery_id) values (${deliveryId})`
      await sleep(work_ms)
      await sql`insert into handled (delivery_id) values (${deliveryId})`
    },
  }),
  ...syncProvider(
    async (session) => {
      for (let n = 1; n <= ITEMS; n += 1) await session.dispatch(new SlowItem(session.integration, { n }), n, n)
    },
    { defaultSyncInterval: () => null, defaultRateLimit: () => null, syncItemEvents: () => [SlowItem] },
  ),
}

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  pool: { max: 6 },
  providers: { slow: provider },
  config: { schedules: { enabled: false } },
})

integrations.on(SlowItem, async () => {
  await sleep(ITEM_MS)
})

/** The host's own tables: how often a handler of each delivery began, and came to its end. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists begun (id bigint generated always as identity, delivery_id text not null)`
  await sql`create table if not exists handled (id bigint generated always as identity, delivery_id text not null)`
  await sql.end()
}

export default integrations
