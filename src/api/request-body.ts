/** Reads a request's body within bounds of size and time, and says no to one that is larger. */
import type { Context } from 'hono'

/** A body that has not come in by then is given up. */
export const BODY_TIMEOUT_MS = 15_000
/** So much is read of a body that was refused, and for so long: a client that is still sending gets to read the answer. */
const LINGER_BYTES = 16 * 1_048_576
const LINGER_MS = 10_000

export type BodyRead =
  | { readonly kind: 'read'; readonly bytes: Uint8Array }
  | { readonly kind: 'too large' }
  | { readonly kind: 'too slow' }

/** The raw bytes, if they come in in time. @throws what broke the connection */
export function readBody({ env, req }: Context, maxBytes: number): Promise<BodyRead> {
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

function readWhole(reading: Promise<ArrayBuffer>, maxBytes: number): Promise<BodyRead> {
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
async function readCounted(request: Request, maxBytes: number): Promise<BodyRead> {
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

/**
 * The same answer, sent at once, on a connection that closes once the client has sent its body or the bounds of that are
 * reached. A connection that is closed while its client sends is reset, and the answer lost (RFC 9112, section 9.6).
 */
export async function lingering({ req }: Context, answer: Response): Promise<Response> {
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const headers = new Headers(answer.headers)
  headers.set('Connection', 'close')
  // The client knows by it that it has the whole answer, while the connection is still open.
  headers.set('Content-Length', String(bytes.byteLength))
  const abort = new AbortController()
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(bytes)
      await drop(req.raw, abort.signal)
      if (!abort.signal.aborted) controller.close()
    },
    cancel: () => abort.abort(),
  })
  return new Response(body, { status: answer.status, headers })
}

/** Reads on, and keeps nothing. Never rejects: the client may go at any time. */
async function drop({ body }: Request, signal: AbortSignal): Promise<void> {
  if (body === null || body.locked) return
  const reader = body.getReader()
  const over = new Promise<'over'>((resolve) => {
    setTimeout(() => resolve('over'), LINGER_MS).unref()
    signal.addEventListener('abort', () => resolve('over'))
  })
  try {
    for (let left = LINGER_BYTES; left > 0; ) {
      const chunk = await Promise.race([reader.read(), over])
      if (chunk === 'over' || chunk.done) return
      left -= chunk.value.byteLength
    }
  } catch {
    // It has hung up.
  }
}

/** Node's own request, where a Node server runs this app. */
export function incomingOf(env: unknown): { readonly rawHeaders?: readonly string[] } | undefined {
  return (env as { incoming?: { rawHeaders?: string[] } } | undefined)?.incoming
}
