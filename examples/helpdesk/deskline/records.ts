import type { Json, Told } from 'durable-integrations/provider'
import { Ticket, TicketComment } from './ticket.ts'
import { TicketEvent } from './ticket-event.ts'

export const ticketKey = (id: string): string => `ticket:${id}`

/**
 * What a ticket or a comment says, whichever way it comes: in an answer, a webhook or a sync. With the time of its
 * last change, which all three tell alike: so a foreign change back to what we wrote is told from our own.
 */
export function toldRecord(told: Told): { key: string; content: Json } | null {
  const event = told.kind === 'delivery' ? TicketEvent.safeParse(told.request.json()).data : undefined
  // It is more than a version of the ticket.
  if (event?.type === 'ticket.deleted') return null
  const said =
    told.kind === 'answer' ? told.body : told.kind === 'item' ? told.payload : (event?.comment ?? event?.ticket)
  const comment = TicketComment.safeParse(said).data
  if (comment !== undefined) return { key: `comment:${comment.id}`, content: comment.body }
  const ticket = Ticket.safeParse(said).data
  if (ticket === undefined) return null
  const { id, subject, status, requester_email, updated_at } = ticket
  return { key: ticketKey(id), content: { subject, status, requester_email, updated_at } }
}
