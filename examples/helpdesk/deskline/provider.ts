import type {
  AuthenticatedUser,
  HandlesWebhooks,
  HasBackfill,
  HasIncrementalSync,
  IdentifiesAuthenticatedUser,
  Integration,
  Json,
  MissedWebhook,
  OAuth2Client,
  RecognisesEchoes,
  ReconcilesWebhooks,
  SupportsIdempotency,
  SyncSession,
  WebhookHandler,
  WebhookRequest,
} from 'durable-integrations/provider'
import {
  nextByCursor,
  OAuth2Provider,
  paginate,
  RateLimit,
  reduceCheckpointsByMax,
  signedPart,
} from 'durable-integrations/provider'
import { z } from 'zod'
import { DesklineClient } from './client.ts'
import { toldRecord } from './records.ts'
import { TicketSynced } from './ticket.ts'
import { TicketChanged, TicketCommented, TicketEvent } from './ticket-event.ts'

export interface DesklineOptions {
  readonly clientId: string
  readonly clientSecret: string
  /** Default: Deskline's own. */
  readonly baseUrl?: string
}

const DAY_SECONDS = 86_400
const HEALTH_TIMEOUT_MS = 10_000

/** The help desk Deskline: sandbox/deskline/README.md. */
export class DesklineProvider
  extends OAuth2Provider
  implements
    HandlesWebhooks,
    ReconcilesWebhooks,
    HasIncrementalSync,
    HasBackfill,
    IdentifiesAuthenticatedUser,
    RecognisesEchoes,
    SupportsIdempotency
{
  readonly label = 'Deskline'
  override readonly issuer: string
  protected override readonly discovery = 'oauth2'
  protected override readonly scopes = ['tickets:read', 'tickets:write', 'offline_access']
  // Loose: the tokens, and the secrets of a rotation, are kept beside it.
  readonly credentialsSchema = z.looseObject({ webhook_secret: z.string().min(16) })

  readonly supportsIdempotency = true
  readonly idempotencyWindowSeconds = DAY_SECONDS
  readonly reconcileLookbackSeconds = 3 * DAY_SECONDS

  readonly reduceCheckpoints = reduceCheckpointsByMax
  readonly syncItemEvents = () => [TicketSynced]
  readonly defaultSyncInterval = () => 15
  readonly defaultRateLimit = () => RateLimit.perMinute(300)

  readonly #client: OAuth2Client

  constructor({ clientId, clientSecret, baseUrl = 'https://api.deskline.example' }: DesklineOptions) {
    super()
    this.#client = { id: clientId, secret: clientSecret }
    this.issuer = baseUrl
  }

  /** What a host asks of Deskline itself. */
  for(integration: Integration): DesklineClient {
    return new DesklineClient(integration, this.issuer)
  }

  protected override client(): OAuth2Client {
    return this.#client
  }

  readonly toldRecord = toldRecord

  /** Somebody waits for it, so it is asked once. Why it failed is in the row of the request. */
  async healthCheck(integration: Integration): Promise<boolean> {
    try {
      await this.for(integration).me({ attempts: 1, timeoutMs: HEALTH_TIMEOUT_MS })
      return true
    } catch {
      return false
    }
  }

  async authenticatedUser(integration: Integration): Promise<AuthenticatedUser> {
    const { id, name, email } = await this.for(integration).me()
    return { id, name, email, username: null }
  }

  /** `Deskline-Signature: t=1767225600,v1=5257a8…`: the time and the raw body, signed together. */
  readonly signature = {
    scheme: 'hmac',
    hash: 'sha256',
    header: 'deskline-signature',
    encoding: 'hex',
    fields: { separator: ',', signature: 'v1' },
    timestamp: { field: 't' },
    signed: [signedPart.timestamp, '.', signedPart.body],
  } as const

  resolveWebhookEvent(request: WebhookRequest): string | null {
    return TicketEvent.safeParse(request.json()).data?.type ?? null
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return TicketEvent.safeParse(request.json()).data?.id ?? null
  }

  webhookHandlers(): Record<string, WebhookHandler> {
    const handle = (integration: Integration, request: WebhookRequest) => this.handleWebhook(integration, request)
    const handler = { handle, staleGuard: newestOfTicket }
    // A comment is its own record: a later change of the ticket does not make it old.
    return {
      'ticket.created': handler,
      'ticket.updated': handler,
      'ticket.deleted': handler,
      'ticket.commented': handle,
    }
  }

  async handleWebhook(integration: Integration, request: WebhookRequest): Promise<void> {
    const event = TicketEvent.parse(request.json())
    const { ticket, comment } = event
    if (comment === undefined) await integration.emit(new TicketChanged(integration, event))
    else await integration.emit(new TicketCommented(integration, ticket, comment))
  }

  async *missedWebhooks(
    integration: Integration,
    { since, until, signal }: { since: Date; until: Date; signal: AbortSignal },
  ): AsyncIterable<MissedWebhook> {
    const window = { since: since.toISOString(), until: until.toISOString() }
    let cursor: string | null = null
    do {
      const page = await this.for(integration).events(cursor === null ? window : { ...window, cursor }, signal)
      for (const event of page.events) {
        const { id: deliveryId, type: eventType, occurred_at } = event
        yield { deliveryId, eventType, payload: JSON.stringify(event), headers: {}, occurredAt: new Date(occurred_at) }
      }
      cursor = page.next_cursor
    } while (cursor !== null)
  }

  sync(integration: Integration, session: SyncSession): Promise<void> {
    return this.#list(integration, session, {})
  }

  syncIncremental(integration: Integration, session: SyncSession): Promise<void> {
    const cursor = session.cursor()
    return this.#list(integration, session, cursor === null ? {} : { updated_since: String(cursor) })
  }

  syncWindow(integration: Integration, session: SyncSession, { from, to }: { from: Date; to: Date }): Promise<void> {
    const window = { updated_since: from.toISOString(), updated_before: to.toISOString() }
    return this.#list(integration, session, window)
  }

  #list(integration: Integration, session: SyncSession, query: Record<string, string>): Promise<void> {
    return paginate(session, {
      first: null,
      // It names the last ticket that was seen, so it stands still while tickets change.
      page: (cursor) => this.for(integration).tickets(cursor === null ? query : { ...query, cursor }, session.signal),
      next: nextByCursor('next_cursor'),
      items: ({ tickets }) => tickets,
      event: (ticket) => new TicketSynced(integration, ticket),
      checkpoint: ({ updated_at }) => updated_at,
      externalId: ({ id }) => id,
    })
  }
}

/** Deliveries come in any order, and an old one must not undo a newer one. */
function newestOfTicket(payload: Json): { key: string; version: string } | null {
  const { data: event } = TicketEvent.safeParse(payload)
  return event === undefined ? null : { key: event.ticket.id, version: event.occurred_at }
}
