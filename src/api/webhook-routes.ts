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
  const url = new URL(req.url)
  const arrival = await integrations.webhooks.receive({
    provider: req.param('provider') ?? '',
    integrationId,
    method: req.raw.method,
    path: url.pathname,
    query: url.search.slice(1),
    headers: req.raw.headers,
    rawHeaders: rawHeaders(context),
    readBody: (maxBytes) => readBody(req.raw, maxBytes),
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

/** The raw bytes, counted as they come in: a Content-Length may be missing or wrong. */
async function readBody(request: Request, maxBytes: number): ReturnType<Delivery['readBody']> {
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) return { kind: 'too large' }
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
  const sent = (env as { incoming?: { rawHeaders?: string[] } } | undefined)?.incoming?.rawHeaders
  if (sent === undefined) return req.raw.headers
  return Array.from({ length: sent.length / 2 }, (_, index) => [
    (sent[index * 2] as string).toLowerCase(),
    sent[index * 2 + 1] as string,
  ])
}
