/** What this host does with what comes in. A function, so that its tests register the very same. */
import type { Integration, Integrations, MappedModel } from 'durable-integrations'
import { mappedTable } from 'durable-integrations'
import type { Ticket } from './deskline/ticket.ts'
import { TicketSynced } from './deskline/ticket.ts'
import { TicketChanged } from './deskline/ticket-event.ts'
import { tickets } from './tables.ts'

type TicketModel = MappedModel<typeof tickets.$inferSelect, Partial<typeof tickets.$inferInsert>>

export const ticketModel: TicketModel = mappedTable(tickets, { type: 'ticket' })

export function register(integrations: Integrations): void {
  integrations.on(TicketSynced, ({ integration, payload }) => storeTicket(integration, payload))

  // One that throws fails the webhook, so that it can be tried again.
  integrations.on(TicketChanged, ({ integration, event }) =>
    storeTicket(integration, event.ticket, event.type === 'ticket.deleted' ? new Date(event.occurred_at) : null),
  )
}

/** Run twice, it changes nothing; an older copy leaves a newer one as it is. */
async function storeTicket(integration: Integration, ticket: Ticket, deletedAt: Date | null = null): Promise<void> {
  await integration.upsertByExternalId(ticket.id, ticketModel, (existing) => {
    const updatedAt = new Date(ticket.updated_at)
    if (existing !== null && existing.updatedAt > updatedAt) return {}
    return {
      desklineId: ticket.id,
      subject: ticket.subject,
      status: ticket.status,
      requesterEmail: ticket.requester_email,
      updatedAt,
      // An id is never used again: what a list of before the deletion says does not bring a ticket back.
      deletedAt: existing?.deletedAt ?? deletedAt,
    }
  })
}
