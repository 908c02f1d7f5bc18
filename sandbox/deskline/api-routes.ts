import type { Context } from 'hono'
import { Hono } from 'hono'
import { z } from 'zod'
import { DesklineFailure, invalidParameter } from './failures.ts'
import { pageOf } from './paging.ts'
import type { DesklineState } from './state.ts'
import type { Ticket } from './tickets.ts'

const NewTicket = z.strictObject({ subject: z.string().min(1).max(200), requester_email: z.email() })

const Change = z.strictObject({
  subject: z.string().min(1).max(200).optional(),
  status: z.enum(['open', 'pending', 'solved']).optional(),
})
const NewComment = z.strictObject({ body: z.string().min(1).max(10_000) })

const EVENTS_KEPT_MS = 3 * 86_400_000
const KEY_KEPT_MS = 86_400_000

const ADA = {
  id: 'usr_1',
  name: 'Ada Lovelace',
  email: 'ada@deskline.example',
  workspace: { id: 'wsp_1', name: 'Analytical Engines' },
}

/** `/v1`: for whoever has an access token. */
export function apiRoutes(state: DesklineState): Hono {
  const app = new Hono()
  const created = new Map<string, { body: string; ticket: Ticket; atMs: number }>()

  app.get('/me', (c) => answered(c, state, 'tickets:read', () => c.json(ADA)))

  app.get('/tickets', (c) =>
    answered(c, state, 'tickets:read', () => {
      const names: [string, string] = ['updated_since', 'updated_before']
      const { rows, next_cursor } = pageOf(state.tickets.all(), (ticket) => ticket.updated_at, c.req.query(), names)
      return c.json({ tickets: rows, next_cursor })
    }),
  )

  app.get('/tickets/:id', (c) =>
    answered(c, state, 'tickets:read', () => c.json(state.tickets.find(c.req.param('id')))),
  )

  app.post('/tickets', async (c) => {
    const body = await c.req.text()
    return answered(c, state, 'tickets:write', () => {
      const key = c.req.header('idempotency-key')
      const before = key === undefined ? undefined : created.get(key)
      if (before !== undefined && state.now().getTime() < before.atMs + KEY_KEPT_MS) {
        if (before.body === body) return c.json(before.ticket, 201)
        throw new DesklineFailure(409, 'idempotency_key_reused', 'This key was used with another body.')
      }
      const ticket = state.tickets.create(
        given(NewTicket, body, 'a subject of 1 to 200 characters and a requester_email'),
        'api',
      )
      if (key !== undefined) created.set(key, { body, ticket: { ...ticket }, atMs: state.now().getTime() })
      return c.json(ticket, 201)
    })
  })

  app.patch('/tickets/:id', async (c) => {
    const body = await c.req.text()
    return answered(c, state, 'tickets:write', () =>
      c.json(state.tickets.change(c.req.param('id'), given(Change, body, 'a subject, a status, or both'), 'api')),
    )
  })

  app.get('/tickets/:id/comments', (c) =>
    answered(c, state, 'tickets:read', () => c.json({ comments: state.tickets.comments(c.req.param('id')) })),
  )

  app.post('/tickets/:id/comments', async (c) => {
    const text = await c.req.text()
    return answered(c, state, 'tickets:write', () =>
      c.json(state.tickets.comment(c.req.param('id'), given(NewComment, text, 'a body').body, 'api'), 201),
    )
  })

  app.get('/events', (c) =>
    answered(c, state, 'tickets:read', () => {
      const oldest = new Date(state.now().getTime() - EVENTS_KEPT_MS).toISOString()
      const kept = state.tickets.events().filter(({ occurred_at }) => occurred_at >= oldest)
      const { rows, next_cursor } = pageOf(kept, (event) => event.occurred_at, c.req.query(), ['since', 'until'])
      return c.json({ events: rows, next_cursor })
    }),
  )
  return app
}

function answered(c: Context, state: DesklineState, scope: string, answer: () => Response): Response {
  const token = /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? ''
  const scopes = state.oauth.scopesOf(token)
  if (scopes === null) {
    throw new DesklineFailure(401, 'invalid_token', 'The access token is missing, unknown, over or revoked.', {
      'www-authenticate': 'Bearer error="invalid_token"',
    })
  }
  if (!state.quota.take()) {
    const seconds = state.quota.secondsLeft()
    throw new DesklineFailure(429, 'rate_limited', `Try again in ${seconds} s.`, { 'retry-after': String(seconds) })
  }
  if (!scopes.includes(scope)) throw new DesklineFailure(403, 'insufficient_scope', `This needs the scope ${scope}.`)
  return answer()
}

function given<T>(schema: z.ZodType<T>, body: string, allowed: string): T {
  try {
    return schema.parse(JSON.parse(body))
  } catch {
    throw invalidParameter('body', `must be JSON with ${allowed}`)
  }
}
