import type { Call, HttpError, Integration, RequestOptions } from 'durable-integrations/provider'
import { isIntegrationsError, ReauthRequiredException } from 'durable-integrations/provider'
import { z } from 'zod'
import { ticketKey } from './records.ts'
import { Ticket, TicketComment } from './ticket.ts'
import { TicketEvent } from './ticket-event.ts'

const Me = z.object({ id: z.string().min(1), name: z.string(), email: z.string() })
const TicketPage = z.object({ tickets: z.array(Ticket), next_cursor: z.string().nullable() })
const EventPage = z.object({ events: z.array(TicketEvent), next_cursor: z.string().nullable() })

const PAGE_SIZE = '100' // Deskline's greatest.

type Query = Record<string, string>

/** What the host may ask of Deskline on behalf of an integration: sandbox/deskline/README.md, "API". */
export class DesklineClient {
  constructor(
    private readonly integration: Integration,
    private readonly baseUrl: string,
  ) {}

  me(options?: Pick<RequestOptions, 'attempts' | 'timeoutMs'>): Promise<z.infer<typeof Me>> {
    return this.integration.requestAs(Me, 'v1/me', 'GET', this.#call('v1/me'), options)
  }

  tickets(query: Query, signal: AbortSignal): Promise<z.infer<typeof TicketPage>> {
    const data = { limit: PAGE_SIZE, ...query }
    return this.integration.requestAs(TicketPage, 'v1/tickets', 'GET', this.#call('v1/tickets', data), { data, signal })
  }

  events(query: Query, signal: AbortSignal): Promise<z.infer<typeof EventPage>> {
    const data = { limit: PAGE_SIZE, ...query }
    return this.integration.requestAs(EventPage, 'v1/events', 'GET', this.#call('v1/events', data), { data, signal })
  }

  /** Null: it was deleted. */
  async ticket(id: string): Promise<Ticket | null> {
    const path = `v1/tickets/${id}`
    try {
      return await this.integration.requestAs(Ticket, path, 'GET', this.#call(path))
    } catch (error) {
      if (isIntegrationsError(error, 'http_error') && (error as HttpError).status === 404) return null
      throw error
    }
  }

  changeTicket(id: string, data: { subject?: string; status?: string }): Promise<Ticket> {
    const path = `v1/tickets/${id}`
    const writes = { record: ticketKey(id) }
    return this.integration.requestAs(Ticket, path, 'PATCH', this.#send(path, 'PATCH', data), { data, writes })
  }

  comment(id: string, body: string, idempotencyKey: string): Promise<TicketComment> {
    const path = `v1/tickets/${id}/comments`
    const data = { body }
    const options = { data, idempotencyKey, writes: { record: null } }
    return this.integration.requestAs(TicketComment, path, 'POST', this.#send(path, 'POST', data), options)
  }

  /** @param idempotencyKey the ticket is made once, however often this is called with the same key */
  createTicket(given: { subject: string; requesterEmail: string; idempotencyKey: string }): Promise<Ticket> {
    const data = { subject: given.subject, requester_email: given.requesterEmail }
    const options = { data, idempotencyKey: given.idempotencyKey, writes: { record: null } }
    return this.integration.requestAs(Ticket, 'v1/tickets', 'POST', this.#send('v1/tickets', 'POST', data), options)
  }

  #call(path: string, query: Query = {}): Call<Response> {
    return async ({ fetch }) => fetch(this.#url(path, query), { headers: await this.#authorization() })
  }

  #send(path: string, method: 'POST' | 'PATCH', data: Query): Call<Response> {
    return async ({ fetch, idempotencyKey }) => {
      const headers = {
        ...(await this.#authorization()),
        'content-type': 'application/json',
        ...(idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }),
      }
      return fetch(this.#url(path), { method, headers, body: JSON.stringify(data) })
    }
  }

  /** Asked for inside the call: each attempt gets the token that is good then. */
  async #authorization(): Promise<Record<string, string>> {
    const token = await this.integration.getAccessToken()
    if (token === null) throw new ReauthRequiredException(this.integration.id, 'there is no access token')
    return { authorization: `Bearer ${token}` }
  }

  #url(path: string, query: Query = {}): string {
    const url = new URL(`${this.baseUrl}/${path}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    return url.href
  }
}
