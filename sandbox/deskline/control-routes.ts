import type { Context } from 'hono'
import { Hono } from 'hono'
import { z } from 'zod'
import { faultSchema } from '../faults.ts'
import { noPages } from '../no-pages.ts'
import type { DesklineState } from './state.ts'
import type { SentDelivery } from './webhook-sender.ts'
import { sendWebhook } from './webhook-sender.ts'

const Count = z.strictObject({ count: z.int().min(1).max(100_000).default(1) })
const Change = z.strictObject({
  subject: z.string().min(1).max(200).optional(),
  status: z.enum(['open', 'pending', 'solved']).optional(),
})
const Target = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  secret: z.string().min(1),
  again: z.boolean().default(false),
})
const Client = z.strictObject({ redirect_uris: z.array(z.url()) })
const Faults = z.union([z.array(faultSchema), faultSchema.transform((fault) => [fault])])

/** What no provider has: looking at the sandbox and making things happen in it. */
export function controlRoutes(state: DesklineState): Hono {
  const app = new Hono()
  app.use(noPages)

  app.get('/requests', (c) => c.json({ requests: state.requests }))
  app.delete('/requests', (c) => c.json({ cleared: state.requests.splice(0).length }))

  app.post('/tickets', (c) =>
    withBody(c, Count, ({ count }) => {
      const tickets = Array.from({ length: count }, (_, nth) =>
        state.tickets.create({ subject: `New ticket ${nth + 1}`, requester_email: 'customer@example.com' }),
      )
      return c.json({ tickets }, 201)
    }),
  )
  app.patch('/tickets/:id', (c) =>
    withBody(c, Change, (change) => c.json(state.tickets.change(c.req.param('id') ?? '', change))),
  )
  app.post('/tickets/:id/comments', (c) =>
    withBody(c, z.strictObject({ body: z.string().min(1) }), ({ body }) =>
      c.json(state.tickets.comment(c.req.param('id') ?? '', body), 201),
    ),
  )
  app.get('/ledger', (c) =>
    c.json({ events: state.tickets.events().map((event) => ({ ...event, by: state.tickets.authorOf(event) })) }),
  )
  app.delete('/tickets/:id', (c) => {
    state.tickets.remove(c.req.param('id'))
    return c.body(null, 204)
  })

  app.post('/webhooks', (c) =>
    withBody(c, Target, async ({ again, ...target }) => {
      const deliveries: SentDelivery[] = []
      for (const event of state.tickets.events()) {
        if (state.sentEvents.has(event.id) && !again) continue
        deliveries.push(await sendWebhook(target, event, state.now()))
        state.sentEvents.add(event.id)
      }
      return c.json({ deliveries })
    }),
  )

  app.post('/tokens/expire', (c) => {
    state.oauth.expireAccessTokens()
    return c.body(null, 204)
  })
  app.post('/tokens/revoke', (c) => {
    state.oauth.endAll()
    return c.body(null, 204)
  })
  app.put('/client', (c) =>
    withBody(c, Client, ({ redirect_uris }) => {
      state.oauth.client.redirectUris = redirect_uris
      return c.body(null, 204)
    }),
  )

  app.get('/faults', (c) => c.json({ faults: state.faults.pending() }))
  app.post('/faults', (c) =>
    withBody(c, Faults, (faults) => {
      state.faults.add(faults)
      return c.json({ faults: state.faults.pending() }, 201)
    }),
  )
  app.delete('/faults', (c) => {
    state.faults.clear()
    return c.body(null, 204)
  })
  return app
}

async function withBody<T>(
  c: Context,
  schema: z.ZodType<T>,
  answer: (value: T) => Response | Promise<Response>,
): Promise<Response> {
  const text = await c.req.text()
  let value: unknown
  try {
    value = text === '' ? {} : JSON.parse(text)
  } catch {
    return c.json({ error: 'The body is not JSON' }, 400)
  }
  const parsed = schema.safeParse(value)
  return parsed.success ? answer(parsed.data) : c.json({ error: z.prettifyError(parsed.error) }, 400)
}
