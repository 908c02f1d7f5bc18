import type { Integration } from 'durable-integrations/provider'
import { ProviderEvent } from 'durable-integrations/provider'
import { z } from 'zod'
import { Ticket, TicketComment } from './ticket.ts'

/** A webhook's body: sandbox/deskline/README.md, "Webhooks". */
export const TicketEvent = z.object({
  id: z.string().min(1),
  type: z.string(),
  occurred_at: z.iso.datetime({ offset: true }),
  ticket: Ticket,
  /** Of `ticket.commented`. */
  comment: TicketComment.optional(),
})
export type TicketEvent = z.infer<typeof TicketEvent>

/** Deskline says that a ticket was made, changed or deleted. */
export class TicketChanged extends ProviderEvent {
  static override readonly type = 'deskline.ticket_changed'

  constructor(
    integration: Integration,
    readonly event: TicketEvent,
  ) {
    super(integration)
  }
}

/** Somebody has commented on a ticket. */
export class TicketCommented extends ProviderEvent {
  static override readonly type = 'deskline.ticket_commented'

  constructor(
    integration: Integration,
    readonly ticket: Ticket,
    readonly comment: TicketComment,
  ) {
    super(integration)
  }
}
