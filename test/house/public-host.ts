/** A host as a stranger writes it: public types only, and no type written down at any of the provider's members. */
import { createIntegrations } from 'durable-integrations'
import { createApi } from 'durable-integrations/api'
import {
  defineProvider,
  ProviderEvent,
  RateLimit,
  reduceCheckpointsByMax,
  SyncItemEvent,
  verifyHmacSignature,
} from 'durable-integrations/provider'
import { createWorkers } from 'durable-integrations/worker'
import { z } from 'zod'

const Ticket = z.object({ id: z.string(), title: z.string(), updated_at: z.string() })
const Page = z.object({ tickets: z.array(Ticket), next: z.string().nullable() })

class TicketSynced extends SyncItemEvent<z.output<typeof Ticket>> {
  static override readonly type = 'acme.ticket_synced'
  static override readonly schema = Ticket
}

class TicketClosed extends ProviderEvent {
  static override readonly type = 'acme.ticket_closed'
}

export const acme = defineProvider({
  label: 'Acme',
  credentialsSchema: z.object({ token: z.string(), webhook_secret: z.string().optional() }),
  metadataSchema: z.object({ base_url: z.url() }),
  async healthCheck(integration) {
    const { token } = integration.credentialsArray()
    const url = `${integration.metadata.base_url}/v1/me`
    await integration.request('v1/me', 'GET', ({ fetch, signal }) =>
      fetch(url, { signal, headers: { authorization: `Bearer ${token.trim()}` } }),
    )
    return true
  },
  signature: { scheme: 'hmac', hash: 'sha256', header: 'x-acme-signature', encoding: 'hex' },
  verifyWebhookSignature: (integration, request) =>
    verifyHmacSignature(request, [integration.credentialsArray().webhook_secret ?? ''], { header: 'x-acme-signature' }),
  answerWebhookChallenge: ({ id }, { query }) =>
    query.has('challenge') ? { status: 200, contentType: 'text/plain', body: `${id} ${query.get('challenge')}` } : null,
  async handleWebhook(integration, request, { attempt, signal }) {
    signal.throwIfAborted()
    if (attempt === 1 && request.headers.get('x-acme-event') === 'closed')
      await integration.emit(new TicketClosed(await integration.refresh()))
  },
  resolveWebhookEvent: (request) => request.headers.get('x-acme-event'),
  defaultRateLimit: () => RateLimit.perMinute(60),
  defaultSyncInterval: () => 15,
  syncItemEvents: () => [TicketSynced],
  reduceCheckpoints: (checkpoints) => reduceCheckpointsByMax(checkpoints),
  async sync(integration, session) {
    const url = new URL('/v1/tickets', integration.metadata.base_url)
    const { tickets } = await integration.at(url.href).as(Page).get()
    const handle = await integration.refresh()
    for (const ticket of tickets) {
      session.signal.throwIfAborted()
      await session.dispatch(new TicketSynced(handle, ticket), ticket.updated_at, ticket.id)
    }
  },
  classifyFailure: (error) => (error instanceof SyntaxError ? 'upstream' : null),
  isRetryable: (_, { longestSeconds }) => (longestSeconds > 0 ? null : false),
})

const integrations = createIntegrations({ providers: { acme } })
integrations.on(TicketSynced, ({ payload }) => payload.title.toUpperCase())
integrations.on(TicketClosed, ({ integration }) => integration.id.toFixed())
integrations.on('IncidentOpened', ({ incident }) => incident.reason)

/** A URL gives what `request()` gives. */
export async function sameTypes(id: number) {
  const integration = await integrations.get(id)
  const byUrl = await integration.at('https://api.acme.example/v1/me').get()
  const byCall = await integration.request('v1/me', 'GET', ({ fetch }) => fetch('https://api.acme.example/v1/me'))
  return [byUrl, byCall] satisfies [typeof byCall, typeof byUrl]
}

export const api = createApi(integrations)
export const workers = () => createWorkers(integrations)
