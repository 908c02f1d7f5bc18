/** A provider that holds to all of its contracts, and the API that it calls: what the broken ones differ from in one way each. */
import { z } from 'zod'
import type {
  AuthenticatedUser,
  ClassifiesFailures,
  Credentials,
  CustomizesRetry,
  HasBackfill,
  HasIncrementalSync,
  HasOAuth2,
  IdentifiesAuthenticatedUser,
  Integration,
  Json,
  MissedWebhook,
  ReconcilesWebhooks,
  RequestContext,
  SupportsIdempotency,
  SyncSession,
  WebhookDoor,
  WebhookRequest,
} from '../../../src/provider.ts'
import { FailureClass, RateLimit, reduceCheckpointsByMax, SyncItemEvent, statusOf } from '../../../src/provider.ts'
import type { ProviderFixtures } from '../../../src/testing/index.ts'
import { standardWebhooksSigner } from '../../../src/testing/index.ts'

const API = 'https://api.tickets.example'
const SECRET = `whsec_${Buffer.from('a secret of 32 bytes for a test!').toString('base64')}`
const OTHER_SECRET = `whsec_${Buffer.from('another one of 32 bytes, as well').toString('base64')}`

export const Ticket = z.looseObject({ id: z.string(), subject: z.string(), updated_at: z.string() })
const Page = z.object({ tickets: z.array(Ticket), next: z.string().nullable() })
const Tokens = z.object({ access_token: z.string(), refresh_token: z.string(), expires_in: z.number() })
const Deliveries = z.object({ deliveries: z.array(z.object({ id: z.string(), at: z.string(), type: z.string() })) })

export class TicketSynced extends SyncItemEvent<unknown> {
  static override readonly type: string = 'tickets.synced'
  static override readonly schema: z.ZodType = Ticket
}

/** Another class of items, which no provider declares unless it says so. */
export class NoteSynced extends SyncItemEvent<unknown> {
  static override readonly type: string = 'tickets.note'
}

export class SoundProvider
  implements
    HasIncrementalSync,
    HasBackfill,
    HasOAuth2,
    ReconcilesWebhooks,
    ClassifiesFailures,
    CustomizesRetry,
    IdentifiesAuthenticatedUser,
    SupportsIdempotency
{
  readonly label: string = 'Tickets'
  readonly credentialsSchema: z.ZodType = z.looseObject({
    access_token: z.string().min(8),
    webhook_secret: z.string().min(1).optional(),
  })
  readonly metadataSchema: z.ZodType = z.looseObject({ team: z.string() })
  readonly pkce = 'S256'
  readonly reconcileLookbackSeconds: number = 3_600

  // Health and identity.
  async healthCheck(integration: Integration): Promise<boolean> {
    try {
      return z.object({ id: z.number() }).safeParse(await this.get(integration, '/me')).success
    } catch {
      return false
    }
  }

  async authenticatedUser(integration: Integration): Promise<AuthenticatedUser> {
    const { id, name } = z.object({ id: z.number(), name: z.string() }).parse(await this.get(integration, '/me'))
    return { id: String(id), name, email: null, username: null }
  }

  // Failures.
  classifyFailure(error: unknown): FailureClass | null {
    return statusOf(error) === 420 ? FailureClass.Throttle : null
  }

  isRetryable(error: unknown): boolean | null {
    return statusOf(error) === 420 ? true : null
  }

  retryDelayMs(error: unknown): number | null {
    return statusOf(error) === 420 ? 60_000 : null
  }

  // Writes.
  readonly supportsIdempotency = true
  readonly idempotencyHeader: string = 'Idempotency-Key'
  readonly idempotencyWindowSeconds: number = 3_600

  open(integration: Integration, subject: string, idempotencyKey: string | null): Promise<unknown> {
    return integration.request('/tickets', 'POST', (context) => this.post(integration, subject, context), {
      data: { subject },
      idempotencyKey,
    })
  }

  post(
    integration: Integration,
    subject: string,
    { fetch, idempotencyKey }: Pick<RequestContext, 'fetch' | 'idempotencyKey'>,
  ): Promise<Response> {
    const headers = new Headers({ authorization: `Bearer ${integration.credentialsArray().access_token}` })
    if (idempotencyKey !== null) headers.set(this.idempotencyHeader, idempotencyKey)
    return fetch(`${API}/tickets`, { method: 'POST', headers, body: JSON.stringify({ subject }) })
  }

  // OAuth.
  authorizationUrl(
    integration: Integration,
    redirectUri: string,
    state: string,
    pkce?: { codeChallenge: string; codeChallengeMethod: 'S256' },
  ): string {
    const url = new URL('/authorize', API)
    const client_id = String(integration.credentialsArray().client_id)
    const parameters = { response_type: 'code', client_id, redirect_uri: redirectUri, state }
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    if (pkce !== undefined) url.searchParams.set('code_challenge', pkce.codeChallenge)
    if (pkce !== undefined) url.searchParams.set('code_challenge_method', pkce.codeChallengeMethod)
    return url.href
  }

  exchangeCode(
    integration: Integration,
    code: string,
    redirectUri: string,
    pkce?: { codeVerifier: string },
  ): Promise<Credentials> {
    return this.tokens(integration, {
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      ...(pkce !== undefined && { code_verifier: pkce.codeVerifier }),
    })
  }

  refreshToken(integration: Integration): Promise<Credentials> {
    return this.tokens(integration, {
      grant_type: 'refresh_token',
      refresh_token: String(integration.credentialsArray().refresh_token),
    })
  }

  async revokeToken(integration: Integration): Promise<void> {
    await integration.at('/revoke').post(({ fetch }) => fetch(`${API}/revoke`, { method: 'POST' }))
  }

  refreshThreshold(): number {
    return 300
  }

  async tokens(integration: Integration, form: Record<string, string>): Promise<Credentials> {
    const answer = await integration
      .at('/token')
      .post(({ fetch }) => fetch(`${API}/token`, { method: 'POST', body: new URLSearchParams(form) }))
    const { access_token, refresh_token, expires_in } = Tokens.parse(answer)
    return { access_token, refresh_token, token_expires_at: new Date(Date.now() + expires_in * 1_000).toISOString() }
  }

  // Webhooks.
  readonly signature = { scheme: 'standard-webhooks' } as const

  webhookDeliveryId(request: WebhookRequest): string | null {
    return request.headers.get('webhook-id')
  }

  resolveWebhookEvent(request: WebhookRequest): string | null {
    const body = request.json()
    const type = typeof body === 'object' && body !== null && 'type' in body ? body.type : null
    return typeof type === 'string' ? type : null
  }

  handleWebhook(_integration: Integration, request: WebhookRequest): unknown {
    return { handled: this.resolveWebhookEvent(request) }
  }

  readonly webhookDoor: WebhookDoor = { handshake: () => null }

  async *missedWebhooks(
    integration: Integration,
    { since, until, signal }: { since: Date; until: Date; signal: AbortSignal },
  ): AsyncIterable<MissedWebhook> {
    const { deliveries } = Deliveries.parse(await this.get(integration, '/deliveries', signal))
    for (const { id, at, type } of deliveries) {
      const occurredAt = new Date(at)
      if (occurredAt < since || occurredAt >= until) continue
      yield { deliveryId: id, eventType: type, payload: { type }, headers: { 'webhook-id': id }, occurredAt }
    }
  }

  // Syncs.
  sync(integration: Integration, session: SyncSession): Promise<void> {
    session.fullListing()
    return this.list(integration, session, {})
  }

  syncIncremental(integration: Integration, session: SyncSession): Promise<void> {
    const since = session.cursor()
    return since === null ? this.sync(integration, session) : this.list(integration, session, { since: String(since) })
  }

  syncWindow(integration: Integration, session: SyncSession, { from, to }: { from: Date; to: Date }): Promise<void> {
    return this.list(integration, session, { since: from.toISOString(), until: to.toISOString() })
  }

  reduceCheckpoints(checkpoints: readonly Json[]): Json {
    return reduceCheckpointsByMax(checkpoints)
  }

  defaultRateLimit(): RateLimit | null {
    return RateLimit.perMinute(1_000)
  }

  defaultSyncInterval(): number | null {
    return 15
  }

  syncItemEvents() {
    return [TicketSynced]
  }

  async list(integration: Integration, session: SyncSession, query: Record<string, string>): Promise<void> {
    let after = session.resumeFrom()
    do {
      const { tickets, next } = await this.page(integration, { ...query, after: String(after ?? '') }, session.signal)
      for (const ticket of tickets) await this.dispatch(session, ticket)
      after = next
      if (after !== null) await session.bookmark(after)
    } while (after !== null)
  }

  async page(
    integration: Integration,
    query: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<z.output<typeof Page>> {
    return Page.parse(await this.get(integration, `/tickets?${new URLSearchParams(query)}`, signal))
  }

  dispatch(session: SyncSession, ticket: z.output<typeof Ticket>): Promise<void> {
    return session.dispatch(new TicketSynced(session.integration, ticket), ticket.updated_at, ticket.id)
  }

  get(integration: Integration, path: string, signal?: AbortSignal): Promise<unknown> {
    const headers = { authorization: `Bearer ${integration.credentialsArray().access_token}` }
    return integration.request(path, 'GET', ({ fetch }) => fetch(API + path, { headers }), {
      ...(signal === undefined ? {} : { signal }),
    })
  }
}

const NOW = '2026-03-01T12:00:00Z'
const PAGES: Readonly<Record<string, Json>> = {
  '': { tickets: [ticket(1), ticket(2)], next: 'second' },
  second: { tickets: [ticket(3), ticket(4)], next: 'third' },
  third: { tickets: [ticket(5)], next: null },
}

function ticket(number: number): Json {
  return { id: `t${number}`, subject: `Ticket ${number}`, updated_at: `2026-02-0${number}T10:00:00Z`, tags: ['a', 'b'] }
}

function api(request: Request): Response {
  const { pathname, searchParams } = new URL(request.url)
  if (pathname === '/me') return Response.json({ id: 7, name: 'Ada' })
  if (pathname === '/tickets' && request.method === 'POST') return Response.json({ id: 't6' }, { status: 201 })
  if (pathname === '/tickets') return Response.json(PAGES[searchParams.get('after') ?? ''])
  if (pathname === '/token')
    return Response.json({ access_token: 'a-newer-token', refresh_token: 'a-newer-refresh-token', expires_in: 60 })
  if (pathname === '/revoke') return new Response(null, { status: 204 })
  if (pathname === '/deliveries')
    return Response.json({
      deliveries: [
        { id: 'd1', at: '2026-03-01T11:30:00Z', type: 'ticket.opened' },
        { id: 'd2', at: '2026-03-01T11:40:00Z', type: 'ticket.closed' },
      ],
    })
  return new Response('no such route', { status: 404 })
}

export const SOUND_FIXTURES: ProviderFixtures = {
  credentials: {
    access_token: 'a-token-of-a-test',
    refresh_token: 'a-refresh-token-of-a-test',
    client_id: 'a-client-of-a-test',
    webhook_secret: SECRET,
  },
  secrets: ['a-newer-token', 'a-newer-refresh-token'],
  metadata: { team: 'blue' },
  api,
  write: (integration, idempotencyKey) => new SoundProvider().open(integration, 'It is broken', idempotencyKey),
  webhook: {
    signer: standardWebhooksSigner,
    body: { type: 'ticket.closed', ticket: 't1' },
    otherBody: { type: 'ticket.closed', ticket: 't2' },
    event: 'ticket.closed',
    secret: SECRET,
    otherSecret: OTHER_SECRET,
    signatureHeader: 'webhook-signature',
    toleranceSeconds: 300,
  },
  checkpoints: ['2026-02-01T10:00:00Z', '2026-02-02T10:00:00Z', '2026-02-03T10:00:00Z'],
  cursor: '2026-02-01T10:00:00Z',
  window: { from: '2026-02-01T00:00:00Z', to: '2026-02-06T00:00:00Z' },
  kit: { now: NOW },
}
