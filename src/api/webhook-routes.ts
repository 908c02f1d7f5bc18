/**
 * The two webhook routes. Rule: docs/behaviour/webhooks.md, "Answers".
 */
import type { Context } from 'hono'
import { Hono } from 'hono'
import type { Integrations } from '../integrations.ts'
import { middlewareOf } from './middleware.ts'

type Delivery = Parameters<Integrations['webhooks']['receive']>[0]
type Arrival = Awaited<ReturnType<Integrations['webhooks']['receive']>>

/** A body that has not come in by then is given up. */
const BODY_TIMEOUT_MS = 15_000
/** When to try again after we could not store a delivery. */
const RETRY_AFTER_SECONDS = '30'
const ALLOWED_METHODS = ['GET', 'POST']
/** Ids are positive integers that a JS number holds exactly. */
const ID = /^[1-9]\d{0,15}$/

export function webhookRoutes(integrations: Integrations): Hono {
  const routes = new Hono()
  const { prefix, middleware } = integrations.config.webhook
  const paths = [`/${prefix}/:provider/webhook`, `/${prefix}/:provider/:id/webhook`]
  // Before everything else: what it refuses is neither counted, read nor looked up.
  for (const path of paths) routes.use(path, ...middlewareOf(integrations, middleware))
  for (const path of paths)
    routes.all(path, (context) => {
      const id = context.req.param('id')
      return answer(integrations, context, id === undefined ? null : idOf(id))
    })
  return routes
}

/** 0, which no row has, for what is no id: method and provider are judged before the integration. */
function idOf(text: string): number {
  const id = ID.test(text) ? Number(text) : 0
  return Number.isSafeInteger(id) ? id : 0
}

async function answer(integrations: Integrations, context: Context, integrationId: number | null): Promise<Response> {
  const { req } = context
  if (!ALLOWED_METHODS.includes(req.raw.method))
    return context.json({ error: `${req.raw.method} is not allowed here; use GET or POST.` }, 405, {
      Allow: ALLOWED_METHODS.join(', '),
    })
  const arrival = await integrations.webhooks.receive({
    provider: req.param('provider') ?? '',
    integrationId,
    method: req.raw.method,
    ...pathAndQuery(req.url),
    headers: req.raw.headers,
    rawHeaders: rawHeaders(context),
    readBody: (maxBytes) => readBody(context, maxBytes),
  })
  return toResponse(context, arrival)
}

function toResponse(context: Context, arrival: Arrival): Response {
  switch (arrival.kind) {
    case 'queued':
      return context.json({ status: 'queued' }, 200)
    case 'duplicate':
      return context.json({ status: 'duplicate' }, 200)
    case 'challenge':
      return context.body(arrival.body, arrival.status as 200, {
        'Content-Type': arrival.contentType,
        'X-Content-Type-Options': 'nosniff',
      })
    case 'unknown provider':
      return context.json({ error: 'There is no such provider.' }, 404)
    case 'no webhooks':
      return context.json({ error: 'This provider does not handle webhooks.' }, 400)
    case 'unknown integration':
      return context.json({ error: 'There is no such active integration of this provider.' }, 404)
    case 'too slow':
      return context.json({ error: `The body did not come in within ${BODY_TIMEOUT_MS / 1_000} seconds.` }, 408)
    case 'too large':
      // The rest of the body stays unread, so the connection can't be used again.
      return context.json({ error: `The body is larger than ${arrival.maxBytes} bytes.` }, 413, { Connection: 'close' })
    case 'bad signature':
      return context.json({ error: 'The signature is missing or does not match.' }, 403)
    case 'unavailable':
      return context.json({ error: 'The delivery could not be stored; please send it again.' }, 503, {
        'Retry-After': RETRY_AFTER_SECONDS,
      })
  }
}

/** As they were sent: `URL` would write a query anew. */
function pathAndQuery(url: string): { path: string; query: string } {
  const [address = ''] = url.split('#', 1)
  const path = address.indexOf('/', address.indexOf('//') + 2)
  const mark = address.indexOf('?', path)
  return mark < 0
    ? { path: address.slice(path), query: '' }
    : { path: address.slice(path, mark), query: address.slice(mark + 1) }
}

function readBody({ env, req }: Context, maxBytes: number): ReturnType<Delivery['readBody']> {
  const { headers } = req.raw
  const length = headers.get('content-length')
  if (Number(length ?? 0) > maxBytes) return Promise.resolve({ kind: 'too large' })
  // Fetch: a GET has no body.
  if (req.raw.method === 'GET') return Promise.resolve({ kind: 'read', bytes: new Uint8Array() })
  // Node's parser reads as many bytes as the length says, never more: there is nothing to count.
  const isBounded = length !== null && !headers.has('transfer-encoding') && incomingOf(env) !== undefined
  if (isBounded) return readWhole(req.arrayBuffer(), maxBytes)
  return readCounted(req.raw, maxBytes)
}

function readWhole(reading: Promise<ArrayBuffer>, maxBytes: number): ReturnType<Delivery['readBody']> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ kind: 'too slow' }), BODY_TIMEOUT_MS)
    reading.then(
      (body) => {
        clearTimeout(timer)
        const isTooLarge = body.byteLength > maxBytes // where something before us has put another body in its place
        resolve(isTooLarge ? { kind: 'too large' } : { kind: 'read', bytes: new Uint8Array(body) })
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

/** The raw bytes, counted as they come in: a Content-Length may be missing or wrong. */
async function readCounted(request: Request, maxBytes: number): ReturnType<Delivery['readBody']> {
  if (request.body === null) return { kind: 'read', bytes: new Uint8Array() }
  const reader = request.body.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<'too slow'>((resolve) => {
    timer = setTimeout(() => resolve('too slow'), BODY_TIMEOUT_MS)
  })
  try {
    for (;;) {
      const chunk = await Promise.race([reader.read(), timeout])
      if (chunk === 'too slow') return { kind: 'too slow' }
      if (chunk.done) return { kind: 'read', bytes: concatenated(chunks, length) }
      length += chunk.value.byteLength
      if (length > maxBytes) return { kind: 'too large' }
      chunks.push(chunk.value)
    }
  } finally {
    clearTimeout(timer)
    reader.releaseLock()
  }
}

function concatenated(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}

/** As Node received them; another server that runs this app gives only the joined ones. */
function rawHeaders({ env, req }: Context): Iterable<readonly [string, string]> {
  const sent = incomingOf(env)?.rawHeaders
  if (sent === undefined) return req.raw.headers
  const headers: [string, string][] = []
  for (let at = 0; at + 1 < sent.length; at += 2)
    headers.push([(sent[at] as string).toLowerCase(), sent[at + 1] as string])
  return headers
}

/** Node's own request, where a Node server runs this app. */
function incomingOf(env: unknown): { readonly rawHeaders?: readonly string[] } | undefined {
  return (env as { incoming?: { rawHeaders?: string[] } } | undefined)?.incoming
}
