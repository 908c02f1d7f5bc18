/**
 * The host of the fleet's tests: the module that each of its API and worker processes loads.
 *
 * Handlers and listeners note each run with the name of their process in tables of the host's own, without a key that would
 * hide a second one. What they ask of the provider can be counted there.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import type { Json } from '../../src/framework/json.ts'
import type { Integration } from '../../src/index.ts'
import { createIntegrations } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { CALLS_EVERY } from './fleet-provider.ts'
import { checkpointOf } from './sync-plan.ts'

const MEMBER = process.env.FLEET_MEMBER ?? 'worker'
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10, fetch_types: false, onnotice: () => {} })

const ProviderUrl = z.object({ provider_url: z.url() })
const Delivery = z.object({ n: z.number().int(), work_ms: z.number() })
const Page = z.object({ items: z.array(z.number().int()), next: z.number().int().nullable() })

class EntrySynced extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'fleet.entry'
  static override readonly schema = z.object({ n: z.number().int() })
}

function ask(integration: Integration, path: string): Promise<Json> {
  const { provider_url: base } = ProviderUrl.parse(integration.metadata)
  return integration.request(path, 'GET', ({ signal }) => fetch(`${base}${path}`, { signal }))
}

const hooks = webhookProvider({
  async handleWebhook(integration, request, { deliveryId, attempt }) {
    const { n, work_ms } = Delivery.parse(request.json())
    await sleep(work_ms)
    if (n % CALLS_EVERY === 0) await ask(integration, `/about/${deliveryId}`)
    await sql`insert into handler_runs (delivery_id, attempt, member) values (${deliveryId}, ${attempt}, ${MEMBER})`
  },
})

const listed = syncProvider(
  async (session) => {
    await sql`insert into listings (member) values (${MEMBER})`
    for (let page: number | null = 1; page !== null; ) {
      const { items, next } = Page.parse(await ask(session.integration, `/items/${page}`))
      for (const n of items) await session.dispatch(new EntrySynced(session.integration, { n }), checkpointOf(n), n)
      page = next
    }
  },
  { defaultSyncInterval: () => 60, defaultRateLimit: () => null, syncItemEvents: () => [EntrySynced] },
)

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { hooks, listed } })

integrations.on(EntrySynced, async ({ integration, payload: { n } }: EntrySynced) => {
  await sleep(n % CALLS_EVERY)
  if (n % CALLS_EVERY === 0) await ask(integration, `/entry/${n}`)
  await sql`insert into entry_runs (n, member) values (${n}, ${MEMBER})`
})

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists handler_runs (delivery_id text not null, attempt int not null, member text not null)`
  await sql`create table if not exists entry_runs (n int not null, member text not null)`
  await sql`create table if not exists listings (member text not null)`
  await sql.end()
}

export default integrations
