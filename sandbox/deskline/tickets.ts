import { notFound } from './failures.ts'

export type TicketStatus = 'open' | 'pending' | 'solved'

export interface Ticket {
  id: string
  subject: string
  status: TicketStatus
  requester_email: string
  created_at: string
  updated_at: string
}

export interface TicketComment {
  id: string
  ticket_id: string
  body: string
  created_at: string
}

export interface TicketEvent {
  id: string
  type: 'ticket.created' | 'ticket.updated' | 'ticket.deleted' | 'ticket.commented'
  occurred_at: string
  /** As it was at that moment. */
  ticket: Ticket
  /** Of `ticket.commented`. */
  comment?: TicketComment
}

/** Who has caused an event: a call to the API, or a person in Deskline. */
export type Author = 'api' | 'person'

export interface NewTicket {
  subject: string
  requester_email: string
}

export interface TicketStore {
  all(): Ticket[]
  find(id: string): Ticket
  create(given: NewTicket, by?: Author): Ticket
  change(id: string, given: { subject?: string | undefined; status?: TicketStatus | undefined }, by?: Author): Ticket
  comment(id: string, body: string, by?: Author): TicketComment
  /** Oldest first. */
  comments(id: string): TicketComment[]
  remove(id: string): void
  /** Oldest first. */
  events(): TicketEvent[]
  authorOf(event: TicketEvent): Author
}

const SEED_STATUS: TicketStatus[] = ['open', 'pending', 'solved']
const MINUTE_MS = 60_000

/** The first tickets are a minute apart and end an hour ago; each fifth has the same moment as the one before it. */
export function createTicketStore(count: number, now: () => Date): TicketStore {
  const startMs = now().getTime() - (count + 60) * MINUTE_MS
  const tickets = new Map<string, Ticket>()
  const events: TicketEvent[] = []
  const comments: TicketComment[] = []
  const authors = new Map<string, Author>()
  let lastId = 0

  function add(given: NewTicket & { status: TicketStatus; at: string }): Ticket {
    const id = `tkt_${++lastId}`
    const { at, ...fields } = given
    const ticket: Ticket = { id, ...fields, created_at: at, updated_at: at }
    tickets.set(id, ticket)
    return ticket
  }
  function tell(type: TicketEvent['type'], ticket: Ticket, by: Author, comment?: TicketComment): void {
    const id = `evt_${events.length + 1}`
    authors.set(id, by)
    const told = comment === undefined ? {} : { comment: { ...comment } }
    events.push({ id, type, occurred_at: now().toISOString(), ticket: { ...ticket }, ...told })
  }
  function find(id: string): Ticket {
    const ticket = tickets.get(id)
    if (ticket === undefined) throw notFound(`ticket ${id}`)
    return ticket
  }

  for (let nth = 1; nth <= count; nth++) {
    const minute = nth % 5 === 0 ? nth - 1 : nth
    add({
      subject: `Ticket number ${nth}`,
      requester_email: `customer${nth % 17}@example.com`,
      status: SEED_STATUS[nth % SEED_STATUS.length] ?? 'open',
      at: new Date(startMs + minute * MINUTE_MS).toISOString(),
    })
  }

  return {
    all: () => [...tickets.values()],
    find,
    create(given, by = 'person') {
      const ticket = add({ ...given, status: 'open', at: now().toISOString() })
      tell('ticket.created', ticket, by)
      return ticket
    },
    change(id, { subject, status }, by = 'person') {
      const ticket = find(id)
      if (subject !== undefined) ticket.subject = subject
      if (status !== undefined) ticket.status = status
      ticket.updated_at = now().toISOString()
      tell('ticket.updated', ticket, by)
      return ticket
    },
    remove(id) {
      const ticket = find(id)
      tickets.delete(id)
      tell('ticket.deleted', ticket, 'person')
    },
    comment(id, body, by = 'person') {
      const ticket = find(id)
      const at = now().toISOString()
      const comment = { id: `cmt_${comments.length + 1}`, ticket_id: id, body, created_at: at }
      comments.push(comment)
      ticket.updated_at = at
      tell('ticket.commented', ticket, by, comment)
      return comment
    },
    comments: (id) => comments.filter(({ ticket_id }) => ticket_id === find(id).id),
    events: () => events,
    authorOf: ({ id }) => authors.get(id) ?? 'person',
  }
}
