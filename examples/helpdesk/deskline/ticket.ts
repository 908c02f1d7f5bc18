import { SyncItemEvent } from 'durable-integrations/provider'
import { z } from 'zod'

/** A ticket as Deskline answers it. */
export const Ticket = z.object({
  id: z.string().min(1),
  subject: z.string(),
  status: z.string(),
  requester_email: z.string(),
  created_at: z.iso.datetime({ offset: true }),
  updated_at: z.iso.datetime({ offset: true }),
})
export type Ticket = z.infer<typeof Ticket>

/** A comment on a ticket. */
export const TicketComment = z.object({
  id: z.string().min(1),
  ticket_id: z.string().min(1),
  body: z.string(),
  created_at: z.iso.datetime({ offset: true }),
})
export type TicketComment = z.infer<typeof TicketComment>

/** A ticket that a sync has found. */
export class TicketSynced extends SyncItemEvent<Ticket> {
  static override readonly type = 'deskline.ticket_synced'
  static override readonly schema = Ticket
}
