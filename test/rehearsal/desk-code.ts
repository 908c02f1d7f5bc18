/** The code of a host that is rehearsed: small steps, so that a change of one of them can be planted. */
import { eq, sql } from 'drizzle-orm'
import { bigint, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { drizzle } from 'drizzle-orm/postgres-js'
import type { Sql } from 'postgres'
import { z } from 'zod'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { HttpError, NonRetryable } from '../../src/framework/errors.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { HandlesWebhooks, HasScheduledSync, WebhookContext } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { signedPart } from '../../src/providers/signatures/scheme-rules.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'

export const SCHEMA = `
  create table tickets (id bigint primary key generated always as identity, desk_id text not null unique,
    subject text not null, status text not null, requester text not null, seen_at timestamptz not null);
  create table customers (email text primary key, name text not null, tickets int not null default 1);
  create table notes (event_id text primary key, ticket text not null, body text not null, at timestamptz not null default now());
  create table audit (id bigint primary key generated always as identity, event_id text not null, what text not null,
    unique (event_id, what));`

export const tickets = pgTable('tickets', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  deskId: text('desk_id').notNull(),
  subject: text('subject').notNull(),
  status: text('status').notNull(),
  requester: text('requester').notNull(),
  seenAt: timestamp('seen_at', { withTimezone: true, mode: 'date' }).notNull(),
})
const customers = pgTable('customers', { email: text('email').primaryKey(), name: text('name').notNull() })
export const models = {
  ticket: mappedTable(tickets, { type: 'ticket' }),
  customer: mappedTable(customers, { type: 'customer' }),
}

const Ticket = z.object({
  id: z.string(),
  subject: z.string(),
  status: z.string(),
  requester_email: z.string(),
  updated_at: z.string(),
})
export type Ticket = z.infer<typeof Ticket>
const Event = z.object({
  id: z.string(),
  type: z.string(),
  occurred_at: z.string(),
  ticket: Ticket,
  comment: z.object({ id: z.string(), body: z.string() }).optional(),
})
export type Event = z.infer<typeof Event>

export class TicketListed extends SyncItemEvent<Ticket> {
  static override readonly type = 'desk.ticket'
  static override readonly schema = Ticket
}

/** Each method is a step that a planted change may replace. */
export class DeskCode {
  constructor(
    readonly baseUrl: string,
    readonly db: PostgresJsDatabase,
  ) {}

  // --- calls

  headers(integration: Integration): Record<string, string> {
    return {
      authorization: `Bearer ${String(integration.credentialsArray().token)}`,
      'content-type': 'application/json',
    }
  }

  ticketUrl(id: string): string {
    return `${this.baseUrl}/v1/tickets/${id}`
  }

  async readTicket(integration: Integration, id: string): Promise<Ticket | null> {
    try {
      return await integration.requestAs(Ticket, `v1/tickets/${id}`, 'GET', ({ fetch }) =>
        fetch(this.ticketUrl(id), { headers: this.headers(integration) }),
      )
    } catch (error) {
      if (error instanceof HttpError && error.status === 404) return null
      throw error
    }
  }

  /** Asked once for all who want it. */
  me(integration: Integration): Promise<unknown> {
    return integration.request(
      'v1/me',
      'GET',
      ({ fetch }) => fetch(`${this.baseUrl}/v1/me`, { headers: this.headers(integration) }),
      {
        cacheFor: this.cacheSeconds(),
      },
    )
  }

  cacheSeconds(): number {
    return 600
  }

  commentOf(ticket: Ticket): string {
    return `We have seen "${ticket.subject}".`
  }

  commentKey(event: Event): string | null {
    return `seen-${event.id}`
  }

  comment(integration: Integration, ticket: Ticket, event: Event): Promise<unknown> {
    const data = { body: this.commentOf(ticket) }
    return integration.request(
      `v1/tickets/${ticket.id}/comments`,
      'POST',
      ({ fetch, idempotencyKey }) =>
        fetch(`${this.ticketUrl(ticket.id)}/comments`, {
          method: 'POST',
          headers: {
            ...this.headers(integration),
            ...(idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }),
          },
          body: JSON.stringify(data),
        }),
      { data, idempotencyKey: this.commentKey(event), ...this.relation(ticket) },
    )
  }

  relation(ticket: Ticket): { relatedTo?: { type: string; id: number } } {
    return { relatedTo: { type: 'ticket', id: Number(ticket.id.replace('tkt_', '')) } }
  }

  comments(integration: Integration, id: string): Promise<unknown> {
    return integration
      .at(`${this.baseUrl}/v1/tickets/${id}/comments`)
      .get(({ fetch }) => fetch(`${this.ticketUrl(id)}/comments`, { headers: this.headers(integration) }))
  }

  // --- rows

  row(ticket: Ticket) {
    const { id: deskId, subject, status, requester_email: requester } = ticket
    return { deskId, subject: this.subjectOf(subject), status, requester, seenAt: this.seenAt() }
  }

  seenAt(): Date {
    return new Date()
  }

  subjectOf(subject: string): string {
    return subject
  }

  async store(integration: Integration, ticket: Ticket): Promise<void> {
    await integration.upsertByExternalId(this.externalIdOf(ticket), models.ticket, () => this.row(ticket))
  }

  externalIdOf(ticket: Ticket): string {
    return ticket.id
  }

  customerName(ticket: Ticket): string {
    return ticket.requester_email.split('@')[0] as string
  }

  async storeCustomer(integration: Integration, ticket: Ticket): Promise<void> {
    const { requester_email: email } = ticket
    await this.db.execute(
      sql`insert into customers (email, name) values (${email}, ${this.customerName(ticket)}) on conflict do nothing`,
    )
    await integration.mapExternalId(this.customerId(ticket), { type: 'customer', id: email })
  }

  customerId(ticket: Ticket): string {
    return ticket.requester_email
  }

  async note(event: Event): Promise<void> {
    await this.db.execute(
      sql`insert into notes (event_id, ticket, body) values (${event.id}, ${event.ticket.id}, ${event.comment?.body ?? ''})
          on conflict (event_id) do update set body = excluded.body`,
    )
  }

  async audit(event: Event, what: string): Promise<void> {
    await this.db.execute(sql`insert into audit (event_id, what) values (${event.id}, ${what}) on conflict do nothing`)
  }

  async close(ticket: Ticket): Promise<void> {
    await this.db.update(tickets).set({ status: this.closedStatus() }).where(eq(tickets.deskId, ticket.id))
  }

  closedStatus(): string {
    return 'closed'
  }

  // --- handlers

  check(event: Event): void {
    if (event.comment?.body.includes('poison') === true) throw new NonRetryable('this comment is poison')
  }

  async onChanged(integration: Integration, event: Event): Promise<unknown> {
    await this.audit(event, event.type)
    const ticket = await this.readTicket(integration, event.ticket.id)
    if (ticket === null) {
      await this.close(event.ticket)
      return { gone: event.ticket.id }
    }
    await this.store(integration, ticket)
    await this.storeCustomer(integration, ticket)
    if (event.type === 'ticket.created') await this.comment(integration, ticket, event)
    return { ticket: ticket.id, status: ticket.status }
  }

  async onCommented(integration: Integration, event: Event): Promise<unknown> {
    this.check(event)
    await this.note(event)
    const [before, answer] = await Promise.all([this.me(integration), this.comments(integration, event.ticket.id)])
    return { by: (before as { id: string }).id, comments: (answer as { comments: unknown[] }).comments.length > 0 }
  }

  onWebhook(integration: Integration, request: WebhookRequest, _context: WebhookContext): Promise<unknown> {
    const event = Event.parse(request.json())
    return event.comment === undefined ? this.onChanged(integration, event) : this.onCommented(integration, event)
  }

  async onTicket({ integration, payload }: TicketListed): Promise<void> {
    await this.store(integration, payload)
    await this.storeCustomer(integration, payload)
    if (payload.status === 'pending') await this.comments(integration, payload.id)
    if (payload.subject === 'broken') throw new NonRetryable('this ticket is broken')
  }
}

/** What the host registers; a planted change is made to `code` before. */
export function deskProvider(code: () => DeskCode): HandlesWebhooks & HasScheduledSync {
  return {
    signature: {
      scheme: 'hmac',
      hash: 'sha256',
      header: 'deskline-signature',
      encoding: 'hex',
      fields: { separator: ',', signature: 'v1' },
      timestamp: { field: 't' },
      signed: [signedPart.timestamp, '.', signedPart.body],
    },
    resolveWebhookEvent: (request) => Event.safeParse(request.json()).data?.type ?? null,
    webhookDeliveryId: (request) => Event.safeParse(request.json()).data?.id ?? null,
    handleWebhook: (integration, request, context) => code().onWebhook(integration, request, context),
    reduceCheckpoints: reduceCheckpointsByMax,
    syncItemEvents: () => [TicketListed],
    defaultRateLimit: () => RateLimit.perMinute(100_000),
    defaultSyncInterval: () => 15,
    async sync(integration, session) {
      for (let cursor: string | null = ''; cursor !== null; ) {
        const path: string = `/v1/tickets?limit=100${cursor === '' ? '' : `&cursor=${cursor}`}`
        const page = (await integration.request('v1/tickets', 'GET', ({ fetch }) =>
          fetch(`${code().baseUrl}${path}`, { headers: code().headers(integration) }),
        )) as { tickets: Ticket[]; next_cursor: string | null }
        for (const ticket of page.tickets)
          await session.dispatch(new TicketListed(integration, ticket), ticket.updated_at, ticket.id)
        cursor = page.next_cursor
      }
    },
  }
}

/** The host's own pool, as a host makes one. */
export function deskHost(client: Sql, baseUrl: string): DeskCode {
  return new DeskCode(baseUrl, drizzle(client))
}

export function registerDesk(integrations: Integrations, code: () => DeskCode): void {
  integrations.on(TicketListed, (event) => code().onTicket(event))
}
