/**
 * The host of load.e2e.test.ts: the module that its API and worker processes load.
 *
 * A webhook says what its handler calls and whether it fails; a sync's items fail, wait for capacity, or do neither.
 */
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import type { HandlesWebhooks, HasScheduledSync } from '../../src/provider.ts'
import { RateLimitExceededException, reduceCheckpointsByMax, SyncItemEvent } from '../../src/provider.ts'

/** Of a delivery. `call`: the path of the provider's that the handler asks. */
const Payload = z.object({ call: z.string().nullable(), fails: z.boolean() })
/** Of the integration. */
const Plan = z.object({ provider_url: z.string(), secret: z.string(), items: z.number() })

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 2, fetch_types: false, onnotice: () => {} })

class EntrySynced extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'load.entry'
  static override readonly schema = z.object({ n: z.number() })
}

const provider: HandlesWebhooks & HasScheduledSync = {
  signature: { scheme: 'hmac', hash: 'sha256', header: 'x-signature', encoding: 'hex' },
  webhookSecrets: ({ metadata }) => [Plan.parse(metadata).secret],
  webhookDeliveryId: (request) => request.headers.get('x-delivery'),
  async handleWebhook(integration, request) {
    const { call, fails } = Payload.parse(request.json())
    const url = `${Plan.parse(integration.metadata).provider_url}${call}`
    // A call that fails is the webhook's failure only where it says so.
    if (call !== null) await integration.request(call, 'GET', () => fetch(url), { attempts: 1 }).catch(() => {})
    if (fails) throw new Error('it was told to fail')
  },
  async sync(integration, session) {
    for (let n = 1; n <= Plan.parse(integration.metadata).items; n += 1)
      await session.dispatch(new EntrySynced(integration, { n }), n, n)
  },
  reduceCheckpoints: reduceCheckpointsByMax,
  defaultRateLimit: () => null,
  defaultSyncInterval: () => null,
  syncItemEvents: () => [EntrySynced],
}

const integrations = createIntegrations({
  providers: { load: provider },
  config: {
    webhook: { max_payload_bytes: 10_000 },
    sync: { item_tries: 2, item_backoff: [1] },
    // Every call is to be made.
    circuit_breaker: { enabled: false },
    schedules: { enabled: false },
    operator: { tokens: [{ name: 'prometheus', sha256: process.env.SCRAPER_SHA256 ?? '', scopes: ['read'] }] },
  },
})

integrations.on(EntrySynced, async ({ integration, payload: { n } }: EntrySynced) => {
  if (n % 10 === 0) {
    // Once for each, whichever process has it.
    const first = await sql`insert into host_deferrals (n) values (${n}) on conflict do nothing returning n`
    if (first.length > 0) throw new RateLimitExceededException(integration.toJSON(), 1, null)
  }
  if (n % 7 === 0) throw new Error('it was told to fail')
})

export default integrations
