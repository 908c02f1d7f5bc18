/**
 * The host of the soak: the module that its API and worker processes load. It keeps nothing of what it does, so that what grows is
 * ours. Beside it stands a door by which the soak asks the process for its memory.
 *
 * | provider | has |
 * | --- | --- |
 * | shop | webhooks; one call in each handler, every tenth with an idempotency key |
 * | batch | deliveries of many events |
 * | crm | syncs |
 */
import { createServer } from 'node:http'
import { z } from 'zod'
import { memoryAfterCollection } from '../../bench/memory.ts'
import type { Integration } from '../../src/index.ts'
import { createIntegrations } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/provider.ts'
import { checkpointOf } from '../chaos/sync-plan.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { Delivery, EVENTS, Page, SOAK_CONFIG } from './world.ts'

const OUTSIDE_URL = process.env.OUTSIDE_URL ?? ''
const KEYED_EVERY = 10
const Answer = z.object({ answer: z.string() })

let callsMs: number[] = []
let handled = 0

class Listed extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'soak.listed'
  static override readonly schema = z.object({ n: z.number().int() })
}

async function call(integration: Integration, id: string, isKeyed: boolean): Promise<void> {
  const startedAt = performance.now()
  await integration.requestAs(
    Answer,
    '/calls',
    'POST',
    ({ signal }) => fetch(`${OUTSIDE_URL}/calls`, { method: 'POST', signal }),
    isKeyed ? { idempotencyKey: id } : {},
  )
  callsMs.push(performance.now() - startedAt)
}

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  baseUrl: 'https://hooks.example.com',
  egress: { allow: ['127.0.0.1'] },
  config: SOAK_CONFIG,
  providers: {
    shop: webhookProvider({
      handleWebhook: async (integration, request, { deliveryId }) => {
        const { n } = Delivery.parse(request.json())
        await call(integration, deliveryId, n % KEYED_EVERY === 0)
        handled += 1
      },
    }),
    batch: webhookProvider({
      splitWebhook: (request) => {
        const { id } = Delivery.parse(request.json())
        return Array.from({ length: EVENTS }, (_, index) => ({
          id: `${id}/${index + 1}`,
          type: 'thing.changed',
          payload: { index },
        }))
      },
      handleWebhook: () => {
        handled += 1
      },
    }),
    crm: syncProvider(
      async (session) => {
        const after = session.cursor() ?? checkpointOf(0)
        const path = `/list?after=${encodeURIComponent(String(after))}`
        const page = await session.integration.requestAs(Page, '/list', 'GET', ({ signal }) =>
          fetch(`${OUTSIDE_URL}${path}`, { signal }),
        )
        for (const n of page.items) await session.dispatch(new Listed(session.integration, { n }), checkpointOf(n), n)
      },
      { defaultRateLimit: () => null, defaultSyncInterval: () => null, syncItemEvents: () => [Listed] },
    ),
  },
})

integrations.on(Listed, () => {})
integrations.on('SyncCompleted', () => {}, { queued: true, name: 'soak' })

/** What a process says of itself, and of what it has done since it was asked last. */
export interface Insight {
  readonly heapBytes: number
  readonly residentBytes: number
  /** Timers, sockets and the like that keep the process alive. */
  readonly handles: number
  readonly callsMs: readonly number[]
  /** Webhooks, since its start. */
  readonly handled: number
}

async function insight(): Promise<Insight> {
  const taken = callsMs
  callsMs = []
  const memory = await memoryAfterCollection()
  return { ...memory, handles: process.getActiveResourcesInfo().length, callsMs: taken, handled }
}

const port = process.env.SOAK_INSIGHT_PORT
if (port !== undefined)
  createServer((_request, response) => {
    void insight().then(
      (said) => response.end(JSON.stringify(said)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
    .listen(Number(port), '127.0.0.1')
    .unref()

export default integrations
