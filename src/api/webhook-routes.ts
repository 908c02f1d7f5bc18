/** The two webhook routes. Rule: docs/behaviour/webhooks.md, "Answers". */
import type { Context } from 'hono'
import { Hono } from 'hono'
import type { Integrations } from '../create-integrations.ts'
import type { SentAnswer } from '../providers/webhook-door.ts'
import { middlewareOf } from './middleware.ts'
import { idIn, namedRoutes } from './named-routes.ts'
import { BODY_TIMEOUT_MS, incomingOf, lingering, readBody } from './request-body.ts'

export type Arrival = Awaited<ReturnType<Integrations['webhooks']['receive']>>

/** In a request's environment, for a caller in this process: a function that gets the result of the delivery's arrival. */
export const ON_ARRIVAL = Symbol('on arrival')
interface ArrivalEnvironment {
  readonly [ON_ARRIVAL]?: (arrival: Arrival) => void
}

/** When the provider should send a delivery again that could not be stored. */
const RETRY_AFTER_SECONDS = '30'

export function webhookRoutes(integrations: Integrations): Hono {
  const routes = new Hono()
  const { middleware, generic_route: hasGeneric } = integrations.config.webhook
  const { 'integrations.webhook': generic, 'integrations.webhook.specific': specific } = namedRoutes(
    integrations.config,
  )
  const paths = [...(hasGeneric ? [generic.path] : []), specific.path]
  // The middleware comes first: a request that it refuses is not counted, not read and not looked up.
  for (const path of paths) routes.use(path, ...middlewareOf(integrations, middleware))
  for (const path of paths)
    routes.all(path, (context) => {
      const id = context.req.param('id')
      return answer(integrations, context, id === undefined ? null : idIn(id))
    })
  return routes
}

async function answer(integrations: Integrations, context: Context, integrationId: number | null): Promise<Response> {
  const { req } = context
  const arrival = await integrations.webhooks.receive({
    provider: req.param('provider') ?? '',
    integrationId,
    method: req.raw.method,
    ...pathAndQuery(req.url),
    headers: req.raw.headers,
    rawHeaders: rawHeaders(context),
    readBody: (maxBytes, room) => readBody(context, maxBytes, room),
  })
  const environment: ArrivalEnvironment | undefined = context.env
  environment?.[ON_ARRIVAL]?.(arrival)
  return 'answer' in arrival && arrival.answer !== undefined
    ? sent(context, arrival.answer)
    : toResponse(context, arrival)
}

/** The provider's own answer, and never taken for anything else than it says. */
function sent(context: Context, { status, headers, contentType, body }: SentAnswer): Response {
  const named = new Headers([...headers.map(([name, value]): [string, string] => [name, value])])
  named.set('X-Content-Type-Options', 'nosniff')
  if (contentType !== null) named.set('Content-Type', contentType)
  const isEmpty = body === '' || context.req.raw.method === 'HEAD' || status === 204 || status === 205
  return new Response(isEmpty ? null : body, { status, headers: named })
}

function toResponse(context: Context, arrival: Arrival): Response | Promise<Response> {
  switch (arrival.kind) {
    case 'queued':
      return context.json({ status: 'queued' }, 200)
    case 'duplicate':
      return context.json({ status: 'duplicate' }, 200)
    case 'unwanted':
      return context.json({ status: 'unwanted' }, 200)
    case 'handshake':
      return sent(context, arrival.answer)
    case 'method not allowed': {
      const { method } = context.req.raw
      return context.json({ error: `${method} is not allowed here; use ${arrival.allowed.join(' or ')}.` }, 405, {
        Allow: arrival.allowed.join(', '),
      })
    }
    case 'unknown provider':
      return context.json({ error: 'There is no such provider.' }, 404)
    case 'no webhooks':
      return context.json({ error: 'This provider does not handle webhooks.' }, 400)
    case 'unknown integration':
      return context.json({ error: 'There is no such active integration of this provider.' }, 404)
    case 'too slow':
      return context.json({ error: `The body did not come in within ${BODY_TIMEOUT_MS / 1_000} seconds.` }, 408)
    case 'too large':
      return lingering(context, context.json({ error: `The body is larger than ${arrival.maxBytes} bytes.` }, 413))
    case 'bad signature':
      return context.json({ error: 'The signature is missing or does not match.' }, 403)
    case 'unavailable': {
      const error = 'The delivery could not be stored; please send it again.'
      const answer = context.json({ error }, 503, { 'Retry-After': RETRY_AFTER_SECONDS })
      return arrival.isUnread ? lingering(context, answer) : answer
    }
  }
}

/** Path and query as they were sent: `URL` would rewrite the query. */
function pathAndQuery(url: string): { path: string; query: string } {
  const [address = ''] = url.split('#', 1)
  const path = address.indexOf('/', address.indexOf('//') + 2)
  const mark = address.indexOf('?', path)
  return mark < 0
    ? { path: address.slice(path), query: '' }
    : { path: address.slice(path, mark), query: address.slice(mark + 1) }
}

/** The headers as Node received them. Another server that runs this app gives only the joined ones. */
function rawHeaders({ env, req }: Context): Iterable<readonly [string, string]> {
  const sent = incomingOf(env)?.rawHeaders
  if (sent === undefined) return req.raw.headers
  const headers: [string, string][] = []
  for (let at = 0; at + 1 < sent.length; at += 2)
    headers.push([(sent[at] as string).toLowerCase(), sent[at + 1] as string])
  return headers
}
