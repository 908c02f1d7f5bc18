/** A CRM that is small enough to be read, for the tutorials. What it answers: sandbox/README.md, "The CRM". */
import { createHmac } from 'node:crypto'
import type { ServerType } from '@hono/node-server'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { z } from 'zod'
import type { Fault } from '../faults.ts'
import { createFaultList, faultSchema } from '../faults.ts'
import { noPages } from '../no-pages.ts'
import type { Contact } from './contacts.ts'
import { createContactStore } from './contacts.ts'

export const CRM_API_KEY = 'crm-api-key'
const MAX_BODY_BYTES = 100_000
const WEBHOOK_TIMEOUT_MS = 10_000

const Query = z.object({
  updated_since: z.iso.datetime({ offset: true }).optional(),
  cursor: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
})
const NewContact = z.strictObject({ name: z.string().min(1).max(200), email: z.email() })
const Change = NewContact.partial()
const Target = z.strictObject({ url: z.url({ protocol: /^https?$/ }), secret: z.string().min(1) })
/** Ordered faults that a CRM this small can have: a status in the place of the answer. */
const StatusFault = faultSchema.pick({ match: true, times: true }).extend({ status: z.int().min(400).max(599) })

export interface CrmOptions {
  apiKey?: string
  now?: () => Date
}

/** The app without a socket: `createCrmSandbox().request('/v1/me', …)`. */
export function createCrmSandbox({ apiKey = CRM_API_KEY, now = () => new Date() }: CrmOptions = {}): Hono {
  const contacts = createContactStore(now)
  const faults = createFaultList()
  const firstAnswers = new Map<string, { body: string; contact: Contact }>()
  let target: z.infer<typeof Target> | null = null
  let lastEvent = 0

  async function tell(type: string, contact: Contact): Promise<{ id: string; type: string; status: number } | null> {
    if (target === null) return null
    const id = `evt_${++lastEvent}`
    const body = JSON.stringify({ id, type, contact })
    const seconds = Math.floor(now().getTime() / 1000)
    const digest = createHmac('sha256', target.secret).update(`${seconds}.${body}`).digest('hex')
    const { status } = await fetch(target.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'crm-signature': `t=${seconds},v1=${digest}` },
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(WEBHOOK_TIMEOUT_MS),
    })
    return { id, type, status }
  }

  const app = new Hono()
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES }))

  app.use('/v1/*', async (c, next) => {
    const fault = faults.strike(c.req.method, [c.req.path], '')
    if (fault?.status !== undefined) return Response.json({ error: 'An ordered fault.' }, { status: fault.status })
    if (c.req.header('authorization') !== `Bearer ${apiKey}`) return c.json({ error: 'The API key is wrong.' }, 401)
    return next()
  })
  app.get('/v1/me', (c) => c.json({ id: 'acc_1', name: 'Example Ltd' }))
  app.get('/v1/contacts', (c) => {
    const { updated_since: since, cursor, limit } = Query.parse(c.req.query())
    const earliest = since === undefined ? '' : new Date(since).toISOString()
    const after = cursor === undefined ? '' : Buffer.from(cursor, 'base64url').toString()
    const place = (contact: Contact): string => `${contact.updated_at} ${contact.id}`
    const wanted = contacts.all().filter((one) => one.updated_at >= earliest && place(one) > after)
    const page = wanted.slice(0, limit)
    const last = page.length < wanted.length ? page.at(-1) : undefined
    const next_cursor = last === undefined ? null : Buffer.from(place(last)).toString('base64url')
    return c.json({ contacts: page, next_cursor })
  })
  app.post('/v1/contacts', async (c) => {
    const body = await c.req.text()
    const key = c.req.header('idempotency-key')
    const first = key === undefined ? undefined : firstAnswers.get(key)
    if (first !== undefined) {
      if (first.body === body) return c.json(first.contact, 201)
      return c.json({ error: 'This Idempotency-Key was used with another body.' }, 409)
    }
    const contact = contacts.create(NewContact.parse(JSON.parse(body)))
    if (key !== undefined) firstAnswers.set(key, { body, contact })
    return c.json(contact, 201)
  })

  // What no provider has: a person at work in the CRM, and trouble on order.
  app.use('/_sandbox/*', noPages)
  app.put('/_sandbox/webhook', async (c) => {
    target = Target.parse(await c.req.json())
    return c.json({ url: target.url })
  })
  app.post('/_sandbox/contacts', async (c) => {
    const contact = contacts.create(NewContact.parse(await c.req.json()))
    return c.json({ contact, webhook: await tell('contact.created', contact) }, 201)
  })
  app.patch('/_sandbox/contacts/:id', async (c) => {
    const contact = contacts.change(c.req.param('id'), Change.parse(await c.req.json()))
    if (contact === null) return c.json({ error: 'There is no such contact.' }, 404)
    return c.json({ contact, webhook: await tell('contact.updated', contact) })
  })
  app.post('/_sandbox/faults', async (c) => {
    const ordered = StatusFault.parse(await c.req.json())
    const fault: Fault = { ...ordered, headers: {}, delayMs: 0, drop: false }
    faults.add([fault])
    return c.json(ordered, 201)
  })

  app.notFound((c) => c.json({ error: `There is no ${c.req.method} ${c.req.path}.` }, 404))
  app.onError((error, c) => {
    if (error instanceof z.ZodError) return c.json({ error: z.prettifyError(error) }, 400)
    if (error instanceof SyntaxError) return c.json({ error: 'The body is not JSON.' }, 400)
    throw error
  })
  return app
}

/** Listens; port 0 takes a free one. `close()` cuts what is still open. */
export async function startCrmSandbox({
  port = 0,
  host = '127.0.0.1',
  ...options
}: CrmOptions & { port?: number; host?: string } = {}): Promise<{ url: string; close(): Promise<void> }> {
  const app = createCrmSandbox(options)
  const server = await new Promise<ServerType>((resolve, reject) => {
    const starting = serve({ fetch: app.fetch, port, hostname: host }, () => resolve(starting))
    starting.once('error', reject)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the CRM listens on no TCP port')
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    close: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)))
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}
