/** Deskline as a function: enough of its API for this host's tests, without a socket. */
import type { PlayedApi } from 'durable-integrations/testing'
import { z } from 'zod'
import type { Ticket } from '../deskline/ticket.ts'
import type { TicketEvent } from '../deskline/ticket-event.ts'

export const BASE_URL = 'https://api.deskline.example'
export const CLIENT = { clientId: 'deskline-client', clientSecret: 'the-client-secret' }
export const ACCESS_TOKEN = 'dat_an-access-token'
export const REFRESH_TOKEN = 'drt_a-refresh-token'
export const WEBHOOK_SECRET = 'whsec_the-webhook-secret'
export const CREDENTIALS = {
  access_token: ACCESS_TOKEN,
  refresh_token: REFRESH_TOKEN,
  token_expires_at: '2030-01-01T00:00:00Z',
  webhook_secret: WEBHOOK_SECRET,
}
/** What a refresh gives. */
export const NEXT = { access_token: 'dat_the-next-access-token', refresh_token: 'drt_the-next-refresh-token' }

export function ticket(number: number, given: Partial<Ticket> = {}): Ticket {
  const at = `2026-03-01T10:${String(number).padStart(2, '0')}:00.000Z`
  return {
    id: `tkt_${number}`,
    subject: `Ticket ${number}`,
    status: 'open',
    requester_email: 'customer@example.com',
    created_at: at,
    updated_at: at,
    ...given,
  }
}

const NewTicket = z.strictObject({ subject: z.string(), requester_email: z.email() })

const METADATA = {
  issuer: BASE_URL,
  authorization_endpoint: `${BASE_URL}/oauth/authorize`,
  token_endpoint: `${BASE_URL}/oauth/token`,
  revocation_endpoint: `${BASE_URL}/oauth/revoke`,
  code_challenge_methods_supported: ['S256'],
}

/**
 * @param tickets in the order of `updated_at`, of which a page has two
 * @param events those that can be asked for again, in the order of time
 */
export function playedDeskline(tickets: readonly Ticket[], events: readonly TicketEvent[] = []): PlayedApi {
  return async (request) => {
    const { pathname, searchParams: query } = new URL(request.url)
    const operation = `${request.method} ${pathname}`
    if (operation === 'GET /.well-known/oauth-authorization-server') return Response.json(METADATA)
    if (operation === 'POST /oauth/token') {
      return Response.json({ ...NEXT, token_type: 'Bearer', expires_in: 3600 })
    }
    if (operation === 'POST /oauth/revoke') return new Response(null)
    const [, token] = request.headers.get('authorization')?.split(' ') ?? []
    if (token !== ACCESS_TOKEN && token !== NEXT.access_token) {
      return Response.json({ error: { code: 'invalid_token', message: 'Unknown.' } }, { status: 401 })
    }
    switch (operation) {
      case 'GET /v1/me':
        return Response.json({ id: 'usr_1', name: 'Ada Lovelace', email: 'ada@deskline.example' })
      case 'GET /v1/tickets': {
        const since = query.get('updated_since') ?? ''
        const before = query.get('updated_before') ?? '9999'
        const wanted = tickets.filter(({ updated_at }) => updated_at >= since && updated_at < before)
        const start = Number(query.get('cursor') ?? 0)
        const end = start + 2
        return Response.json({
          tickets: wanted.slice(start, end),
          next_cursor: end < wanted.length ? String(end) : null,
        })
      }
      case 'POST /v1/tickets': {
        const { subject, requester_email } = NewTicket.parse(await request.json())
        return Response.json(ticket(50, { subject, requester_email }), { status: 201 })
      }
      case 'GET /v1/events':
        return Response.json({ events, next_cursor: null })
      default:
        return Response.json({ error: { code: 'not_found', message: operation } }, { status: 404 })
    }
  }
}
